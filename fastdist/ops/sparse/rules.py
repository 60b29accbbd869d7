"""Rules for arithmetic, sums, views and indexing of sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.dtypes import DType, int64
from ...core.errors import ShapeError
from ...core.short_repr import short_repr
from ...dispatch.op import OPS
from ...graph.modes import no_grad, tls
from ...interpreters.sparse_rules import RULES, on_sparse, refusal
from ...tensor.axes import Axes
from ...tensor.methods import DeviceLike, Number
from ...tensor.promotion import result_dtype
from ...tensor.storage import storage_of
from ...tensor.tensor import Tensor, wrap
from ..create.creation import zeros
from ..pointwise.complex_numbers import conj
from .conversion import coalesce, entries_of, masked, part_at, sparse_of, to_dense, values
from .coordinates import (
    add_entries,
    coalesced,
    flat_places,
    indices_of,
    is_sparse,
    joined_tensors,
    own_indices,
    recorded,
    sparse_tensor,
    values_of,
    with_values,
)


def _by_values(input: Tensor | None, name: str, forward: Callable[[Any], Any], back: Any) -> Any:
    """Apply the linear function `forward` to input's values, and `back` to their gradient."""
    with no_grad():
        made = with_values(input, forward(values_of(input)))
    return recorded(
        made,
        name,
        (input,),
        lambda g: (back(g),),
        lambda t, _: _by_values(t[0], name, forward, back),
    )


@on_sparse("neg")
def _neg(input: Any) -> Any:
    return _by_values(input, "NegBackward0", lambda v: -v, lambda g: -g)


@on_sparse("conj")
def _conj(input: Any) -> Any:
    conjugate = conj
    return _by_values(input, "ConjPhysicalBackward0", conjugate, conjugate)


@on_sparse("clone", "packed")
def _clone(input: Any) -> Any:
    return _by_values(input, "CloneBackward0", lambda v: v.clone(), lambda g: g)


@on_sparse("cast")
def _cast(input: Any, dtype: Any) -> Any:
    before = input._layout.dtype
    return _by_values(input, "ToCopyBackward0", lambda v: v.to(dtype), lambda g: g.to(before))


@on_sparse("move")
def _move(input: Any, device: DeviceLike, *more: Any) -> Any:
    before = input._layout.device
    with no_grad():
        made = sparse_tensor(
            indices_of(input).to(device),
            values_of(input).to(device),
            input._layout.shape,
            input._array.is_coalesced,
        )
    return recorded(
        made,
        "ToCopyBackward0",
        (input,),
        lambda g: (g.to(before),),
        lambda t, _: t[0].to(device),
    )


@on_sparse("add")
def _add(input: Any, other: Any, alpha: Any = 1) -> Any:
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        sparse = input if is_sparse(input) else other
        raise refusal("add.Scalar", sparse)
    if not input._layout.is_sparse:
        return _dense_and_sparse(input, other, alpha)
    if not other._layout.is_sparse:
        if alpha == 1 and input._layout.shape != other._layout.shape:
            raise refusal("add", input)
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if input._layout.shape != other._layout.shape:
        raise ShapeError(
            "add: expected sizes of 'self' and 'other' to match, but "
            f"{list(input._layout.shape)} != {list(other._layout.shape)}"
        )
    dtype = result_dtype((input, other))
    with no_grad():
        made = _joined(input.detach().to(dtype), other.detach().to(dtype), alpha)
    return recorded(
        made,
        "AddBackward0",
        (input, other),
        lambda g: (g, g if alpha == 1 else g * alpha),
        lambda t, _: _added(t[0], t[1], alpha),
    )


def _added(input: Tensor | None, other: Tensor | complex, alpha: complex) -> Any:
    """Return the tangent of a sum from the operands' tangents, one of which may be None."""
    if other is None:
        return input
    scaled = other if alpha == 1 else other * alpha
    return scaled if input is None else input + scaled


def _joined(input: Any, other: Any, alpha: complex) -> Any:
    if alpha != 1:
        other = other * alpha
    if _same_places(input, other):
        return with_values(input, values_of(input) + values_of(other))
    if values_of(input).dim() != values_of(other).dim():
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same number of sparse dimensions, but "
            f"{indices_of(input)._layout.shape[0]} != {indices_of(other)._layout.shape[0]}"
        )
    found = wrap(input._array.plus(other._array), input._layout)
    # As in PyTorch, entries are merged if both tensors are coalesced, and otherwise concatenated.
    both = input._array.is_coalesced and other._array.is_coalesced
    return coalesced(found) if both else found


def _same_places(input: Any, other: Any) -> bool:
    return input._array.indices is other._array.indices


