"""Histograms, membership tests (isin), and runs of equal elements (unique_consecutive)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dtypes import WORDS, bool_, float_limits, int64, promote
from ...core.errors import DTypeError, NoKernelError, ShapeError
from ...dispatch.composite import composite
from ...tensor.constants import held
from ...tensor.tensor import Tensor
from .. import return_types
from ..create.creation import full, ones, tensor, zeros
from ..create.ranges import arange, linspace
from ..index.searchsorted import ends_of, searchsorted
from ..pointwise.masked import where
from ..shape.joining import cat


def _require_floating(kernel: str, input: Tensor) -> None:
    if not input._layout.dtype.is_floating_point:
        raise NoKernelError(
            f"\"{kernel}\" not implemented for '{WORDS[input._layout.dtype]}'; cast with .float()"
        )


def _range(name: str, input: Tensor, low: float, high: float) -> tuple[float, float]:
    """Return (low, high), or the range of the elements of input if low and high are equal."""
    if low == high and input._layout.numel:
        low, high = ends_of(input)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ShapeError(f"{name}: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise ShapeError(f"{name}: max must be larger than min, got {low:g} and {high:g}")
    return _around(input, low, 1.0) if low == high else (low, high)


def _around(input: Tensor, number: float, reach: float) -> tuple[float, float]:
    """Return bounds below and above a number. Each bound is at least `reach` away from the number,
    and different from the number in the dtype of input.
    """
    dtype = input._layout.dtype
    size = dtype.numpy.type(abs(number))
    reach = max(reach, 2 * float(size - np.nextafter(size, dtype.numpy.type(0))))
    most = float(float_limits(dtype).max)
    return max(number - reach, -most), min(number + reach, most)


def _outer_edges(name: str, column: Tensor, given: Sequence[float] | None) -> tuple[float, float]:
    """Return the outermost edges: the given range, or the smallest and the largest element."""
    if given is not None:
        low, high = map(float, given)
    elif column._layout.numel:
        low, high = ends_of(column)
    else:
        low, high = 0.0, 1.0
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ShapeError(f"{name}: range [{low:g}, {high:g}] is not finite")
    if low > high:
        raise ShapeError(f"{name}: min should not exceed max, but got min {low:g} max {high:g}")
    return _around(column, low, 0.5) if low == high else (low, high)


def _counted(columns: list[Any], edges: list[Any], weight: Any) -> Any:
    """Return the number of points, or the sum of their weights, in each cell of a grid. The edges
    of each column divide its axis into intervals. The last interval includes the last edge.
    """
    shape = [edge._layout.numel - 1 for edge in edges]
    first = columns[0]
    places: Any = zeros(first._layout.shape, dtype=int64, device=first.device)
    inside: Any = places == 0
    for column, edge, count in zip(columns, edges, shape, strict=True):
        own = searchsorted(edge, column.contiguous(), right=True) - 1
        places = places * count + where(column == edge[-1], count - 1, own)
        inside = inside & (column >= edge[0]) & (column <= edge[-1])
    total = math.prod(shape)
    added = weight
    if weight is None:
        added = ones(first._layout.shape, dtype=first.dtype, device=first.device)
    room: Any = zeros(total + 1, dtype=added.dtype, device=first.device)
    return room.scatter_add(0, where(inside, places, total), added)[:-1].reshape(shape)


@composite(out="same")
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Return the number of elements in each of `bins` equal intervals from min to max. If min and
    max are equal, the intervals range from the smallest to the largest element. Elements outside
    the intervals are ignored.
    """
    _require_floating("histogram_cpu", input)
    if bins <= 0:
        raise ShapeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    values: Any = input.detach()
    low, high = _range("torch.histc", values, float(min), float(max))
    # In half types, elements would be rounded into wrong intervals, and counts would stop at 256
    # (bfloat16) or 2048 (float16).
    flat = values.reshape(-1).to(values._layout.dtype.computes_in)
    low, high = [held(end, flat._layout.dtype).item() for end in (low, high)]
    inside = (flat >= low) & (flat <= high)
    places = _places_of(where(inside, flat, low), low, high, bins)
    room: Any = zeros(bins, dtype=flat.dtype, device=flat.device)
    found: Tensor = room.scatter_add(0, places, inside.to(flat.dtype)).to(input._layout.dtype)
    return found


