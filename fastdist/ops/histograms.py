"""How many numbers fall into each of some intervals, and which numbers are among others."""

from __future__ import annotations

import math
from typing import Any

from ..core.dtypes import bool_, int64
from ..core.errors import DTypeError, ShapeError
from ..dispatch.composite import composite
from ..dispatch.op import OPS
from ..tensor.tensor import Tensor
from . import return_types
from .counting import searchsorted
from .creation import arange, full, linspace, ones, tensor, zeros
from .joining import cat
from .refusals import WORDS


def _require_floating(kernel: str, input: Tensor) -> None:
    if not input.layout.dtype.is_floating_point:
        raise DTypeError(
            f"\"{kernel}\" not implemented for '{WORDS[input.layout.dtype.name]}'; cast with "
            ".float()"
        )


def _range(name: str, input: Any, low: float, high: float) -> tuple[float, float]:
    """Return the ends between which numbers count: those of input if both are one number."""
    if low == high and input.layout.numel:
        low, high = float(input.min()), float(input.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ShapeError(f"{name}: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise ShapeError(f"{name}: max must be larger than min, got {low:g} and {high:g}")
    return (low - 1, high + 1) if low == high else (low, high)


def _counted(flat: Any, edges: Any, weight: Any) -> Any:
    """Return how many of flat, or what sum of their weights, lie between each edge and the next;
    the last edge belongs to the last interval.
    """
    count = edges.layout.shape[0] - 1
    places = searchsorted(edges, flat, right=True) - 1
    places = OPS["where"].public(flat == edges[-1], count - 1, places)
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    places = OPS["where"].public(inside, places, count)
    added = (
        ones(flat.layout.shape, dtype=flat.dtype, device=flat.device) if weight is None else weight
    )
    room: Any = zeros(count + 1, dtype=added.dtype, device=flat.device)
    return room.scatter_add(0, places, added)[:-1]


@composite(takes_out=True)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Return how many elements fall into each of bins equal intervals from min to max, or from the
    smallest to the largest if both are 0; others do not count.
    """
    _require_floating("histogram_cpu", input)
    if bins <= 0:
        raise ShapeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    values: Any = input.detach()
    low, high = _range("torch.histc", values, float(min), float(max))
    flat = values.reshape(-1)
    inside = (flat >= low) & (flat <= high)
    where = OPS["where"].public
    places = (
        ((where(inside, flat, low) - low) * (bins / (high - low))).to(int64).clamp(max=bins - 1)
    )
    room: Any = zeros(bins, dtype=flat.dtype, device=flat.device)
    return room.scatter_add(0, places, inside.to(flat.dtype))  # type: ignore[no-any-return]


@composite(takes_out=True)
def histogram(
    input: Tensor,
    bins: Any,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Return (hist, bin_edges): how many elements, or what sum of weights, fall into each interval;
    bins is a number of equal ones, or the edges.
    """
    _require_floating("histogramdd", input)
    values: Any = input.detach()
    if isinstance(bins, Tensor):
        if len(bins.layout.shape) != 1 or not bins.layout.numel:
            raise ShapeError(
                "torch.histogramdd: bins tensor should have one dimension and hold elements, got "
                f"shape {bins.layout.shape}"
            )
        if bins.layout.dtype is not input.layout.dtype:
            raise DTypeError("torch.histogram(): input and bins must have the same dtype")
        edges: Any = bins.detach().clone()
    else:
        if bins <= 0:
            raise ShapeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
        low, high = _range("torch.histogram", values, *(range or (0.0, 0.0)))
        edges = linspace(low, high, bins + 1, dtype=values.dtype, device=values.device)
    flat_weight = None
    if weight is not None:
        if weight.layout.shape != input.layout.shape:
            raise ShapeError(
                "torch.histogramdd: if weight tensor is provided it should have the same shape as "
                f"the input tensor excluding its innermost dimension, got {weight.layout.shape}"
            )
        flat_weight = weight.detach().reshape(-1).to(values.dtype)
    hist = _counted(values.reshape(-1), edges, flat_weight)
    if density:
        hist = hist / (hist.sum() * (edges[1:] - edges[:-1]))
    return return_types.histogram(hist, edges)


@composite(method=False, takes_out=True)
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Return which of elements are among test_elements; a NaN is among none."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError(
            "isin() received an invalid combination of arguments: expected one Tensor at least, "
            f"got {type(elements).__name__} and {type(test_elements).__name__}"
        )
    first = elements if isinstance(elements, Tensor) else test_elements
    given, among = [
        one.detach() if isinstance(one, Tensor) else tensor(one, device=first.device)
        for one in (elements, test_elements)
    ]
    if not among.layout.numel:
        return full(given.layout.shape, bool(invert), dtype=bool_, device=given.device)
    ordered = among.reshape(-1).sort()[0]
    places = searchsorted(ordered, given.contiguous()).clamp(max=ordered.layout.numel - 1)
    found = ordered.index_select(0, places.reshape(-1)).reshape(given.layout.shape) == given
    return found.logical_not() if invert else found


@composite()
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the first of each run of equal elements (or slices along dim); waits for a device."""
    rows: Any = input.reshape(-1) if dim is None else input.movedim(dim, 0)
    n = rows.layout.shape[0]
    changed: Any = rows[1:] != rows[:-1]
    if len(rows.layout.shape) > 1:
        changed = changed.flatten(1).any(1)
    begins = cat([ones(min(n, 1), dtype=changed.dtype, device=rows.device), changed], 0)
    places = begins.nonzero().reshape(-1)
    found = rows.index_select(0, places)
    made = [found if dim is None else found.movedim(0, dim)]
    if return_inverse:
        inverse = begins.to(int64).cumsum(0) - 1
        made.append(inverse.reshape(input.layout.shape) if dim is None else inverse)
    if return_counts:
        ends = cat([places[1:], arange(n, n + 1, device=rows.device)[: min(n, 1)]], 0)
        made.append(ends - places)
    return made[0] if len(made) == 1 else tuple(made)
