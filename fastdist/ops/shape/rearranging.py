"""Copies in another order (`flip`, `roll`), `repeat`, and changes of shape such as `flatten`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import ShapeError
from ...core.folded_frames import fold, private_cause
from ...core.sequences import all_of
from ...core.short_repr import short_repr
from ...dispatch.composite import before, composite
from ...dispatch.op import Op
from ...dispatch.structured import Plan, structured
from ...graph.modes import modes
from ...tensor.axes import DimError, Dims, integers, normalize_axes, normalize_axis
from ...tensor.broadcast import broadcast_shapes as shape_of_all
from ...tensor.layout import Size
from ...tensor.tensor import Tensor
from ..refusals import require_given
from ..unrecorded_moves import by_table
from .views import expand, permute, reshape, transpose, view


def _listed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(values) == 1 and not hasattr(values[0], "__index__"):
        return tuple(all_of(values[0]))
    return values


@structured("shape.copying.flip", linear=True, has_out=False, fresh=True, takes_complex=True)
def flip(input: Tensor, *dims: int | Sequence[int]) -> Tensor:
    """Return a copy with the order of elements along dims reversed.

    Raises  IndexError if an axis is out of range; RuntimeError if an axis is given twice

    Args:
        input: A tensor of any dtype. Unlike NumPy, the result is not a view.
        *dims: The axes, as numbers or as one tuple.

    Example:
        >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), dims=(1,))
        tensor([[2, 1],
                [4, 3]])
    """


flip.keeps_order = True


@flip.plan
def _(input: Tensor, dims: Any) -> Plan:
    require_given("flip", "dims", dims)
    dims = _listed(dims)
    axes = normalize_axes("flip", dims, input._layout.shape) if dims else ()
    return Plan(input._layout.shape, input._layout.dtype, (axes,))


@flip.vjp("input")
def _(g: Tensor, dims: tuple[int, ...]) -> Any:
    return flip(g, *dims)


@structured("shape.copying.roll", linear=True, has_out=False, fresh=True, takes_complex=True)
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Return a copy with elements shifted along dims; elements shifted past the end reappear at the
    front.

    Args:
        input: A tensor of any shape and dtype.
        shifts: The number of positions to shift by: one number, or one for each axis in dims.
        dims: The axis or axes. If None, the tensor is shifted as a vector of all its elements.

    Example:
        >>> torch.roll(torch.tensor([1, 2, 3]), 1)
        tensor([3, 1, 2])
    """


@roll.plan
def _(input: Tensor, shifts: int | tuple[int, ...], dims: Dims) -> Plan:
    moves = _whole("shifts", shifts)
    axes = None if dims is None or dims == () else _whole("dims", dims)
    if (axes is None and len(moves) != 1) or (axes is not None and len(axes) != len(moves)):
        raise ShapeError(
            f"shifts and dimensions must align. shifts: {len(moves)}, dims: {len(axes or ())}: "
            "give roll a shift for each dim, or one shift and no dims"
        )
    if axes and not input._layout.shape:
        raise DimError(f"Dimension specified as {axes[0]} but tensor has no dimensions: roll of it")
    if axes is not None:
        axes = tuple(normalize_axis("roll", axis, len(input._layout.shape)) for axis in axes)
    return Plan(input._layout.shape, input._layout.dtype, (moves, axes))


def _whole(name: str, values: Any) -> tuple[int, ...]:
    """Return values, which are the shifts or dims of `roll`, as integers.

    Raises  TypeError for a value that is not an integer
    """
    try:
        return tuple([value.__index__() for value in _listed((values,))])
    except (AttributeError, TypeError) as error:
        raise TypeError(
            f"roll(): argument {short_repr(name)} must be an integer or a tuple of integers, "
            f"not {short_repr(values)}"
        ) from private_cause(error)


@roll.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    (shifts, dims), shape = attributes, operands[0]._layout.shape
    value = operands[0].value
    if dims is not None and dims != ():
        axes = [normalize_axis("roll", axis, len(shape)) + 1 for axis in _whole("dims", dims)]
        return op.general((value,), (shifts, tuple(axes)))
    flat = value.reshape(value._layout.shape[0], operands[0]._layout.numel)
    return op.general((flat,), (shifts, 1)).reshape(value._layout.shape)


@roll.vjp("input")
def _(g: Tensor, shifts: int | tuple[int, ...], dims: int | tuple[int, ...]) -> Any:
    return roll(g, tuple(-shift for shift in _listed((shifts,))), dims)


