"""Sums of many float32 numbers are as exact as sums of few, along any axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.kernels.cpu.reduce.sums import add_up, add_up_products
from fastdist.nn import functional as F

Array = Any
N = 4_000_000
# float32 has a precision of 6e-8; sequential sums of so many numbers were off by 1e-5 to 4e-3.
TOLERANCE = 6e-7


def logsumexp(x: Array) -> Array:
    return np.log(np.exp(x).sum(0))


def layer_norm(x: Array) -> Array:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def of_two_columns(x: Array) -> Array:
    return x.reshape(-1, 2)


def of_long_rows(x: Array) -> Array:
    return x.reshape(-1, 800)


# The call, the same in float64, and the input made from N numbers between 0 and 1.
ROWS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "sum of columns": (lambda x: x.sum(0), lambda x: x.sum(0), of_two_columns),
    "sum of long rows": (lambda x: x.sum(0), lambda x: x.sum(0), of_long_rows),
    "sum of outer axes of long rows": (
        lambda x: x.sum((0, 1)), lambda x: x.sum((0, 1)), lambda x: x.reshape(1000, 2000, 2),
    ),
    "sum of outer axes": (
        lambda x: x.sum((0, 2)), lambda x: x.sum((0, 2)), lambda x: x.reshape(-1, 5, 2),
    ),
    "sum of a transposed": (lambda x: x.T.sum(1), lambda x: x.sum(0), of_two_columns),
    "mean": (lambda x: x.mean(0), lambda x: x.mean(0), of_two_columns),
    "variance": (lambda x: x.var(0), lambda x: x.var(0, ddof=1), of_two_columns),
    "variance about 1000": (
        lambda x: x.var(0), lambda x: x.var(0, ddof=1), lambda x: of_two_columns(x + 1000),
    ),
    "std": (lambda x: x.std(0), lambda x: x.std(0, ddof=1), of_two_columns),
    "norm": (lambda x: x.norm(2, 0), lambda x: np.sqrt((x * x).sum(0)), of_two_columns),
    "norm of order 3": (lambda x: x.norm(3, 0), lambda x: np.cbrt((x**3).sum(0)), of_two_columns),
    "logsumexp": (lambda x: x.logsumexp(0), logsumexp, of_two_columns),
    "softmax": (
        lambda x: x.softmax(0), lambda x: np.exp(x) / np.exp(x).sum(0), of_two_columns,
    ),
    "log_softmax": (lambda x: x.log_softmax(0), lambda x: x - logsumexp(x), of_two_columns),
    "cumsum": (lambda x: x.cumsum(0), lambda x: x.cumsum(0), lambda x: x),
    "cumsum of columns": (lambda x: x.cumsum(0), lambda x: x.cumsum(0), of_two_columns),
    "cumprod": (
        lambda x: x.cumprod(0), lambda x: x.cumprod(0), lambda x: 1 + (x - 0.5) / np.float32(3e3),
    ),
    "layer norm": (
        lambda x: F.layer_norm(x, x.shape[1:]), layer_norm, lambda x: x.reshape(2, -1),
    ),
    "mean squared error": (
        lambda x: F.mse_loss(x, fd.zeros_like(x)), lambda x: (x * x).mean(), of_two_columns,
    ),
}  # fmt: skip


def uniform() -> Array:
    return np.random.default_rng(0).random(N, np.float32)


def relative_error(found: Array, expected: Array) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("row", ROWS)
def test_many_numbers_are_reduced_as_exactly_as_few(row: str) -> None:
    call, exact, made = ROWS[row]
    x = made(uniform())
    assert x.dtype == np.float32
    found = call(fd.from_numpy(x)).numpy()
    assert relative_error(found, exact(x.astype(np.float64))) < TOLERANCE


def test_a_bias_that_many_rows_share_gets_an_exact_gradient() -> None:
    g = of_two_columns(uniform())
    bias = fd.zeros(2, requires_grad=True)
    (fd.from_numpy(g) + bias).backward(fd.from_numpy(g))
    assert bias.grad is not None
    assert relative_error(bias.grad.numpy(), g.astype(np.float64).sum(0)) < TOLERANCE


@pytest.mark.parametrize("repeated", [(1, 3), (1 << 17, 1), (1, 1)])
@pytest.mark.parametrize("call", ["sum", "mean", "std", "norm"])
def test_what_is_repeated_is_reduced_as_exactly(call: str, repeated: tuple[int, int]) -> None:
    x = fd.full(repeated, 3.3).expand(1 << 17, 3)
    n, number = 1 << 17, float(np.float32(3.3))
    expected = {"sum": n * number, "mean": number, "std": 0.0, "norm": math.sqrt(n) * number}
    found = getattr(x, call)(dim=0).numpy()
    # Equal numbers are all rounded in the same direction.
    assert np.abs(found - expected[call]).max() <= 2 * TOLERANCE * max(expected[call], number)


def test_a_bias_gets_an_exact_gradient_of_a_mean() -> None:
    bias = fd.zeros(3, requires_grad=True)
    (fd.zeros(1 << 17, 3) + bias).mean().backward()
    assert bias.grad is not None
    assert relative_error(bias.grad.numpy(), np.full(3, 1 / 3)) < TOLERANCE


def test_a_layer_norm_of_long_rows_has_an_exact_gradient() -> None:
    x, g = uniform().reshape(2, -1), uniform()[::-1].reshape(2, -1).copy()
    leaf = fd.tensor(x, requires_grad=True)
    F.layer_norm(leaf, leaf.shape[1:]).backward(fd.from_numpy(g))
    assert leaf.grad is not None
    x, g = x.astype(np.float64), g.astype(np.float64)
    scale, normal = np.sqrt(x.var(1, keepdims=True) + 1e-5), layer_norm(x)
    along = (normal * g).mean(1, keepdims=True)
    expected = (g - g.mean(1, keepdims=True) - normal * along) / scale
    assert relative_error(leaf.grad.numpy(), expected) < TOLERANCE


@pytest.mark.one_in(5)
@pytest.mark.parametrize("count", [127, 128, 129, 191, 600, 4095, 4097, 8191, 12345])
@pytest.mark.parametrize("axes", [None, 0, -2, (-3,), (0, 2), (-1, -3), (0, 1, 2), (1,), ()])
def test_every_element_is_added_once(count: int, axes: Any) -> None:
    x = np.arange(count * 6, dtype=np.float64).reshape(count, 3, 2)
    for seen in (x, x[::-1], x.transpose(2, 0, 1), np.broadcast_to(x[:, :1], x.shape)):
        for keepdims in (False, True):
            expected = seen.sum(tuple(range(3)) if axes is None else axes, keepdims=keepdims)
            found = add_up(seen, axes, keepdims=keepdims)
            assert np.array_equal(found, expected)
            assert found.shape == expected.shape


@pytest.mark.one_in(3)
@pytest.mark.parametrize("count", [127, 1024, 1025, 2048, 5000])
def test_every_long_row_is_added_once(count: int) -> None:
    x = np.arange(count * 520, dtype=np.float64).reshape(count, 520)
    for seen in (x, x[::-1], np.asfortranarray(x)):
        assert np.array_equal(add_up(seen, 0), x.sum(0))
    x = x % 7
    for rows in (x, x[:, ::-1], x.T):
        assert np.array_equal(
            add_up_products(rows, x[:1, :1] + rows), (rows * rows).sum(1)[:, None]
        )


def test_infinities_and_nan_reach_their_column_alone() -> None:
    x = np.ones((5000, 4), np.float32)
    x[17, 0], x[4999, 1], x[3, 2], x[4, 2] = np.inf, np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(add_up(x, 0), [np.inf, np.nan, np.nan, 5000])


def test_the_mean_of_more_float16_than_float16_counts_has_a_gradient() -> None:
    x = fd.zeros(100_000, dtype=fd.float16, requires_grad=True)
    x.mean().backward()
    assert x.grad is not None
    assert x.grad[0].item() == np.float16(1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((4, 64, 16, 16), (0, 2, 3)),
        ((300, 5, 16), (0, 2)),
        ((300, 5, 15), (0, 2)),
        ((3, 2, 40, 50), (0, 3)),
        ((2, 3, 4, 5, 128), (1, 3, 4)),
        ((9, 1, 2000), (0, 2)),
    ],
)
def test_last_axes_are_added_up_before_others(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str
) -> None:
    whole = np.random.default_rng(0).standard_normal((*shape[:-1], 2 * shape[-1])).astype(dtype)
    for x in (np.ascontiguousarray(whole[..., ::2]), whole[..., ::2]):
        exact = np.add.reduce(x, axis=axes, dtype=np.float64)
        tolerance = {"float16": 0.05, "float32": 3e-5, "float64": 1e-12}[dtype]
        found = add_up(x, axes, dtype=x.dtype)
        assert found.dtype == x.dtype
        np.testing.assert_allclose(found, exact, rtol=tolerance, atol=100 * tolerance)
        out = np.full(exact.shape, 7, x.dtype)
        assert add_up(x, axes, dtype=x.dtype, out=out) is out
        np.testing.assert_array_equal(out, found)
        kept = add_up(x, axes, dtype=x.dtype, keepdims=True)
        np.testing.assert_allclose(kept.reshape(exact.shape), exact, tolerance, 100 * tolerance)


def test_nan_and_inf_of_the_last_axes_stay_in_their_sums() -> None:
    x = np.ones((4, 64, 16, 16), np.float32)
    x[3, 5, 15, 15], x[0, 9, 0, 0], x[1, 9, 0, 0], x[2, 63, 7, 7] = np.nan, np.inf, -np.inf, np.inf
    found = add_up(x, (0, 2, 3))
    assert np.isnan(found).nonzero()[0].tolist() == [5, 9] and found[63] == np.inf
    assert (np.delete(found, [5, 9, 63]) == 1024).all()
