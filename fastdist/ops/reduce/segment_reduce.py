"""`segment_reduce`: segments of an axis, each reduced to one element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.dtypes import WORDS
from ...core.errors import NoKernelError, ShapeError
from ...core.overflow_checks import repeat_each
from ...dispatch.composite import checked
from ...tensor.axes import normalize_axis
from ...tensor.tensor import Tensor, from_array
from ..create.creation import full
from ..saved_indices import keep_version

# PyTorch's name of a reduction -> its name in scatter_reduce, and the result for an empty segment.
_REDUCTIONS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", math.nan),
    "max": ("amax", -math.inf),
    "min": ("amin", math.inf),
    "prod": ("prod", 1.0),
}


@checked
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Return the sum, mean, max, min or prod of each segment of data along axis. If the boundaries
    of the segments are not on the CPU, the call waits for them.

    `lengths` holds the length of each segment. Alternatively, `offsets` holds the start of each
    segment, and the end of the last segment. `initial` is included in each reduction.

    Shape   (*lead, n, *rest) and lengths (*lead, k) or offsets (*lead, k + 1) -> (*lead, k, *rest);
            axis is the number of leading axes
    Raises  RuntimeError for lengths that do not add up to n (unless unsafe); NotImplementedError
            for data that is not floating, or lengths that are floating
    """
    layout = data._layout
    if indices is not None:
        raise NotImplementedError(
            "segment_reduce(): indices based reduction is not supported yet: give lengths"
        )
    word, empty = _REDUCTIONS.get(reduce, ("", 0.0))
    if not word:
        raise ShapeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}: the "
            "names here are sum, prod, mean, max and min"
        )
    if not layout.dtype.is_floating_point:
        name = WORDS[layout.dtype]
        raise NoKernelError(f"\"_segment_reduce_cpu\" not implemented for '{name}'")
    lead = normalize_axis("segment_reduce", axis, len(layout.shape))
    first, sizes = _stretches(lengths, offsets, lead, layout.shape[lead], unsafe)
    count = sizes.shape[-1]
    rows = math.prod(layout.shape[:lead])
    rest = math.prod(layout.shape[lead + 1 :])
    # Element i of row r belongs to the result with the index r * count + (number of its segment).
    flat = sizes.reshape(-1)
    places = repeat_each(np.arange(rows * count), flat)
    starts = repeat_each(np.cumsum(flat) - flat, flat)
    ahead = (first + np.arange(rows).reshape(first.shape) * layout.shape[lead]).reshape(-1)
    begins = np.cumsum(sizes, -1) - sizes + ahead.reshape(*first.shape, 1)
    taken = repeat_each(begins.reshape(-1), flat) + np.arange(len(places)) - starts
    elements: Any = data.reshape(-1, rest).index_select(0, from_array(taken).to(layout.device))
    start = (0.0 if reduce == "mean" else empty) if initial is None else initial
    room: Any = full((rows * count, rest), start, dtype=layout.dtype, device=layout.device)
    index = from_array(places).to(layout.device).unsqueeze(1).expand(len(places), rest)
    found = room.scatter_reduce(0, index, elements, word)
    if reduce == "mean":
        over = flat if initial is None else np.maximum(flat, 1)
        found = found / from_array(over[:, None]).to(layout.device, layout.dtype)
    found = found.reshape((*layout.shape[:lead], count, *layout.shape[lead + 1 :]))
    return keep_version(found, offsets if lengths is None else lengths)


def _stretches(
    lengths: Tensor | None, offsets: Tensor | None, lead: int, n: int, unsafe: bool
) -> tuple[Any, Any]:
    """Return the start of each row's first segment, and the lengths of all segments."""
    given = offsets if lengths is None else lengths
    if given is None:
        raise ShapeError("segment_reduce(): Either lengths or offsets must be defined.")
    if given._layout.dtype.is_floating_point:
        name = WORDS[given._layout.dtype]
        raise NoKernelError(f"\"_segment_reduce_lengths_cpu_kernel1\" not implemented for '{name}'")
    if len(given._layout.shape) != lead + 1:
        raise ShapeError(
            f"segment_reduce(): Expected axis to be the last dimension of lengths but got {lead}."
        )
    numbers = given.to_numpy().astype(np.int64)
    if lengths is None:
        return numbers[..., 0], np.diff(numbers)
    if numbers.size and numbers.min() < 0:
        raise ShapeError("lengths contains negative value!")
    totals = numbers.sum(-1)
    # The maximum is checked, too, because a sum of huge lengths may wrap around to n.
    if not unsafe and (np.any(totals != n) or numbers.max(initial=0) > n):
        raise ShapeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to "
            f"data.size(lengths.dim()-1) when !unsafe: {n}, got {totals.tolist()}"
        )
    return np.zeros(totals.shape, np.int64), numbers
