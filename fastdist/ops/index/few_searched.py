"""searchsorted, bucketize and bincount of few numbers on the CPU, by NumPy's functions.

NumPy's functions take 0.4 us; the checks, casts and copies of the general functions take 3 us more.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...core.dtypes import float32, float64, int8, int16, int32, int64, uint8
from ...core.torch_function import NOT_TAKEN
from ...tensor.tensor import Tensor, wrap
from ..create.quick import kept_layout
from ..unrecorded_rows import plain_layout

_FEW: Final = 1024
_INTEGERS: Final = frozenset({int8, int16, int32, int64, uint8})
_ORDERED: Final = _INTEGERS | {float32, float64}
# A result of this length or more is left to the general function.
_LONG: Final = 1 << 20


def searchsorted_of_few(
    sorted_sequence: Tensor, input: Tensor, *, out_int32: bool = False, right: bool = False
) -> Any:
    """Return the position of each of few numbers in one sorted row that does not contain NaN, or
    NOT_TAKEN for other calls.
    """
    row, few = plain_layout(sorted_sequence), plain_layout(input)
    if row is None or few is None or out_int32 or row.dtype is not few.dtype:
        return NOT_TAKEN
    if len(row.shape) != 1 or not row.numel or not row.contiguous or row.dtype not in _ORDERED:
        return NOT_TAKEN
    last = sorted_sequence._array.item(-1)
    if last != last or not few.shape or few.numel > _FEW:
        return NOT_TAKEN
    found = sorted_sequence._array.searchsorted(input._array, "right" if right else "left")
    return wrap(found, kept_layout(int64, few.shape))


def bucketize_of_few(
    input: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Any:
    """Return the same as searchsorted_of_few(boundaries, input)."""
    return searchsorted_of_few(boundaries, input, out_int32=out_int32, right=right)


def bincount_of_few(input: Tensor, weights: None = None, minlength: int = 0) -> Any:
    """Return how often each of few integers occurs, or NOT_TAKEN for other calls."""
    layout = plain_layout(input)
    if layout is None or weights is not None or layout.dtype not in _INTEGERS:
        return NOT_TAKEN
    if len(layout.shape) != 1 or not 0 < layout.numel <= _FEW:
        return NOT_TAKEN
    if minlength.__class__ is not int or not 0 <= minlength < _LONG:
        return NOT_TAKEN
    # A copy, because NumPy relies on two reads of a number being equal. As an unsigned number, a
    # negative one is large too.
    own = input._array.astype(np.int64)
    unsigned = own.view(np.uint64)
    if unsigned.item(unsigned.argmax()) >= _LONG:
        return NOT_TAKEN
    found = np.bincount(own, None, minlength)
    return wrap(found, kept_layout(int64, found.shape))
