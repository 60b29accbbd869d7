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
# fast as two of a BLAS, and up to which it was measured to be faster than one.
_LEAST: Final = 1 << 18
_MOST_BESIDE_THREADS: Final = 1 << 21
_MOST: Final = 1 << 29
_LANES: Final = 16
# Of fewer rows, turning a weight round takes longer than is saved.
_FEWEST_ROWS: Final = 16
# From so many on, laying panels together pays, for rows of b that lie a page apart above all.
_MANY_ROWS: Final = 128


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
    return _panels().multiplier() if _is_for_us(n, k, m, dtype) else np.dot


def _is_for_us(n: int, k: int, m: int, dtype: Any) -> bool:
    if not suits_panels(n, k, m, dtype):
        return False
    return n * k * m <= _MOST_BESIDE_THREADS or _launch().get_num_threads() == 1


# They need Numba, and come with the first product that is theirs. To import again what is there
# costs a small product as much as the look at its shapes.
@functools.cache
def _panels() -> Any:
    from . import panels

    return panels


@functools.cache
def _launch() -> Any:
    from . import launch

    return launch


def multiply(a: Array, b: Array, to: Array) -> None:
    """Write a @ b of matrices of one dtype into `to`."""
    (n, k), m = a.shape, b.shape[1]
    if not (_is_for_us(n, k, m, a.dtype) and _has_gapless_rows(b, to)):
        _into(to, a, b)
    elif n < _MANY_ROWS:
        _panels().multiplier()(a, b, to)
    else:
        _in_packed_panels(a, b, to, turned=False)


def multiply_turned(a: Array, b: Array, to: Array) -> None:
    """Write a @ b.T of matrices of one dtype into `to`."""
    (n, k), m = a.shape, len(b)
    fits = _is_for_us(n, k, m, a.dtype) and n >= _FEWEST_ROWS and k % _LANES == 0
    if fits and _has_gapless_rows(b, to):
        _in_packed_panels(a, b, to, turned=True)
    else:
        _into(to, a, b.T)


# Note [Products of one thread]
# How a BLAS adds depends on how many threads it has, which is a switch of the whole process: that a
# caller's threads have products of their own it cannot be told. So kernels that share work out, and
# whose results must not depend on threads, multiply in panels alone. What is less than a vector at
# the end of the rows of a result is made of a copy with zeros behind.


def multiply_alone(a: Array, b: Array, to: Array) -> None:
    """Write a @ b of matrices of float32 or float64 into `to` on this thread, with the same bits
    for any number of others. Rows of `to` are gapless.
    """
    panels = _panels()
    (n, k), m = a.shape, b.shape[1]
    if not k:
        to.fill(0)
        return
    dtype = a.dtype.name
    lanes = panels.tiling(dtype).lanes
    whole = m - m % lanes
    if whole:
        if b.strides[1] != b.itemsize:
            b = np.ascontiguousarray(b)
        part, some = b[:, :whole], to[:, :whole]
        if n < _MANY_ROWS:
            panels.multiplier(dtype)(a, part, some)
        else:
            room = np.empty(2 * lanes * k, a.dtype)
            panels.packed_multiplier(dtype)(a, part, room, some, False)
    if whole < m:
        end, made = np.zeros((k, lanes), a.dtype), np.empty((n, lanes), a.dtype)
        end[:, : m - whole] = b[:, whole:]
        panels.multiplier(dtype)(a, end, made)
        to[:, whole:] = made[:, : m - whole]


def is_in_whole_vectors(count: int, dtype: Any) -> bool:
    """Return whether so many numbers make up whole vectors: then a matrix whose rows they are can
    be turned round as it is read.
    """
    return count > 0 and count % _panels().tiling(dtype.name).lanes == 0


def multiply_turned_alone(a: Array, b: Array, to: Array) -> None:
    """Write a @ b.T into `to`, as multiply_alone does."""
    panels = _panels()
    (_, k), m = a.shape, len(b)
    dtype = a.dtype.name
    lanes = panels.tiling(dtype).lanes
    whole = m - m % lanes
    if not (is_in_whole_vectors(k, a.dtype) and whole and b.strides[1] == b.itemsize):
        multiply_alone(a, np.ascontiguousarray(b.T), to)
        return
    room = np.empty(2 * lanes * k, a.dtype)
    panels.packed_multiplier(dtype)(a, b[:whole], room, to[:, :whole], True)
    if whole < m:
        multiply_alone(a, np.ascontiguousarray(b[whole:].T), to[:, whole:])


def product(a: Array, b: Array) -> Array:
    """Return a @ b of matrices of one dtype."""
    out = np.empty((len(a), b.shape[1]), a.dtype)
    multiply(a, b, out)
    return out


@silent
def _into(out: Array, a: Array, b: Array) -> None:
    # dot takes 300 ns less, and memory without gaps alone.
    (np.dot if out.flags.c_contiguous else np.matmul)(a, b, out)


def _has_gapless_rows(b: Array, out: Array) -> bool:
    return b.strides[1] == out.strides[1] == b.itemsize


def _in_packed_panels(a: Array, b: Array, out: Array, *, turned: bool) -> None:
    _panels().packed_multiplier()(a, b, np.empty(2 * _LANES * a.shape[1], np.float32), out, turned)


@silent
def matmul(x: Array, y: Array, out: Array) -> None:
    """Write x @ y into out; batch axes broadcast. Shapes (..., n, k), (..., k, m) -> (..., n, m),
    one dtype.
    """
    if x.ndim == y.ndim == 2:
        multiply(x, y, out)
    else:
        np.matmul(x, y, out=out)


@silent
def linear(x: Array, weight: Array, bias: Array | None, out: Array) -> None:
    """Write x @ weight.T + bias into out. Shapes (n, k), (m, k), (m,) -> (n, m), one dtype."""
    if x.size * len(weight) > _LEAST:
        multiply_turned(x, weight, out)
    else:
        np.dot(x, weight.T, out=out)
    if bias is not None:
        np.add(out, bias, out=out)
