"""Checks that raise an error if a condition is False."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("_check", RuntimeError),
        ("_check_index", IndexError),
        ("_check_value", ValueError),
        ("_check_type", TypeError),
        ("_check_not_implemented", NotImplementedError),
    ],
)
def test_a_false_condition_raises_the_kind_of_error(name: str, error: type[Exception]) -> None:
    check: Any = getattr(fd, name)
    check(True)
    check(1, lambda: "unused")
    with pytest.raises(error, match=r"^Expected cond to be True, but got False\.$"):
        check(False)
    with pytest.raises(error, match=r"^told so$"):
        check(0, lambda: "told so")
    with pytest.raises(TypeError, match="message must be a callable"):
        check(False, "told so")
    with pytest.raises(TypeError, match=r"use torch\._check_tensor_all\(\)"):
        check(fd.tensor(True))


def test_sizes_are_not_negative_and_not_above_the_maximum() -> None:
    fd._check_is_size(0)
    fd._check_is_size(3, max=3)
    with pytest.raises(RuntimeError, match=r"^why$"):
        fd._check_is_size(-1, lambda: "why")
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        fd._check_is_size(4, max=3)


def test_all_elements_of_a_tensor_are_checked() -> None:
    fd._check_tensor_all(fd.tensor([True, True]))
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        fd._check_tensor_all(fd.tensor([True, False]))
    with pytest.raises(IndexError, match=r"^why$"):
        fd._check_tensor_all_with(IndexError, fd.tensor([False]), lambda: "why")
    with pytest.raises(TypeError, match="cond must be a tensor, but got <class 'int'>"):
        fd._check_tensor_all(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must have dtype torch.bool"):
        fd._check_tensor_all(fd.ones(2))


def test_assertions_raise_at_once() -> None:
    fd._assert(True, "unused")
    with pytest.raises(AssertionError, match=r"^why$"):
        fd._assert(fd.tensor(False), "why")
    fd._assert_async(fd.tensor(2))
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value"):
        fd._assert_async(fd.tensor(0))
    with pytest.raises(RuntimeError, match=r"^why$"):
        fd._assert_async(fd.tensor(False), "why")
