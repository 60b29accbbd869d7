"""Where numbers belong among others, and how often each occurs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dtypes import bool_, float32, float64, int32, int64
from ..core.errors import DTypeError, ShapeError
from ..dispatch.composite import composite
from ..tensor.tensor import Tensor, from_array
from .refusals import refuse_complex


@composite(method=False, takes_out=True)
def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return where input goes in the ordered rows of sorted_sequence, before what equals it, or
    (right, or side="right") behind; waits for a device.

    Shape   (n,), (...) -> (...); or (..., n), (..., m) -> (..., m), row by row
    """
    refuse_complex("searchsorted_out_cpu", sorted_sequence)
    if isinstance(input, Tensor):
        refuse_complex("searchsorted_out_cpu", input)
    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True"
        )
    rows = sorted_sequence.to_numpy()
    values = input.to_numpy() if isinstance(input, Tensor) else np.asarray(input)
    if not isinstance(input, Tensor) and values.dtype.kind not in "biuf":
        raise TypeError(
            "searchsorted(): argument 'input' must be a Tensor or a number, not "
            f"{type(input).__name__} {input!r}"
        )
    _require_rows(rows.shape, values.shape)
    if sorter is not None:
        rows = _ordered(rows, sorter)
    where: Any = "right" if right or side == "right" else "left"
    dtype = int32 if out_int32 else int64
    found = np.empty(values.shape, dtype.numpy)
    if rows.ndim == 1:
        found[...] = np.searchsorted(rows, values, where)
    else:
        for row in np.ndindex(rows.shape[:-1]):
            found[row] = np.searchsorted(rows[row], values[row], where)
    return from_array(found).to(sorted_sequence.facts.device)


def _require_rows(rows: tuple[int, ...], values: tuple[int, ...]) -> None:
    """Raise if values cannot be looked up in rows.

    Raises  RuntimeError
    """
    if not values and len(rows) != 1:
        raise ShapeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
            f"dimension is 1, but we got boundaries tensor dim({len(rows)}); give a vector"
        )
    if not rows or (len(rows) > 1 and rows[:-1] != values[:-1]):
        raise ShapeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            "dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries tensor {list(rows)} and input value tensor {list(values)}"
        )


def _ordered(rows: np.ndarray[Any, Any], sorter: Tensor) -> np.ndarray[Any, Any]:
    places = sorter.to_numpy()
    if places.shape != rows.shape:
        raise ShapeError(
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
            f"tensor {list(rows.shape)} and got sorter tensor {list(places.shape)}"
        )
    if places.dtype != np.int64:
        raise DTypeError(
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
            f"{places.dtype.name}"
        )
    if places.size and not 0 <= places.min() <= places.max() < rows.shape[-1]:
        raise ShapeError("torch.searchsorted(): sorter index out of range")
    return np.take_along_axis(rows, places, -1)


@composite(method=False, takes_out=True)
def bucketize(
    input: Tensor | float, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Return between which boundaries each element of input lies."""
    if len(boundaries.facts.shape) != 1:
        raise ShapeError(
            f"boundaries tensor must be 1 dimension, but got dim({len(boundaries.facts.shape)})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@composite()
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Return how often each integer occurs, or the sum of its weights; waits for a device.

    Dtype   int64; with weights float32 if they are, else float64
    """
    layout = input.facts
    if layout.dtype is bool_:
        raise DTypeError("\"bincount_cpu\" not implemented for 'Bool'; cast with .long()")
    if layout.dtype.is_floating_point or len(layout.shape) != 1:
        raise DTypeError(
            "bincount only supports 1-d non-negative integral inputs.: got one of shape "
            f"{layout.shape} and dtype {layout.dtype.name}"
        )
    values = input.to_numpy()
    if values.size and values.min() < 0:
        raise ShapeError(
            f"bincount only supports 1-d non-negative integral inputs.: got {values.min()}"
        )
    if minlength < 0:
        raise ShapeError(f"minlength should be >= 0, got {minlength}")
    if weights is None:
        return from_array(np.bincount(values, minlength=minlength)).to(layout.device)
    if weights.facts.shape != layout.shape:
        raise ShapeError(
            "weights should be 1-d and have the same length as input, got shapes "
            f"{weights.facts.shape} and {layout.shape}"
        )
    dtype = float32 if weights.facts.dtype is float32 else float64
    found = np.bincount(values, weights.to_numpy(), minlength)
    return from_array(found.astype(dtype.numpy)).to(layout.device)
