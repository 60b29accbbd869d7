"""Reading and writing with integer index tensors along one axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dtypes import int32, int64
from ...core.errors import DTypeError, ShapeError
from ...core.folded_frames import fold
from ...core.moved_modules import earlier_names
from ...core.short_repr import short_repr
from ...dispatch.composite import COMPOSITES, before, composite
from ...dispatch.op import OPS, Op
from ...dispatch.structured import Plan, structured
from ...dispatch.target import GivenOut, store_in_out
from ...graph.modes import modes
from ...graph.tensor_tangents import zeros_like
from ...interpreters.batched_tensor import level_of, levels
from ...interpreters.batching import along_axes, call_one_by_one, whole
from ...tensor.axes import DimError, normalize_axis
from ...tensor.constants import held
from ...tensor.layout import Layout, Shape
from ...tensor.tensor import Tensor, from_array
from ..shape.views import expand


def require_index(name: str, index: Tensor, *, may_be_empty: bool = False) -> None:
    """Raise RuntimeError unless index is int64 or int32. If may_be_empty, an empty index may have
    any dtype, as in PyTorch's gather and scatter.
    """
    if may_be_empty and not index._layout.numel:
        return
    if index._layout.dtype is not int64 and index._layout.dtype is not int32:
        raise DTypeError(
            f"{name}(): Expected dtype int32/int64 for index, got {index._layout.dtype.name}; cast "
            "with .long()"
        )


def require_within(name: str, index: Tensor, shape: Shape, axis: int) -> None:
    if not index._layout.numel:
        return  # an empty index selects nothing, whatever its number of axes
    # A 0-d tensor counts as a vector with one element.
    if max(len(index._layout.shape), 1) != max(len(shape), 1):
        raise ShapeError(
            f"Index tensor must have the same number of dimensions as input tensor: {name} got "
            f"{index._layout.shape} for {shape}"
        )
    for i, (n, m) in enumerate(zip(index._layout.shape, shape)):
        if i != axis and n > m:
            raise ShapeError(
                f"Size does not match at dimension {i} expected index {list(index._layout.shape)} "
                f"to be no larger than self {list(shape)} apart from dimension {axis}"
            )


@structured(
    "index.indexing.gather",
    linear=True,
    fresh=True,
    batch="same axes",
    takes_complex=True,
    memory="outside of first",
)
def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return elements of input at index along dim: `out[i][j] = input[index[i][j]][j]` for dim 0.

    Raises  RuntimeError if an index is out of range, or index has a wrong dtype or number of axes;
            IndexError if dim is out of range

    Args:
        input: A tensor of any dtype, with as many axes as index.
        dim: The axis to which the indices apply.
        index: Indices along dim, int64 or int32. Only axis dim may be longer than in input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the shape of index and the dtype of input.

    Example:
        >>> x = torch.tensor([[1, 2], [3, 4]])
        >>> torch.gather(x, 1, torch.tensor([[0, 0], [1, 0]]))
        tensor([[1, 1],
                [4, 3]])
    """


@gather.plan
def _(input: Tensor, index: Tensor, dim: int) -> Plan:
    axis = normalize_axis("gather", dim, len(input._layout.shape))
    require_index("gather", index, may_be_empty=True)
    require_within("gather", index, input._layout.shape, axis)
    return Plan(index._layout.shape, input._layout.dtype, (axis,))


@gather.vjp("input")
def _(g: Tensor, index: Tensor, input_layout: Layout, dim: int) -> Any:
    return scatter_zeros(g, index, input_layout.shape, dim)


@structured(
    "index.indexing.scatter_zeros",
    linear=True,
    fresh=True,
    homes="nowhere",
    known_as="gather_backward",
    takes_complex=True,
)
def scatter_zeros(input: Tensor, index: Tensor, shape: Shape, dim: int) -> Tensor:
    """Return zeros of the given shape, plus input at index along dim: the adjoint of gather."""


@scatter_zeros.plan
def _(input: Tensor, index: Tensor, shape: Shape, dim: int) -> Plan:
    return Plan(shape, input._layout.dtype, (normalize_axis("gather", dim, len(shape)),))


@scatter_zeros.vjp("input")
def _(g: Tensor, index: Tensor, dim: int) -> Any:
    return gather(g, dim, index)


@structured(
    "index.indexing.scatter", fresh=True, homes="nowhere", known_as="scatter", takes_complex=True
)
def scatter_src(input: Tensor, index: Tensor, src: Tensor, dim: int) -> Tensor:
    """Return input with src written at index along dim."""


