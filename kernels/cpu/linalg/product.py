"""Matrix products on the CPU: by compiled panels where these are faster, else by NumPy's BLAS."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.system.blas import read_cpu

from ..jit.array_objects import require_arrays
from ..silence import silent
from .panel_ways import ADDS, LAID, LAYING, PACKED, TURNED, tiling

Array = np.ndarray[Any, Any]

# Limits of the number of multiply-adds. From _LEAST on, panels save more time than loading Numba
# takes. Up to _MOST_BESIDE_THREADS, one thread with panels is about as fast as two threads of a
# BLAS. Up to _MOST, one thread with panels is faster than one thread of a BLAS.
_LEAST: Final = 1 << 18
_MOST_BESIDE_THREADS: Final = 1 << 21
_MOST: Final = 1 << 29
_LANES: Final = 16
# NumPy makes the name of a dtype at each access, which takes a microsecond.
_NAMES: Final = {"f": "float32", "d": "float64"}
# With fewer rows, transposing a weight takes longer than it saves.
_FEWEST_ROWS: Final = 16
# The number of rows of the weight in a tile of few_rows.py, and the least number of multiply-adds
# for which the kernel of few_rows.py is used. It takes a third of the time of a BLAS: 2.6 us
# instead of 7.6 for (4, 128) by (344, 128).
_FEWEST_COLUMNS: Final = 4
LEAST_OF_FEW_ROWS: Final = 1 << 17
# With at least this many rows, packing panels saves time, above all if the rows of b are a page
# apart.
MANY_ROWS: Final = 128


@functools.cache
def _has_wide_vectors() -> bool:
    return "avx512f" in read_cpu().features


def suits_panels(n: int, k: int, m: int, dtype: Any) -> bool:
    """Return whether panels multiply (n, k) by (k, m) faster than one thread of a BLAS."""
    suits = _LEAST < n * k * m <= _MOST and m % _LANES == 0 and dtype.char == "f"
    return suits and _has_wide_vectors()


def multiplier(n: int, k: int, m: int, dtype: Any) -> Callable[[Array, Array, Array], object]:
    """Return the function (a, b, to) that writes a @ b into `to`. Shapes (n, k), (k, m); a may have
    fewer rows than n. The rows of b and `to` are contiguous.
    """
    if not _is_for_us(n, k, m, dtype, "multiplier"):
        return np.dot
    run = _compiled("multiplier", "float32")

    def multiply(a: Array, b: Array, to: Array) -> None:
        require_arrays(a, b, to)
        run(id(a), id(b), id(to), False)

    return multiply


def _is_for_us(n: int, k: int, m: int, dtype: Any, kernel: str) -> bool:
    if not suits_panels(n, k, m, dtype) or _numpys_turn()(_compiled, kernel, "float32"):
        return False
    return n * k * m <= _MOST_BESIDE_THREADS or _launch().get_num_threads() == 1


@functools.cache
def _numpys_turn() -> Callable[..., bool]:
    """Return is_numpys_turn, imported late: small products do not need its modules."""
    from ..jit.background import is_numpys_turn

    return is_numpys_turn


@functools.cache
def _compiled(kernel: str, dtype: str) -> Callable[..., object]:
    """Return the compiled function that the maker `kernel` of panels.py returns."""
    from ..jit.kernel_cache import find_function

    return find_function("linalg.panels", kernel, dtype)


@functools.cache
def _launch() -> Any:
    from ..jit import launch

    return launch


def multiply(a: Array, b: Array, to: Array) -> None:
    """Write a @ b, of matrices of one dtype, into `to`."""
    require_arrays(a, b, to)
    (n, k), m = a.shape, b.shape[1]
    kernel = "multiplier" if n < MANY_ROWS else "panel_multiplier"
    if not (_is_for_us(n, k, m, a.dtype, kernel) and _has_gapless_rows(b, to)):
        _into(to, a, b)
    elif n < MANY_ROWS:
        _compiled("multiplier", "float32")(id(a), id(b), id(to), False)
    else:
        _multiply_packed(a, b, to, PACKED)


def multiply_turned(a: Array, b: Array, to: Array) -> None:
    """Write a @ b.T, of matrices of one dtype, into `to`."""
    require_arrays(a, b, to)
    (n, k), m = a.shape, len(b)
    if _are_few_rows(a, b, to):
        _few_rows(_NAMES[a.dtype.char])(a, b, to)
        return
    fits = n >= _FEWEST_ROWS and k % _LANES == 0 and _has_gapless_rows(b, to)
    if fits and _is_for_us(n, k, m, a.dtype, "panel_multiplier"):
        _multiply_packed(a, b, to, PACKED | TURNED)
    else:
        _into(to, a, b.T)


def _are_few_rows(a: Array, b: Array, to: Array) -> bool:
    """Return whether few_rows.py computes a @ b.T faster than a BLAS."""
    n, m = len(a), len(b)
    if not 1 < n < _FEWEST_ROWS or m < _FEWEST_COLUMNS or a.dtype.char not in _NAMES:
        return False
    cost = a.size * m
    if cost < LEAST_OF_FEW_ROWS or not _has_wide_vectors():
        return False
    if not (a.flags.c_contiguous and b.flags.c_contiguous and to.flags.c_contiguous):
        return False
    if _numpys_turn()(_few_rows, _NAMES[a.dtype.char]):
        return False
    return cost <= _MOST_BESIDE_THREADS or _launch().get_num_threads() == 1


def _few_rows(dtype: str) -> Callable[[Array, Array, Array], None]:
    from ..jit.kernel_cache import find_function

    return find_function("linalg.few_rows", "multiplier", dtype)


# Note [Products of one thread]
# The order in which a BLAS adds depends on its number of threads. This number is one setting for
# the whole process, and cannot be changed for the calling threads alone. So kernels that divide
# work among threads, and whose results must not depend on the number of threads, use panels only.
# If the last columns do not fill a vector, they are computed on a copy padded with zeros.


def compile_alone(dtype: str) -> None:
    """Compile the kernels that the functions below run, for float32 or float64."""
    for kernel in ("multiplier", "panel_multiplier"):
        _compiled(kernel, dtype)


def multiply_alone(a: Array, b: Array, to: Array, *, adds: bool = False) -> None:
    """Write a @ b, of matrices of float32 or float64, into `to`; if `adds`, add a @ b to the values
    in `to`. The product runs on the calling thread, with the same bits for any number of threads.
    Rows of `to` are contiguous.
    """
    require_arrays(a, b, to)
    (n, k), m = a.shape, b.shape[1]
    if not k:
        if not adds:
            to.fill(0)
        return
    dtype = _NAMES[a.dtype.char]
    run, lanes = _compiled("multiplier", dtype), tiling(dtype).lanes
    whole = m - m % lanes
    if whole:
        if b.strides[1] != b.itemsize:
            b = np.ascontiguousarray(b)
        # Slicing an array in Python takes longer than multiplying 16 x 16 by 16 x 16.
        part, some = (b, to) if whole == m else (b[:, :whole], to[:, :whole])
        if n < MANY_ROWS:
            run(id(a), id(part), id(some), adds)
        else:
            room = np.empty(2 * lanes * k, a.dtype)
            way = PACKED | ADDS if adds else PACKED
            _compiled("panel_multiplier", dtype)(id(a), id(part), id(some), id(room), way)
    if whole < m:
        end, made = np.zeros((k, lanes), a.dtype), np.zeros((n, lanes), a.dtype)
        end[:, : m - whole] = b[:, whole:]
        if adds:
            made[:, : m - whole] = to[:, whole:]
        run(id(a), id(end), id(made), adds)
        to[:, whole:] = made[:, : m - whole]


class Laid(NamedTuple):
    """A matrix packed in panels. `panels` has the shape of the matrix, with more columns of zeros
    up to a multiple of the lanes of a vector.
    """

    panels: Array


def lay(b: Array, *, turned: bool = False) -> Laid:
    """Return b, or b.T if turned, packed in panels once, for many products."""
    require_arrays(b)
    dtype = _NAMES[b.dtype.char]
    k, m = b.shape[::-1] if turned else b.shape
    lanes = tiling(dtype).lanes
    columns = -(-m // lanes) * lanes
    laid = Laid(np.empty((k, columns), b.dtype))
    fits = columns == m and b.strides[1] == b.itemsize and not (turned and k % lanes)
    if not fits:
        whole = np.zeros((k, columns), b.dtype)
        whole[:, :m] = b.T if turned else b
        b, turned = whole, False
    if k:
        way = LAYING | TURNED if turned else LAYING
        _compiled("panel_multiplier", dtype)(id(b), id(b), id(laid.panels), 0, way)
    return laid


def multiply_laid_alone(a: Array, laid: Laid, to: Array) -> None:
    """Write a @ b into `to`, as multiply_alone does. b consists of the first rows and columns of
    the packed matrix `laid`.
    """
    require_arrays(a, laid.panels, to)
    b = laid.panels
    n, m = to.shape
    if not len(b):
        to.fill(0)
        return
    dtype = _NAMES[a.dtype.char]
    run, lanes = _compiled("panel_multiplier", dtype), tiling(dtype).lanes
    whole = m - m % lanes
    if whole:
        some = to if whole == m else to[:, :whole]
        run(id(a), id(b), id(some), 0, LAID)
    if whole < m:
        made = np.empty((n, lanes), a.dtype)
        run(id(a), id(b), id(made), whole, LAID)
        to[:, whole:] = made[:, : m - whole]


def product(a: Array, b: Array) -> Array:
    """Return a @ b of matrices of one dtype."""
    out = np.empty((len(a), b.shape[1]), a.dtype)
    multiply(a, b, out)
    return out


@silent
def _into(out: Array, a: Array, b: Array) -> None:
    # np.dot takes 300 ns less than np.matmul, but needs contiguous memory.
    (np.dot if out.flags.c_contiguous else np.matmul)(a, b, out)


def _has_gapless_rows(b: Array, out: Array) -> bool:
    return b.strides[1] == out.strides[1] == b.itemsize


def _multiply_packed(a: Array, b: Array, out: Array, way: int) -> None:
    room = np.empty(2 * _LANES * a.shape[1], np.float32)
    _compiled("panel_multiplier", "float32")(id(a), id(b), id(out), id(room), way)


@silent
def matmul(x: Array, y: Array, out: Array) -> None:
    """Write x @ y into out; batch axes broadcast. Shapes (..., n, k), (..., k, m) -> (..., n, m),
    one dtype.
    """
    if x.ndim == y.ndim == 2:
        multiply(x, y, out)
    else:
        np.matmul(x, y, out=out)


def by_first(g: Array, y: Array, out: Array) -> None:
    """Write g @ y.T, the gradient of x @ y by x, into out. Shapes (n, m), (k, m) -> (n, k)."""
    linear(g, y, None, out)


def by_second(g: Array, x: Array, out: Array) -> None:
    """Write x.T @ g, the gradient of x @ y by y, into out. Shapes (n, m), (n, k) -> (k, m)."""
    matmul(x.T, g, out)


def by_weight(g: Array, x: Array, out: Array) -> None:
    """Write g.T @ x, the gradient of linear by the weight, into out.

    Shapes (n, m), (n, k) -> (m, k).
    """
    matmul(g.T, x, out)


@silent
def linear(x: Array, weight: Array, bias: Array | None, out: Array) -> None:
    """Write x @ weight.T + bias into out. Shapes (n, k), (m, k), (m,) -> (n, m), one dtype."""
    if x.size * len(weight) >= LEAST_OF_FEW_ROWS:
        multiply_turned(x, weight, out)
    else:
        np.dot(x, weight.T, out=out)
    if bias is not None:
        np.add(out, bias, out=out)
