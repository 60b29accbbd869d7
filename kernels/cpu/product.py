"""Matrix products, on the CPU: our own panels where they win, and NumPy's BLAS."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fastdist.core.blas import read_cpu

from .silence import silent

Array = np.ndarray[Any, Any]

# Multiply-adds from which on Numba is worth loading, up to which one thread of ours is about as
# fast as two of a BLAS, and up to which it is faster than one.
_LEAST: Final = 1 << 18
_MOST_BESIDE_THREADS: Final = 1 << 21
_MOST: Final = 1 << 27
_LANES: Final = 16
# Of fewer rows, turning a weight round takes longer than is saved.
_FEWEST_ROWS: Final = 16


@functools.cache
def _has_wide_vectors() -> bool:
    return "avx512f" in read_cpu().features


def suits_panels(n: int, k: int, m: int, dtype: Any) -> bool:
    """Return whether panels multiply (n, k) and (k, m) faster than one thread of a BLAS."""
    suits = _LEAST < n * k * m <= _MOST and m % _LANES == 0 and dtype.char == "f"
    return suits and _has_wide_vectors()


def multiplier(n: int, k: int, m: int, dtype: Any) -> Callable[[Array, Array, Array], object]:
    """Return the function that writes the product of matrices of these shapes, or of fewer rows,
    into a third; rows of the second and of the third are gapless.
    """
    if not suits_panels(n, k, m, dtype) or _prefers_threads(n * k * m):
        return np.dot
    from . import panels

    return panels.multiply


def _prefers_threads(work: int) -> bool:
    from . import launch

    return work > _MOST_BESIDE_THREADS and launch.get_num_threads() > 1


def product_for(n: int, k: int, m: int, dtype: Any) -> Callable[[Array, Array], Array]:
    """Return the function that multiplies matrices of these shapes."""
    return _by_panels if suits_panels(n, k, m, dtype) else _by_blas


def _by_blas(a: Array, b: Array) -> Array:
    return a.dot(b)  # type: ignore[no-any-return]


def _by_panels(a: Array, b: Array) -> Array:
    out = np.empty((len(a), b.shape[1]), a.dtype)
    _multiply(a, b, out)
    return out


def _multiply(a: Array, b: Array, out: Array) -> None:
    if b.strides[1] == b.itemsize and out.strides[1] == out.itemsize:
        (n, k), m = a.shape, b.shape[1]
        multiplier(n, k, m, a.dtype)(a, b, out)
    else:
        np.matmul(a, b, out=out)


# The functions that are made silent know what stands above them.
def _can_turn(x: Array, weight: Array) -> bool:
    n, k = x.shape
    if n < _FEWEST_ROWS or k % _LANES or weight.strides[1] != weight.itemsize:
        return False
    return not _prefers_threads(n * weight.size)


@silent
def matmul(x: Array, y: Array, out: Array) -> None:
    """Write x @ y into out; batch axes broadcast. Shapes (..., n, k), (..., k, m) -> (..., n, m),
    one dtype.

    float16 multiplies and adds in float32 and rounds once.
    """
    if x.dtype == np.float16:
        product = np.matmul(x.astype(np.float32), y.astype(np.float32))
        np.copyto(out, product, casting="unsafe")
    elif x.ndim == y.ndim == 2 and suits_panels(x.shape[0], x.shape[1], y.shape[1], x.dtype):
        _multiply(x, y, out)
    else:
        np.matmul(x, y, out=out)


@silent
def linear(x: Array, weight: Array, bias: Array | None, out: Array) -> None:
    """Write x @ weight.T + bias into out. Shapes (n, k), (m, k), (m,) -> (n, m), one dtype."""
    if x.dtype == np.float16:
        product = np.dot(x.astype(np.float32), weight.T.astype(np.float32))
        np.copyto(out, product if bias is None else np.add(product, bias), casting="unsafe")
        return
    (n, k), m = x.shape, len(weight)
    if suits_panels(n, k, m, x.dtype) and _can_turn(x, weight):
        from . import panels

        panels.multiply_turned(x, weight, np.empty(2 * _LANES * k, np.float32), out)
    else:
        np.dot(x, weight.T, out=out)
    if bias is not None:
        np.add(out, bias, out=out)
