"""Writing into a copy: by masks, places, parts, and with reductions where several values meet."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import bool_, int64
from ..core.errors import DTypeError, ShapeError
from ..dispatch.broadcast import broadcast_shapes
from ..dispatch.composite import composite
from ..dispatch.op import OPS
from ..dispatch.rules import DimError, normalize_axis
from ..tensor.tensor import Tensor
from .creation import arange, ones_like, zeros_like
from .indexing import counted_from_front, require_index, require_within
from .joining import cat, narrow
from .order_statistics import valued
from .refusals import WORDS
from .strided import as_strided


@composite(inplace=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return input with the elements of source, in order, where mask is true."""
    if mask.layout.dtype is not bool_:
        raise DTypeError(
            "masked_scatter_ only supports boolean masks, but got mask with dtype "
            f"{WORDS[mask.layout.dtype.name]}"
        )
    words = [WORDS[one.layout.dtype.name] for one in (input, source)]
    if words[0] != words[1]:
        raise DTypeError(
            f"masked_scatter: expected self and source to have same dtypes but got {words[0]} and "
            f"{words[1]}"
        )
    shape = broadcast_shapes("masked_scatter", [input.layout.shape, mask.layout.shape])
    chosen: Any = mask.expand(shape)
    places = chosen.reshape(-1).cumsum(0) - 1
    if int(chosen.sum()) > source.layout.numel:
        raise ShapeError(
            "Number of elements of source < number of ones in mask: source has "
            f"{source.layout.numel}, mask has {int(chosen.sum())}"
        )
    if not source.layout.numel or not chosen.layout.numel:
        return input.expand(shape).clone()
    taken = source.reshape(-1).index_select(0, places.clamp(min=0)).reshape(shape)
    return OPS["where"].public(chosen, taken, input)  # type: ignore[no-any-return]


