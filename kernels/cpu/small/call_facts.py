"""Kernels written out for small arrays: what is known beforehand is looked at once, not per call.

On 64 numbers a kernel's time is that of NumPy's calls, 0.2 to 1.5 us each, and of asking what is
given. So each function here takes the CallFacts of a call (shapes, dtype, numbers) and returns a
function of raw arrays that makes the result with the fewest and cheapest calls, or None where the
ordinary kernel shall do. CallFacts alone decide, so that a result does not depend on what ran
before.

Costs on 8x8 float32, one core of an AMD EPYC (Zen 4), NumPy 2.4, in ns: add 490 (with a row to
broadcast 880), exp 290, np.add.reduce along an axis 1520 (with `out` 890), the same by a product
with ones 310, np.maximum.reduce 1240, argmax 190, x[integers] of a vector 80, of a matrix 1540.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from ..silence import silent

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Run = Callable[..., Any]

# Up to so many elements these kernels are used, and up to so many terms a sum may be a product with
# ones; beyond this np.add.reduce's pairwise order is more exact.
LIMIT: Final = 4096
TERMS: Final = 1024
# A product of a matrix with ones adds in turn, or in a few sums: for a thousand equal numbers the
# sum is off by 2e-6 of itself in a row, 1e-5 in one of few columns. With these sizes by 3e-7, 6e-7.
_ROW: Final = 128
_COLUMN: Final = 64
_FLOATING: Final = (np.dtype(np.float32), np.dtype(np.float64))


class CallFacts(NamedTuple):
    """The facts of a call: of each input (None for a missing one), of the results, and the numbers
    that the kernel takes. `view_shape` is the shape under which the results are seen.
    """

    shapes: tuple[Shape | None, ...]
    dtypes: tuple[Any, ...]
    contiguous: tuple[bool, ...]
    shape: Shape
    dtype: Any
    numbers: tuple[Any, ...]
    view_shape: Shape | None

    @property
    def small(self) -> bool:
        """Whether the first input is what most functions here are for: some floating numbers in C
        order, results of the same dtype.
        """
        first = self.shapes[0]
        return (
            first is not None
            and self.contiguous[0]
            and self.dtypes[0] in _FLOATING
            and 0 < math.prod(first) <= LIMIT
        )

    @property
    def one_dtype(self) -> bool:
        """Whether inputs and result have one dtype, a floating one that NumPy's BLAS knows."""
        given = {dtype for dtype in self.dtypes if dtype is not None}
        return given == {self.dtype} and self.dtype in _FLOATING


Maker = Callable[[CallFacts], Run | None]
KERNELS: dict[str, Maker] = {}
GRADIENTS: dict[str, Callable[[CallFacts], tuple[Run | None, ...] | None]] = {}


def small(*names: str) -> Callable[[Maker], Maker]:
    """Register the maker of functions that stand in for kernels of these names."""

    def register(maker: Maker) -> Maker:
        made = silent(maker)  # and so are the functions that it makes
        KERNELS.update(dict.fromkeys(names, made))
        return made

    return register


def gradients(*names: str) -> Callable[[Any], Any]:
    """Register the maker of the gradients by the inputs of kernels of these names.

    Each takes g, then of `out`, the other results and the inputs what the op's vjps ask for.
    """

    def register(maker: Any) -> Any:
        made = silent(maker)
        GRADIENTS.update(dict.fromkeys(names, made))
        return made

    return register


@lru_cache(maxsize=256)
def ones(count: int, dtype: Any) -> Array:
    """Return that many ones, which nobody may change."""
    made = np.ones(count, dtype)
    made.flags.writeable = False
    return made


@silent
def adder_of_rows(n: int, dtype: Any) -> Run:
    """Return the function that adds up rows of n numbers, of a matrix in C order.

    Note    np.vecdot adds in many sums at once, and takes 200 to 500 ns more for such few rows
    """
    one, inner = ones(n, dtype), np.vecdot
    return (lambda x: x.dot(one)) if n <= _ROW else lambda x: inner(x, one)


@lru_cache(maxsize=256)
@silent
def adder_of_columns(n: int, columns: int, dtype: Any) -> Run:
    """Return the function that adds up so many columns of n numbers, of a matrix in C order: in
    parts that lie far from each other, and then these, if there are too many to be added in turn.
    """
    if n <= _COLUMN:
        return ones(n, dtype).dot
    parts = [part for part in range(2, _COLUMN + 1) if n % part == 0 and n // part <= _COLUMN]
    part = parts[-1] if parts else math.isqrt(n)
    count, left = divmod(n, part)
    first, then, rest = ones(part, dtype), ones(count, dtype), (count, columns)
    seen = (part, count * columns)
    if not left:
        return lambda x: then.dot(first.dot(x.reshape(seen)).reshape(rest))
    head, last = n - left, ones(left, dtype)
    return lambda x: then.dot(first.dot(x[:head].reshape(seen)).reshape(rest)) + last.dot(x[head:])


@lru_cache(maxsize=256)
def adder_along(before: int, n: int, after: int, dtype: Any) -> Run:
    """Return the function that adds up the n in the middle of an array (before, n, after), in C
    order under any shape: by products of 64 with ones, whose results are added up in the same way.

    Note    2 to 12 times as fast as NumPy, which adds `after` at a time: 18 x 466 x 33 float32 take
            35 us in place of 158, 2 x 510 x 3 take 9 in place of 17 (AMD EPYC, Zen 4). With fewer
            than 128 in `after` no product is large enough for BLAS to share it among threads
    """
    up = adder_along(before, n // _COLUMN, after, dtype) if n > _COLUMN else None
    return _adder_in_parts(before, n, after, dtype, up)


@silent
def _adder_in_parts(before: int, n: int, after: int, dtype: Any, up: Run | None) -> Run:
    matmul, ndarray, whole = np.matmul, np.ndarray, (before, n, after)
    one = ones(min(n, _COLUMN), dtype)
    if up is None:
        return lambda x: matmul(one, x.reshape(whole))
    (count, left), row = divmod(n, _COLUMN), after * np.dtype(dtype).itemsize
    shape = (before, count, _COLUMN, after)
    steps = (n * row, _COLUMN * row, row, row // after)
    if not left:
        return lambda x: up(matmul(one, ndarray(shape, dtype, x, 0, steps)))
    last, start = ones(left, dtype), n - left

    def add(x: Any) -> Any:
        total = up(matmul(one, ndarray(shape, dtype, x, 0, steps)))
        total += matmul(last, x.reshape(whole)[:, start:])
        return total

    return add


@lru_cache(maxsize=256)
def number(value: float, dtype: Any) -> Array:
    """Return value as an array of no axes, which ufuncs take in half the time of Python's own."""
    made = np.asarray(value, dtype)
    made.flags.writeable = False
    return made


@lru_cache(maxsize=256)
def row_starts(rows: int, length: int) -> Array:
    """Return where the rows of a flattened matrix begin."""
    made = np.arange(0, rows * length, length) if length else np.zeros(rows, np.int64)
    made.flags.writeable = False
    return made