@before(by_table())
@composite(homes="method", node="repeat")
def repeat(input: Tensor, *repeats: Any) -> Tensor:
    """Return input repeated along each axis; for more numbers than axes, axes are added in front.

    Raises  RuntimeError if there are fewer numbers than axes, or a number is negative

    Args:
        input: A tensor of any dtype. NumPy's repeat is repeat_interleave here.
        *repeats: The number of repetitions for each axis, as numbers or as one tuple.

    Example:
        >>> torch.tensor([1, 2]).repeat(2, 2)
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    times = integers("repeat", _listed(repeats))
    shape = input._layout.shape
    lead = len(times) - len(shape)
    if lead < 0:
        raise ShapeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            f"tensor: {len(times)} < {len(shape)}"
        )
    lengths = (1,) * lead + tuple(shape)
    # Each axis of length n becomes two axes of lengths 1 and n; the first one is then expanded.
    # Sizes are separate arguments here, because calls with lists are not cached.
    pairs: Any = input.reshape(*[x for n in lengths for x in (1, n)])
    pairs = pairs.expand(*[x for k, n in zip(times, lengths, strict=True) for x in (k, n)])
    merged = [k * n for k, n in zip(times, lengths, strict=True)]
    return pairs.clone().view(*merged)  # type: ignore[no-any-return]


@before(by_table())
@composite(node="repeat")
def tile(input: Tensor, *dims: int | Sequence[int]) -> Tensor:
    """Return input repeated along its axes.

    If there are fewer numbers than axes, the first axes are not repeated.

    Args:
        input: A tensor of any shape and dtype.
        *dims: The number of repetitions for each of the last axes, as numbers or as one tuple.

    Example:
        >>> torch.tile(torch.tensor([1, 2]), (2,))
        tensor([1, 2, 1, 2])
    """
    require_given("tile", "dims", dims)
    times = _listed(dims)
    missing = len(input._layout.shape) - len(times)
    return repeat(input, *(1,) * missing, *times)


def _quick_flatten(general: Callable[..., Any]) -> Callable[..., Any]:
    """Return `flatten` with a short path for a plain tensor in C order and the default end_dim."""

    def quick(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
        try:
            if (
                input.__class__ not in modes.plain
                or start_dim.__class__ is not int
                or end_dim.__class__ is not int
                or end_dim != -1
            ):
                return general(input, start_dim, end_dim)
            layout = input._layout
            known = layout.routes.get(("flatten", start_dim))
            if known is not None:
                return view.again(input, known)
            if layout.contiguous and layout.numel and 0 <= start_dim < len(layout.shape) - 1:
                sizes = (*layout.shape[:start_dim], -1)
                seen = view(input, *sizes)
                known = layout.routes.get((view, sizes, tuple))
                if known is not None and known.run is not None:
                    layout.routes.remember(("flatten", start_dim), known)
                return seen
            return general(input, start_dim, end_dim)
        except Exception as error:
            fold(error)
            raise

    return quick


@before(_quick_flatten)
@composite()
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return input with the axes from start_dim to end_dim merged, as a view where possible.

    Raises  IndexError if start_dim or end_dim is out of range; RuntimeError if start_dim comes
            after end_dim

    Args:
        input: A tensor of any dtype; a 0-d tensor gives a vector of one element.
        start_dim: The first axis to merge.
        end_dim: The last axis to merge.

    Example:
        >>> torch.zeros(2, 3, 4).flatten(1).shape
        fastdist.Size([2, 12])
    """
    shape = input._layout.shape
    first = normalize_axis("flatten", start_dim, max(len(shape), 1))
    last = normalize_axis("flatten", end_dim, max(len(shape), 1))
    if not shape:
        return reshape(input, 1)
    if first > last:
        raise ShapeError("flatten() has invalid args: start_dim cannot come after end_dim")
    length = 1
    for n in shape[first : last + 1]:
        length *= n
    if first == last:
        return input
    return reshape(input, (*shape[:first], length, *shape[last + 1 :]))


@composite(node="view")
def ravel(input: Tensor) -> Tensor:
    """Return input as a vector, as a view where possible.

    Args:
        input: A tensor of any shape and dtype.

    Example:
        >>> torch.zeros(2, 3).ravel().shape
        fastdist.Size([6])
    """
    return reshape(input, -1)


