"""Ops that write into a copy of a tensor at a mask, indices or a view, with optional reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.dtypes import WORDS, bool_, int64
from ...core.errors import DTypeError, NoKernelError, ShapeError
from ...dispatch.composite import composite
from ...dispatch.structured import Plan, structured
from ...interpreters.batch_loop import writable_copy
from ...interpreters.batched_tensor import levels, max_over_batch
from ...tensor.axes import DimError, normalize_axis
from ...tensor.broadcast import broadcast_shapes
from ...tensor.tensor import Tensor
from .. import late_ops
from ..create.creation import ones_like, zeros, zeros_like
from ..saved_indices import keep_version
from ..shape.as_strided import as_strided
from .index_range import counted_from_front, is_seen_by_kernels_alone, range_of
from .indexing import (
    index_vector,
    require_index,
    require_slices,
    require_within,
    scatter,
)


@composite(homes="function method inplace", node="masked_scatter")
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return input with the elements of source, in order, written where mask is true.

    Raises  ShapeError if source has too few elements; on a GPU missing elements are NaN: see
            Note [Places outside] in index_range.py
    """
    if mask._layout.dtype is not bool_:
        raise DTypeError(
            "masked_scatter_ only supports boolean masks, but got mask with dtype "
            f"{WORDS[mask._layout.dtype]}"
        )
    words = [WORDS[one._layout.dtype] for one in (input, source)]
    if words[0] != words[1]:
        raise DTypeError(
            f"masked_scatter: expected self and source to have same dtypes but got {words[0]} and "
            f"{words[1]}"
        )
    shape = broadcast_shapes("masked_scatter", [input._layout.shape, mask._layout.shape])
    chosen: Any = mask.expand(shape)
    places = chosen.reshape(-1).cumsum(0) - 1
    looks = not is_seen_by_kernels_alone(chosen)
    if looks and (most := max_over_batch(chosen.sum())) > source._layout.numel:
        raise ShapeError(
            "Number of elements of source < number of ones in mask: source has "
            f"{source._layout.numel}, mask has {most}"
        )
    if not chosen._layout.numel or (looks and not source._layout.numel):
        return input.expand(shape).clone()
    taken = source.reshape(-1).index_select(0, places.clamp(min=0)).reshape(shape)
    return late_ops.where(chosen, taken, input)


@composite(homes="function method inplace", node="index_fill")
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Return input with value written to its slices at the indices `index` along dim."""
    if isinstance(value, Tensor) and value._layout.shape:
        raise ShapeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{len(value._layout.shape)} dimension(s)."
        )
    if not input._layout.shape:
        return index_fill(input.reshape(1), dim, index, value).reshape(())
    found = late_ops.masked_fill(input, _slices_mask(input, dim, index), value)
    return keep_version(found, index)


def _slices_mask(input: Tensor, dim: int, index: Tensor) -> Any:
    axis = normalize_axis("index_fill", dim, len(input._layout.shape))
    n = input._layout.shape[axis]
    shape = [1] * len(input._layout.shape)
    shape[axis] = n
    chosen: Any = zeros(n, device=input._layout.device)
    refusal = f"index {{}} is out of bounds for dimension {axis} with size {n}"
    places = counted_from_front(index_vector("index_fill", index), n, refusal)
    return (scatter(chosen, 0, places, 1.0) != 0).reshape(shape)


@composite(
    homes="function method inplace", out="same", node="index_copy", memory="outside of others"
)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Return input with the slices of source written at the indices `index` along dim."""
    shape = input._layout.shape
    axis = normalize_axis("index_copy", dim, len(shape))
    places = index_vector("index_copy", index)
    _require_slices(input, axis, places._layout.numel, source)
    places = _not_counted_from_behind(places, shape[axis] if shape else 1, axis)
    # If several slices have the same index, the last slice is kept.
    copy: Any = writable_copy(input, (source, places)) if levels.depth else input.clone()
    part = copy if shape else copy.reshape(1)
    part[(slice(None),) * axis + (places,)] = source
    return copy  # type: ignore[no-any-return]


def _not_counted_from_behind(places: Tensor, length: int, axis: int) -> Any:
    """Return places, in which negative indices are out of range. Other ops count negative indices
    from the end.

    Raises  IndexError for an index out of range; on a GPU see Note [Places outside]
    """
    if is_seen_by_kernels_alone(places):
        return late_ops.where(places < 0, length, places)
    low, high = range_of(places)
    if low < 0 or high >= length:
        raise DimError(
            f"index_copy_(): index {low if low < 0 else high} is out of bounds for dimension "
            f"{axis} with size {length}"
        )
    return places


