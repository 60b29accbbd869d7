"""Kernels written out for small arrays: what is known beforehand is looked at once, not per call.

On 64 numbers a kernel's time is that of NumPy's calls, 0.2 to 1.5 us each, and of asking what is
given. So each function here takes the Facts of a call (shapes, dtype, numbers) and returns a
function of raw arrays that makes the result with the fewest and cheapest calls, or None where the
ordinary kernel shall do. Facts alone decide, so that a result does not depend on what ran before.

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

from .silence import silent

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Run = Callable[..., Any]

# Up to so many elements these kernels are used, and up to so many terms a sum may be a product with
# ones: it adds one after the other, beyond this np.add.reduce's pairwise order is more exact.
LIMIT: Final = 4096
TERMS: Final = 1024
_FLOATING: Final = (np.dtype(np.float32), np.dtype(np.float64))


class Facts(NamedTuple):
    """What is known of a call: of each input (None where it is not given), of the results, and the
    numbers that the kernel takes. `seen_as` is the shape under which the results are seen.
    """

    shapes: tuple[Shape | None, ...]
    dtypes: tuple[Any, ...]
    contiguous: tuple[bool, ...]
    shape: Shape
    dtype: Any
    numbers: tuple[Any, ...]
    seen_as: Shape | None

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


Maker = Callable[[Facts], Run | None]
KERNELS: dict[str, Maker] = {}
GRADIENTS: dict[str, Callable[[Facts], tuple[Run | None, ...] | None]] = {}


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
