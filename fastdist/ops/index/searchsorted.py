"""Positions in sorted values (searchsorted, bucketize), and counts of values (bincount)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...core.device import CPU
from ...core.dtypes import DType, bool_, float32, float64, from_numpy, int32, int64
from ...core.errors import DTypeError, ShapeError
from ...core.short_repr import short_repr
from ...devices.backend import backend_of
from ...dispatch.composite import composite, late
from ...dispatch.op import Op
from ...dispatch.structured import Plan, structured
from ...interpreters.batched_tensor import (
    level_of,
    levels,
    same_over_batch,
    unbatched,
    value_at,
)
from ...tensor.layout import Shape
from ...tensor.tensor import Tensor, from_array
from ..create.creation import full, ones, zeros
from ..refusals import refuse_complex

_FEW: Final = f"{__package__}.few_searched"
_LARGEST: Final = np.iinfo(np.int64).max


@structured("index.searching.sorted_places", homes="nowhere", known_as="searchsorted")
def sorted_places(input: Tensor, rows: Tensor, right: bool) -> Tensor:
    """Return the insertion indices of input in sorted rows. input and rows must be in C order and
    have the same dtype.
    """


@sorted_places.plan
def _(input: Tensor, rows: Tensor, right: bool) -> Plan:
    return Plan(input._layout.shape, int64, (right,))


@sorted_places.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    """Search in the rows of each call, or in one row for all calls."""
    size = levels.sizes[level - 1]
    input, rows = (value_at(one, level, size=size) for one in operands)
    if level_of(operands[1:]) < level and len(rows._layout.shape) == 2:
        return op.general((input.contiguous(), operands[1]), attributes)
    flat = input if len(rows._layout.shape) > 2 else input.reshape(size, operands[0]._layout.numel)
    return op.general((flat.contiguous(), rows.contiguous()), attributes).reshape(
        input._layout.shape
    )


@structured("index.searching.hits", homes="nowhere", known_as="nonzero")
def hits(input: Tensor, upto: Tensor, count: int) -> Tensor:
    """Return the `count` indices where input, a vector of bools, is true. `upto` holds the
    cumulative sums of input.
    """


@hits.plan
def _(input: Tensor, upto: Tensor, count: int) -> Plan:
    return Plan((count,), int64, ())


def places_that_hold(input: Tensor) -> Any:
    """Return the flat indices of the nonzero elements of input. On a GPU, this waits once, to get
    the number of these elements.
    """
    holds = input.detach().reshape(-1) != 0
    if not holds._layout.numel:
        return zeros(0, dtype=int64, device=input._layout.device)
    upto = holds.cumsum(0)
    return hits(holds, upto, int(upto[-1]))


def ends_of(input: Tensor) -> tuple[Any, Any]:
    """Return the smallest and the largest element of input, which must not be empty. On a GPU, this
    waits once.
    """
    from ..shape.joining import cat

    low, high = cat([input.min().reshape(1), input.max().reshape(1)], 0).tolist()
    return low, high


def find_outside(values: Any, least: int, most: int) -> int | None:
    """Return an element of values that is below least or above most, or None. For a batch, all
    calls are checked. Values on devices other than the CPU are not checked, because a check would
    wait for the device.
    """
    every = unbatched(values)
    if every._layout.device is not CPU or not every._layout.numel:
        return None
    low, high = ends_of(every)
    return low if low < least else high if high > most else None


@composite(homes="function", out="same", quick=late(_FEW, "searchsorted_of_few"))
def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return the indices at which input would be inserted to keep sorted_sequence sorted. NaN is
    inserted at the end.

    Shape   (n,), (...) -> (...); or (..., n), (..., m) -> (..., m), row by row
    Raises  RuntimeError if the leading axes differ, or sorted_sequence has no axes

    Args:
        sorted_sequence: Rows in ascending order.
        input: The values to insert: a tensor or a number.
        out_int32: Whether the result is int32 instead of int64.
        right: Whether to insert after equal elements.
        side: "left" or "right", instead of right; None: right decides.
        sorter: Indices that sort the rows of sorted_sequence; None if the rows are sorted.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor in the shape of input; its dtype is int64 or, with out_int32, int32.

    Example:
        >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
        tensor([1, 3])
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
    rows: Any = sorted_sequence.detach()
    values: Any = input.detach() if isinstance(input, Tensor) else _number(input, rows)
    _require_rows(rows._layout.shape, values._layout.shape)
    if sorter is not None:
        rows = _ordered(rows, sorter)
    kind = _common(rows._layout.dtype, values._layout.dtype)
    rows, values = (one.to(kind).contiguous() for one in (rows, values))
    found: Any = sorted_places(values, rows, right or side == "right")
    return found.to(int32) if out_int32 else found  # type: ignore[no-any-return]


def _number(value: Any, rows: Tensor) -> Tensor:
    """Return the number `value`, which is searched for, as a tensor on the device of rows."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim:
        raise TypeError(
            "searchsorted(): argument 'input' must be a Tensor or a number, not "
            f"{type(value).__name__} {short_repr(value)}"
        )
    return full((), array.item(), dtype=from_numpy(array.dtype), device=rows._layout.device)


def _common(one: DType, other: DType) -> DType:
    """Return a dtype that holds the values of both dtypes, by NumPy's promotion."""
    return one if one is other else from_numpy(np.result_type(one.numpy, other.numpy))


def _require_rows(rows: Shape, values: Shape) -> None:
    """Raise RuntimeError if values cannot be searched for in rows."""
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


