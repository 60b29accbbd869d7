"""What kernels compute in: of half types float32, and what they write is rounded once.

Kernels that compute never see a half type: they are given float32 copies. Those that only move
elements are given the elements as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fastdist.core.dtypes import WIDE

from .silence import silent

Array = Any

# Kernels that move elements of any dtype, or cast them, and compute nothing.
_MOVES: Final = frozenset(
    {f"copying.{name}" for name in ("cast", "cat", "flip", "place", "place_diagonal", "roll")}
    | {f"indexing.{name}" for name in ("gather", "put_zeros", "scatter", "scatter_zeros")}
    | {"copying.triangle", "indexing.select", "indexing.take", "windows.pick"}
)


def in_float32(name: str, kernel: Callable[..., None], reads: int) -> Callable[..., None]:
    """Return kernel for arrays among which are some of half types; `reads` is how many of its first
    arguments it only reads.

    Note    what it writes may be added to, so its copies begin as what stands there
    """
    if name in _MOVES:
        return kernel
    wide_of = WIDE

    def run(*arguments: Any) -> None:
        wide, written = list(arguments), []
        for i, array in enumerate(arguments):
            if isinstance(array, np.ndarray) and array.dtype in wide_of:
                copy = wide[i] = array.astype(wide_of[array.dtype])
                if i >= reads:
                    written.append((array, copy))
        kernel(*wide)
        for array, copy in written:
            np.copyto(array, copy, casting="unsafe")

    return silent(run)


def is_half(dtypes: Sequence[Any]) -> bool:
    """Return whether there is a half type among dtypes."""
    return not WIDE.keys().isdisjoint(dtypes)


@silent
def run_wide(
    compute: Callable[[Sequence[Array], Array], None], arrays: Sequence[Array], to: Array
) -> None:
    """Do what compute does, which sees float32 in place of half types."""
    wide = [array.astype(WIDE[array.dtype]) if array.dtype in WIDE else array for array in arrays]
    if to.dtype not in WIDE:
        compute(wide, to)
        return
    result = np.empty(to.shape, WIDE[to.dtype])
    compute(wide, result)
    np.copyto(to, result, casting="unsafe")
