"""Values and two derivatives stay accurate in the tails, where 1 - f(x) is far below one ulp of 1.

tail_results.json has the expected values, which make_tail_results.py computes with mpmath.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist as fd
import fastdist.nn.functional as F

from .tails import CASES, POINTS, ours

RESULTS = json.loads(Path(__file__).with_name("tail_results.json").read_text())
FEW = (-700.0, -38.0, -9.0, -0.75, 0.75, 9.0, 38.0, 700.0)
# In float32 these ops save only their result, which may round to 1: see Note [Tails] of derive.py.
BY_RESULT = ("sigmoid", "tanh", "glu", "expm1")
# These ops are accurate in the tails in float64 only: they subtract terms that float32 rounds.
WIDE_ONLY = ("gelu", "erfcx", "log_ndtr", "tanhshrink", "cdf of ContinuousBernoulli")
ALONG_ROWS = (
    *("softmax", "log_softmax", "logsumexp", "cross_entropy"),
    *("log_prob of Categorical", "log_prob of Multinomial"),
)


def derivatives(f: Callable[[Any], Any], x: float, dtype: Any) -> dict[str, tuple[int, float]]:
    """Return (order, derivative) by the name of the method that computed the derivative."""

    def at() -> Any:
        return fd.tensor(x, dtype=dtype, requires_grad=True)

    one, plain = fd.ones((), dtype=dtype), fd.tensor(x, dtype=dtype)

    def tangent(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: fd.func.jvp(f, (x,), (one,))[1]

    recorded = at()
    value = f(recorded)
    (first,) = fd.autograd.grad(value, recorded, create_graph=True)
    found: dict[str, tuple[int, Any]] = {
        "value": (0, f(plain)),
        "recorded value": (0, value),
        "gradient": (1, fd.autograd.grad(f(leaf := at()), leaf)[0]),
        "recorded gradient": (1, first),
        "tangent": (1, tangent(f)(plain)),
        "reverse over reverse": (2, fd.autograd.grad(first, recorded)[0]),
        "forward over reverse": (2, tangent(fd.func.grad(f))(plain)),
        "forward over forward": (2, tangent(tangent(f))(plain)),
    }
    return {name: (order, one.item()) for name, (order, one) in found.items()}


def faults(name: str, points: tuple[float, ...], dtype: Any, relative: float) -> list[str]:
    f, wrong = ours(name, fd, F, dtype), []
    for x in points:
        expected = RESULTS[name][POINTS.index(x)]
        for way, (order, found) in derivatives(f, x, dtype).items():
            wanted = expected[order]
            if not (found == wanted or abs(found - wanted) <= relative * abs(wanted) + 1e-300):
                wrong.append(f"{way} of {name} at {x}: {found}, not {wanted}")
    return wrong


FEW_POINTS = tuple(x for x in POINTS if x in (*FEW, -9.0, 9.0))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_keep_their_tails(name: str) -> None:
    assert faults(name, FEW_POINTS, fd.float64, 1e-12) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_derivatives_keep_their_tails_everywhere(name: str) -> None:
    assert faults(name, POINTS, fd.float64, 1e-12) == []


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith(BY_RESULT + WIDE_ONLY)])
def test_derivatives_in_float32_keep_their_tails_where_they_are_recorded(name: str) -> None:
    f, wrong = ours(name, fd, F, fd.float32), []
    # Along rows, a gradient without a graph is computed only from the outputs of softmax.
    is_along_rows = name.startswith(ALONG_ROWS)
    left_out = ("gradient", *("reverse over reverse",) * is_along_rows)
    for x in (-60.0, -9.0, 9.0, 60.0):
        expected = RESULTS[name][POINTS.index(x)]
        for way, (order, found) in derivatives(f, x, fd.float32).items():
            wanted = expected[order]
            # The argument x * log(2) is rounded, and exp amplifies its relative error 60 times.
            if way not in left_out and not abs(found - wanted) <= 2e-5 * abs(wanted) + 1e-36:
                wrong.append(f"{way} of {name} at {x}: {found}, not {wanted}")
    assert wrong == []


def rows_of(gap: float, count: int, length: int, dtype: Any) -> tuple[Any, Any]:
    """Return rows in which one number exceeds the others by about `gap`, and its index per row."""
    rng = np.random.default_rng(3)
    x, places = rng.standard_normal((count, length)), rng.integers(0, length, count)
    x[np.arange(count), places] += gap
    return fd.tensor(x, dtype=dtype), fd.tensor(places)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [fd.float32, fd.float64])
@pytest.mark.parametrize("shape", [(3, 5), (400, 100), (2, 20_000)])
def test_a_row_with_one_large_share_keeps_the_tail_of_its_logarithm(
    dtype: Any, shape: tuple[int, int]
) -> None:
    """Test sizes that compiled loops and NumPy compute, along the last and along another axis."""
    x, places = rows_of(30.0, *shape, dtype)
    wide = x.numpy().astype(np.float64)
    at = np.arange(shape[0]), places.numpy()
    top = wide[at]
    wide[at] = -np.inf
    wanted = np.log1p(np.exp(wide - top[:, None]).sum(1))
    found = {
        "log_softmax": -fd.log_softmax(x, 1).numpy()[at],
        "of columns": -fd.log_softmax(x.t().contiguous(), 0).numpy()[at[::-1]],
        "cross_entropy": F.cross_entropy(x, places, reduction="none").numpy(),
        "logsumexp": fd.logsumexp(x - fd.tensor(top, dtype=dtype)[:, None], 1).numpy(),
    }
    for values in found.values():
        np.testing.assert_allclose(values, wanted, 1e-5 if dtype is fd.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [fd.float32, fd.float64])
@pytest.mark.parametrize("shape", [(3, 5), (400, 100)])
def test_the_gradient_of_cross_entropy_keeps_its_tail(dtype: Any, shape: tuple[int, int]) -> None:
    x, places = rows_of(30.0, *shape, dtype)
    x.requires_grad_()
    F.cross_entropy(x, places, reduction="sum").backward()
    assert x.grad is not None
    slopes = x.grad.double()
    chosen = slopes.gather(1, places[:, None])[:, 0]
    others = slopes.scatter(1, places[:, None], 0.0).sum(1)
    assert bool((chosen < 0).all())
    fd.testing.assert_close(-chosen, others, rtol=2e-6, atol=0.0)


@pytest.mark.parametrize("f", [fd.softmax, fd.log_softmax])
def test_gradients_of_many_rows_keep_their_tails(f: Callable[..., Any]) -> None:
    x, places = rows_of(30.0, 300, 100, fd.float64)
    one = fd.zeros(x.shape, dtype=fd.float64).scatter_(1, places[:, None], 1.0)
    gradients = []
    for rows in (x, x[:4]):  # a compiled loop computes x, NumPy x[:4]
        leaf = rows.clone().requires_grad_()
        (found,) = fd.autograd.grad(f(leaf, 1), leaf, one[: len(rows)])
        gradients.append(found.gather(1, places[: len(rows), None])[:, 0])
    others = fd.softmax(x, 1).scatter(1, places[:, None], 0.0).sum(1)
    wanted = others * (1 - others) if f is fd.softmax else others
    fd.testing.assert_close(gradients[0], wanted, rtol=1e-12, atol=0.0)
    fd.testing.assert_close(gradients[1], wanted[:4], rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("f", [fd.sigmoid, fd.tanh, fd.expm1])
def test_an_input_that_was_written_over_leaves_the_derivative_by_the_result(
    f: Callable[..., Any],
) -> None:
    values = fd.tensor([-3.0, 0.5, 2.0], dtype=fd.float64, requires_grad=True)
    expected = fd.autograd.grad(f(values).sum(), values)[0]
    for create_graph in (False, True):
        x = values * 1
        y = f(x)
        x.add_(100.0)
        (found,) = fd.autograd.grad(y.sum(), values, create_graph=create_graph)
        fd.testing.assert_close(found, expected)
        x = values * 1
        y = getattr(x, f"{f.__name__}_")()
        (found,) = fd.autograd.grad(y.sum(), values, create_graph=create_graph)
        fd.testing.assert_close(found, expected)


def test_tangents_of_functions_in_place_are_those_of_the_old_values() -> None:
    x = fd.tensor([-3.0, 0.5], dtype=fd.float64)
    found = fd.func.jvp(lambda x: (x * 1).sigmoid_(), (x,), (fd.ones_like(x),))[1]
    fd.testing.assert_close(found, x.sigmoid() * (1 - x.sigmoid()))


@pytest.mark.parametrize("f", [fd.sigmoid, fd.tanh])
def test_large_tensors_keep_the_tails_of_sigmoids(f: Callable[..., Any]) -> None:
    x = fd.tensor([-700.0, -9.0, 0.5, 38.0, 300.0], dtype=fd.float64).repeat(10_000)
    x.requires_grad_()
    f(x).sum().backward()
    assert x.grad is not None
    few = x.detach()[:5].clone().requires_grad_()
    f(few).sum().backward()
    assert few.grad is not None and bool((few.grad[3:] > 0).all() or f is fd.tanh)
    fd.testing.assert_close(x.grad[:5], few.grad, rtol=1e-12, atol=0.0)
