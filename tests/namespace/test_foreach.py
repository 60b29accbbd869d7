"""Functions over lists of tensors."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist


def lists() -> list[fastdist.Tensor]:
    return [fastdist.tensor([1.0, 2.0]), fastdist.tensor([3, 4])]


def values(tensors: Any) -> list[Any]:
    return [tensor.tolist() for tensor in tensors]


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(fastdist, f"_foreach_{name}")(*args, **kwargs)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (1, [[2.0, 3.0], [4, 5]]),
        ([1, 0.5], [[2.0, 3.0], [3.5, 4.5]]),
        ([fastdist.tensor(1), fastdist.tensor([1.0, 2.0])], [[2.0, 3.0], [4.0, 6.0]]),
        (fastdist.tensor(2), [[3.0, 4.0], [5, 6]]),
    ],
)
def test_a_number_numbers_tensors_or_a_tensor_are_added_to_mixed_dtypes(
    other: Any, expected: Any
) -> None:
    assert values(call("add", lists(), other)) == expected


def test_a_twin_in_place_changes_the_tensors_and_returns_the_list() -> None:
    tensors = lists()
    assert call("mul_", tensors, 2) is tensors
    assert values(tensors) == [[2.0, 4.0], [6, 8]]
    call("zero_", tensors)
    call("copy_", tensors, [fastdist.ones(2), fastdist.ones(2)])
    call("clamp_max_", tensors, [0.5, 3])
    assert values(tensors) == [[0.5, 0.5], [1, 1]]


def test_a_number_is_raised_to_the_powers_of_tensors() -> None:
    assert values(call("pow", 2, lists())) == [[2.0, 4.0], [8, 16]]


def test_products_and_quotients_are_added_with_a_number_for_each_tensor() -> None:
    a, b = [fastdist.ones(1), fastdist.ones(1)], [fastdist.full((1,), 2.0)] * 2
    assert values(call("addcmul", a, b, b, [1, 2])) == [[5.0], [9.0]]
    assert values(call("addcdiv", a, b, b, fastdist.tensor([1.0, 2.0]))) == [[2.0], [3.0]]
    assert values(call("lerp", a, b, weight=0.5)) == [[1.5], [1.5]]


def test_norms_and_maxima_are_numbers() -> None:
    tensors = [fastdist.tensor([3.0, -4.0])]
    assert values(call("norm", tensors)) == [5.0]
    assert values(call("norm", tensors, 1, dtype=fastdist.float64)) == [7.0]
    assert values(call("max", tensors)) == [3.0]
    assert values(call("powsum", tensors, 2)) == [25.0]


def test_autograd_records_each_tensor() -> None:
    x = fastdist.ones(2, requires_grad=True)
    (y,) = call("mul", [x], 3.0)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: call("abs", []), "at least one tensor"),
        (lambda: call("add", lists(), [fastdist.ones(2)]), "same number of tensors, got 2 and 1"),
        (lambda: call("add", lists(), [1]), "same number of elements as scalar list"),
        (lambda: call("add", lists(), fastdist.ones(2)), "expected to be 0 dim"),
        (lambda: call("addcmul", lists(), lists(), lists(), [1]), "got 1 instead"),
        (lambda: call("max", [fastdist.ones(0)]), "maximum of an empty tensor"),
    ],
)
def test_lists_that_do_not_fit_are_refused(make: Any, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        make()


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="_foreach_nothing"):
        fastdist._foreach_nothing  # noqa: B018
