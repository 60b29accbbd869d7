"""Softmax of sparse tensors, over the entries that differ only in one coordinate."""

from __future__ import annotations

import math
from typing import Any

from ...core.dtypes import int64
from ...core.errors import DTypeError
from ...tensor.axes import normalize_axis
from ...tensor.tensor import Tensor
from ..create.creation import full, zeros
from ..create.ranges import arange
from .conversion import coalesce, sparse_of, values
from .coordinates import Grouped, flat_places, indices_of


def normalized(input: Tensor, dim: int, is_log: bool) -> Tensor:
    """Return the softmax of the entries along an axis, or if is_log is true, its logarithm.
    Elements without an entry count as -inf.

    Raises  TypeError for a dtype that is not floating
    """
    shape = input._layout.shape
    axis = normalize_axis("softmax", dim, len(shape))
    if not input._layout.dtype.is_floating_point:
        raise DTypeError(f"softmax: expected a floating dtype, got {input._layout.dtype.name}")
    whole = coalesce(input)
    places, own = indices_of(whole), values(whole)
    axes = places._layout.shape[0]
    if axis >= axes:
        inner = axis - axes + 1
        made = own.log_softmax(inner) if is_log else own.softmax(inner)
    elif not own._layout.numel:
        made = own
    else:
        made = _by_line(own, *_lines(places, shape[:axes], axis), is_log)
    return sparse_of(places, made, shape, is_coalesced=True)


def _lines(places: Tensor, lengths: tuple[int, ...], axis: int) -> tuple[Any, int]:
    """Return for each entry the index of its line, and the number of lines. A line consists of the
    elements that differ only in their index along axis.
    """
    others = [one for one in range(len(lengths)) if one != axis]
    n, device = places._layout.shape[1], places._layout.device
    if not others:
        return zeros(n, dtype=int64, device=device), 1
    across = tuple([lengths[one] for one in others])
    grouped = Grouped(flat_places(places[others], across), math.prod(across))
    count = grouped.starts._layout.shape[0] - 1
    counts = grouped.starts[1:] - grouped.starts[:-1]
    number: Any = arange(count, dtype=int64, device=device)
    line: Any = zeros(n, dtype=int64, device=device)
    line[grouped.order] = number.repeat_interleave(counts)
    return line, count


def _by_line(own: Tensor, line: Tensor, count: int, is_log: bool) -> Any:
    layout = own._layout
    rest = layout.shape[1:]
    least: Any = full((count, *rest), -math.inf, dtype=layout.dtype, device=layout.device)
    index = line.reshape(-1, *[1] * len(rest)).expand(layout.shape)
    top = least.scatter_reduce(0, index, own.detach(), "amax")
    moved = own - top.index_select(0, line)
    raised = moved.exp()
    nothing: Any = zeros((count, *rest), dtype=layout.dtype, device=layout.device)
    sums = nothing.index_add(0, line, raised)
    if is_log:
        return moved - sums.log().index_select(0, line)
    return raised / sums.index_select(0, line)
