"""Indices of the triangular parts of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.device import Device
from ...core.dtypes import DType, dtype_of, int64
from ...core.errors import ShapeError
from ...core.overflow_checks import require_countable
from ...dispatch.composite import composite
from ...tensor.methods import DeviceLike
from ...tensor.tensor import Tensor
from ..create.allocation import elsewhere, finish
from ..create.ranges import arange
from ..shape.joining import stack
from .searchsorted import searchsorted


def _triangle(
    name: str, row: int, col: int, offset: int, dtype: DType, device: DeviceLike, *, upper: bool
) -> Tensor:
    for what, n in (("row", row), ("col", col)):
        if n < 0:
            raise ShapeError(f"{what} must be non-negative, got{n}: {name}({row}, {col})")
        require_countable(n)
    wanted, where = dtype_of(dtype), elsewhere(device)
    if where is None:
        make = np.triu_indices if upper else np.tril_indices
        return finish(np.stack(make(row, offset, col)).astype(wanted.numpy), device, False)
    return _triangle_of_device(row, col, offset, where, upper=upper).to(wanted)


def _triangle_of_device(row: int, col: int, offset: int, where: Device, *, upper: bool) -> Tensor:
    """Return the rows and columns of the triangle as int64, computed on a device from the number of
    the triangle's columns in each row.
    """
    rows: Any = arange(row, device=where)
    lengths = (col - offset - rows if upper else rows + (offset + 1)).clamp(0, col)
    ends = lengths.cumsum(0)
    counted = np.arange(row)
    total = int(np.clip(col - offset - counted if upper else counted + offset + 1, 0, col).sum())
    numbers: Any = arange(total, device=where)
    found: Any = searchsorted(ends, numbers, right=True)
    begins = ends - lengths
    columns = numbers - begins.index_select(0, found)
    if upper:
        columns = columns + (col - lengths).index_select(0, found)
    return stack([found, columns])


@composite(homes="function")
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType = int64, device: DeviceLike = None
) -> Tensor:
    """Return the rows and columns of a matrix's elements on and below a diagonal, row by row."""
    return _triangle("tril_indices", row, col, offset, dtype, device, upper=False)


@composite(homes="function")
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType = int64, device: DeviceLike = None
) -> Tensor:
    """Return the rows and columns of a matrix's elements on and above a diagonal, row by row."""
    return _triangle("triu_indices", row, col, offset, dtype, device, upper=True)
