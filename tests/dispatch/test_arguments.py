"""Errors of calls with arguments of the wrong kind."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.dispatch.arguments import checked
from fastdist.tensor.tensor import Tensor

x = fastdist.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: fastdist.stack([None]), r"stack\(\): argument 'tensors' must be a sequence of"),
        (
            lambda: fastdist.zeros(2, dtype="x"),
            "expected a dtype such as fastdist.float32, got 'x'",
        ),
        (lambda: fastdist.zeros(10**30), r"zeros\(\): argument 'size' is out of range: int 10"),
        (lambda: fastdist.t(3), r"t\(\): argument 'input' must be a Tensor, not int 3"),
        (lambda: fastdist.zeros_like("a"), r"argument 'input' must be a Tensor, not str 'a'"),
        (lambda: fastdist.add(x, 1, out=3), r"add\(\): argument 'out' must be a Tensor, not int"),
        (lambda: fastdist.add(x, 1, alpha="q"), "expected a number, got str 'q'"),
        (lambda: x.reshape("a"), r"reshape\(\): sizes must be integers, got 'a'"),
        (lambda: fastdist.zeros((1,), (2,)), "sizes must be integers, got"),
        (lambda: x[2**70], "index 1180591620717411303424 is out of bounds for dimension 0"),
        (lambda: x.softmax(-1, dtype=np.ones(2)), "argument 'dtype' must be a dtype such as"),
        (lambda: x.size(5), r"Dimension out of range \(expected to be in range of \[-2, 1\]"),
        (lambda: x.to(3.5), "Invalid device: 3.5; expected such as 'cpu'"),
    ],
)
def test_the_argument_at_fault_is_named(call: Callable[[], Any], text: str) -> None:
    with pytest.raises((TypeError, IndexError, RuntimeError), match=text):
        call()


def test_checked_keeps_an_error_that_was_raised_with_words() -> None:
    with pytest.raises(RuntimeError, match=r"torch.clamp: At least one of 'min' or 'max'"):
        fastdist.clamp(x)


def test_checked_keeps_an_error_where_all_arguments_fit() -> None:
    @checked
    def broken(input: Tensor) -> Any:
        return input.no_such_thing  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="no_such_thing"):
        broken(x)


def test_checked_functions_are_found_again_by_pickle() -> None:
    assert pickle.loads(pickle.dumps(fastdist.clamp)) is fastdist.clamp
    assert pickle.loads(pickle.dumps(fastdist.zeros)) is fastdist.zeros