def _scatter_plan(name: str, input: Tensor, index: Tensor, src: Tensor, dim: int) -> Plan:
    axis = normalize_axis(name, dim, len(input._layout.shape))
    require_index(name, index, may_be_empty=True)
    require_within(name, index, input._layout.shape, axis)
    # In scatter a 0-d src is one number for all positions.
    if src._layout.shape or name == "scatter_add":
        _require_source(index._layout.shape, src._layout.shape, input._layout.shape, axis)
    if src._layout.dtype is not input._layout.dtype:
        raise DTypeError(
            f"{name}(): Expected self.dtype to be equal to src.dtype, got "
            f"{input._layout.dtype.name} and {src._layout.dtype.name}"
        )
    return Plan(input._layout.shape, input._layout.dtype, (axis,))


def _require_source(index: Shape, src: Shape, shape: Shape, axis: int) -> None:
    """Raise unless src has at least one element for each element of index."""
    if 0 in index:
        return
    if max(len(src), 1) != max(len(index), 1):
        raise ShapeError(
            "Index tensor must have the same number of dimensions as src tensor: index is "
            f"{index} and src is {src}"
        )
    if any(n > m for n, m in zip(index or (1,), src or (1,), strict=True)):
        raise ShapeError(
            f"Expected index {list(index)} to be no larger than self {list(shape)} apart from "
            f"dimension {axis} and to be no larger size than src {list(src)}"
        )


@scatter_src.names_node
def _(node: Any) -> str:
    return "scatter" if node.naming_route.layouts[2].shape else "scatter.1"


@scatter_src.plan
def _(input: Tensor, index: Tensor, src: Tensor, dim: int) -> Plan:
    return _scatter_plan("scatter", input, index, src, dim)


@scatter_src.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    input, index, src = operands
    if not src._layout.shape and index._layout.shape:
        src = src.expand(index._layout.shape)
    rule = along_axes if input._layout.shape else call_one_by_one
    return rule(op, (input, index, src), attributes, level)


@scatter_src.vjp("input")
def _(g: Tensor, index: Tensor, dim: int) -> Any:
    return scatter(g, dim, index, 0)


@scatter_src.vjp("src")
def _(g: Tensor, index: Tensor, src_layout: Layout, dim: int) -> Any:
    found = gather(g, dim, index)
    return _grown(found, src_layout.shape)


@scatter_src.jvp
def _(
    input: Tensor,
    input_t: Tensor | None,
    index: Tensor,
    src: Tensor,
    src_t: Tensor | None,
    dim: int,
) -> Any:
    base = zeros_like(input) if input_t is None else input_t
    tangent = zeros_like(src) if src_t is None else src_t
    return scatter_src.general((base, index, tangent), (dim,))


def _grown(found: Tensor, shape: Shape) -> Any:
    """Return src's gradient `found`, padded to src's shape: src may be larger than index."""
    if found._layout.shape == shape or not shape:
        return found.sum() if not shape and found._layout.shape else found
    corner = tuple(slice(0, n) for n in found._layout.shape or (1,))
    return OPS["place"].general(
        (found if found._layout.shape else found.reshape(1),), (shape, corner, None)
    )