def _require_slices(input: Tensor, axis: int, count: int, source: Tensor) -> None:
    """Raise unless source has `count` slices of input's shape along axis, or is one number."""
    shape, given = input._layout.shape, source._layout.shape
    if source._layout.dtype is not input._layout.dtype:
        raise DTypeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{input._layout.dtype.name} and (source) {source._layout.dtype.name}"
        )
    if not given and count != 1:
        raise DimError(
            f"index_copy_(): When source is scalar, index should have one element (got {count})"
        )
    if shape and given and len(shape) != len(given):
        raise DimError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must "
            f"match. Source dimensionality ({len(given)}), destination dimensionality "
            f"({len(shape)})"
        )
    rest = [(*one[:axis], *one[axis + 1 :]) for one in (shape, given)]
    if rest[0] != rest[1]:
        raise ShapeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination "
            f"slice shape: {list(rest[0])} at dimension {axis} and source slice shape: "
            f"{list(rest[1])} at dimension {axis}."
        )
    if given and given[axis] != count:
        raise DimError(
            f"index_copy_(): Number of indices ({count}) should be equal to source.size(dim) "
            f"({given[axis]})"
        )


@composite(homes="function method inplace", node="put")
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return input with source written at flat indices, or added there if `accumulate` is true."""
    if index._layout.dtype is not int64:
        raise DTypeError(
            f"put_(): Expected a long tensor for index, but got {WORDS[index._layout.dtype]}"
        )
    words = [WORDS[one._layout.dtype] for one in (input, source)]
    if words[0] != words[1]:
        raise DTypeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{words[0]} and source.dtype = {words[1]}"
        )
    if index._layout.numel != source._layout.numel:
        raise DimError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source._layout.numel}, index.numel() = {index._layout.numel}"
        )
    n = input._layout.numel
    refusal = f"out of range: tried to access index {{}} on a tensor of {n} elements."
    places = counted_from_front(index.reshape(-1), n, refusal)
    write = "index_add" if accumulate else "index_copy"
    flat = getattr(input.reshape(-1), write)(0, places, source.reshape(-1))
    return flat.reshape(input._layout.shape)  # type: ignore[no-any-return]


def _written(input: Tensor, src: Tensor, view: Callable[..., Any]) -> Tensor:
    """Return a copy of input with src written to the part that the function `view` returns."""
    copy = writable_copy(input, (src,)) if levels.depth else input.clone()
    part = view(copy)
    if part._layout.shape != src._layout.shape:
        raise ShapeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src._layout.shape)}, slice size = {list(part._layout.shape)}"
        )
    part.copy_(src)
    return copy


@composite(node="select_scatter")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Return a copy of input with src written to the slice at index along dim."""
    return _written(input, src, lambda copy: copy.select(dim, index))


@composite(out="same", node="slice_scatter")
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """Return a copy of input with src written to the slice start:end:step along dim."""
    axis = normalize_axis("slice_scatter", dim, len(input._layout.shape))
    part = (slice(None),) * axis + (slice(start, end, step),)
    return _written(input, src, lambda copy: copy[part])


@composite(node="diagonal_scatter")
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """Return a copy of input with src written to the diagonal of the axes dim1 and dim2."""
    return _written(input, src, lambda copy: copy.diagonal(offset, dim1, dim2))


@composite(node="as_strided_scatter")
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """Return a copy of input with src written to the view that as_strided makes of the copy."""
    return _written(input, src, lambda copy: as_strided(copy, size, stride, storage_offset))


