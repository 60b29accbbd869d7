"""Products of half types with float32 results, through a stand-in for cuBLAS based on NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.core.dtypes import bfloat16
from fastdist.devices.cuda import CudaBackend
from fastdist.kernels.cuda.linalg import library_product
from fastdist.kernels.cuda.linalg.library_product import laid_out
from fastdist.kernels.cuda.linalg.product import multiply_wide
from tests.fibre_shim.installed import cuda_on_fibres
from tests.properties import in_one_test

# Orders of the axes (n, h, rows, columns) in memory, from the largest stride to the smallest.
ORDERS = [(0, 1, 2, 3), (0, 1, 3, 2), (2, 0, 1, 3), (0, 2, 1, 3), (1, 3, 0, 2)]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def matrices(backend: CudaBackend, shape: tuple[int, ...], order: Any, dtype: Any) -> Any:
    """Return matrices on the host, and a copy on the device with the given order of axes."""
    random = np.random.default_rng(sum(shape))
    lies = random.standard_normal([shape[axis] for axis in order]).astype(dtype)
    back = tuple(np.argsort(order).tolist())
    return lies.transpose(back), backend.from_numpy(lies, 0).transpose(back)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", [np.float16, bfloat16.numpy])
@in_one_test("second", ORDERS)
@pytest.mark.parametrize("first", ORDERS)
@pytest.mark.parametrize(
    "sizes", [(2, 3, 5, 4, 6), (1, 3, 5, 4, 6), (2, 1, 1, 4, 6), (2, 3, 5, 1, 1), (1, 1, 5, 4, 1)]
)
def test_matrices_may_lie_in_any_way(
    backend: CudaBackend, sizes: tuple[int, ...], first: Any, second: Any, dtype: Any
) -> None:
    n, heads, rows, inner, columns = sizes
    x, on_device = matrices(backend, (n, heads, rows, inner), first, dtype)
    y, beside = matrices(backend, (n, heads, inner, columns), second, dtype)
    found = multiply_wide(on_device, beside, 0.5)
    expected = x.astype(np.float32) @ y.astype(np.float32) * 0.5
    assert found.dtype == np.float32 and found.flags.c_contiguous
    np.testing.assert_allclose(backend.to_numpy(found), expected, 1e-5, 1e-5)


def test_sums_above_the_largest_half_number_are_kept(backend: CudaBackend) -> None:
    x = backend.from_numpy(np.full((1, 1, 2, 64), 100, np.float16), 0)
    found = backend.to_numpy(multiply_wide(x, x.transpose((0, 1, 3, 2))))
    np.testing.assert_array_equal(found, 640000)


def test_without_an_inner_axis_there_are_zeros_and_without_rows_nothing(
    backend: CudaBackend,
) -> None:
    x, y = (backend.from_numpy(np.empty(s, np.float16), 0) for s in ((1, 2, 3, 0), (1, 2, 0, 4)))
    np.testing.assert_array_equal(backend.to_numpy(multiply_wide(x, y)), np.zeros((1, 2, 3, 4)))
    assert multiply_wide(y, backend.from_numpy(np.ones((1, 2, 4, 4), "e"), 0)).shape == (1, 2, 0, 4)


def test_what_cublas_cannot_go_over_is_copied_and_nothing_else(backend: CudaBackend) -> None:
    x = backend.from_numpy(np.ones((2, 8, 3, 4), np.float16), 0)
    assert laid_out(x) is x and laid_out(x[:, :, 1:]) is not None
    turned = x.transpose((0, 1, 3, 2))
    assert laid_out(turned) is turned
    # If heads lie between samples, no single stride leads from each matrix to the next one.
    apart = x.transpose((0, 2, 1, 3))
    assert laid_out(apart).flags.c_contiguous and not apart.flags.c_contiguous
    part = x[:, :, 1:]
    assert laid_out(part) is part


def test_other_dtypes_are_multiplied_as_they_are(backend: CudaBackend) -> None:
    x = backend.from_numpy(np.full((1, 1, 2, 2), 3.0), 0)
    assert backend.to_numpy(multiply_wide(x, x)).tolist() == [[[[18.0] * 2] * 2]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_without_the_library_products_are_cupy_s(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    def missing(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(library_product, "load", missing)
    library_product.forget()
    x = backend.from_numpy(np.full((1, 1, 2, 64), 100, dtype), 0)
    found = backend.to_numpy(multiply_wide(x, x.transpose((0, 1, 3, 2)), 0.5))
    np.testing.assert_array_equal(found, 320000)
