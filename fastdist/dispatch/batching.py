"""How an op runs on a batch of tensors at once, read off its declaration: `vmap`.

While a level of vmap is open, `modes.tracers` is not zero and every op goes the general way, which
offers its operands here. See Note [Batching rules].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from ..core.dtypes import bool_
from ..core.overriding import NOT_TAKEN
from ..graph.modes import count_special, count_tracers
from ..tensor.tensor import Tensor, from_array
from .batch_loop import loop, warn_of_loop
from .batched_tensor import Batched, NeedsNumbers, batched, level_of, levels, value_at
from .gradients import CONDITIONS
from .promotion import result_dtype
from .rules import normalize_axis

# Note [Batching rules]
# A batch lies along the first axis of a value, so an op runs on it as on one tensor once it is told
# of the axes behind: pointwise ops and products if all operands have as many (`_aligned`), ops with
# attributes that name axes (`_AXES`) if these are counted from behind the first, ops on the last
# axes (`_ON_LAST_AXES`) as they are. Views have a rule each. For what is left (`_one_by_one`) the
# calls are made one after the other, with PyTorch's warning that names the op. A rule calls ops on
# values, which may be batches of an outer level, and so comes here again: nesting is no more.
_AXES = frozenset({"dim", "dim0", "dim1", "dim2", "dims", "dimension"})
_SAME_AXES = frozenset({"gather", "scatter_add", "scatter_src"})  # all operands have the same
_OWN_AXES = frozenset({"place_diagonal"})  # its axes are those of the result
_ON_LAST_AXES = frozenset(
    """
    cast cholesky_parts clone determinant eig_parts eigenvalues eigh_parts eigvals_alone
    inverse_parts log_determinant
    lu_parts packed permutation qr_parts singular_values solve_parts svd_parts triangular tril triu
    view_as_real
    """.split()  # noqa: SIM905
)

Rule = Callable[..., Any]
_RULES: Final[dict[str, Rule]] = {}


@contextmanager
def open_level(size: int, randomness: str) -> Iterator[int]:
    """Let ops of this thread take batches of size at a new level, inside this block."""
    before = levels.depth, levels.sizes, levels.randomness
    levels.depth += 1
    levels.sizes, levels.randomness = (*before[1], size), (*before[2], randomness)
    count_special(1)
    count_tracers(1)
    try:
        yield levels.depth
    finally:
        count_tracers(-1)
        count_special(-1)
        levels.depth, levels.sizes, levels.randomness = before


def offer_batch(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], out: Any) -> Any:
    """Return what op gives of operands of which one is a batch; NOT_TAKEN where none is.

    Note    called where modes.tracers is not zero
    """
    level = level_of(operands) if levels.depth else 0
    if not level:
        return NOT_TAKEN
    if out is not None:
        raise RuntimeError(f"vmap: {op.name}(..., out=...) writes into a tensor that is no batch")
    rule = _RULES.get(op.name) or _derived(op, operands, attributes, level)
    result = rule(op, operands, attributes, level)
    return _batched_results(result, level)


def _batched_results(result: Any, level: int) -> Any:
    if isinstance(result, tuple):
        return tuple([batched(one, level) for one in result])
    return batched(result, level)


def _derived(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Rule:
    """Return the rule that follows from op's declaration."""
    if op.kind == "pointwise":
        pairs = zip(op.tensors, operands, strict=True)
        scaled = any(name == "value" and isinstance(o, Batched) for name, o in pairs)
        return _one_by_one if scaled else _pointwise  # a value has no axes
    if op.name in _ON_LAST_AXES:
        return _on_last_axes
    named = _AXES.intersection(op.attributes)
    ndims = {len(_shape(operand)) for operand in operands}
    alike = len(op.tensors) == 1 or (op.name in _SAME_AXES and len(ndims) == 1)
    if named and alike and op.name not in _OWN_AXES:
        if 0 in ndims:
            return _one_by_one if op.name == "windows" else _of_scalars
        return _along_axes
    return _one_by_one


def _shape(operand: Any) -> tuple[int, ...]:
    return operand.facts.shape if isinstance(operand, Tensor) else ()