def _dense_and_sparse(dense: Tensor, entries: Any, alpha: complex) -> Any:
    if dense._layout.shape != entries._layout.shape:
        raise ShapeError(
            "add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(dense._layout.shape)} while other has size {list(entries._layout.shape)} (FYI: "
            "dense-sparse addition does not currently support broadcasting)"
        )
    dtype = result_dtype((dense, entries))
    with no_grad():
        made = dense.detach().to(dtype, copy=True).contiguous()
        added = entries.detach().to(dtype)
        add_entries(made, added if alpha == 1 else added * alpha)
    return recorded(
        made,
        "AddBackward0",
        (dense, entries),
        lambda g: (g, g if alpha == 1 else g * alpha),
        lambda t, _: to_dense(_added(t[0], t[1], alpha)),
    )


@on_sparse("sub")
def _sub(input: Tensor | Number, other: Tensor | Number, alpha: Number = 1) -> Any:
    return _add(input, other, -alpha)


@on_sparse("rsub")
def _rsub(input: Tensor | Number, other: Tensor | Number, alpha: Number = 1) -> Any:
    return _add(other, input, -alpha)


@on_sparse("add_")
def _add_in_place(input: Any, other: Any, alpha: Any = 1) -> Any:
    if input._layout.is_sparse:
        return _written(input, _add(input, other, alpha))
    from ...graph.inplace_history import require_may_change

    require_may_change(input)
    # If the call is not recorded, only rows that have entries are accessed in a large table.
    is_bare = not tls.grad or (input._edge is None and other._edge is None)
    if is_bare and input._layout.shape == other._layout.shape:
        with no_grad():
            dtype, entries = input._layout.dtype, other
            if entries._layout.dtype is not dtype:
                entries = entries.detach().to(dtype)
            if alpha != 1:
                entries = with_values(entries, values_of(entries) * alpha)
            add_entries(input, entries)
        storage_of(input).bump()
        return input
    return input.copy_(_add(input, other, alpha))


@on_sparse("sub_")
def _sub_in_place(input: Tensor | Number, other: Tensor | Number, alpha: Number = 1) -> Any:
    return _add_in_place(input, other, -alpha)


@on_sparse("mul_")
def _mul_in_place(input: Any, other: Tensor | Number) -> Any:
    return _written(input, _mul(input, other))


@on_sparse("div_")
def _div_in_place(input: Any, other: Tensor | Number) -> Any:
    return _written(input, _div(input, other))


@on_sparse("neg_")
def _neg_in_place(input: Any) -> Any:
    return _written(input, _neg(input))


@on_sparse("zero_")
def _zero(input: Any) -> Any:
    indices, own = indices_of(input), values_of(input)
    return _written(input, sparse_tensor(indices[:, :0], own[:0], input._layout.shape, True))


@on_sparse("copy_")
def _copy(input: Any, source: Any) -> Any:
    if not is_sparse(source) or not input._layout.is_sparse:
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{_kind(input)} and src type = {_kind(source)}"
        )
    return _written(input, source.to(input._layout.dtype).clone())


def _kind(tensor: Tensor) -> str:
    return f"{tensor.layout.name} {tensor._layout.dtype.name}"


def _written(target: Tensor, result: Tensor) -> Any:
    """Replace the entries of target, a sparse tensor, by those of result.

    Raises  RuntimeError for a dense target, or if the change would have to be recorded
    """
    if not target._layout.is_sparse:
        raise refusal("copy_", result)
    if target._edge is not None and not (target._edge.is_accumulate and result._edge is None):
        raise NotImplementedError(
            "sparse tensors with a history are not changed in place; use the op without _"
        )
    target._array = result.to(target._layout.dtype)._array
    storage_of(target).bump()
    return target


@on_sparse("mul")
def _mul(input: Any, other: Tensor | Number) -> Any:
    if not is_sparse(input):
        input, other = other, input
    if not isinstance(other, Tensor) or not other._layout.shape:
        if isinstance(other, Tensor) and other._layout.is_sparse:
            other = to_dense(other)
        return _scaled(input, other)
    if other._layout.is_sparse:
        return _both_sparse(input, other)
    if other._layout.shape != input._layout.shape:
        other = other.expand(input._layout.shape)
    places, own, is_whole = entries_of(input)
    made = own * part_at(other, places)
    return sparse_of(places, made, input._layout.shape, is_coalesced=is_whole)


def _scaled(input: Any, by: Any) -> Any:
    if not isinstance(by, Tensor):
        return _by_values(input, "MulBackward0", lambda v: v * by, lambda g: g * by)
    places, own, is_whole = entries_of(input)
    return sparse_of(places, own * by, input._layout.shape, is_coalesced=is_whole)