def _by_op(general: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return scatter with a short path to the op, for calls with a tensor `src` but no `reduce`."""

    def scatter(*args: Any, **named: Any) -> Any:
        try:
            if not named and len(args) == 4 and args[1].__class__ is int:
                input, dim, index, src = args
                plain = modes.plain
                tensors_are_plain = input.__class__ in plain and index.__class__ in plain
                if tensors_are_plain and src.__class__ in plain and src._layout.shape:
                    return scatter_src(input, index, src, dim)
            return general(*args, **named)
        except Exception as error:
            fold(error)
            raise

    return scatter


@before(_by_op)
@composite(homes="function method inplace")
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
    out: Any = None,
) -> Tensor:
    """Return input with src, a tensor or a number, written at index along dim. With reduce "add" or
    "multiply", src is combined with the old values.

    Raises  IndexError if dim is out of range; RuntimeError if an index is out of range or not an
            integer, or the dtypes of input and src differ

    Args:
        input: A tensor of any dtype, which is not changed. Of several values for one element, any
            one may be written.
        dim: The axis to which the indices apply.
        index: Indices along dim, in int64.
        src: A tensor at least as large as index, or a number; None: value is given.
        value: A number, instead of src; None: src is given.
        reduce: "add" or "multiply" to combine with the elements of input; None to replace them.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.zeros(2, 3).scatter(1, torch.tensor([[2], [0]]), 1.0)
        tensor([[0., 0., 1.],
                [1., 0., 0.]])
    """
    given = value if src is None else src
    if reduce is not None:
        written = _met(input, dim, index, given, reduce)
        return store_in_out("scatter", out, written, (input, given), "same", "outside of others")
    if isinstance(src, Tensor) and not src._layout.shape:
        _require_source(index._layout.shape, (), input._layout.shape, dim)
    elif not isinstance(given, Tensor):
        from ..create.allocation import number_like

        given = number_like(input, given)
    written = scatter_src(input, index, given, dim)
    if out is None:
        return written
    return store_in_out("scatter", out, written, (input, given), "same", "outside of others")


def _met(input: Tensor, dim: int, index: Tensor, given: Any, reduce: str) -> Tensor:
    from ..create.allocation import number_like

    if reduce not in ("add", "multiply"):
        raise ShapeError(
            f"reduce argument must be either add or multiply., got {short_repr(reduce)}"
        )
    if not isinstance(given, Tensor):
        given = expand(number_like(input, given), index._layout.shape)
    return COMPOSITES["scatter_reduce"].call(  # type: ignore[no-any-return]
        input, dim, index, given, "sum" if reduce == "add" else "prod"
    )


@structured(
    "index.indexing.scatter_add",
    fresh=True,
    homes="function method inplace",
    batch="same axes",
    takes_complex=True,
    memory="outside of others",
)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return input with src added at index along dim."""


@scatter_add.plan
def _(input: Tensor, index: Tensor, src: Tensor, dim: int) -> Plan:
    return _scatter_plan("scatter_add", input, index, src, dim)


@scatter_add.vjp("input")
def _(g: Tensor) -> Any:
    return g * 1


@scatter_add.vjp("src")
def _(g: Tensor, index: Tensor, src_layout: Layout, dim: int) -> Any:
    return _grown(gather(g, dim, index), src_layout.shape)


@scatter_add.jvp
def _(
    input: Tensor,
    input_t: Tensor | None,
    index: Tensor,
    src: Tensor,
    src_t: Tensor | None,
    dim: int,
) -> Any:
    base = zeros_like(input) if input_t is None else input_t
    return base if src_t is None else base.scatter_add(dim, index, src_t)


def index_vector(name: str, index: Tensor) -> Any:
    require_index(name, index)
    if len(index._layout.shape) > 1:
        raise DimError(f"{name}(): Index is supposed to be a vector, got {index._layout.shape}")
    return index if index._layout.shape else index.reshape(1)


@structured(
    "index.indexing.select",
    linear=True,
    fresh=True,
    homes="nowhere",
    known_as="index_select",
    takes_complex=True,
    has_out=True,
)
def select_slices(input: Tensor, index: Tensor, dim: int) -> Tensor:
    """Return the slices of input at the indices `index` along dim."""


@select_slices.plan
def _(input: Tensor, index: Tensor, dim: int) -> Plan:
    shape = input._layout.shape
    axis = normalize_axis("index_select", dim, len(shape))
    count = index._layout.shape[0]
    if not shape and count != 1:
        raise ShapeError(
            f"index_select(): Index to scalar can have only 1 value, got {count} value(s)"
        )
    return Plan(
        (*shape[:axis], count, *shape[axis + 1 :]) if shape else (), input._layout.dtype, (axis,)
    )


@select_slices.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    input, index = operands
    shape = input._layout.shape
    if not shape:
        return call_one_by_one(op, operands, attributes, level)
    axis, size = normalize_axis("index_select", attributes[0], len(shape)), levels.sizes[level - 1]
    if level_of((index,)) < level:
        return op.general((input.value, index), (axis + 1,))
    places = index.value
    if level_of((input,)) < level:  # all calls have the same input
        found = op.general((input, places.reshape(-1)), (axis,))
        lengths = (*shape[:axis], size, index._layout.numel, *shape[axis + 1 :])
        return found.reshape(lengths).movedim(axis, 0)
    each = from_array(np.arange(size).reshape(size, 1)).to(places.device)
    return input.value.movedim(axis + 1, 1)[(each, places)].movedim(1, axis + 1)


@select_slices.vjp("input")
def _(g: Tensor, index: Tensor, input_layout: Layout, dim: int) -> Any:
    from ..create.creation import zeros

    # The base is an expanded 0-d zero, so that memory of input's shape is written only once.
    zero = zeros((), dtype=g._layout.dtype, device=g._layout.device)
    base = expand(zero, input_layout.shape)
    return add_slices(base, index, g, dim, 1)


@composite(known_as="")
def index_select(input: Tensor, dim: int, index: Tensor, *, out: GivenOut = None) -> Tensor:
    """Return a copy of the slices of input at the indices `index` along dim.

    Raises  IndexError if dim or an index is out of range; RuntimeError if index is neither int32
            nor int64, or has several axes

    Args:
        input: A tensor of any dtype; the result has index.numel() slices along dim.
        dim: The axis to which the indices apply.
        index: The indices of slices, a vector of int64 or int32.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([1, 1]))
        tensor([[2, 2],
                [4, 4]])
    """
    found = select_slices(input, index_vector("index_select", index), dim)
    return store_in_out("index_select", out, found, (input,), "same", "outside of first")


def require_slices(name: str, shape: Shape, given: Shape, count: int, axis: int) -> None:
    """Raise ShapeError unless `given` is `shape` with the length `count` along `axis`."""
    if given and axis >= len(given):
        raise ShapeError(
            f"{name}(): Indexing dim {axis} is out of bounds of the source tensor with dim "
            f"{len(given)}"
        )
    length = given[axis] if given else 1
    if count != length:
        raise ShapeError(
            f"{name}(): Number of indices ({count}) should be equal to source.size(dim): "
            f"({length}), for dim: {axis}"
        )
    rest = [(*one[:axis], *one[axis + 1 :]) if shape and given else one for one in (shape, given)]
    if rest[0] != rest[1]:
        raise ShapeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(shape)} source.shape = {list(given)}"
        )


