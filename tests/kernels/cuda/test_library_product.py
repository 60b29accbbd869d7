"""A product, with or without a bias, is one call of cuBLASLt, or else CuPy's product."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.core.dtypes import bfloat16
from fastdist.core.errors import KernelError
from fastdist.core.precision import products
from fastdist.devices.cuda import CudaBackend
from fastdist.kernels.cuda.linalg import library_product
from fastdist.kernels.cuda.linalg.product import linear, matmul
from tests.fibre_shim import cublas_lt
from tests.fibre_shim.installed import cuda_on_fibres, waits
from tests.properties import in_one_test


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    cublas_lt.calls.clear()
    cublas_lt.computed_in.clear()
    cublas_lt.biased.clear()
    monkeypatch.setattr(cublas_lt, "refusals", dict(cublas_lt.refusals))
    yield from cuda_on_fibres(monkeypatch)


Given = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]
_random = np.random.default_rng(5)


def given(n: int, k: int, m: int, dtype: Any = np.float32) -> Given:
    return tuple(  # type: ignore[return-value]
        _random.standard_normal(shape).astype(dtype) for shape in ((n, k), (m, k), (m,))
    )


def placed(backend: CudaBackend, array: np.ndarray[Any, Any], way: str) -> Any:
    """Return an array on the device in the given memory layout."""
    if way == "turned":
        return backend.from_numpy(np.ascontiguousarray(array.T), 0).transpose((1, 0))
    if way == "part":  # a part of larger rows
        wide = np.zeros((array.shape[0] + 1, array.shape[1] + 3), array.dtype)
        wide[1:, 2:-1] = array
        return backend.from_numpy(wide, 0)[1:, 2:-1]
    if way == "every other":
        wide = np.zeros((array.shape[0], 2 * array.shape[1]), array.dtype)
        wide[:, ::2] = array
        return backend.from_numpy(wide, 0)[:, ::2]
    return backend.from_numpy(array, 0)


def found(backend: CudaBackend, x: Any, weight: Any, bias: Any) -> np.ndarray[Any, Any]:
    out = backend.from_numpy(np.full((x.shape[0], weight.shape[0]), 7.0).astype(x.dtype), 0)
    linear(x, weight, bias, out)
    return np.asarray(backend.to_numpy(out))


def require_near(seen: np.ndarray[Any, Any], values: Given, relative: float = 1e-5) -> None:
    x, weight, bias = (one.astype(np.float64) for one in values)
    np.testing.assert_allclose(seen.astype(np.float64), x @ weight.T + bias, relative, relative)


WAYS = ["whole", "turned", "part", "every other"]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, bfloat16.numpy])
@in_one_test("second", WAYS)
@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("sizes", [(5, 3, 4), (1, 3, 4), (5, 1, 4), (5, 3, 1), (1, 1, 1)])
def test_matrices_may_lie_in_any_way(
    backend: CudaBackend, sizes: tuple[int, int, int], first: str, second: str, dtype: Any
) -> None:
    values = given(*sizes, dtype)
    x, weight = placed(backend, values[0], first), placed(backend, values[1], second)
    seen = found(backend, x, weight, backend.from_numpy(values[2], 0))
    require_near(seen, values, 1e-5 if dtype is np.float32 else 2e-2)
    # No library accepts strides of two elements along both axes.
    is_told = not (
        (first == "every other" and sizes[0] > 1 < sizes[1])
        or (second == "every other" and sizes[2] > 1 < sizes[1])
    )
    assert ("matmul" in cublas_lt.calls) >= is_told


def test_the_heuristic_is_asked_once_for_layouts_alignment_and_precision(
    backend: CudaBackend,
) -> None:
    values = given(8, 8, 8)
    x, weight, bias = (backend.from_numpy(one, 0) for one in values)
    for _ in range(3):
        require_near(found(backend, x, weight, bias), values)
    assert cublas_lt.calls == ["heuristic", *["matmul"] * 3]
    try:
        products.choose("high")
        found(backend, x, weight, bias)
    finally:
        products.choose("highest")
    assert cublas_lt.computed_in == [68, 68, 68, 77]  # 32F, and TF32 where it is allowed
    cublas_lt.calls.clear()
    long = backend.from_numpy(np.concatenate([[0, 0, 0], values[2]]).astype(np.float32), 0)
    require_near(found(backend, x, weight, long[3:]), values)
    assert cublas_lt.calls == ["heuristic", "matmul"]  # the bias is not aligned to 16 bytes


@pytest.mark.parametrize("which", ["heuristic", "matmul"])
def test_what_the_library_does_not_support_is_a_product_and_a_sum(
    backend: CudaBackend, which: str
) -> None:
    cublas_lt.refusals[which] = 15
    values = given(5, 3, 4)
    x, weight, bias = (backend.from_numpy(one, 0) for one in values)
    for _ in range(2):
        require_near(found(backend, x, weight, bias), values)
    assert cublas_lt.calls.count("heuristic") == 2  # one with the bias, and one without it


@pytest.mark.parametrize("which", ["heuristic", "matmul"])
def test_what_fails_is_told(backend: CudaBackend, which: str) -> None:
    cublas_lt.refusals[which] = 13  # CUBLAS_STATUS_EXECUTION_FAILED
    x, weight, bias = (backend.from_numpy(one, 0) for one in given(5, 3, 4))
    with pytest.raises(KernelError, match="cuBLASLt failed with cublasStatus_t 13"):
        found(backend, x, weight, bias)


def _number(values: Given) -> Given:
    return *values[:2], values[2][0]


def _without_columns(values: Given) -> Given:
    return values[0][:, :0], values[1][:, :0], values[2]


@pytest.mark.parametrize(
    ("change", "dtype"),
    [
        (_number, np.float32),
        (_without_columns, np.float32),
        (lambda values: values, np.float64),
        (lambda values: values, np.complex64),
        (lambda values: values, np.int64),
    ],
    ids=["a number", "no columns", "float64", "complex64", "int64"],
)
def test_what_is_not_for_it_is_a_product_and_a_sum(
    backend: CudaBackend, change: Callable[[Given], Given], dtype: Any
) -> None:
    x, weight, bias = change(given(5, 3, 4, np.float32))
    x, weight, bias = (np.asarray(one * 3).astype(dtype) for one in (x, weight, bias))
    seen = found(backend, *(backend.from_numpy(one, 0) for one in (x, weight, bias)))
    np.testing.assert_allclose(seen, x @ weight.T + bias, 1e-5, 1e-5)
    assert True not in cublas_lt.biased


def test_a_bias_of_every_other_number_is_a_sum(backend: CudaBackend) -> None:
    values = given(5, 3, 4)
    wide = np.zeros(8, np.float32)
    wide[::2] = values[2]
    x, weight = (backend.from_numpy(one, 0) for one in values[:2])
    require_near(found(backend, x, weight, backend.from_numpy(wide, 0)[::2]), values)
    assert cublas_lt.biased == [False]


def test_without_the_library_there_is_a_product_and_a_sum(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: no such file")

    monkeypatch.setattr(library_product, "load", missing)
    library_product.forget()
    values = given(5, 3, 4)
    with caplog.at_level("INFO"):
        require_near(found(backend, *(backend.from_numpy(one, 0) for one in values)), values)
    assert "cuBLASLt is not available: libcublasLt.so.12: no such file" in caplog.text


def test_threads_that_share_a_plan_each_have_their_bias(backend: CudaBackend) -> None:
    values = given(8, 8, 8)
    x, weight = (backend.from_numpy(one, 0) for one in values[:2])
    biases = [backend.from_numpy(np.full(8, 100.0 * i, np.float32), 0) for i in range(8)]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(20):
            seen = found(backend, x, weight, biases[i])
            if not np.allclose(seen, values[0] @ values[1].T + 100.0 * i, 1e-4, 1e-4):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_nobody_waits(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias = (backend.from_numpy(one, 0) for one in given(5, 3, 4))
    out = backend.from_numpy(np.zeros((5, 4), np.float32), 0)
    seen = waits(monkeypatch)
    linear(x, weight, bias, out)
    assert not seen


def test_a_workspace_is_of_the_pool_and_goes_with_the_call(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    sizes: list[Any] = []
    empty = cupy.empty
    monkeypatch.setattr(
        cupy, "empty", lambda shape, dtype: (sizes.append(shape), empty(shape, dtype))[1]
    )
    x, weight, bias = (backend.from_numpy(one, 0) for one in given(5, 3, 4))
    found(backend, x, weight, bias)
    assert (4096,) in sizes


BATCHES = [((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (3,)), ((1,), (4,))]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@in_one_test("way", ["whole", "turned", "backwards"])
@pytest.mark.parametrize(("first", "second"), BATCHES)
def test_products_of_any_batch_and_layout_are_the_library_s(
    backend: CudaBackend,
    monkeypatch: pytest.MonkeyPatch,
    first: Any,
    second: Any,
    way: str,
    dtype: str,
) -> None:
    import cupy

    monkeypatch.setattr(cupy, "matmul", None)
    random = np.random.default_rng(3)
    batch = np.broadcast_shapes(first, second)

    def one(*shape: int) -> tuple[Any, Any]:
        if way == "turned":
            shape = (*shape[:-2], shape[-1], shape[-2])
        values = (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(
            dtype if dtype[0] == "c" else "c16"
        )
        values = values if dtype[0] == "c" else values.real.astype(dtype)
        there = backend.from_numpy(values, 0)
        if way == "backwards":
            return values[..., ::-1, :], there[..., ::-1, :]
        if way == "turned":
            axes = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
            return values.transpose(axes), there.transpose(axes)
        return values, there

    (x, x_there), (y, y_there) = one(*first, 5, 4), one(*second, 4, 6)
    for order in ("C", "F"):
        out = backend.from_numpy(np.full((*batch, 5, 6), 7).astype(dtype), 0)
        if order == "F" and not batch:
            out = backend.from_numpy(np.full((6, 5), 7).astype(dtype), 0).transpose((1, 0))
        matmul(x_there, y_there, out)
        wide = np.result_type(np.dtype(dtype), np.float32)
        error = 2e-2 if dtype == "float16" else 1e-5
        expected = x.astype(wide) @ y.astype(wide)
        np.testing.assert_allclose(backend.to_numpy(out), expected, error, error)


def test_without_an_inner_axis_a_product_is_zeros(backend: CudaBackend) -> None:
    x, y = (backend.from_numpy(np.ones(shape, np.float32), 0) for shape in ((2, 0), (0, 3)))
    out = backend.from_numpy(np.full((2, 3), 7, np.float32), 0)
    matmul(x, y, out)
    np.testing.assert_array_equal(backend.to_numpy(out), np.zeros((2, 3)))


def test_integers_are_multiplied_by_cupy(backend: CudaBackend) -> None:
    x = np.arange(6).reshape(2, 3)
    out = backend.from_numpy(np.zeros((2, 2), np.int64), 0)
    matmul(backend.from_numpy(x, 0), backend.from_numpy(x.T.copy(), 0), out)
    np.testing.assert_array_equal(backend.to_numpy(out), x @ x.T)
    assert not cublas_lt.calls