def _places_of(values: Tensor, low: float, high: float, bins: int) -> Any:
    """Return the index of the bin of each value; the bins are equal intervals from low to high."""
    dtype = values._layout.dtype
    if (high - low) * bins > float(float_limits(dtype).max):
        # (values - low) * bins would overflow, so the values are compared with the edges instead.
        edges = linspace(low, high, bins + 1, dtype=dtype, device=values.device)
        places: Any = searchsorted(edges, values, right=True) - 1
    else:
        # This order of operations rounds in the same way as PyTorch.
        places = ((values - low) * bins / (high - low)).to(int64)
    return places.clamp(max=bins - 1)


@composite(out="same")
def histogram(
    input: Tensor,
    bins: Any = 100,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Return (hist, bin_edges). hist holds the number of elements in each interval, or the sum of
    their weights. bins is a number of equal intervals, or a tensor of edges.
    """
    weights = None if weight is None else weight.reshape(-1)
    _require_weights(input._layout.shape, weight)
    hist, edges = _histogram("torch.histogram", input.reshape(-1, 1), [bins], range, weights)
    return return_types.histogram(_density(hist, edges) if density else hist, edges[0])


@composite(homes="function")
def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Return (hist, bin_edges). hist holds the number of points in each box, or the sum of their
    weights. The last axis of input holds the coordinates of a point.

    bins is a number of equal intervals for all axes, or a sequence with one item for each axis: a
    number of intervals, or a tensor of edges. range holds the outermost edges of all axes in one
    sequence.

    Shape   (..., D) -> D axes
    Raises  RuntimeError if a sequence bins does not have D items, or range does not have 2 * D
    """
    layout = input._layout
    if len(layout.shape) < 2:
        raise ShapeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    ndim = layout.shape[-1]
    listed = [bins] * ndim if hasattr(bins, "__index__") else list(bins)
    if len(listed) != ndim:
        raise ShapeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input: "
            f"expected {ndim} sequences of bin edges or numbers, but got {len(listed)}"
        )
    if range is not None and len(range) != 2 * ndim:
        raise ShapeError(
            f"torch.histogramdd: for a {ndim}-dimensional histogram range should have {2 * ndim} "
            f"elements, but got {len(range)}"
        )
    _require_weights(layout.shape[:-1], weight)
    weights = None if weight is None else weight.reshape(-1)
    points: Any = input.reshape(-1, ndim)
    hist, edges = _histogram("torch.histogramdd", points, listed, range, weights)
    return return_types.histogramdd(_density(hist, edges) if density else hist, tuple(edges))


def _histogram(
    name: str, points: Tensor, bins: list[Any], ends: Sequence[float] | None, weight: Tensor | None
) -> tuple[Any, list[Any]]:
    """Return the counts, and the edges of the intervals of each column."""
    _require_floating("histogramdd", points)
    points = points.detach()
    columns = [points[:, i] for i, _ in enumerate(bins)]
    edges = [
        _edges(name, i, column, one, None if ends is None else ends[2 * i : 2 * i + 2])
        for i, (column, one) in enumerate(zip(columns, bins, strict=True))
    ]
    weight = None if weight is None else weight.detach().to(points.dtype)
    return _counted(columns, edges, weight), edges


def _edges(
    name: str, dimension: int, column: Tensor, bins: int, ends: Sequence[float] | None
) -> Any:
    if not isinstance(bins, Tensor):
        if bins <= 0:
            raise ShapeError(
                f"torch.histogram(): bins must be > 0, but got {bins} for dimension {dimension}"
            )
        low, high = _outer_edges(name, column, ends)
        return linspace(low, high, bins + 1, dtype=column.dtype, device=column.device)
    if len(bins._layout.shape) != 1 or not bins._layout.numel:
        raise ShapeError(
            "torch.histogramdd: bins tensor should have one dimension and hold elements, got "
            f"shape {bins._layout.shape}"
        )
    if bins._layout.dtype is not column._layout.dtype:
        raise DTypeError(f"{name}(): input and bins must have the same dtype")
    return bins.detach().clone()


