"""Kernels for small arrays, which make their choices once per layout instead of at each call.

For 64 numbers, a kernel's time is the time of NumPy's calls, 0.2 to 1.5 us each, and of checking
the arguments. So each function here takes the CallFacts of a call (shapes, dtypes, numbers). It
returns a function of raw arrays that computes the result with the fewest and cheapest calls, or
None if the ordinary kernel must be used. Only CallFacts decide, so that a result does not depend on
earlier calls.

Times for 8x8 float32, one core of an AMD EPYC (Zen 4), NumPy 2.4, in ns: add 490 (with a broadcast
row 880), exp 290, np.add.reduce along an axis 1520 (with `out` 890), the same sums as a product
with ones 310, np.maximum.reduce 1240, argmax 190, x[integers] 80 for a vector, 1540 for a matrix.
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

# These kernels serve up to LIMIT elements, and a sum over up to TERMS terms may be a product with
# ones. For more terms, np.add.reduce's pairwise order is more accurate.
LIMIT: Final = 4096
TERMS: Final = 1024
# A product of a matrix with ones adds in sequence, or in a few partial sums. For a thousand equal
# numbers, the relative error is 2e-6 for a row, and 1e-5 for few columns. If such products add at
# most _ROW numbers of a row, or _COLUMN numbers of a column, the errors are 3e-7 and 6e-7.
_ROW: Final = 128
_COLUMN: Final = 64
_FLOATING: Final = (np.dtype(np.float32), np.dtype(np.float64))


class CallFacts(NamedTuple):
    """The facts of a call: shapes and dtypes of the inputs (None for a missing input) and of the
    result, and the numbers that the kernel takes. `view_shape` is the shape in which the caller
    gets the result.
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
        """Whether the first input fits most functions here: few float32 or float64 numbers, at
        least one, in C order.
        """
        first = self.shapes[0]
        return (
            first is not None
            and self.contiguous[0]
            and self.dtypes[0] in _FLOATING
            and 0 < math.prod(first) <= LIMIT
        )

    @property
    def few(self) -> bool:
        """Whether the first input has few integers, or float32 or float64 numbers, at least one, in
        C order.
        """
        first, dtype = self.shapes[0], self.dtypes[0]
        is_whole = dtype is not None and dtype.kind in "iu"
        return self.small or (
            is_whole and self.contiguous[0] and first is not None and 0 < math.prod(first) <= LIMIT
        )

    @property
    def one_dtype(self) -> bool:
        """Whether inputs and result have one floating dtype that BLAS supports."""
        given = {dtype for dtype in self.dtypes if dtype is not None}
        return given == {self.dtype} and self.dtype in _FLOATING


Maker = Callable[[CallFacts], Run | None]
KERNELS: dict[str, Maker] = {}
GRADIENTS: dict[str, Callable[[CallFacts], tuple[Run | None, ...] | None]] = {}


def small(*names: str) -> Callable[[Maker], Maker]:
    """Register a maker of functions that replace the kernels of these names for small arrays."""

    def register(maker: Maker) -> Maker:
        made = silent(maker)  # the functions that it makes are silent, too
        KERNELS.update(dict.fromkeys(names, made))
        return made

    return register


def gradients(*names: str) -> Callable[[Any], Any]:
    """Register the maker of the functions that compute the gradients by the inputs, for the kernels
    with these names.

    Each function takes g, and then the arrays that the vjps need: `out`, other results, inputs.
    """

    def register(maker: Any) -> Any:
        made = silent(maker)
        GRADIENTS.update(dict.fromkeys(names, made))
        return made

    return register


@lru_cache(maxsize=256)
def ones(count: int, dtype: Any) -> Array:
    """Return an array of ones; it must not be changed."""
    made = np.ones(count, dtype)
    made.flags.writeable = False
    return made


@silent
def adder_of_rows(n: int, dtype: Any) -> Run:
    """Return the function that sums rows of n numbers, of a matrix in C order.

    Note    np.vecdot uses many partial sums, and takes 200 to 500 ns more for so few rows
    """
    one, inner = ones(n, dtype), np.vecdot
    return (lambda x: x.dot(one)) if n <= _ROW else lambda x: inner(x, one)


@lru_cache(maxsize=256)
@silent
def adder_of_columns(n: int, columns: int, dtype: Any) -> Run:
    """Return the function that sums columns of n numbers, of a matrix in C order. If there are too
    many terms to add in sequence, the function first adds parts that are far apart.
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
    """Return the function that sums over the middle axis of an array that can be viewed as (before,
    n, after) in C order. Products with ones sum 64 terms each; their results are summed in the same
    way.

    Note    2 to 12 times as fast as NumPy, which adds `after` numbers at a time: 18 x 466 x 33
            float32 take 35 us instead of 158 us, and 2 x 510 x 3 take 9 us instead of 17 (AMD EPYC,
            Zen 4). If `after` is below 128, no product is so large that BLAS divides it among
            threads
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
    """Return value as a 0-d array, which ufuncs accept in half the time of a Python number."""
    made = np.asarray(value, dtype)
    made.flags.writeable = False
    return made


@lru_cache(maxsize=256)
def row_starts(rows: int, length: int) -> Array:
    """Return the offsets of the rows in a flattened matrix."""
    made = np.arange(0, rows * length, length) if length else np.zeros(rows, np.int64)
    made.flags.writeable = False
    return made
