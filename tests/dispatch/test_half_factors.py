"""Numbers that float16 does not hold scale float16 tensors as they are, as PyTorch's do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd

VALUES = np.array([1e-6, -3e-4, 0.1, 1.5, -70.0, np.inf, np.nan, 0.0], np.float16)
FACTORS = (0.1, 1 / 3, 65536.0, -1e-3, 2.0, float("inf"), float("nan"))
CASES = [
    (operator.mul, operator.imul),
    (operator.truediv, operator.itruediv),
]


def halves() -> Any:
    return fd.tensor(VALUES.copy())


def expected(op: Callable[..., Any], factor: float) -> Any:
    with np.errstate(all="ignore"):
        return op(VALUES.astype(np.float32), np.float32(factor)).astype(np.float16)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(("op", "inplace"), CASES)
def test_a_factor_is_not_rounded(op: Any, inplace: Any, factor: float) -> None:
    wanted = expected(op, factor)
    for given in (factor, fd.tensor(factor), fd.tensor(factor, dtype=fd.float64)):
        for way in (op, inplace):
            result = way(halves(), given)
            assert result.dtype is fd.float16
            np.testing.assert_array_equal(result.numpy(), wanted)


def test_a_loss_may_be_scaled_by_more_than_float16_holds() -> None:
    x = fd.tensor([1e-6, 3e-7]).half().requires_grad_()
    scaled = x * 65536.0
    assert scaled.isfinite().all()
    scaled.sum().backward()
    assert x.grad.dtype is fd.float16 and x.grad.isinf().all()  # as large as the factor itself
    y = fd.tensor([2.0, 4.0]).half().requires_grad_()
    (y / 65536.0 * 32768.0).sum().backward()
    assert y.grad.tolist() == [0.5, 0.5]


def test_other_ops_round_their_numbers_as_pytorchs_do() -> None:
    x = fd.tensor([1.0, 100.0]).half()
    assert (x + 70000.0).tolist() == [float("inf")] * 2
    assert (x - 0.1).tolist() == (x - fd.tensor(0.1).half()).tolist()


def test_a_dividend_without_axes_is_rounded() -> None:
    x = fd.tensor([1.0, 2.0]).half()
    assert (fd.tensor(70000.0) / x).tolist() == [float("inf")] * 2
    assert (70000.0 / (x * 4)).tolist() == [17504.0, 8752.0]


def test_a_change_in_place_through_a_view_is_recorded() -> None:
    base = fd.tensor([1.0, 2.0, 3.0]).half().requires_grad_()
    copy = base.clone()
    copy[1:].mul_(0.1)
    copy.sum().backward()
    assert base.grad.tolist() == [1.0, *[float(np.float16(0.1))] * 2]
