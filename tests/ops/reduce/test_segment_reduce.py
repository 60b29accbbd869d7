"""segment_reduce gives NumPy's reduction of each segment, and its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from tests.ops.differences import check_first_order, check_second_order, generator

EMPTY = {"sum": 0.0, "mean": np.nan, "max": -np.inf, "min": np.inf, "prod": 1.0}
LENGTHS = [[2, 0, 3], [1, 4, 0]]


def expected(x: np.ndarray, name: str) -> np.ndarray:
    out = np.empty((2, 3, x.shape[2]))
    for row, lengths in enumerate(LENGTHS):
        ends = np.cumsum(lengths)
        for i, (n, end) in enumerate(zip(lengths, ends)):
            part = x[row, end - n : end]
            out[row, i] = getattr(np, name)(part, axis=0) if n else EMPTY[name]
    return out


@pytest.mark.parametrize("name", EMPTY)
def test_each_stretch_is_reduced(name: str) -> None:
    x = generator(name).uniform(-2, 2, (2, 5, 3))
    by_length = fd.segment_reduce(fd.tensor(x), name, lengths=fd.tensor(LENGTHS), axis=1)
    ends = np.pad(np.cumsum(LENGTHS, 1), ((0, 0), (1, 0)))
    by_place = fd.segment_reduce(fd.tensor(x), name, offsets=fd.tensor(ends), axis=1)
    np.testing.assert_allclose(by_length.numpy(), expected(x, name))
    np.testing.assert_allclose(by_place.numpy(), expected(x, name))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_derivatives_are_those_of_differences(name: str, device: str) -> None:
    x = generator(name).uniform(0.5, 2, (5, 2))

    def reduced(x: Any) -> Any:
        lengths = fd.tensor([2, 2, 1])
        return fd.segment_reduce(x.to(device), name, lengths=lengths, initial=1.1).cpu()

    check_first_order(reduced, [x], generator(f"{name} direction"))
    check_second_order(reduced, [x], generator(f"{name} second direction"))


def test_initial_takes_part_in_each() -> None:
    x = fd.tensor([1.0, 2.0, 6.0])
    found = fd.segment_reduce(x, "mean", lengths=fd.tensor([2, 0, 1]), initial=3.0)
    assert found.tolist() == [3.0, 3.0, 9.0]


def test_a_nan_is_the_largest_of_its_stretch() -> None:
    x = fd.tensor([1.0, float("nan"), 2.0])
    found = fd.segment_reduce(x, "max", lengths=fd.tensor([2, 1]))
    np.testing.assert_array_equal(found.numpy(), [np.nan, 2.0])


X = fd.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: fd.segment_reduce(X, "sum"), RuntimeError, "Either lengths or offsets"),
        (lambda: fd.segment_reduce(X, "foo", lengths=fd.tensor([2])), RuntimeError, "got foo"),
        (lambda: fd.segment_reduce(X, "sum", lengths=fd.tensor([1])), RuntimeError, "to sum to"),
        (lambda: fd.segment_reduce(X, "sum", lengths=fd.tensor([-1, 3])), RuntimeError, "negative"),
        (lambda: fd.segment_reduce(X, "sum", lengths=fd.tensor([[2]])), RuntimeError, "last dim"),
        (
            lambda: fd.segment_reduce(X.long(), "sum", lengths=fd.tensor([2])),
            NotImplementedError,
            "not implemented for 'Long'",
        ),
        (
            lambda: fd.segment_reduce(X, "sum", lengths=fd.tensor([2.0])),
            NotImplementedError,
            "not implemented for 'Float'",
        ),
    ],
)
def test_what_are_no_stretches_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
