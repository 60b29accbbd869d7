"""Tensors out of nothing: strides like another's, numbers that a dtype does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd

TURNED = fd.ones(2, 3).t()


@pytest.mark.parametrize(
    "make",
    [
        fd.zeros_like, fd.ones_like, fd.empty_like, fd.rand_like, fd.randn_like,
        lambda x: fd.full_like(x, 2), lambda x: fd.randint_like(x, 3),
    ],
)  # fmt: skip
def test_what_is_like_a_tensor_lies_as_it_does(make: Callable[[Any], Any]) -> None:
    assert make(TURNED).stride() == (1, 3)
    assert make(fd.ones(3, 1).expand(3, 4)).stride() == (4, 1)


def test_like_takes_values_shape_and_dtype() -> None:
    found = fd.full_like(TURNED, 2, dtype=fd.int64)
    assert found.dtype is fd.int64 and found.tolist() == [[2, 2], [2, 2], [2, 2]]
    assert fd.ones_like(TURNED).tolist() == [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: fd.tensor([300], dtype=fd.uint8),
        lambda: fd.tensor([-256], dtype=fd.uint8),
        lambda: fd.tensor([-129], dtype=fd.int8),
        lambda: fd.tensor([2**40], dtype=fd.int32),
        lambda: fd.tensor([1e10], dtype=fd.int32),
        lambda: fd.tensor([float("nan")], dtype=fd.int32),
        lambda: fd.tensor([float("inf")], dtype=fd.int64),
        lambda: fd.full((2,), 300, dtype=fd.uint8),
        lambda: fd.full((2,), 1e300, dtype=fd.float32),
        lambda: fd.full_like(fd.ones(2, dtype=fd.uint8), 300),
        lambda: fd.ones(2, dtype=fd.int8).fill_(200),
    ],
)
def test_a_number_that_the_dtype_does_not_hold_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="without overflow"):
        make()


def test_numbers_wrap_and_round_where_pytorch_lets_them() -> None:
    assert fd.tensor([-255, -1], dtype=fd.uint8).tolist() == [1, 255]
    assert fd.tensor(np.array([300]), dtype=fd.uint8).tolist() == [44]
    assert fd.tensor([1e300], dtype=fd.float32).tolist() == [float("inf")]
    assert fd.full((1,), float("inf")).tolist() == [float("inf")]


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (fd.arange, TypeError, r"arange\(\) needs an end"),
        (lambda: fd.randint(0, 10), TypeError, r"randint\(\): argument 'size' must be a tuple"),
        (lambda: fd.randperm(-1), RuntimeError, "negative dimension -1"),
    ],
)
def test_wrong_sizes_are_refused(make: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        make()


@pytest.mark.parametrize("data", [[None], {}, "a", [1, "a"]])
def test_what_is_no_number_makes_no_tensor(data: Any) -> None:
    for kind in (TypeError, RuntimeError):
        with pytest.raises(kind, match="takes numbers"):
            fd.tensor(data)


def test_a_word_is_no_index() -> None:
    with pytest.raises(TypeError, match="valid indices"):
        fd.ones(3)["a"]