@composite(function=True, inplace=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return input with source at index of its flat order, or added there."""
    if index.layout.dtype is not int64:
        raise DTypeError(
            f"put_(): Expected a long tensor for index, but got {WORDS[index.layout.dtype.name]}"
        )
    words = [WORDS[one.layout.dtype.name] for one in (input, source)]
    if words[0] != words[1]:
        raise DTypeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{words[0]} and source.dtype = {words[1]}"
        )
    if index.layout.numel != source.layout.numel:
        raise DimError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.layout.numel}, index.numel() = {index.layout.numel}"
        )
    n = input.layout.numel
    refusal = f"out of range: tried to access index {{}} on a tensor of {n} elements."
    places = counted_from_front(index.reshape(-1), n, refusal)
    write = "index_add" if accumulate else "index_copy"
    flat = getattr(input.reshape(-1), write)(0, places, source.reshape(-1))
    return flat.reshape(input.layout.shape)  # type: ignore[no-any-return]


def _written(input: Any, src: Tensor, view: Any) -> Tensor:
    """Return a copy of input with src in the part of it that view, a function, returns."""
    copy = input.clone()
    part = view(copy)
    if part.layout.shape != src.layout.shape:
        raise ShapeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.layout.shape)}, slice size = {list(part.layout.shape)}"
        )
    part.copy_(src)
    return copy  # type: ignore[no-any-return]


@composite()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Return a copy of input with src in the place of its slice at index along dim."""
    return _written(input, src, lambda copy: copy.select(dim, index))


@composite()
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """Return a copy of input with src in the place of start:end:step along dim."""
    axis = normalize_axis("slice_scatter", dim, len(input.layout.shape))
    part = (slice(None),) * axis + (slice(start, end, step),)
    return _written(input, src, lambda copy: copy[part])


@composite()
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """Return a copy of input with src on the diagonal of dim1 and dim2."""
    return _written(input, src, lambda copy: copy.diagonal(offset, dim1, dim2))


@composite()
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """Return a copy of input with src in the place of its as_strided view."""
    return _written(input, src, lambda copy: as_strided(copy, size, stride, storage_offset))


_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@composite(inplace=True, takes_out=True)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return input with src at index along dim; what meets at a place is reduced by sum, prod,
    mean, amax or amin, with what stood there unless include_self is False.
    """
    if reduce not in _REDUCTIONS:
        raise ShapeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    axis = normalize_axis("scatter_reduce", dim, len(input.layout.shape))
    require_index("scatter_reduce", index)
    require_within("scatter_reduce", index, input.layout.shape, axis)
    if src.layout.dtype is not input.layout.dtype:
        raise DTypeError("scatter(): Expected self.dtype to be equal to src.dtype")
    return _reduced(input, axis, index, src, reduce, include_self=include_self)


def _reduced(
    input: Any, axis: int, index: Any, src: Any, reduce: str, *, include_self: bool
) -> Tensor:
    if not index.layout.numel:
        return input.clone()  # type: ignore[no-any-return]
    if not input.layout.shape:
        index, src = (one if one.layout.shape else one.reshape(1) for one in (index, src))
        found: Any = _reduced(input.reshape(1), 0, index, src, reduce, include_self=include_self)
        return found.reshape(())  # type: ignore[no-any-return]
    src = src[tuple(slice(n) for n in index.layout.shape)]
    if reduce in ("sum", "mean"):
        base = input if include_self else input.scatter(axis, index, 0)
        total = base.scatter_add(axis, index, src)
        if reduce == "sum":
            return total  # type: ignore[no-any-return]
        start = (ones_like if include_self else zeros_like)(input, dtype=int64)
        count = start.scatter_add(axis, index, ones_like(index, dtype=int64)).clamp(min=1)
        if input.layout.dtype.is_floating_point:
            return total / count.to(input.layout.dtype)  # type: ignore[no-any-return]
        return OPS["floor_divide"].public(total, count).to(input.layout.dtype)  # type: ignore[no-any-return]
    if reduce == "prod":
        base = input if include_self else input.scatter(axis, index, 1)
        return _joined(base, axis, index, src, OPS["mul"].public)
    return _extreme(input, axis, index, src, reduce, include_self=include_self)


def _extreme(
    input: Any, axis: int, index: Any, src: Any, reduce: str, *, include_self: bool
) -> Tensor:
    larger = OPS["maximum" if reduce == "amax" else "minimum"].public
    kept, given = input.detach(), src.detach()
    if not include_self:
        # Any one of what meets there: the others will meet it.
        kept = kept.scatter(axis, index, given)
    value = _joined(kept, axis, index, given, larger)
    if not input.layout.dtype.is_floating_point:
        return value
    # All that are it share the gradient.
    where = OPS["where"].public
    is_src = given == value.gather(axis, index)
    is_self = input.detach() == value
    if not include_self:
        is_self = is_self.scatter(axis, index, False)
    ones = is_src.to(input.layout.dtype)
    count = is_self.to(input.layout.dtype).scatter_add(axis, index, ones)
    total = where(is_self, input, 0.0).scatter_add(axis, index, where(is_src, src, 0.0))
    return valued.public(total / count.clamp(min=1), value)  # type: ignore[no-any-return]


def _joined(base: Any, axis: int, index: Any, src: Any, meet: Any) -> Tensor:
    """Return base with src at index along axis, and where several meet, all met by `meet`.

    What goes to one place is brought together by sorting; then each meets what stands 1, 2, 4 ...
    before it, if that goes to the same place.
    """
    shape = base.layout.shape
    places: Any = 0
    for i, n in enumerate(shape):
        if i == axis:
            along = index
        else:
            m = index.layout.shape[i]
            column = [m if j == i else 1 for j in range(len(shape))]
            along = arange(m, device=index.layout.device).reshape(column)
        places = places * n + along
    places, order = places.reshape(-1).sort(stable=True)
    values = src.reshape(-1).index_select(0, order)
    length, step = values.layout.numel, 1
    while step < length:
        same = narrow(places, 0, step, length - step) == narrow(places, 0, 0, length - step)
        if not bool(same.any()):
            break
        here, before = narrow(values, 0, step, length - step), narrow(values, 0, 0, length - step)
        met = OPS["where"].public(same, meet(before, here), here)
        values = cat([narrow(values, 0, 0, step), met], 0)
        step *= 2
    ends = cat([narrow(places, 0, 1, length - 1) != narrow(places, 0, 0, length - 1),
                ones_like(narrow(places, 0, 0, 1), dtype=bool_)], 0)  # fmt: skip
    last = ends.nonzero().reshape(-1)
    places, values = places.index_select(0, last), values.index_select(0, last)
    flat = base.reshape(-1)
    found = meet(flat.index_select(0, places), values)
    return flat.index_copy(0, places, found).reshape(shape)  # type: ignore[no-any-return]


@composite(inplace=True, takes_out=True)
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """Return input with the slices of source at index along dim, reduced by prod, mean, amax or
    amin with what stood there, unless include_self is False.
    """
    if reduce not in _REDUCTIONS[1:]:
        raise ShapeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    axis = normalize_axis("index_reduce", dim, len(input.layout.shape))
    require_index("index_reduce", index)
    shape = source.layout.shape
    if index.layout.numel != (shape[axis] if shape else 1):
        raise ShapeError(
            f"index_reduce(): Number of indices ({index.layout.numel}) should be equal to "
            f"source.size(dim): ({shape[axis] if shape else 1}), for dim: {axis}"
        )
    column = [index.layout.numel if i == axis else 1 for i in range(len(shape))]
    places: Any = index.reshape(column).expand(shape)
    return scatter_reduce(input, axis, places, source, reduce, include_self=include_self)