def _values(operands: Sequence[Any], level: int) -> list[Any]:
    """Return the values of operands, each of them a batch."""
    size = levels.sizes[level - 1]
    return [value_at(o, level, size=size) if isinstance(o, Tensor) else o for o in operands]


def _aligned(operands: Sequence[Any], level: int, values: Sequence[Any] = ()) -> list[Any]:
    """Return the values of operands, those of batches with axes of length 1 behind the first, so
    that they broadcast as the operands do.
    """
    most = max(len(_shape(operand)) for operand in operands)
    found = []
    values = values or [value_at(operand, level) for operand in operands]
    for operand, value in zip(operands, values, strict=True):
        shape = _shape(operand)
        if value is not operand and len(shape) < most:
            value = value.reshape(value.facts.shape[0], *(1,) * (most - len(shape)), *shape)
        found.append(value)
    return found


# ---- Rules --------------------------------------------------------------------------------------


def _pointwise(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    return op.general(tuple(_aligned(_promoted(op, operands), level)), attributes)


def _promoted(op: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """Return operands with those that have no axes cast as they would be: with the axis of the
    batch they would have a say in the dtype.
    """
    pairs = list(zip(op.tensors, operands, strict=True))
    meeting = [o for name, o in pairs if name not in CONDITIONS]
    tensors = [o for o in meeting if isinstance(o, Tensor)]
    if all(_shape(o) for o in tensors) or len({o.facts.dtype for o in tensors}) < 2:
        return operands
    dtype = result_dtype(meeting)
    return [
        o.to(dtype) if name not in CONDITIONS and isinstance(o, Batched) and not _shape(o) else o
        for name, o in pairs
    ]


def _on_last_axes(op: Any, operands: Sequence[Any], attributes: Any, level: int) -> Any:
    return op.general(tuple(_aligned(operands, level, _values(operands, level))), attributes)


def _along_axes(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    ndim = len(_shape(operands[0]))
    values = _values(operands, level)
    named = dict(zip(op.attributes, attributes, strict=True))
    for name in _AXES.intersection(named):
        axis = named[name]
        if axis is None or axis == ():
            return _of_all_elements(op, operands, named, level)
        many = isinstance(axis, list | tuple)
        if many and isinstance(axis[0], list | tuple):
            (axis,) = axis  # flip(x, (0, 1)), or flip(x, 0, 1)
        moved = [normalize_axis(op.name, one, ndim) + 1 for one in (axis if many else (axis,))]
        named[name] = tuple(moved) if many else moved[0]
    return op.general(tuple(values), tuple(named.values()))


def _of_all_elements(op: Any, operands: Sequence[Any], named: dict[str, Any], level: int) -> Any:
    """Run a reduction over all axes: along the one that all of them make together."""
    if "keepdim" not in named and op.name != "count_nonzero":
        return _one_by_one(op, operands, tuple(named.values()), level)
    value = _values(operands, level)[0]
    size = value.facts.shape[0]
    given = {**named, "dim": 1}
    kept = given.get("keepdim", False)
    if kept:
        given["keepdim"] = False
    if len(value.facts.shape) != 2:
        value = value.reshape(size, -1)
    found = op.general((value,), tuple(given.values()))
    return found.reshape(size, *(1,) * len(_shape(operands[0]))) if kept else found


def _of_scalars(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    """Run an op that takes a tensor without axes for one with a single one."""
    rows = [batched(value.reshape(-1, 1), level) for value in _values(operands, level)]
    found = _along_axes(op, rows, attributes, level)
    if isinstance(found, tuple):
        return tuple([one.reshape(-1) for one in found])
    return found.reshape(-1)


def _one_by_one(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    def call(*one: Any) -> Any:
        return op.general(one, attributes)

    warn_of_loop(op.name)
    return loop(call, operands, level)


def batching_rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of ops of these names: a function of (op, operands, attributes, level) that
    returns the values of the results.
    """

    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


@batching_rule("matmul")
def _(op: Any, operands: Sequence[Any], attributes: Any, level: int) -> Any:
    return op.general(tuple(_aligned(operands, level)), attributes)


@batching_rule("linear_kernel")
def _(op: Any, operands: Sequence[Any], attributes: Any, level: int) -> Any:
    input, weight, bias = operands
    if level_of((weight, bias)) < level:
        value = input.value
        size, rows, width = value.facts.shape
        found = op.general((value.reshape(size * rows, width), weight, bias), attributes)
        return found.reshape(size, rows, found.facts.shape[-1])
    found = input @ weight.transpose(0, 1)
    return value_at(found if bias is None else found + bias, level, size=levels.sizes[level - 1])


@batching_rule("layer_norm_rows", "rms_norm_rows")
def _(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    input, weight, *biases = operands
    size = levels.sizes[level - 1]
    rows = value_at(input, level, size=size)
    flat = rows.reshape(-1, rows.facts.shape[-1])
    out, *others = op.general((flat, *[None] * (1 + len(biases))), attributes)
    found = batched(out.reshape(rows.facts.shape), level)
    if weight is not None:
        found = found * weight
    for bias in biases:
        found = found if bias is None else found + bias
    return value_at(found, level), *[one.reshape(size, -1, 1) for one in others]


@batching_rule("avg_pool1d", "averages_back", "convolve", "weigh")
def _(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    """Let the batch lie in the first axis of the input, along which the op does the same."""
    input, *others = operands
    if level_of(others) == level:
        return _one_by_one(op, operands, attributes, level)
    size, n, *rest = input.value.facts.shape
    found = op.general((input.value.reshape(size * n, *rest), *others), attributes)
    return found.reshape(size, n, *found.facts.shape[1:])


@batching_rule("attention_in_blocks")
def _(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    n = operands[0].facts.shape[0]
    given = [o if o is None else o.expand(n, *o.facts.shape[1:]) for o in operands]
    merged = [o if o is None else o.reshape(-1, *o.facts.shape[2:]) for o in _values(given, level)]
    found = op.general(tuple(merged), attributes)
    return tuple([one.reshape(-1, n, *one.facts.shape[1:]) for one in found])


@batching_rule("max_of_all", "min_of_all")
def _(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    flat = operands[0].value.reshape(levels.sizes[level - 1], -1)
    return flat.amax(1) if op.name == "max_of_all" else flat.amin(1)


@batching_rule("select_slices")
def _(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    input, index = operands
    if level_of((index,)) == level:
        return _one_by_one(op, operands, attributes, level)
    axis = normalize_axis(op.name, attributes[0], len(_shape(input)))
    return op.general((input.value, index), (axis + 1,))


@batching_rule("view")
def _(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    (input,), (sizes,) = operands, attributes
    if sizes and not isinstance(sizes[0], int) and isinstance(sizes[0], list | tuple):
        (sizes,) = sizes
    if not all(hasattr(n, "__index__") for n in sizes):
        return _one_by_one(op, operands, attributes, level)  # as another dtype
    if -1 in sizes and 0 not in input.facts.shape:
        rest = 1
        for n in sizes:
            rest *= n if n != -1 else 1
        sizes = [input.facts.numel // max(rest, 1) if n == -1 else n for n in sizes]
    value = input.value
    return value.reshape(value.facts.shape[0], *sizes)


@batching_rule("expand")
def _(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    (input,), (sizes,) = operands, attributes
    if sizes and isinstance(sizes[0], list | tuple):
        (sizes,) = sizes
    value, shape = input.value, input.facts.shape
    size, more = value.facts.shape[0], len(sizes) - len(shape)
    if more > 0:
        value = value.reshape(size, *(1,) * more, *shape)
    return value.expand(size, *sizes)


@batching_rule("permute")
def _(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    (input,), (dims,) = operands, attributes
    if dims and isinstance(dims[0], list | tuple):
        (dims,) = dims
    ndim = len(input.facts.shape)
    return input.value.permute(0, *[normalize_axis(op.name, d, ndim) + 1 for d in dims])


@batching_rule("unsqueeze")
def _(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    (input,), (dim,) = operands, attributes
    return input.value.unsqueeze(normalize_axis(op.name, dim, len(input.facts.shape) + 1) + 1)


@batching_rule("squeeze")
def _(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    (input,), (dim,) = operands, attributes
    shape = input.facts.shape
    if dim is None or not isinstance(dim, int | list | tuple):
        gone = [i for i, n in enumerate(shape) if n == 1]
    else:
        dims = dim if isinstance(dim, list | tuple) else (dim,)
        gone = [normalize_axis(op.name, d, len(shape)) for d in dims] if shape else []
    return input.value.squeeze(tuple(i + 1 for i in gone))


@batching_rule("basic_index")
def _(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    (input,), (index,) = operands, attributes
    return op.general((input.value,), ((slice(None), *index),))


# ---- What changes a batch in place --------------------------------------------------------------


def change_batch(method: Callable[..., Any], operands: Sequence[Any], **named: Any) -> Tensor:
    """Return the first operand, on whose value an in-place method was called with the others'.

    Raises  RuntimeError if another operand is a batch of more levels than it
    """
    target, level = operands[0], level_of(operands)
    if not isinstance(target, Batched) or target.level != level:
        raise NeedsNumbers(
            f"vmap: inplace arithmetic({method.__name__}) is not possible because there exists a "
            "Tensor `other` in extra_args that has more elements than `self`. This happened due to "
            "`other` being vmapped over but `self` not being vmapped over in a vmap. Please try to "
            "use out-of-place operators instead of inplace arithmetic."
        )
    if len(_shape(target)) < max(len(_shape(one)) for one in operands):
        raise NeedsNumbers(f"vmap: {method.__name__} cannot grow the tensor that it writes into")
    value, *others = _aligned(operands, level)
    method(value, *others, **named)
    return target


def indexed_batch(input: Tensor, index: Any) -> Any:
    """Return input[index], of which one is a batch; NOT_TAKEN if neither is."""
    entries = index if isinstance(index, tuple) else (index,)
    level = level_of((input, *entries))
    if not level:
        return NOT_TAKEN
    tensors = [one for one in entries if isinstance(one, Tensor | list)]
    if level_of(entries) < level and len(tensors) < 2:
        return batched(value_at(input, level)[(slice(None), *entries)], level)
    first, *rest = entries
    if isinstance(first, Batched) and first.facts.dtype is not bool_ and _are_slices(rest):
        value, places = value_at(input, level), value_at(first, level)
        if value is input:
            return batched(input[(places, *rest)], level)
        size, ndim = places.facts.shape[0], len(first.facts.shape)
        each = from_array(np.arange(size).reshape(size, *(1,) * ndim)).to(places.device)
        return batched(value[(each, places, *rest)], level)

    def nth(one: Tensor, *places: Any) -> Any:
        return one[places]

    warn_of_loop("index")
    return batched(loop(nth, (input, *entries), level), level)


def _are_slices(entries: Sequence[Any]) -> bool:
    return all(isinstance(one, slice) or one is Ellipsis for one in entries)


def assign_batch(target: Tensor, index: Any, value: Any) -> bool:
    """Do target[index] = value if one of them is a batch, and return whether.

    Raises  RuntimeError if target is none of as many levels, or index is one
    """
    entries = index if isinstance(index, tuple) else (index,)
    level = level_of((target, value, *entries))
    if not level:
        return False
    if not isinstance(target, Batched) or target.level != level:
        raise NeedsNumbers(
            "vmap: index_put_(self, *extra_args) is not possible because there exists a Tensor "
            "`other` in extra_args that has more elements than `self`: it is vmapped over, and "
            "`self` is not"
        )
    if level_of(entries) == level:

        def assign(part: Tensor, given: Any, *places: Any) -> Tensor:
            part[places] = given
            return part

        warn_of_loop("index_put_")
        loop(assign, (target, value, *entries), level)
        return True
    where = (slice(None), *entries)
    given = value_at(value, level)
    if given is not value:
        more = len(target.value[where].facts.shape) - len(given.facts.shape)
        size, *shape = given.facts.shape
        # Leading axes of 1 that target does not have are allowed, as without a batch.
        given = given.reshape(size, *(1,) * more, *shape[max(-more, 0) :]) if more else given
    target.value[where] = given
    return True


def joined_batch(tensors: Sequence[Any], dim: int, join: Callable[..., Any]) -> Any:
    """Return tensors, of which one is a batch, laid side by side; NOT_TAKEN if none is."""
    level = level_of(tensors)
    if not level:
        return NOT_TAKEN
    tensors = [one for one in tensors if _shape(one) != (0,)] or tensors
    axis = normalize_axis("cat", dim, max(len(_shape(one)) for one in tensors))
    return batched(join(_values(tensors, level), axis + 1), level)
