"""Settings decide which float32 products may be computed in TF32."""

from __future__ import annotations

from fastdist.core.precision import Convolutions, Products, products


def test_a_watcher_is_told_the_choice_and_each_later_one_until_it_is_forgotten() -> None:
    choice, heard = Products(), list[str]()
    choice.watch(heard.append)
    assert not choice.tf32
    for precision in ("high", "medium"):
        choice.choose(precision)
        assert choice.tf32
    choice.forget(heard.append)
    choice.choose("highest")
    assert heard == ["highest", "high", "medium"] and not choice.tf32


def test_convolutions_follow_other_products_only_without_a_choice_of_their_own() -> None:
    choice = Convolutions()
    assert choice.tf32 and not products.tf32
    choice.allow_tf32 = False
    assert not choice.tf32
    choice.has_own_choice = False
    try:
        products.choose("high")
        assert choice.tf32
    finally:
        products.choose("highest")
    assert not choice.tf32
