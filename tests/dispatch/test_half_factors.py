"""Factors beyond float16's range are not rounded when they scale float16 tensors, as in PyTorch."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.dispatch.call import InPlace
from fastdist.dispatch.pointwise import PointwiseOp
from fastdist.nn import functional as F
from tests.dispatch.paths import general_calls

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
    assert x.grad.dtype is fd.float16 and x.grad.isinf().all()  # overflows like the factor
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


SIDES = (3, 5000)  # numbers of elements: NumPy computes with 3, Numba with 5000
NUMBERS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    # the call on x, its result for x = 0.1, and the gradient of x
    "lerp": (lambda x: fd.lerp(fd.zeros_like(x), x, 70000.0), 7000.0, 70000.0),
    "addcmul": (lambda x: fd.addcmul(x * 0, x, x, value=70000.0), 699.5, 14000.0),
    "addcdiv": (lambda x: fd.addcdiv(x, x, x * 0 + 1000, value=70000.0), 7.1, 71.0),
    "leaky_relu": (lambda x: F.leaky_relu(-x, 70000.0), -7000.0, -70000.0),
    "elu": (lambda x: F.elu(-x, 70000.0), -6660.0, -63344.0),
    "celu": (lambda x: F.celu(-x, 1e-9), -0.0, -0.0),
    "softplus": (lambda x: F.softplus(x, 70000.0), 0.1, 1.0),
    # float16 rounds x = 0.1 down, so x / 0.1 is below 1
    "floored_divide": (lambda x: fd.div(x, 0.1, rounding_mode="floor"), 0.0, 0.0),
    "trunc_divide": (lambda x: fd.div(x, 0.1, rounding_mode="trunc"), 0.0, 0.0),
    "floor by a tensor": (lambda x: fd.div(x, fd.tensor(0.1), rounding_mode="floor"), 0.0, 0.0),
    "hardtanh": (lambda x: F.hardtanh(x, -0.1, 0.1), 0.1, 1.0),
    "clamp": (lambda x: x.clamp(-1.0, 0.1), 0.1, 1.0),
    "pow": (lambda x: x**1.0003, 0.0999, 1.0),
    "exponent": (lambda x: 70000.0**-x, 0.3276, -3.656),
    "smooth_l1": (
        lambda x: F.smooth_l1_loss(x, x * 0, beta=70000.0, reduction="none"), 1e-7, 1.43e-6,
    ),
    "huber": (lambda x: F.huber_loss(x, x * 0, delta=1e-6, reduction="none"), 1e-7, 1e-6),
    "sigmoid": (lambda x: fd.sigmoid(x - 14), 9.2e-7, 9.2e-7),
    "rsqrt": (fd.rsqrt, 3.1626, -15.8),
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("count", SIDES)
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_float16_rounds_computes_as_it_is(name: str, count: int) -> None:
    call, value, gradient = NUMBERS[name]
    x = fd.full((count,), 0.1, dtype=fd.float16, requires_grad=True)
    out = call(x)
    out.sum().backward()
    assert out.dtype is fd.float16 and x.grad is not None and x.grad.dtype is fd.float16
    spacing = float(np.spacing(np.abs(out.detach().numpy()))[0])
    assert abs(out[0].item() - value) <= max(spacing, 1e-3 * abs(value))
    with np.errstate(over="ignore"):
        rounded = float(np.float16(gradient))
    assert x.grad[0].item() == pytest.approx(rounded, rel=5e-3, abs=1.2e-7)


@pytest.mark.parametrize("count", SIDES)
def test_a_number_is_as_exact_in_place_and_in_a_second_derivative(count: int) -> None:
    x = fd.zeros(count, dtype=fd.float16)
    x.lerp_(fd.full((count,), 0.1).half(), 70000.0)
    assert x[0].item() == 7000.0
    y = fd.full((count,), 0.5, dtype=fd.float16, requires_grad=True)
    (slope,) = fd.autograd.grad((y**1.001).sum(), y, create_graph=True)
    slope.sum().backward()
    assert y.grad is not None
    assert y.grad[0].item() == pytest.approx(1.001 * 0.001 * 0.5**-0.999, rel=1e-2)


@pytest.mark.parametrize("count", SIDES)
def test_a_call_gives_on_either_side_and_again_the_same(count: int) -> None:
    x = fd.tensor(np.resize(VALUES * 10 - 14, count))
    for call in (fd.sigmoid, fd.rsqrt, lambda x: F.glu(fd.stack([x, x], -1)[..., :2])):
        first, again = call(x.abs() - 12), call(x.abs() - 12)
        np.testing.assert_array_equal(first.numpy(), again.numpy())
    wide = fd.sigmoid(x.float()).half()
    np.testing.assert_array_equal(fd.sigmoid(x).numpy(), wide.numpy())


@pytest.mark.parametrize("count", [3, 100_000])
def test_the_next_number_after_a_half_is_a_half(count: int) -> None:
    ones = fd.ones(count, dtype=fd.float16)
    assert fd.nextafter(ones, ones * 2)[0].item() == 1 + 2.0**-10


SHORT: dict[str, Callable[[Any], Any]] = {
    "x * 0.7": lambda x: x * 0.7,
    "0.7 * x": lambda x: 0.7 * x,
    "x / 3": lambda x: x / 3,
    "1 / x": lambda x: 1 / x,
    "x + 0.1": lambda x: x + 0.1,
    "x - 1": lambda x: x - 1,
    "0.1 - x": lambda x: 0.1 - x,
    "x ** 2": lambda x: x**2,
    "x ** 1.1": lambda x: x**1.1,
    "x > 0.1": lambda x: x > 0.1,
    "add alpha": lambda x: x.add(x, alpha=0.1),
    "clamp": lambda x: x.clamp(-0.1, 0.1),
    "lerp": lambda x: fd.lerp(x, x * 2, 0.3),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.3),
    "elu": lambda x: F.elu(x, 0.3),
    "mul_": lambda x: x.detach().mul_(0.7),
    "add_": lambda x: x.detach().add_(0.1),
    "pow_": lambda x: x.detach().pow_(2),
    "out": lambda x: fd.mul(x.detach(), 0.7, out=fd.empty_like(x)),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16])
@pytest.mark.parametrize("count", SIDES)
@pytest.mark.parametrize("name", SHORT)
def test_a_later_call_with_a_number_takes_the_short_path(name: str, count: int, dtype: Any) -> None:
    x = fd.full((count,), 0.5, dtype=dtype, requires_grad=True)
    for _ in range(3):
        first = SHORT[name](x)
        SHORT[name](x.detach())
    x = fd.full((count,), 0.5, dtype=dtype, requires_grad=True)
    with general_calls(PointwiseOp, InPlace) as went:
        again = SHORT[name](x)
        SHORT[name](x.detach())
    assert went == [] and (again.grad_fn is None) == (first.grad_fn is None)


@pytest.mark.parametrize("count", SIDES)
def test_a_number_and_a_tensor_without_axes_do_not_share_a_path(count: int) -> None:
    x = fd.full((count,), 3.0, dtype=fd.float16, requires_grad=True)
    scale = fd.tensor(0.1, requires_grad=True)
    for _ in range(3):
        numbers = [0.1 / x, x * 0.1, 0.1 + x]
        tensors = [scale / x, x * scale, scale + x]
        assert all(one.dtype is fd.float16 for one in numbers + tensors)
        assert numbers[0][0].item() == np.float16(np.float32(0.1) / np.float32(3))
        # A tensor without axes is rounded to float16 as a dividend, but not as a factor.
        assert tensors[0][0].item() == np.float16(np.float32(np.float16(0.1)) / np.float32(3))
        assert numbers[1][0].item() == tensors[1][0].item() == np.float16(np.float32(0.1) * 3)
        assert numbers[2][0].item() == tensors[2][0].item()
    (by_scale,) = fd.autograd.grad((x[:3] * scale).sum(), scale)
    assert by_scale.dtype is fd.float32 and by_scale.item() == 9.0


def test_a_number_is_what_was_given_when_it_is_asked_for() -> None:
    x = fd.full((3,), 0.5, dtype=fd.float16, requires_grad=True)
    for _ in range(3):
        assert (x**1.1).grad_fn.name() == "PowBackward0"
        assert (1 / x).grad_fn.name() == "MulBackward0"
        assert (x / 1.1).grad_fn.name() == "DivBackward0"


@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16])
def test_each_pattern_of_bits_meets_a_number_in_float32(dtype: Any) -> None:
    bits = fd.tensor(np.arange(2**16, dtype=np.uint16).view(np.int16))
    x = bits.view(dtype)
    wide = x.float().numpy()
    with np.errstate(all="ignore"):
        for number in (0.7, 3, -1e-3):
            exact, rounded = np.float32(number), fd.tensor(number, dtype=dtype).float().numpy()
            for found, wanted in (
                (x * number, wide * exact),
                (x / number, wide / exact),
                (number / x, exact / wide),
                (x + number, wide + rounded),
                (number - x, rounded - wide),
            ):
                wanted = fd.tensor(wanted).to(dtype).float().numpy()
                np.testing.assert_array_equal(found.float().numpy(), wanted)
            np.testing.assert_array_equal((x > number).numpy(), wide > rounded)