def _both_sparse(input: Any, other: Any) -> Any:
    if input._layout.shape != other._layout.shape:
        raise ShapeError(
            "mul operands have incompatible sizes: "
            f"{list(input._layout.shape)} and {list(other._layout.shape)}"
        )
    # The product is 0 where either operand has no entry, so input's coordinates are sufficient.
    places, own, is_whole = entries_of(input)
    made = own * part_at(other, places)
    return sparse_of(places, made, input._layout.shape, is_coalesced=is_whole)


@on_sparse("vector_norm")
def _norm(input: Any, *attributes: Any) -> Any:
    whole = coalesce(input)
    if len(attributes) > 1 and attributes[1] not in (None, tuple(range(len(input._layout.shape)))):
        raise refusal("norm along axes", input)
    return values(whole).norm(*attributes[:1])


@on_sparse("view")
def _view(input: Any, *shape: Any) -> Any:
    if tuple(shape[0]) == input._layout.shape:
        return _by_values(input, "AliasBackward0", lambda v: v, lambda g: g)
    raise RuntimeError(
        "reshape is not implemented for sparse tensors; call to_dense() first, or make a tensor of "
        "_indices() and _values() that are reshaped"
    )


@on_sparse("div")
def _div(input: Any, other: Any, *rounding: Any) -> Any:
    if not is_sparse(input) or (isinstance(other, Tensor) and other._layout.shape):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(getattr(other, 'shape', []))} for divisor)"
        )
    if rounding and rounding[0] is not None:
        raise refusal("div.rounding_mode", input)
    if isinstance(other, Tensor) and (other._edge is not None or other._extra is not None):
        return _scaled(input, 1 / other)
    return _by_values(input, "DivBackward0", lambda v: v / other, lambda g: g / other)


# Functions that map 0 to 0. They are not linear, so entries with equal coordinates are summed
# first.
ZERO_AT_ZERO = (
    "abs", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf", "erfinv", "expm1", "floor",
    "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p", "rad2deg", "relu",
    "replace_nonfinite", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh",
    "tanhshrink", "trunc",
)  # fmt: skip


def _of_values(name: str) -> Callable[[Any], Any]:
    def rule(input: Tensor, *attributes: Any) -> Any:
        whole = coalesce(input)
        made = OPS[name](values(whole), *attributes)
        return sparse_of(indices_of(whole), made, whole._layout.shape, is_coalesced=True)

    return rule


def _in_place(name: str) -> Callable[..., Any]:
    def rule(input: Tensor, *attributes: Any) -> Any:
        if not input._array.is_coalesced:
            raise RuntimeError(
                f"{name}_ requires coalesced input: call coalesce() first, or {name}() without _"
            )
        return _written(input, RULES[name](input, *attributes))

    return rule


for _name in ZERO_AT_ZERO:
    on_sparse(_name)(_of_values(_name))
    on_sparse(f"{_name}_")(_in_place(_name))


@on_sparse("floored_divide")
@on_sparse("floor_divide")
def _floor_divide(input: Any, other: Any) -> Any:
    if not is_sparse(input) or (isinstance(other, Tensor) and other._layout.shape):
        raise refusal("floor_divide", input if is_sparse(input) else other)
    whole = coalesce(input)
    made = values(whole) // other
    return sparse_of(indices_of(whole), made, whole._layout.shape, is_coalesced=True)


@on_sparse("pow")
def _pow(input: Any, exponent: Any) -> Any:
    if isinstance(exponent, Tensor) and not exponent._layout.shape and exponent._edge is None:
        exponent = exponent.item()
    if isinstance(exponent, Tensor) or not exponent > 0:
        raise refusal("pow", input)
    whole = coalesce(input)
    made = values(whole) ** exponent
    return sparse_of(indices_of(whole), made, whole._layout.shape, is_coalesced=True)


