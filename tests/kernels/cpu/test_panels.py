"""Products by panels, and products of few rows, are correct for all sizes and numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.kernels.cpu.jit import launch
from fastdist.kernels.cpu.linalg import few_rows, panels, product
from fastdist.kernels.cpu.linalg.panels import (
    ADDS,
    PACKED,
    TURNED,
    Tiling,
    multiplier,
    panel_multiplier,
)

Array = np.ndarray[Any, Any]

SHAPES = [(1, 1, 16), (8, 3, 32), (13, 7, 48), (64, 256, 64), (65, 300, 80), (71, 513, 16)]


def numbers(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape, dtype=np.float32)


def multiply(a: Array, b: Array, out: Array, way: int = 0) -> None:
    """Multiply float32 matrices by panels, or in their layout."""
    if not way & PACKED:
        multiplier("float32")(id(a), id(b), id(out), way == ADDS)
        return
    room = np.empty(2 * panels.tiling("float32").lanes * a.shape[1], np.float32)
    panel_multiplier("float32")(id(a), id(b), id(out), id(room), way)


def assert_product(out: Array, a: Array, b: Array) -> None:
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(a).astype(np.float64) @ np.abs(b) * (len(b) + 1) * 2.0**-24
    assert (np.abs(out - exact) <= bound).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "lay",
    [
        lambda a: a,
        lambda a: np.ascontiguousarray(a.T).T,
        lambda a: np.repeat(a, 3, 1)[:, ::3],
        lambda a: a[::-1, ::-1],
    ],
    ids=["rows", "columns", "apart", "backwards"],
)
def test_multiply(shape: tuple[int, int, int], lay: Callable[[Array], Array]) -> None:
    n, k, m = shape
    a, b = lay(numbers(n, k)), numbers(k, m + 5)[:, 2 : m + 2]
    whole = np.full((n, m + 3), 7, np.float32)
    multiply(a, b, whole[:, :m])
    assert_product(whole[:, :m], a, b)
    once = whole[:, :m].copy()
    multiply(a, b, whole[:, :m], ADDS)
    np.testing.assert_allclose(whole[:, :m], 2 * once, 1e-4, 1e-4)
    assert (whole[:, m:] == 7).all()


@pytest.mark.parametrize("shape", [(16, 16, 16), (17, 272, 48), (64, 512, 80)])
def test_multiply_packed(shape: tuple[int, int, int]) -> None:
    n, k, m = shape
    a, b, out = numbers(n, k), numbers(m, k + 1)[:, 1:], np.empty((n, m), np.float32)
    multiply(a, b, out, PACKED | TURNED)
    assert_product(out, a, b.T)
    other = np.empty_like(out)
    multiply(a, np.ascontiguousarray(b.T), other, PACKED)
    np.testing.assert_array_equal(out, other)
    multiply(a, b, other, PACKED | TURNED | ADDS)
    np.testing.assert_allclose(other, 2 * out, 1e-4, 1e-4)


@pytest.mark.parametrize("n", [0, 1])
def test_without_rows_a_product_is_left_alone(n: int) -> None:
    a, b, out = numbers(n, 5), numbers(5, 16), np.empty((n, 16), np.float32)
    multiply(a, b, out)
    multiply(a, b, out, PACKED)
    assert_product(out, a, b)


def test_nan_and_inf_stay_in_their_rows_and_columns() -> None:
    a, b, out = numbers(20, 300), numbers(300, 48), np.empty((20, 48), np.float32)
    a[3, 290], a[11, 0], b[7, 40] = np.nan, np.inf, -np.inf
    multiply(a, b, out)
    with np.errstate(invalid="ignore"):
        expected = a @ b
    for which in (np.isfinite, np.isnan, np.isposinf):
        np.testing.assert_array_equal(which(out), which(expected))


@pytest.mark.parametrize("wide", [True, False])
def test_products_of_middling_size(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "_has_wide_vectors", lambda: wide)
    x, w, bias = numbers(70, 128), numbers(96, 128), numbers(96)
    assert product.suits_panels(70, 128, 96, x.dtype) == wide
    out = np.empty((70, 96), np.float32)
    product.linear(x, w, bias, out)
    np.testing.assert_allclose(out, x @ w.T + bias, rtol=1e-4, atol=1e-4)
    product.matmul(x, w.T, out)
    assert_product(out, x, w.T)
    product.matmul(x[::-1], np.ascontiguousarray(w.T), out)
    assert_product(out, x[::-1], w.T)
    for rows in (70, 140):
        more = np.empty((rows, 96), np.float32)
        product.matmul(numbers(rows, 128), np.ascontiguousarray(w.T), more)
        assert_product(more, numbers(rows, 128), w.T)
    by_input = product.product(out, w)
    assert_product(by_input, out, w)


def test_gradients_of_a_layer_and_of_a_product() -> None:
    x = fastdist.tensor(numbers(70, 128)).requires_grad_()
    w = fastdist.tensor(numbers(96, 128)).requires_grad_()
    g = numbers(70, 96)
    for made in (fastdist.nn.functional.linear(x, w), x @ w.t()):
        assert_product(made.detach().numpy(), x.detach().numpy(), w.detach().numpy().T)
        by_x, by_w = fastdist.autograd.grad(made, (x, w), fastdist.tensor(g))
        assert_product(by_x.numpy(), g, w.detach().numpy())
        assert_product(by_w.numpy(), g.T, x.detach().numpy())


TILINGS = [
    Tiling("float32", 16, 8), Tiling("float32", 8, 6), Tiling("float32", 4, 6),
    Tiling("float64", 8, 8), Tiling("float64", 4, 6), Tiling("float64", 2, 6),
]  # fmt: skip


@pytest.fixture(params=TILINGS, ids=str)
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Tiling:
    """Use the tiling of another machine."""
    found: Tiling = request.param
    monkeypatch.setattr(panels, "tiling", lambda dtype: found)
    for cached in (multiplier, panel_multiplier):
        monkeypatch.setattr(panels, cached.__name__, functools.cache(cached.__wrapped__))
    return found


def test_products_of_one_thread_are_products_on_any_machine(how: Tiling) -> None:
    random = np.random.default_rng(0)
    for n, k, m in [(1, 1, 1), (7, 300, 33), (13, 32, 64), (150, 16, 37), (140, 40, 48)]:
        a, b = (random.standard_normal(s).astype(how.dtype) for s in ((n, k), (k, m)))
        for lay in (a, np.ascontiguousarray(a.T).T):
            whole = np.full((n, m + 3), 7, how.dtype)
            for multiply, other in (
                (product.multiply_alone, b),
                (product.multiply_alone, np.ascontiguousarray(b.T).T),
                (product.multiply_laid_alone, product.lay(np.ascontiguousarray(b.T), turned=True)),
                (product.multiply_laid_alone, product.lay(b.T, turned=True)),
                (product.multiply_laid_alone, product.lay(b)),
                (product.multiply_laid_alone, product.lay(np.ascontiguousarray(b.T).T)),
            ):
                whole[:, :m] = np.nan
                multiply(lay, other, whole[:, :m])  # type: ignore[operator]
                np.testing.assert_allclose(whole[:, :m], a @ b, 1e-4, 1e-4)
                assert (whole[:, m:] == 7).all()
            product.multiply_alone(lay, b, whole[:, :m], adds=True)
            np.testing.assert_allclose(whole[:, :m], 2 * (a @ b), 2e-4, 2e-4)
            assert (whole[:, m:] == 7).all()


def test_the_first_columns_of_what_was_laid_together_make_a_product(how: Tiling) -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(how.dtype) for shape in ((9, 40), (75, 40)))
    laid = product.lay(b, turned=True)
    for count in range(1, 76):
        out = np.full((9, count), np.nan, how.dtype)
        product.multiply_laid_alone(a, laid, out)
        np.testing.assert_allclose(out, a @ b[:count].T, 1e-4, 1e-4)


def test_the_first_rows_of_what_was_laid_together_make_a_product(how: Tiling) -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(how.dtype) for shape in ((9, 600), (600, 75)))
    laid = product.lay(b)
    for rows in (1, 40, 257, 600):
        out = np.full((9, 75), np.nan, how.dtype)
        product.multiply_laid_alone(np.ascontiguousarray(a[:, :rows]), laid, out)
        np.testing.assert_allclose(out, a[:, :rows] @ b[:rows], 1e-3, 1e-3)


def test_without_an_inner_axis_a_product_of_one_thread_is_zero() -> None:
    out = np.full((3, 20), 7, np.float32)
    product.multiply_alone(numbers(3, 0), numbers(0, 20), out)
    assert (out == 0).all()
    out.fill(7)
    product.multiply_alone(numbers(3, 0), numbers(0, 20), out, adds=True)
    assert (out == 7).all()
    product.multiply_laid_alone(numbers(3, 0), product.lay(numbers(20, 0), turned=True), out)
    assert (out == 0).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [2, 3, 4, 5, 7, 8, 15])
def test_every_row_and_column_is_written_once_it_is_done(rows: int, dtype: str) -> None:
    for columns, k in ((4, 1), (5, 33), (7, 300), (64, 64), (66, 17)):
        a, b = numbers(rows, k).astype(dtype), numbers(columns, k).astype(dtype)
        out = np.full((rows, columns), 7, dtype)
        few_rows.multiplier(dtype)(a, b, out)
        wide = a.astype(np.float64) @ b.T.astype(np.float64)
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(out, wide, rtol=tolerance, atol=k * tolerance)


@pytest.mark.parametrize("rows", [3, 6])
def test_nan_and_inf_stay_in_the_sums_of_few_rows(rows: int) -> None:
    a, b, out = numbers(rows, 300), numbers(50, 300), np.empty((rows, 50), np.float32)
    a[1, 290], a[2, 0], b[7, 40] = np.nan, np.inf, -np.inf
    few_rows.multiplier("float32")(a, b, out)
    with np.errstate(invalid="ignore"):
        expected = a @ b.T
    for which in (np.isfinite, np.isnan, np.isposinf):
        np.testing.assert_array_equal(which(out), which(expected))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Return the list of shapes of `a` in calls of the compiled product, which is always used."""
    seen: list[tuple[int, ...]] = []

    def few(dtype: str) -> Any:
        def run(a: Array, b: Array, out: Array) -> None:
            seen.append(a.shape)
            few_rows.multiplier(dtype)(a, b, out)

        return run

    monkeypatch.setattr(product, "_has_wide_vectors", lambda: True)
    monkeypatch.setattr(product, "_few_rows", few)
    return seen