_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@composite(homes="function method inplace", out="same", memory="outside of others")
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return input with src combined at index along dim. Elements of src with the same index are
    reduced by sum, prod, mean, amax or amin. The old value of input is reduced with them, unless
    include_self is False.
    """
    if reduce not in _REDUCTIONS:
        raise ShapeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    axis = normalize_axis("scatter_reduce", dim, len(input._layout.shape))
    require_index("scatter_reduce", index, may_be_empty=True)
    require_within("scatter_reduce", index, input._layout.shape, axis)
    if src._layout.dtype is not input._layout.dtype:
        raise DTypeError("scatter(): Expected self.dtype to be equal to src.dtype")
    return _reduced(input, axis, index, src, reduce, include_self=include_self)


def _reduced(
    input: Tensor, axis: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool
) -> Tensor:
    if not index._layout.numel:
        return input.clone()
    if not input._layout.shape:
        index, src = (one if one._layout.shape else one.reshape(1) for one in (index, src))
        found: Any = _reduced(input.reshape(1), 0, index, src, reduce, include_self=include_self)
        return found.reshape(())  # type: ignore[no-any-return]
    src = src[tuple(slice(n) for n in index._layout.shape)]
    return reduced(input, index, src, axis, reduce, include_self)


@structured(
    "index.scattering.reduce", homes="nowhere", batch="same axes", known_as="scatter_reduce"
)
def reduced(
    input: Tensor, index: Tensor, src: Tensor, axis: int, reduce: str, include_self: bool
) -> Tensor:
    """Return input with the elements of src that have the same index along axis reduced into it.

    Note    index and src must have the same shape, and must not be empty
    """


@reduced.plan
def _(
    input: Tensor, index: Tensor, src: Tensor, axis: int, reduce: str, include_self: bool
) -> Plan:
    if reduce == "mean" and input._layout.dtype is bool_:
        raise NoKernelError("scatter_reduce: the mean is not implemented for 'Bool'")
    return Plan(input._layout.shape, input._layout.dtype, (axis, reduce, include_self))


@reduced.vjp("input", "src")
def _(
    g: Tensor,
    out: Tensor,
    input: Tensor,
    index: Tensor,
    src: Tensor,
    axis: int,
    reduce: str,
    include_self: bool,
) -> tuple[Any, Any]:
    shared, by_self, by_src = _slopes(out, input, index, src, axis, reduce, include_self)
    g = _times(g, shared)
    by_input = _times(g, by_self)
    if not include_self:
        by_input = by_input.scatter(axis, index, 0)
    return by_input, _times(g.gather(axis, index), by_src)


@reduced.jvp
def _(
    input_t: Tensor | None,
    src_t: Tensor | None,
    out: Tensor,
    input: Tensor,
    index: Tensor,
    src: Tensor,
    axis: int,
    reduce: str,
    include_self: bool,
) -> Any:
    shared, by_self, by_src = _slopes(out, input, index, src, axis, reduce, include_self)
    tangent = zeros_like(input) if input_t is None else _times(input_t, by_self)
    if not include_self:
        tangent = tangent.scatter(axis, index, 0)
    if src_t is not None:
        tangent = tangent.scatter_add(axis, index, _times(src_t, by_src))
    return _times(tangent, shared)


def _times(x: Tensor, slope: Tensor | None) -> Any:
    return x if slope is None else x * slope


def _slopes(
    out: Any, input: Tensor, index: Any, src: Any, axis: int, reduce: str, include_self: bool
) -> tuple[Any, Any, Any]:
    """Return the derivatives of the result, as three factors: a factor that all derivatives at an
    index share, a factor for the old value (also if include_self is False), and a factor for
    elements of src. None means a factor of 1.
    """
    if reduce == "prod":
        return _slopes_of_products(out, input, index, src, axis, include_self)
    if reduce == "sum":
        return None, None, None
    if reduce == "mean":
        start = (ones_like if include_self else zeros_like)(input)
        return 1 / start.scatter_add(axis, index, ones_like(src)).clamp(min=1), None, None
    # All elements equal to the result share the gradient. Where the result is NaN, no element
    # equals it, and the gradients are NaN.
    out, dtype = out.detach(), src._layout.dtype
    by_src = (src.detach() == out.gather(axis, index)).to(dtype)
    by_self = (input.detach() == out).to(dtype)
    counted = by_self if include_self else by_self.scatter(axis, index, 0)
    return 1 / counted.scatter_add(axis, index, by_src), by_self, by_src


def _slopes_of_products(
    out: Any, input: Any, index: Any, src: Any, axis: int, include_self: bool
) -> tuple[Any, Any, Any]:
    """Return the factors of `_slopes` for prod: each derivative is the product of all other
    elements. Where three zeros have the same index, the third derivative is lost.
    """
    no_self, no_src = input.detach() == 0, src.detach() == 0
    if not bool(no_self.any()) and not bool(no_src.any()):
        return out, 1 / input, 1 / src
    if not include_self:
        no_self = no_self.scatter(axis, index, False)
    where, dtype = late_ops.where, src._layout.dtype
    count = no_self.to(dtype).scatter_add(axis, index, no_src.to(dtype))
    whole = input.masked_fill(input.detach() == 0, 1), src.masked_fill(no_src, 1)
    rest = reduced(whole[0], index, whole[1], axis, "prod", include_self)
    # If exactly two elements are zero, the derivative by either zero is the product of all other
    # elements. This product is 0, but the second derivative is not.
    zeros = where(no_self, input, 0.0).scatter_add(axis, index, where(no_src, src, 0.0))
    alone, in_pairs = rest * (count == 1), rest * (count == 2)
    by_self = where(no_self, alone + in_pairs * (zeros - input), out / whole[0])
    others = zeros.gather(axis, index) - src
    by_zero = alone.gather(axis, index) + in_pairs.gather(axis, index) * others
    return None, by_self, where(no_src, by_zero, out.gather(axis, index) / whole[1])


@composite(
    homes="function method inplace", out="same", node="index_reduce", memory="outside of others"
)
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """Return input with the slices of source combined at the indices `index` along dim. Slices with
    the same index are reduced by prod, mean, amax or amin. The old values of input are reduced with
    them, unless include_self is False.
    """
    if reduce not in _REDUCTIONS[1:]:
        raise ShapeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    axis = normalize_axis("index_reduce", dim, len(input._layout.shape))
    require_index("index_reduce", index)
    shape = source._layout.shape
    require_slices("index_reduce_", input._layout.shape, shape, index._layout.numel, axis)
    column = [index._layout.numel if i == axis else 1 for i in range(len(shape))]
    places: Any = index.reshape(column).expand(shape)
    return scatter_reduce(input, axis, places, source, reduce, include_self=include_self)
