"""Gradients of reductions and losses at ties, zeros, infinities and NaN, as in PyTorch 2.13."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.engine.backward import modes_engine
from tests.ops.cases import F

NAN, INF = float("nan"), float("inf")
Call = Callable[[fd.Tensor], Any]
# By name: (call, input, expected value, expected gradient).
ROWS: dict[str, tuple[Call, Any, Any, Any]] = {
    "max shares ties": (lambda x: x.max(), [1, 1, 0], 1, [0.5, 0.5, 0]),
    "max gives NaN the gradient": (lambda x: x.max(), [1, NAN, 0], NAN, [0, 1, 0]),
    "amax shares ties": (lambda x: x.amax(0), [1, 1, 0], 1, [0.5, 0.5, 0]),
    "amax spoils all by NaN": (lambda x: x.amax(0), [1, NAN, 0], NAN, [NAN, NAN, NAN]),
    "max along an axis takes the first": (lambda x: x.max(0)[0], [0, 1, 1], 1, [0, 1, 0]),
    "max along an axis takes NaN": (lambda x: x.max(0)[0], [0, NAN, 1], NAN, [0, 1, 0]),
    "sort puts NaN last": (lambda x: x.sort()[0], [2, NAN, 1], [1, 2, NAN], [1, 1, 1]),
    "norm at 0 has no slope": (lambda x: x.norm(), [0, 0], 0, [0, 0]),
    "norm inf shares ties": (lambda x: x.norm(INF), [-2, 2, 1], 2, [-0.5, 0.5, 0]),
    "norm 1 at 0": (lambda x: x.norm(1), [0, -2], 2, [0, -1]),
    "std of equals has no slope": (lambda x: x.std(), [1, 1, 1], 0, [0, 0, 0]),
    "var of one is NaN": (lambda x: x.var(), [1], NAN, [NAN]),
    "mean of nothing is NaN": (lambda x: x.mean(), [], NAN, []),
    "sum of nothing is 0": (lambda x: x.sum(), [], 0, []),
    "prod of nothing is 1": (lambda x: x.prod(), [], 1, []),
    "prod with one 0": (lambda x: x.prod(), [2, 0, 3], 0, [0, 6, 0]),
    "prod with two 0": (lambda x: x.prod(), [2, 0, 0], 0, [0, 0, 0]),
    "logsumexp of -inf": (lambda x: x.logsumexp(0), [-INF, -INF], -INF, [NAN, NAN]),
    "logsumexp of inf": (lambda x: x.logsumexp(0), [INF, 0], INF, [NAN, 0]),
    "softmax of -inf": (lambda x: x.softmax(0), [-INF, 0], [0, 1], [0, 0]),
    "softmax of nothing but -inf": (lambda x: x.softmax(0), [-INF, -INF], [NAN, NAN], [NAN, NAN]),
    "where does not look at the other branch": (
        lambda x: fd.where(x > 0, x, 0.0 * x), [2, -1], [2, 0], [1, 0],
    ),
    "where multiplies 0 by inf in log": (
        lambda x: fd.where(x > 0, x.log(), x), [1, 0], [0, 0], [1, NAN],
    ),
    "clamp passes NaN, not its gradient": (lambda x: x.clamp(0, 1), [NAN, 2], [NAN, 1], [0, 0]),
    "clamp passes the gradient at its bounds": (lambda x: x.clamp(0, 1), [0, 1], [0, 1], [1, 1]),
    "abs at 0": (lambda x: x.abs(), [0, -0.0], [0, 0], [0, 0]),
    "sqrt at 0": (lambda x: x.sqrt(), [0], [0], [INF]),
    "0 ** 0": (lambda x: x**0, [0, NAN], [1, 1], [0, 0]),
    "x ** 2 at 0": (lambda x: x**2, [0, -3], [0, 9], [0, -6]),
    "2 ** x": (lambda x: 2**x, [0], [1], [float(np.log(2))]),
    "x % y": (lambda x: x % 2, [3, -1], [1, 1], [1, 1]),
    "mse of NaN": (
        lambda x: F.mse_loss(x, fd.zeros(2).to(x.dtype), reduction="sum"), [NAN, 2], NAN, [NAN, 4],
    ),
    "huber of NaN": (
        lambda x: F.huber_loss(x, fd.zeros(3).to(x.dtype), reduction="none"),
        [NAN, 2, 0.5], [NAN, 1.5, 0.125], [NAN, 1, 0.5],
    ),
    "binary cross entropy is cut off at -100": (
        lambda x: F.binary_cross_entropy(x, fd.tensor([1.0, 0.0]).to(x.dtype), reduction="sum"),
        [0, 0], 100, [-1e12, 0],
    ),
    "binary cross entropy of large logits": (
        lambda x: F.binary_cross_entropy_with_logits(x, fd.zeros(2).to(x.dtype), reduction="none"),
        [800, -800], [800, 0], [1, 0],
    ),
    "cross entropy of nothing counted": (
        lambda x: F.cross_entropy(x, fd.tensor([-100])), [[1, 2]], NAN, [[0, 0]],
    ),
}  # fmt: skip


REFUSED: dict[str, Callable[..., Any]] = {
    "floor_divide": lambda x: x // 2,
    "floor_divide of a number": lambda x: 2 // x,
    "floor_divide_": lambda x: x.clone().floor_divide_(2),
    "heaviside": lambda x: fd.heaviside(x, fd.ones(2)),
    "igamma": lambda x: fd.igamma(x, fd.ones(2)),
    "igammac": lambda x: fd.igammac(x, fd.ones(2)),
    "zeta": lambda x: fd.special.zeta(x, fd.ones(2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_gradient_that_means_nothing_is_refused_not_left_out(name: str) -> None:
    x = fd.tensor([2.5, 3.5], requires_grad=True)
    found = REFUSED[name](x)
    assert found.requires_grad
    with pytest.raises(NotImplementedError, match=r"derivative for .* is not implemented"):
        found.sum().backward()
    with fd.autograd.forward_ad.dual_level():
        dual = fd.autograd.forward_ad.make_dual(x.detach(), fd.ones(2))
        with pytest.raises(NotImplementedError, match=r"derivative for .* is not implemented"):
            REFUSED[name](dual)
    assert x.grad is None and not REFUSED[name](x.detach()).requires_grad


def test_a_quotient_rounded_by_div_has_a_gradient_of_zeros() -> None:
    x = fd.tensor([2.5, 3.5], requires_grad=True)
    y = fd.tensor([2.0, 3.0], requires_grad=True)
    fd.div(x, y, rounding_mode="floor").sum().backward()
    assert x.grad is not None and y.grad is not None
    assert x.grad.tolist() == y.grad.tolist() == [0.0, 0.0]
    (by_y,) = fd.autograd.grad((x % y).sum(), y, create_graph=True)
    assert fd.autograd.grad(by_y.sum(), y)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ROWS)
def test_value_and_gradient_are_pytorch_s(name: str) -> None:
    call, given, value, gradient = ROWS[name]
    x = fd.tensor(given, dtype=fd.float64, requires_grad=True)
    found = call(x)
    np.testing.assert_allclose(found.detach().numpy(), value, rtol=1e-12)
    found.backward(fd.ones_like(found))
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 2.0, INF, -INF])
@pytest.mark.parametrize("large", [1e-30, -1e30])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [((), ()), ((1,), None), ((1, 3), 0), ((3, 1, 2), 1), ((70_000, 1, 1), (1, 2))],
)
def test_the_norm_of_one_element_is_its_absolute_value(
    shape: tuple[int, ...], dims: Any, large: float, order: float
) -> None:
    x = fd.full(shape, large, dtype=fd.float32, requires_grad=True)
    found = x.norm(order, dim=dims)
    assert bool((found == x.detach().abs().reshape(found.shape)).all())
    if order > 0:
        found.sum().backward()
        assert x.grad is not None
        fd.testing.assert_close(x.grad, x.detach().sign())


BESIDE: dict[str, Callable[..., Any]] = {
    "igamma": fd.igamma,
    "igammac": fd.igammac,
    "zeta": fd.special.zeta,
}


def by_grad(y: Any, x: Any) -> Any:
    return fd.autograd.grad(y, x)[0]


def by_grad_recorded(y: Any, x: Any) -> Any:
    return fd.autograd.grad(y, x, create_graph=True)[0].detach()


def by_backward(y: Any, x: Any) -> Any:
    y.backward(inputs=[x])
    return x.grad


def by_engine(y: Any, x: Any) -> Any:
    modes_engine.always = True
    try:
        return fd.autograd.grad(y, x)[0]
    finally:
        modes_engine.always = False


@pytest.mark.parametrize("way", [by_grad, by_grad_recorded, by_backward, by_engine])
@pytest.mark.parametrize("name", BESIDE)
def test_a_gradient_is_not_refused_by_an_input_that_nobody_asks_for(
    name: str, way: Callable[..., Any]
) -> None:
    a = fd.tensor([2.5, 3.5], requires_grad=True)
    x = fd.tensor([1.0, 3.0], requires_grad=True)
    f = BESIDE[name]
    expected = by_grad(f(a.detach(), x).sum(), x)
    y = f(a * 2 / 2, x).sum()
    assert fd.equal(way(y, x), expected)
    if way is not by_grad_recorded:
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            way(y, x)
    with pytest.raises(NotImplementedError, match="is not implemented"):
        fd.autograd.grad(f(a * 2 / 2, x).sum(), (a, x))
    with pytest.raises(NotImplementedError, match="is not implemented"):
        f(a, x).sum().backward()