@on_sparse("sum")
def total(input: Any, dim: Axes = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    if dtype is not None:
        input = input.to(dtype)
    rank = len(input._layout.shape)
    dims = () if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    dims = tuple(sorted({d % rank if -rank <= d < rank else _outside(d, rank) for d in dims}))
    if not dims:
        with no_grad():
            whole = values_of(input).sum()
        return recorded(
            whole,
            "SumBackward0",
            (input,),
            lambda g: (_spread(g, input),),
            lambda t, _: t[0].sum(),
        )
    return _sum_along(input, dims, keepdim)


def _outside(dim: int, rank: int) -> int:
    raise IndexError(
        f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got "
        f"{short_repr(dim)})"
    )


def _spread(g: Tensor, input: Tensor) -> Any:
    """Return the gradient of a summed tensor: g, expanded to its shape, at its coordinates."""
    return masked(g.expand(input._layout.shape), input)


def _sum_along(input: Tensor, dims: tuple[int, ...], keepdim: bool) -> Any:
    shape = input._layout.shape
    axes = input._array.indices.shape[0]
    kept = tuple([i for i in range(len(shape)) if i not in dims])
    with no_grad():
        own = values_of(input)
        inner = tuple([i - axes + 1 for i in dims if i >= axes])
        own = own.sum(inner) if inner else own.clone()
        if not own._layout.dtype.is_floating_point:
            own = own.to(int64)
        left = [i for i in range(axes) if i not in dims]
        out_shape = tuple([shape[i] for i in kept])
        if not left:
            made = own.sum(0)
        else:
            # coalesced() copies and checks the coordinates on the remaining axes. The coordinates
            # on the summed axes are only checked.
            rows = indices_of(input).index_select(0, _places(left, input))
            _require_inside(input, [i for i in dims if i < axes])
            made = coalesced(sparse_tensor(rows, own, out_shape))
    if keepdim:
        made = _with_axes(made, dims)
    expanded = tuple([1 if i in dims else n for i, n in enumerate(shape)])

    def gradients(g: Tensor) -> tuple[Any]:
        return (_spread(to_dense(g).reshape(expanded), input),)

    return recorded(
        made, "SparseSumBackward0", (input,), gradients, lambda t, _: total(t[0], dims, keepdim)
    )


def _require_inside(input: Tensor, axes: list[int]) -> None:
    """Raise IndexError for an index out of range on one of the axes; on a GPU there is no check."""
    indices, shape = indices_of(input), input._layout.shape
    try:
        for axis in axes:
            flat_places(indices[axis : axis + 1], shape[axis : axis + 1])
    except IndexError:
        own_indices(input)  # checks all axes, so the error names the axis of the tensor
        raise


def _places(axes: Any, like: Any) -> Any:
    from ..create.creation import tensor

    return tensor(list(axes), dtype=int64, device=like._layout.device)


def _with_axes(made: Any, dims: tuple[int, ...]) -> Any:
    if not made._layout.is_sparse:
        for d in dims:
            made = made.unsqueeze(d)
        return made
    for d in dims:
        made = _unsqueeze(made, d)
    return made


@on_sparse("unsqueeze")
def _unsqueeze(input: Any, dim: int) -> Any:
    shape, axes = input._layout.shape, input._array.indices.shape[0]
    at = dim % (len(shape) + 1)
    whole = (*shape[:at], 1, *shape[at:])
    with no_grad():
        indices, own = indices_of(input), values_of(input)
        if at <= axes:
            row = zeros((1, indices._layout.shape[1]), dtype=int64, device=input._layout.device)
            indices = joined_tensors([indices[:at], row, indices[at:]])
        else:
            own = own.unsqueeze(at - axes + 1)
        made = sparse_tensor(indices, own, whole, input._array.is_coalesced)
    return recorded(
        made,
        "UnsqueezeBackward0",
        (input,),
        lambda g: (to_dense(g).squeeze(at),),
        lambda t, _: t[0].unsqueeze(at),
    )


@on_sparse("permute")
def _permute(input: Any, dims: Any) -> Any:
    shape, axes = input._layout.shape, input._array.indices.shape[0]
    if len(dims) == 1 and not isinstance(dims[0], int):
        (dims,) = dims
    order = tuple([d % len(shape) for d in dims])
    if len(order) != len(shape):
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {len(shape)} is not "
            f"equal to len(dims) = {len(order)}"
        )
    if any(d >= axes for d in order[:axes]):
        raise refusal("permute of sparse with dense axes", input)
    with no_grad():
        indices = indices_of(input).index_select(0, _places(order[:axes], input))
        inner = (0, *[d - axes + 1 for d in order[axes:]])
        own = values_of(input).permute(inner).contiguous()
        stays = order[:axes] == tuple(range(axes)) and input._array.is_coalesced
        made = sparse_tensor(indices, own, [shape[d] for d in order], stays)
    back = tuple([order.index(i) for i in range(len(order))])
    return recorded(
        made,
        "PermuteBackward0",
        (input,),
        lambda g: (g.permute(back),),
        lambda t, _: t[0].permute(order),
    )


@on_sparse("transpose", "swapaxes")
def _transpose(input: Any, dim0: int, dim1: int) -> Any:
    order = list(range(len(input._layout.shape)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _permute(input, order)
