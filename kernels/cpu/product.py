"""Matrix products, on the CPU: our own panels where they win, and NumPy's BLAS."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

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
# NumPy makes a name anew each time, in a microsecond.
_NAMES: Final = {"f": "float32", "d": "float64"}
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
    if not _is_for_us(n, k, m, dtype):
        return np.dot
    in_panels = _panels().multiplier()
    return lambda a, b, to: in_panels(a, b, to, False)


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
        _panels().multiplier()(a, b, to, False)
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


def multiply_alone(a: Array, b: Array, to: Array, *, adds: bool = False) -> None:
    """Write a @ b of matrices of float32 or float64 into `to`, or add it to what is there, on this
    thread, with the same bits for any number of others. Rows of `to` are gapless.
    """
    panels = _panels()
    (n, k), m = a.shape, b.shape[1]
    if not k:
        if not adds:
            to.fill(0)
        return
    dtype = _NAMES[a.dtype.char]
    lanes = panels.tiling(dtype).lanes
    whole = m - m % lanes
    if whole:
        if b.strides[1] != b.itemsize:
            b = np.ascontiguousarray(b)
        part, some = b[:, :whole], to[:, :whole]
        if n < _MANY_ROWS:
            panels.multiplier(dtype)(a, part, some, adds)
        else:
            room = np.empty(2 * lanes * k, a.dtype)
            panels.packed_multiplier(dtype)(a, part, room, some, False, adds)
    if whole < m:
        end, made = np.zeros((k, lanes), a.dtype), np.zeros((n, lanes), a.dtype)
        end[:, : m - whole] = b[:, whole:]
        if adds:
            made[:, : m - whole] = to[:, whole:]
        panels.multiplier(dtype)(a, end, made, adds)
        to[:, whole:] = made[:, : m - whole]


class Laid(NamedTuple):
    """A matrix of k rows laid together in panels, with zeros behind its last columns."""

    k: int
    room: Array


def lay_turned(b: Array) -> Laid:
    """Return b.T laid together once, for many products."""
    panels, (m, k), dtype = _panels(), b.shape, _NAMES[b.dtype.char]
    lanes = panels.tiling(dtype).lanes
    columns = -(-m // lanes) * lanes
    laid = Laid(k, np.empty(columns * k, b.dtype))
    turned = columns == m and k % lanes == 0 and b.strides[1] == b.itemsize
    if not turned:
        whole = np.zeros((k, columns), b.dtype)
        whole[:, :m] = b.T
        b = whole
    if k:
        panels.layer(dtype)(b, laid.room, turned)
    return laid


def multiply_laid_alone(a: Array, laid: Laid, to: Array) -> None:
    """Write a @ the first columns of what was laid together into `to`, as multiply_alone does."""
    panels = _panels()
    n, m = to.shape
    if not laid.k:
        to.fill(0)
        return
    dtype = _NAMES[a.dtype.char]
    multiply, lanes = panels.laid_multiplier(dtype), panels.tiling(dtype).lanes
    whole = m - m % lanes
    if whole:
        multiply(a, laid.room, 0, to[:, :whole])
    if whole < m:
        made = np.empty((n, lanes), a.dtype)
        multiply(a, laid.room, whole, made)
        to[:, whole:] = made[:, : m - whole]


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
    room = np.empty(2 * _LANES * a.shape[1], np.float32)
    _panels().packed_multiplier()(a, b, room, out, turned, False)


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