@composite()
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Return input with the axis dim split into several axes."""
    axis = normalize_axis("unflatten", dim, len(input._layout.shape))
    shape = input._layout.shape
    if not shape:
        raise ShapeError("unflatten: the tensor has no axis to be seen as several; reshape() it")
    sizes = all_of(sizes)
    if -1 in sizes:
        known = 1
        for n in sizes:
            known *= 1 if n == -1 else n
        sizes[sizes.index(-1)] = shape[axis] // max(known, 1)
    return input.view((*shape[:axis], *sizes, *shape[axis + 1 :]))


@composite()
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Return a view with the axes `source` moved to the positions `destination`.

    Raises  IndexError if an axis is out of range; RuntimeError if source and destination differ in
            length, or an axis is given twice

    Args:
        input: A tensor of any shape and dtype; its other axes keep their order.
        source: One axis or several axes.
        destination: The new position of each axis in `source`.

    Example:
        >>> torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape
        fastdist.Size([3, 4, 2])
    """
    ndim = len(input._layout.shape)
    from_ = [normalize_axis("movedim", axis, ndim) for axis in _listed((source,))]
    to = [normalize_axis("movedim", axis, ndim) for axis in _listed((destination,))]
    if len(from_) != len(to) or len(set(from_)) != len(from_) or len(set(to)) != len(to):
        raise ShapeError(
            f"movedim: Invalid source or destination dims: source ({short_repr(source)} dims) "
            "should contain "
            f"the same number of dims as destination ({short_repr(destination)} dims), each of "
            "them once"
        )
    rest = iter([axis for axis in range(ndim) if axis not in from_])
    order = [from_[to.index(i)] if i in to else next(rest) for i in range(ndim)]
    return permute(input, *order)


@composite()
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Return a view with two axes swapped."""
    return transpose(input, axis0, axis1)


@composite(homes="method")
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Return a view of input expanded to the shape of other.

    Raises  RuntimeError if an axis of input has neither length 1 nor its length in other

    Args:
        input: A tensor of any dtype. The elements of the view share memory, so clone() it before
            writing.
        other: The tensor whose shape is taken.

    Example:
        >>> torch.tensor([[1], [2]]).expand_as(torch.zeros(2, 3)).shape
        fastdist.Size([2, 3])
    """
    return expand(input, other._layout.shape)


@composite()
def broadcast_to(input: Tensor, size: tuple[int, ...]) -> Tensor:
    """Return a view of input broadcast to this size.

    Raises  RuntimeError if an axis of input has neither length 1 nor the length given in size

    Args:
        input: A tensor of any dtype. The elements of the view share memory, so clone() it before
            writing.
        size: The shape of the result, as a tuple.

    Example:
        >>> torch.broadcast_to(torch.tensor([1, 2]), (2, 2))
        tensor([[1, 2],
                [1, 2]])
    """
    return expand(input, size)


@composite(homes="function")
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Return views of all tensors, broadcast to a common shape."""
    given = (
        _listed(tensors) if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    )
    shape = shape_of_all("broadcast_tensors", [tensor._layout.shape for tensor in given])
    return tuple([expand(tensor, shape) for tensor in given])


@composite(homes="function", known_as="")
def broadcast_shapes(*shapes: Any) -> Size:
    """Return the shape that these shapes broadcast to."""
    given = [(n,) if hasattr(n, "__index__") else tuple(all_of(n)) for n in shapes]
    return Size(shape_of_all("broadcast_shapes", given))


@composite(homes="method")
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """Return a view of input with the shape of other.

    Raises  RuntimeError if the number of elements differs, or the shape cannot be a view of input

    Args:
        input: A tensor of any dtype with as many elements as other.
        other: The tensor whose shape is taken.

    Example:
        >>> torch.arange(4).view_as(torch.zeros(2, 2)).shape
        fastdist.Size([2, 2])
    """
    return input.view(other._layout.shape)


@composite(homes="method")
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """Return input with the shape of other, as a view where possible.

    Args:
        input: A tensor of any shape and dtype.
        other: The tensor whose shape is taken.

    Example:
        >>> torch.arange(4).reshape_as(torch.zeros(2, 2)).shape
        fastdist.Size([2, 2])
    """
    return reshape(input, other._layout.shape)


@composite()
def fliplr(input: Tensor) -> Tensor:
    """Return a copy with the order of columns reversed."""
    if len(input._layout.shape) < 2:
        raise ShapeError(f"Input must be >= 2-d.: fliplr got shape {input._layout.shape}")
    return flip(input, 1)


@composite()
def flipud(input: Tensor) -> Tensor:
    """Return a copy with the order of rows reversed."""
    if not input._layout.shape:
        raise ShapeError("Input must be >= 1-d.: flipud got a tensor without axes")
    return flip(input, 0)


@composite(node="rot90")
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """Return a copy rotated by k * 90 degrees, from the first axis of dims towards the second."""
    ndim = len(input._layout.shape)
    if len(dims) != 2:
        raise ShapeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if ndim < 2:
        raise ShapeError(f"expected total dims >= 2, but got total dims = {ndim}")
    first, second = (normalize_axis("rot90", dim, ndim) for dim in dims)
    if first == second:
        raise ShapeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turned: Any = input
    if k % 4 == 2:
        return turned.flip(first, second)  # type: ignore[no-any-return]
    if k % 4 == 0:
        return turned.clone()  # type: ignore[no-any-return]
    flipped = turned.flip(second if k % 4 == 1 else first)
    return flipped.transpose(first, second).clone()  # type: ignore[no-any-return]
