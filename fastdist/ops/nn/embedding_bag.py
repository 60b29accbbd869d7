"""Embedding bags: rows looked up by index, reduced to one row for each bag."""

from __future__ import annotations

import math
from typing import Any, NamedTuple
from warnings import warn

import numpy as np

from ...core.dtypes import WORDS, int32, int64
from ...core.errors import DTypeError, ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...interpreters.batched_tensor import Batched, max_over_batch, unbatched
from ...tensor.tensor import Tensor
from ..create.creation import full, tensor, zeros
from ..create.ranges import arange
from ..index.indexing import require_index, select_slices
from ..index.searchsorted import searchsorted
from ..saved_indices import keep_version
from ..shape.joining import cat
from ..shape.splitting import narrow
from .embedding import bound_norms, divide_gradient, frequency, has_gradient, sparse_rows


@composite(homes="functional", node="_embedding_bag")
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, mean or max of the rows of weight that each bag of indices selects.

    Shape   (bags, n), (m, d) -> (bags, d); or (n), (m, d), with offsets (bags) that hold the index
            at which each bag begins. With include_last_offset, the last offset is the end of the
            last bag
    Note    entries equal to padding_idx are skipped, and an empty bag gives zeros;
            per_sample_weights are factors of the rows, for mode "sum"; max_norm and
            scale_grad_by_freq have the same meaning as in embedding
    """
    if _numbers_rows(weight) and isinstance(input, Tensor) and not _numbers_rows(input):
        warn(
            "embedding_bag(weight, input, ...) is the old order of arguments: call "
            "embedding_bag(input, weight, ...), with the indices first",
            stacklevel=3,
        )
        input, weight = weight, input
    _require_fitting(input, weight, offsets, per_sample_weights)
    _require_mode(mode, scale_grad_by_freq, per_sample_weights, sparse)
    padding = _padding_of(padding_idx, weight._layout.shape[0])
    bags = _bags_of(input, offsets, include_last_offset)
    places: Any = input.reshape(-1)
    if max_norm is not None:
        bound_norms(weight, places, max_norm, norm_type)
    if sparse and has_gradient(weight):
        rows = sparse_rows(weight, places, padding)
    else:
        rows = select_slices(weight, places, 0)
    if scale_grad_by_freq:
        divide_gradient(rows, frequency(places, weight))
    counted = None if padding is None else (places != padding).unsqueeze(-1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1).unsqueeze(-1)
    return keep_version(_joined(mode, rows, bags, counted), offsets)


def _joined(mode: str, rows: Tensor, bags: _Bags, counted: Tensor | None) -> Any:
    """Return the sum, mean or max of the rows of each bag; `counted` marks the rows to include."""
    if mode == "max":
        return _greatest(rows, bags, counted)
    if counted is not None:
        rows = rows.masked_fill(counted.logical_not(), 0.0)
    total = _sums(rows, bags)
    if mode == "sum":
        return total
    return total / _sizes(rows, bags, counted).clamp_min(1)


def _numbers_rows(given: object) -> bool:
    return isinstance(given, Tensor) and not given._layout.dtype.is_floating_point


class _Bags(NamedTuple):
    """For each entry, the number of its bag (`of_entry`) and the entry's position in that bag
    (`place`). There are `number` bags, of at most `longest` entries.
    """

    number: int
    longest: int
    of_entry: Any
    place: Any


def _bags_of(input: Tensor, offsets: Tensor | None, include_last: bool) -> _Bags:
    device = input._layout.device
    if offsets is None:
        count, n = input._layout.shape
        entries: Any = arange(count * n, dtype=int64, device=device)
        each = max(n, 1)
        return _Bags(count, n, entries.div(each, rounding_mode="floor"), entries % each)
    n, count = input._layout.shape[0], offsets._layout.shape[0]
    # A copy, so that other threads cannot change the values between the check and their use.
    starts = unbatched(offsets).to_numpy().astype(np.int64)
    _require_rising(starts, n, include_last)
    if offsets.__class__ is Batched and count:
        return _bags_of_each(offsets.to(int64), n, count - bool(include_last))
    # Entries after the last bag are put into an additional bag, whose result is dropped.
    lengths = np.diff(np.append(starts, n)) if count else np.array([n])
    of_entry = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(n) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    numbers = [tensor(one, dtype=int64, device=device) for one in (of_entry, place)]
    return _Bags(count - bool(include_last), int(lengths.max(initial=0)), *numbers)


def _bags_of_each(starts: Tensor, n: int, number: int) -> _Bags:
    """Return the bags for batched offsets, which may differ from call to call."""
    entries = arange(n, dtype=int64, device=starts._layout.device)
    of_entry: Any = searchsorted(starts, entries, right=True) - 1
    ends = cat([starts[1:], entries[-1:] + 1 if n else starts[:1]], 0)
    place = entries - select_slices(starts, of_entry, 0)
    return _Bags(number, max_over_batch((ends - starts).max()), of_entry, place)


def _require_rising(starts: np.ndarray[Any, Any], n: int, include_last: bool) -> None:
    """Raise RuntimeError unless each row of `starts` has valid offsets of bags for n entries."""
    if include_last and not starts.shape[-1]:
        raise ShapeError("include_last_offset: number of offset should be at least 1")
    if not starts.size:
        return
    first, last = starts[..., 0].max(), starts[..., -1].max()
    if (starts[..., 0] != 0).any():
        raise ShapeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {first}"
        )
    if last > n:
        raise ShapeError(
            f"offsets[-1] can not be greater than input's length {n} but got offsets[-1] of {last}"
        )
    if (starts[..., 1:] < starts[..., :-1]).any():
        raise ShapeError(
            f"offsets has to rise: bags would overlap in {short_repr(starts.tolist())}"
        )


def _sums(rows: Tensor, bags: _Bags) -> Any:
    layout = rows._layout
    shape = (bags.number + 1, *layout.shape[1:])
    found = zeros(shape, dtype=layout.dtype, device=layout.device).index_add(0, bags.of_entry, rows)
    return narrow(found, 0, 0, bags.number)


def _sizes(rows: Tensor, bags: _Bags, counted: Tensor | None) -> Any:
    """Return the number of included entries of each bag, with an additional last axis of
    length 1.
    """
    layout = rows._layout
    if counted is None:
        shape = (layout.shape[0], 1)
        each = full(shape, 1.0, dtype=layout.dtype, device=layout.device)
    else:
        each = counted.to(layout.dtype)
    return _sums(each, bags)


def _greatest(rows: Tensor, bags: _Bags, counted: Tensor | None) -> Any:
    """Return the maximum of each bag, or zeros for an empty bag. The gradient of a maximum goes to
    one element of the bag.
    """
    layout = rows._layout
    if not layout.shape[0]:
        return _sums(rows, bags)
    if counted is not None:
        rows = rows.masked_fill(counted.logical_not(), -math.inf)
    count, longest, width = bags.number + 1, max(bags.longest, 1), layout.shape[1]
    beside = full((count * longest, width), -math.inf, dtype=layout.dtype, device=layout.device)
    places = bags.of_entry * longest + bags.place
    found = beside.index_copy(0, places, rows).reshape(count, longest, width).max(1)[0]
    is_empty = _sizes(rows, bags, counted) == 0
    return narrow(found, 0, 0, bags.number).masked_fill(is_empty, 0.0)


def _require_mode(mode: str, by_frequency: bool, factors: Tensor | None, sparse: bool) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and by_frequency:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if factors is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Multiply the rows of embedding instead"
        )


def _require_fitting(input: Any, weight: Any, offsets: Any, factors: Any) -> None:
    if factors is not None and factors._layout.shape != input._layout.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({factors.shape}) is not None, then it must "
            f"have the same shape as the input ({input.shape})"
        )
    if offsets is not None and offsets.dtype not in (int32, int64):
        raise DTypeError(
            "Expected tensor for argument #1 'offsets' to have one of the following scalar types: "
            f"Long, Int; but got {WORDS[offsets.dtype]}: cast it with .long()"
        )
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
            f"fixed length sequences. However, found offsets of type {type(offsets)}"
        )
    if input.dim() == 1 and offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if input.dim() == 1 and offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if input.dim() not in (1, 2):
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    require_index("embedding_bag", input)
    if factors is not None and factors._layout.dtype is not weight._layout.dtype:
        raise DTypeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument "
            f"#1 'per_sample_weights'; but type {weight._layout.dtype.name} does not equal "
            f"{factors._layout.dtype.name}"
        )


def _padding_of(padding_idx: int | None, n: int) -> int | None:
    if padding_idx is None:
        return None
    if not -n <= padding_idx < n:
        raise ShapeError(
            f"padding_idx must be within the number of embeddings, {-n} through {n - 1}, but got "
            f"{padding_idx}"
        )
    return padding_idx % n