def _require_weights(shape: tuple[int, ...], weight: Tensor | None) -> None:
    if weight is not None and weight._layout.shape != shape:
        raise ShapeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as "
            f"the input tensor excluding its innermost dimension, got {weight._layout.shape} for "
            f"{shape}"
        )


def _density(hist: Tensor, edges: list[Any]) -> Any:
    """Return the counts divided by their sum, and by the volume of each box."""
    hist = hist / hist.sum()
    for axis, edge in enumerate(edges):
        widths = edge[1:] - edge[:-1]
        hist = hist / widths.reshape([-1 if i == axis else 1 for i in range(len(edges))])
    return hist


# `isin` compares each element with at most this many values; for more values, sorting is faster.
_COMPARED = 8


@composite(homes="function", out="same")
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Return whether each of `elements` occurs in `test_elements`; NaN never does."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError(
            "isin() received an invalid combination of arguments: expected one Tensor at least, "
            f"got {type(elements).__name__} and {type(test_elements).__name__}"
        )
    for one in (elements, test_elements):
        if isinstance(one, bool) or (isinstance(one, Tensor) and one._layout.dtype is bool_):
            raise DTypeError(
                "Unsupported input type encountered for isin(): Bool; cast it with .to(uint8)"
            )
        if isinstance(one, Tensor) and one._layout.dtype.is_complex:
            raise DTypeError(
                f"Unsupported input type encountered for isin(): {WORDS[one._layout.dtype]}; "
                "compare with ==, or take the parts"
            )
    first = elements if isinstance(elements, Tensor) else test_elements
    given, among = [
        one.detach() if isinstance(one, Tensor) else tensor(one, device=first.device)
        for one in (elements, test_elements)
    ]
    if not among._layout.numel:
        return full(given._layout.shape, bool(invert), dtype=bool_, device=given.device)
    first, second = given._layout.dtype, among._layout.dtype
    if first is not second and (first.is_half or second.is_half):
        # Cast here, because NumPy cannot promote bfloat16 with other dtypes.
        given, among = [one.to(promote(first, second)) for one in (given, among)]
    among, known = among.reshape(-1), None
    if among._layout.numel <= _COMPARED:
        alike: Any = given.unsqueeze(-1) == among
        return alike.any(-1).logical_not() if invert else alike.any(-1)  # type: ignore[no-any-return]
    if among._layout.dtype.may_have_gradient:
        # Sorting puts NaN last, where it would break the binary search. So NaN is replaced by one
        # of the other values, if there are any.
        known = among == among
        among = among.where(known, among.where(known, math.inf).amin())
    ordered = among.sort()[0]
    places = searchsorted(ordered, given.contiguous()).clamp(max=ordered._layout.numel - 1)
    found = ordered.index_select(0, places.reshape(-1)).reshape(given._layout.shape) == given
    if known is not None:
        found = found.logical_and(known.any())
    return found.logical_not() if invert else found


@composite()
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the first element of each run of equal elements, or the first slice of each run of
    equal slices along dim. If input is not on the CPU, the call waits for the device.
    """
    rows: Any = input.reshape(-1) if dim is None else input.movedim(dim, 0)
    n = rows._layout.shape[0]
    changed: Any = rows[1:] != rows[:-1]
    if len(rows._layout.shape) > 1:
        changed = changed.flatten(1).any(1)
    begins = cat([ones(min(n, 1), dtype=changed.dtype, device=rows.device), changed], 0)
    places = begins.nonzero().reshape(-1)
    found = rows.index_select(0, places)
    made = [found if dim is None else found.movedim(0, dim)]
    if return_inverse:
        inverse = begins.to(int64).cumsum(0) - 1
        made.append(inverse.reshape(input._layout.shape) if dim is None else inverse)
    if return_counts:
        ends = cat([places[1:], arange(n, n + 1, device=rows.device)[: min(n, 1)]], 0)
        made.append(ends - places)
    return made[0] if len(made) == 1 else tuple(made)