def test_linear_of_few_rows_is_taken_where_it_pays(calls: list[tuple[int, ...]]) -> None:
    w, bias = numbers(512, 300), numbers(512)
    for x, takes in (
        (numbers(4, 300), True),
        (numbers(13, 300), True),
        (numbers(1, 300), False),
        (numbers(20, 300), False),
        (numbers(4, 600)[:, ::2], False),
        (numbers(4, 300).astype("complex64"), False),
    ):
        calls.clear()
        weight = w.astype(x.dtype)
        out = np.empty((len(x), 512), x.dtype)
        product.linear(x, weight, bias.astype(x.dtype), out)
        np.testing.assert_allclose(out, x @ weight.T + bias, rtol=1e-4, atol=1e-3)
        assert calls == ([x.shape] if takes else [])
    product.linear(numbers(4, 300), numbers(512, 600)[:, ::2], None, np.empty((4, 512), "f"))
    product.linear(numbers(4, 10), numbers(8, 10), None, np.empty((4, 8), "f"))
    assert calls == []


@pytest.mark.parametrize("threads", [1, 2])
def test_a_blas_on_several_threads_takes_large_products(
    calls: list[tuple[int, ...]], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "get_num_threads", lambda: threads)
    x, w, out = numbers(4, 1024), numbers(600, 1024), np.empty((4, 600), np.float32)
    product.linear(x, w, None, out)
    np.testing.assert_allclose(out, x @ w.T, rtol=1e-4, atol=1e-3)
    assert calls == ([x.shape] if threads == 1 else [])
