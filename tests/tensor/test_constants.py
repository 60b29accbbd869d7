"""Tensors and Python's numbers: integers that are accepted, and values that are not numbers.

The errors and messages are those of PyTorch 2.13 for the same calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from tests.properties import in_one_test

DTYPES = [
    fd.float16,
    fd.bfloat16,
    fd.float32,
    fd.float64,
    fd.complex64,
    fd.int64,
    fd.int32,
    fd.uint8,
    fd.bool,
]
TOO_BIG = "^int too big to convert"
TOO_SMALL = "^can't convert negative int to unsigned"
BEYOND = [(2**64, TOO_BIG), (2**70, TOO_BIG), (2**20_000, TOO_BIG)]
BEYOND += [(-(2**63) - 1, TOO_SMALL), (-(2**70), TOO_SMALL)]

# Functions of a tensor x of any dtype and a number n.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "x + n": lambda x, n: x + n,
    "n + x": lambda x, n: n + x,
    "x * n": lambda x, n: x * n,
    "x - n": lambda x, n: x - n,
    "n - x": lambda x, n: n - x,
    "x / n": lambda x, n: x / n,
    "x == n": lambda x, n: x == n,
    "x != n": lambda x, n: x != n,
    "pow": fd.pow,
    "n ** x": lambda x, n: n**x,
    "add_": lambda x, n: x.add_(n),
    "mul_": lambda x, n: x.mul_(n),
    "alpha": lambda x, n: fd.add(x, x, alpha=n),
    "where": lambda x, n: fd.where(x == 1, x, n),
    "where of numbers": lambda x, n: fd.where(x == 1, n, 0),
    "masked_fill": lambda x, n: x.masked_fill(x == 1, n),
    "masked_fill_": lambda x, n: x.masked_fill_(x == 1, n),
    "fill_": lambda x, n: x.fill_(n),
    "full": lambda x, n: fd.full((2,), n, dtype=x.dtype),
    "full_like": fd.full_like,
    "out=": lambda x, n: fd.mul(x, n, out=x.clone()),
    "addcmul": lambda x, n: fd.addcmul(x, x, x, value=n),
    "scatter": lambda x, n: x.scatter(0, fd.tensor([0]), n),
    "index_fill": lambda x, n: x.index_fill(0, fd.tensor([0]), n),
    "result_type": fd.result_type,
}
# Functions of x and n that are undefined for complex numbers, or for bools.
CALLS_OF_REAL: dict[str, Callable[[Any, Any], Any]] = {
    "x < n": lambda x, n: x < n,
    "n < x": lambda x, n: n < x,
    "x // n": lambda x, n: x // n,
    "x % n": lambda x, n: x % n,
    "fmod": fd.fmod,
    "clamp to min": lambda x, n: x.clamp(min=n),
    "clamp to max": lambda x, n: x.clamp(max=n),
    "clamp_": lambda x, n: x.clamp_(max=n),
    "threshold": lambda x, n: fd.threshold(x, n, 0),
}


@pytest.mark.one_in(4)
@in_one_test("dtype", DTYPES)
@pytest.mark.parametrize("call", [*CALLS, *CALLS_OF_REAL])
def test_an_integer_of_more_than_64_bits_is_refused_beside_any_dtype(
    call: str, dtype: fd.dtype
) -> None:
    if call in CALLS_OF_REAL and (dtype.is_complex or dtype is fd.bool):
        return
    of = {**CALLS, **CALLS_OF_REAL}[call]
    for number, words in BEYOND:
        with pytest.raises(OverflowError, match=words):
            of(fd.tensor([1, 1, 0]).to(dtype), number)


def test_integers_of_64_bits_are_taken() -> None:
    x = fd.ones(2)
    for number in (2**63 - 1, 2**63, 2**64 - 1, -(2**63)):
        assert (x * number).tolist() == [float(number)] * 2
        assert fd.where(x == 0, x, number).tolist() == [float(number)] * 2


@pytest.mark.parametrize("number", [2.0**70, -(2.0**70), 2.0**64, 1e30])
def test_a_float_that_was_met_does_not_stand_for_the_integer_that_equals_it(number: float) -> None:
    x = fd.ones(2)
    for _ in range(2):
        assert (x * number).tolist() == [fd.tensor(number).item()] * 2
        with pytest.raises(OverflowError):
            x * int(number)
    assert (x * float("inf")).tolist() == [float("inf")] * 2


def test_what_is_a_float_may_be_given_as_an_integer_of_any_size() -> None:
    x = fd.tensor([1.0, float("nan")])
    assert x.nan_to_num(2**70).tolist() == [1, 2.0**70]
    assert fd.isclose(x, x + 5, atol=2**70).tolist() == [True, False]
    assert fd.nn.functional.pad(x[:1], (0, 1), value=2**70).tolist() == [1, 2.0**70]
