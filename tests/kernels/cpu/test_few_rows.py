"""Few rows by a weight turned round are products, whatever the sizes and the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.jit import launch
from fastdist.kernels.cpu.linalg import product
from fastdist.kernels.cpu.linalg.few_rows import multiplier

Array = np.ndarray[Any, Any]


def numbers(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [2, 3, 4, 5, 7, 8, 15])
def test_every_row_and_column_is_written_once_it_is_done(rows: int, dtype: str) -> None:
    for columns, k in ((4, 1), (5, 33), (7, 300), (64, 64), (66, 17)):
        a, b = numbers(rows, k, dtype=dtype), numbers(columns, k, dtype=dtype)
        out = np.full((rows, columns), 7, dtype)
        multiplier(dtype)(a, b, out)
        wide = a.astype(np.float64) @ b.T.astype(np.float64)
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(out, wide, rtol=tolerance, atol=k * tolerance)


@pytest.mark.parametrize("rows", [3, 6])
def test_nan_and_inf_stay_in_their_rows_and_columns(rows: int) -> None:
    a, b, out = numbers(rows, 300), numbers(50, 300), np.empty((rows, 50), np.float32)
    a[1, 290], a[2, 0], b[7, 40] = np.nan, np.inf, -np.inf
    multiplier("float32")(a, b, out)
    with np.errstate(invalid="ignore"):
        expected = a @ b.T
    for which in (np.isfinite, np.isnan, np.isposinf):
        np.testing.assert_array_equal(which(out), which(expected))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Return the shapes of a that the compiled product is given, on a machine that gains by it."""
    seen: list[tuple[int, ...]] = []

    def few(dtype: str) -> Any:
        def run(a: Array, b: Array, out: Array) -> None:
            seen.append(a.shape)
            multiplier(dtype)(a, b, out)

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
        (numbers(4, 300, dtype="float64").astype("complex64"), False),
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