def _ordered(rows: Any, sorter: Any) -> Any:
    """Return rows in the order of the indices in sorter, which are checked only on the CPU."""
    layout, places = rows._layout, sorter._layout
    if places.shape != layout.shape:
        raise ShapeError(
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
            f"tensor {list(layout.shape)} and got sorter tensor {list(places.shape)}"
        )
    if places.dtype is not int64:
        raise DTypeError(
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
            f"{places.dtype.name}"
        )
    if (wrong := find_outside(sorter, 0, layout.shape[-1] - 1)) is not None:
        raise ShapeError(f"torch.searchsorted(): sorter index out of range, got {wrong}")
    return rows.gather(-1, sorter)


@composite(homes="function", out="same", quick=late(_FEW, "bucketize_of_few"))
def bucketize(
    input: Tensor | float, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Return the index of the interval between boundaries that contains each element.

    Args:
        input: A tensor or a number.
        boundaries: A vector of numbers in ascending order.
        out_int32: Whether the result is int32 instead of int64.
        right: Whether an element equal to a boundary belongs to the interval after it.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.bucketize(torch.tensor([1, 4]), torch.tensor([2, 5]))
        tensor([0, 1])
    """
    if len(boundaries._layout.shape) != 1:
        raise ShapeError(
            f"boundaries tensor must be 1 dimension, but got dim({len(boundaries._layout.shape)})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@composite(quick=late(_FEW, "bincount_of_few"))
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Return how often each integer occurs or, with weights, the sum of weights of each integer. On
    a GPU, this waits for the largest integer, which determines the length of the result.

    Dtype   int64; with weights, float32 if the weights are float32, else float64
    Raises  NotImplementedError for complex weights, which would lose their imaginary part;
            RuntimeError if input is not a vector of non-negative integers

    Args:
        input: A vector of non-negative integers.
        weights: A weight for each element of input; all 1 if None.
        minlength: The minimal length of the result.

    Example:
        >>> torch.bincount(torch.tensor([0, 2, 2]))
        tensor([1, 0, 2])
    """
    layout = input._layout
    if layout.dtype is bool_:
        raise DTypeError("\"bincount_cpu\" not implemented for 'Bool'; cast with .long()")
    if layout.dtype.is_floating_point or len(layout.shape) != 1:
        raise DTypeError(
            "bincount only supports 1-d non-negative integral inputs.: got one of shape "
            f"{layout.shape} and dtype {layout.dtype.name}"
        )
    is_batch = level_of((input, weights)) > 0
    by_numpy = layout.device is CPU and not is_batch
    low, high = 0, -1
    if by_numpy and layout.numel:
        values = input.to_numpy()
        low, high = values.item(values.argmin()), values.item(values.argmax())
    elif (every := unbatched(input))._layout.numel:
        low, high = ends_of(every)
    if low < 0:
        raise ShapeError(f"bincount only supports 1-d non-negative integral inputs.: got {low}")
    # NumPy would add 1 to `high` without an overflow check, and write outside of an empty array.
    if high >= _LARGEST:
        raise ShapeError(
            f"maximum value of input overflowed, it should be < {_LARGEST} but got {high}"
        )
    if minlength < 0:
        raise ShapeError(f"minlength should be >= 0, got {minlength}")
    if weights is not None:
        refuse_complex("bincount", weights)
    if weights is not None and weights._layout.shape != layout.shape:
        raise ShapeError(
            "weights should be 1-d and have the same length as input, got shapes "
            f"{weights._layout.shape} and {layout.shape}"
        )
    if by_numpy:
        return _counted_on_cpu(input.to_numpy(), weights, minlength, high)
    if is_batch and layout.numel:
        high = same_over_batch("bincount", input.max().to(int64).clamp(min=minlength - 1) + 1) - 1
    how: Any = {"dtype": int64 if weights is None else float64, "device": layout.device}
    given = ones(layout.shape, **how) if weights is None else weights.detach().to(float64)
    places: Any = input.to(int64)
    found: Any = zeros(max(high + 1, minlength), **how).index_add(0, places, given)
    is_short = weights is not None and weights._layout.dtype is float32
    return found.to(float32) if is_short else found  # type: ignore[no-any-return]


# From this many elements on, a kernel counts instead of NumPy. The kernel checks each number while
# counting, and so needs no copy. But the kernel fills the whole result, whereas NumPy's result uses
# no memory for numbers that do not occur.
_MANY = 1 << 14


def _counted_on_cpu(
    values: np.ndarray[Any, Any], weights: Tensor | None, minlength: int, high: int
) -> Tensor:
    """Return how often each number in `values` (at most `high`) occurs, or the sums of weights.

    Note    NumPy gets a copy of the numbers, because it finds the largest number and then reads all
            numbers again, and another thread may change the numbers in between
    """
    if high == np.iinfo(np.int64).max:  # the length of NumPy's result would overflow
        raise ShapeError(f"bincount: {high} is too large to be counted")
    length = max(high + 1, minlength)
    dtype = int64 if weights is None else float32 if weights._layout.dtype is float32 else float64
    if values.size >= _MANY and length <= 4 * values.size:
        found = np.empty(length, np.int64 if weights is None else np.float64)
        given = np.ones((), found.dtype) if weights is None else weights.to_numpy()
        given = np.broadcast_to(given.astype(found.dtype, copy=False), values.shape)
        places = values if values.dtype == np.int64 else values.astype(np.int64)
        try:
            backend_of(CPU.type).kernel("index.indexing.scatter_zeros")(given, places, found, 0)
        except IndexError:
            raise ShapeError("bincount: a number was changed while they were counted") from None
    else:
        own = values.astype(np.int64)
        if own.size and (own.item(own.argmin()) < 0 or own.item(own.argmax()) > high):
            raise ShapeError("bincount: a number was changed while they were counted")
        found = np.bincount(own, None if weights is None else weights.to_numpy(), length)
    return from_array(found.astype(dtype.numpy, copy=False))
