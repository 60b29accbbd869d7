"""Derivatives of `prod` and `cumprod`: linear memory, and right values at zero and infinity."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.engine.backward import grad
from tests.ops.differences import jvp, leaf

Call = Callable[[fd.Tensor], Any]
NAN, INF = float("nan"), float("inf")
N = 200_000
# A table of N x N numbers would take 320 GB; the limit is 50 arrays of N float64 numbers.
BOUND_BYTES = 50 * 8 * N
CALLS: dict[str, Call] = {
    "prod": lambda x: x.prod(),
    "prod along an axis": lambda x: x.prod(0, keepdim=True),
    "cumprod": lambda x: x.cumprod(0),
}
ZEROS = {"no zero": [], "a zero": [N // 3]}


def numbers(zeros: list[int]) -> np.ndarray:
    """Return N numbers, 0 at the given indices; no product of the others vanishes or overflows."""
    x = np.exp(np.random.default_rng(0).standard_normal(N) * 1e-3)
    x[zeros] = 0.0
    return x


@pytest.fixture
def peak_bytes() -> Any:
    """Return a function that calls its argument, and returns the peak growth of memory in bytes."""

    def measure(function: Callable[[], Any]) -> int:
        tracemalloc.start()
        try:
            function()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measure


@pytest.mark.one_in(3)
@pytest.mark.parametrize("zeros", ZEROS.values(), ids=ZEROS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_derivatives_of_many_numbers_take_memory_linear_in_their_number(
    call: Call, zeros: list[int], peak_bytes: Callable[..., int]
) -> None:
    x = leaf(numbers(zeros))

    def derive() -> None:
        y = call(x).sum()
        (first,) = grad((y,), (x,), create_graph=True)
        grad(((first * first).sum(),), (x,))
        jvp(call, [x.detach().numpy()], [np.ones(N)])

    assert peak_bytes(derive) < BOUND_BYTES


def by_definition(x: np.ndarray) -> np.ndarray:
    """Return a table; [k, i] is the derivative by x[i] of the product of x[: k + 1]."""
    table = np.zeros((len(x), len(x)))
    for k, i in itertools.product(range(len(x)), repeat=2):
        if i <= k:
            table[k, i] = np.prod(np.delete(x[: k + 1], i))
    return table


SHORT = [
    *([2.0, 0, 3], [2, 0, 0], [0, 0, 0], [0], [3], [0, 0], [3, -2, 0, 4, 0, 5], [1e30, 0, 1e30]),
    *([0, INF, 2], [INF, 0, 2], [0, 0, INF], [0, NAN, 2], [0, 0, NAN]),
]


@pytest.mark.parametrize("given", SHORT, ids=str)
def test_derivatives_of_cumprod_with_zeros_are_products_of_the_others(given: list[float]) -> None:
    """PyTorch 2.13 gives these values with a graph; without one it gives 0 for NaN after a zero."""
    x, g = np.array(given), np.arange(1.0, len(given) + 1)
    with np.errstate(invalid="ignore"):
        table = by_definition(x)
        terms = np.where(np.tri(len(x), dtype=bool), g[:, None] * table, 0.0)
        expected, tangent = terms.sum(0), np.where(np.tri(len(x)) > 0, table * g, 0.0).sum(1)
    leaf_x = leaf(x)
    (found,) = grad((leaf_x.cumprod(0),), (leaf_x,), (fd.tensor(g),))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(jvp(CALLS["cumprod"], [x], [g]), tangent, rtol=1e-12)


@pytest.mark.parametrize("dim", [None, 0])
@pytest.mark.parametrize("given", SHORT, ids=str)
def test_derivatives_of_prod_with_zeros_are_products_of_the_others(
    given: list[float], dim: int | None
) -> None:
    x = np.array(given)
    with np.errstate(invalid="ignore"):
        expected = by_definition(x)[-1] if 0 in given else x[:0].prod() * np.ones(1)
    leaf_x = leaf(x)
    (found,) = grad((leaf_x.prod() if dim is None else leaf_x.prod(dim),), (leaf_x,))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("call", [lambda x: x.prod(), lambda x: x.prod(0), lambda x: x.cumprod(0)])
@pytest.mark.parametrize("value", [0.0, 3.0, INF, NAN])
def test_the_product_of_a_single_number_without_axes_has_slope_1(call: Call, value: float) -> None:
    x = leaf(np.array(value))
    (found,) = grad((call(x),), (x,))
    assert found.item() == 1.0
    assert jvp(call, [np.array(value)], [np.array(2.0)]) == 2.0


@pytest.mark.parametrize("call", [lambda x: x.prod(1), lambda x: x.cumprod(1), lambda x: x.prod()])
def test_products_of_nothing_have_empty_gradients(call: Call) -> None:
    x = leaf(np.ones((2, 0)))
    y = call(x)
    (found,) = grad((y,), (x,), (fd.ones_like(y),))
    assert tuple(found.shape) == (2, 0)


def test_the_gradient_of_a_product_in_a_wider_dtype_does_not_overflow_in_the_narrow_one() -> None:
    x = fd.tensor([300.0, 300.0, 0.0], dtype=fd.float16, requires_grad=True)
    x.prod(dtype=fd.float32).backward(fd.tensor(0.5))
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.0, 45000 // 32 * 32]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_forward_over_reverse_is_what_differences_say_at_zeros(call: Call) -> None:
    x, u = np.array([1.5, 0.0, -2.0, 0.5]), np.array([0.3, -1.0, 2.0, 0.7])

    def gradient(x: fd.Tensor) -> fd.Tensor:
        y = call(x)
        g = fd.arange(1.0, 1.0 + y.numel()).to(fd.float64).reshape(y.shape)
        found: fd.Tensor = grad((y,), (x,), (g,), create_graph=True)[0]
        return found

    dual = jvp(lambda x: gradient(x.requires_grad_()), [x], [u])
    plus, minus = [gradient(leaf(x + step * u)).detach().numpy() for step in (1e-6, -1e-6)]
    np.testing.assert_allclose(dual, (plus - minus) / 2e-6, rtol=1e-6, atol=1e-8)


def test_running_log_sums_have_second_derivatives_where_entries_lie_far_apart() -> None:
    x = fd.tensor([0.0, 300.0, 600.0, -300.0], dtype=fd.float64, requires_grad=True)
    (first,) = fd.autograd.grad(x.logcumsumexp(0).sum(), x, create_graph=True)
    (second,) = fd.autograd.grad(first.square().sum(), x)
    np.testing.assert_allclose(first.tolist(), [1.0, 1.0, 2.0, 0.0], rtol=1e-12)
    np.testing.assert_allclose(second.tolist(), [0.0] * 4, atol=1e-12)


def test_an_infinite_entry_of_a_running_log_sum_leaves_those_before_it_their_gradient() -> None:
    x = fd.tensor([1.0, INF, 2.0], requires_grad=True)
    x.logcumsumexp(0).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.tolist(), [1.0, NAN, 0.0])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running_extremes_of_many_elements_are_those_of_few(axis: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 50, (30, 40, 20)).astype(dtype)
    if dtype == "float32":
        x[3, :, 5] = np.nan
    found = fd.tensor(x).cummin(axis)
    for row in range(0, 40, 10):
        # NumPy computes a few rows, while a compiled loop computes the whole array.
        part = np.ascontiguousarray(x[:, row : row + 10] if axis != 1 else x[row % 30 :, :, :5])
        few = fd.tensor(part).cummin(axis)
        for one, other in zip(found, few, strict=True):
            whole = one.numpy()
            whole = whole[:, row : row + 10] if axis != 1 else whole[row % 30 :, :, :5]
            np.testing.assert_array_equal(whole, other.numpy())


@pytest.mark.parametrize("backwards", [False, True])
def test_recurrences_of_many_elements_are_those_of_few(backwards: bool) -> None:
    factor, x = np.random.default_rng(0).uniform(-1, 1, (2, 90, 200))
    found = fd.ops.reduce.cumulative_sums.recurrence.public(
        fd.tensor(factor), fd.tensor(x), 1, backwards
    )
    few = fd.ops.reduce.cumulative_sums.recurrence.public(
        fd.tensor(factor[:9]), fd.tensor(x[:9]), 1, backwards
    )
    np.testing.assert_allclose(found.numpy()[:9], few.numpy(), rtol=1e-14)