@structured(
    "index.indexing.add", fresh=True, homes="nowhere", known_as="index_add", takes_complex=True
)
def add_slices(input: Tensor, index: Tensor, source: Tensor, dim: int, alpha: float) -> Tensor:
    """Return input with slices of source, times alpha, added at the indices `index` along dim."""


@add_slices.plan
def _(input: Tensor, index: Tensor, source: Tensor, dim: int, alpha: float) -> Plan:
    shape = input._layout.shape
    axis = normalize_axis("index_add", dim, len(shape))
    if source._layout.dtype is not input._layout.dtype:
        raise DTypeError(
            "index_add_(): self and source expected to have the same dtype, but got (self) "
            f"{input._layout.dtype.name} and (source) {source._layout.dtype.name}"
        )
    require_slices("index_add_", shape, source._layout.shape, index._layout.shape[0], axis)
    # alpha is converted to the dtype first: -1 becomes 255 in uint8.
    factor = held(alpha, input._layout.dtype)
    return Plan(shape, input._layout.dtype, (axis, factor))


@add_slices.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    shape, (dim, alpha) = operands[0]._layout.shape, attributes
    if not shape or not operands[2]._layout.shape:
        return call_one_by_one(op, operands, attributes, level)
    axis, size = normalize_axis("index_add", dim, len(shape)), levels.sizes[level - 1]
    if level_of((operands[1],)) < level:
        base, source = whole((operands[0], operands[2]), level)
        return op.general((base, operands[1], source), (axis + 1, alpha))
    # The axes of all calls are joined to one axis, and the indices of each call are shifted to the
    # call's part of that axis. An index that is out of range must not reach the part of another
    # call, so it is set to a position beyond the joined axis.
    base, index, source = whole(operands, level)
    base, source = base.movedim(axis + 1, 1), source.movedim(axis + 1, 1)
    n, rest, count = shape[axis], base._layout.shape[2:], source._layout.shape[1]
    begins = from_array(np.arange(size).reshape(size, 1) * n).to(index.device)
    outside = (index < 0).logical_or(index >= n)
    places = (index + begins).masked_fill(outside, size * n).reshape(-1)
    added = source.reshape(size * count, *source._layout.shape[2:])
    found = op.general((base.reshape(size * n, *rest), places, added), (0, alpha))
    return found.reshape(size, n, *rest).movedim(1, axis + 1)


@add_slices.vjp("input")
def _(g: Tensor) -> Any:
    return g * 1


@add_slices.vjp("source")
def _(g: Tensor, index: Tensor, dim: int, alpha: float) -> Any:
    found = select_slices(g, index, dim)
    return found if alpha == 1 else found * alpha


@add_slices.jvp
def _(
    input: Tensor,
    input_t: Tensor | None,
    index: Tensor,
    source_t: Tensor | None,
    dim: int,
    alpha: float,
) -> Any:
    base = zeros_like(input) if input_t is None else input_t
    return base if source_t is None else add_slices(base, index, source_t, dim, alpha)


@composite(homes="function method inplace", out="same", memory="outside of others")
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    """Return input with slices of source, times alpha, added at the indices `index` along dim."""
    return add_slices(input, index_vector("index_add", index), source, dim, alpha)


__getattr__ = earlier_names(__name__)
