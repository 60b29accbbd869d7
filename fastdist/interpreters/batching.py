"""The batching rules of `vmap`: most follow from an op's declaration, and run it on a whole batch.

While a level of vmap is open, `modes.tracers` is not zero, and calls with a batch among their
operands are offered to this module. See Note [Batching rules].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ..core.interpreter import NOT_TAKEN, Interpreter, list_open
from ..graph.modes import count_open
from ..language.scalar import CONDITIONS
from ..tensor.axes import normalize_axis
from ..tensor.promotion import result_dtype
from ..tensor.tensor import Tensor
from .batch_loop import loop, over_batch, warn_of_loop
from .batched_tensor import (
    Batched,
    NeedsNumbers,
    TakesNoBatch,
    batched,
    level_of,
    levels,
    value_at,
)

# Note [Batching rules]
# The value of a batch is a tensor whose first axis counts the calls. An op can run on the value as
# on one tensor if the op's attributes count the axes without the first one. Most rules follow from
# the declaration: pointwise ops run once all values have the same number of axes (`aligned`), and
# ops whose attributes name axes (`_AXES`) run with these attributes increased by one. Other ops
# declare their rule by `batch=` (BATCH_WORDS in the package dispatch), or register it with
# `@op.batches`. All other ops are called once for each element (`call_one_by_one`), with PyTorch's
# warning, which names the op. A rule calls ops on values, which may be batches of an outer level,
# so nested vmap needs no further code.
_AXES = frozenset({"axis", "dim", "dim0", "dim1", "dim2", "dims", "dimension"})


class _Batches(Interpreter):
    """Runs ops on batches. A tensor that is not a batch has the same value in all calls of vmap."""

    order = 1
    sees_plain = False
    needs_general_path = False

    def call(self, op: Any, args: Any, target: Any, rest: Any) -> Any:
        """Run a call that has a batch among its operands."""
        if op.kind == "composite":
            return over_batch(op, rest, *args) if levels.depth else NOT_TAKEN
        operands, attributes = args
        return offer_batch(op, operands, attributes, target)


batches: Final = _Batches()
Rule = Callable[..., Any]
Levels = tuple[int, tuple[int, ...], tuple[str, ...]]


@contextmanager
def open_level(size: int, randomness: str) -> Iterator[int]:
    """Inside this block, open a level of vmap in this thread, with batches of this size."""
    depth, sizes, kinds = levels_now()
    with using_levels((depth + 1, (*sizes, size), (*kinds, randomness))):
        yield depth + 1


def levels_now() -> Levels:
    """Return the open levels of this thread: their number, sizes and randomness."""
    return levels.depth, levels.sizes, levels.randomness


@contextmanager
def using_levels(open: Levels) -> Iterator[None]:
    """Inside this block, replace the open levels of this thread by the levels in `open`."""
    before = levels_now()
    try:
        list_open(batches, open[0] > 0)
        levels.depth, levels.sizes, levels.randomness = open
        count_open(levels, open[0])
        yield
    finally:
        # The assignments come first, because no Ctrl-C can interrupt them.
        levels.depth, levels.sizes, levels.randomness = before
        count_open(levels, before[0])
        list_open(batches, before[0] > 0)


def offer_batch(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], out: Any) -> Any:
    """Return the result of op if one of the operands is a batch; NOT_TAKEN otherwise.

    Note    called only while modes.tracers is not zero
    """
    level = level_of(operands) if levels.depth else 0
    if not level:
        return NOT_TAKEN
    if op.kind == "in-place":
        named = dict(zip(op.attributes, attributes, strict=True))
        return change_batch(op.public, operands, **named)
    if out is not None:
        raise TakesNoBatch(
            f"vmap: {op.name}(..., out=...) writes into a tensor that is not a batch"
        )
    rule: Rule = op.batching if callable(op.batching) else _derived(op, operands)
    result = rule(op, operands, attributes, level)
    return _batched_results(result, level)


def _batched_results(result: Any, level: int) -> Any:
    if isinstance(result, tuple):
        return tuple([batched(one, level) for one in result])
    return batched(result, level)


def _derived(op: Any, operands: Sequence[Any]) -> Rule:
    """Return the rule that follows from op's declaration and the operands."""
    if op.kind == "pointwise":
        return pointwise
    if op.batching == "last axes":
        return _on_last_axes
    if op.batching == "first axis":
        return fold_into_first_axis
    ndims = {len(_shape(operand)) for operand in operands}
    alike = len(op.tensors) == 1 or (op.batching == "same axes" and len(ndims) == 1)
    if alike and _AXES.intersection(op.attributes):
        if 0 in ndims:
            return _scalars_as_rows
        return along_axes
    return call_one_by_one


def _shape(operand: Any) -> tuple[int, ...]:
    return operand._layout.shape if isinstance(operand, Tensor) else ()


def whole(operands: Sequence[Any], level: int) -> list[Any]:
    """Return the values of operands; a tensor that is not a batch is expanded to a batch."""
    size = levels.sizes[level - 1]
    return [value_at(o, level, size=size) if isinstance(o, Tensor) else o for o in operands]


def aligned(operands: Sequence[Any], level: int, values: Sequence[Any] = ()) -> list[Any]:
    """Return the values of operands. Batches get axes of length 1 after the first axis, so that the
    values broadcast as the operands do.
    """
    most = max(len(_shape(operand)) for operand in operands)
    found = []
    values = values or [value_at(operand, level) for operand in operands]
    for operand, value in zip(operands, values, strict=True):
        shape = _shape(operand)
        if value is not operand and len(shape) < most:
            value = value.reshape(value._layout.shape[0], *(1,) * (most - len(shape)), *shape)
        found.append(value)
    return found


def pointwise(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    """Run an op whose operands broadcast."""
    return op.general(tuple(aligned(_promoted(op, operands), level)), attributes)


def _promoted(op: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """Return operands, in which 0-d batches are cast to the promoted dtype: the values of these
    batches have a batch axis, so dtype promotion would not treat them as 0-d.
    """
    pairs = list(zip(op.tensors, operands, strict=True))
    meeting = [o for name, o in pairs if name not in CONDITIONS]
    tensors = [o for o in meeting if isinstance(o, Tensor)]
    if all(_shape(o) for o in tensors) or len({o._layout.dtype for o in tensors}) < 2:
        return operands
    dtype = result_dtype(meeting)
    return [
        o.to(dtype) if name not in CONDITIONS and isinstance(o, Batched) and not _shape(o) else o
        for name, o in pairs
    ]


def _on_last_axes(op: Any, operands: Sequence[Any], attributes: Any, level: int) -> Any:
    op.require_plan(operands, attributes)  # the plan's checks need shapes without the batch axis
    return op.general(tuple(aligned(operands, level, whole(operands, level))), attributes)


def fold_into_first_axis(op: Any, operands: Sequence[Any], attributes: Any, level: int) -> Any:
    """Run op on a first operand whose batch axis is merged into its first axis. The op must treat
    the rows of this operand separately.
    """
    input, *others = operands
    if level_of(others) == level:
        return call_one_by_one(op, operands, attributes, level)
    if not levels.sizes[level - 1]:
        return for_empty_batch(op, operands, attributes, level)
    size, n, *rest = input.value._layout.shape
    found = op.general((input.value.reshape(size * n, *rest), *others), attributes)
    return found.reshape(size, n, *found._layout.shape[1:])


def along_axes(op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int) -> Any:
    """Run an op whose operands have equally many axes; the axes in its attributes are increased by
    one.
    """
    ndim = len(_shape(operands[0]))
    values = whole(operands, level)
    named = dict(zip(op.attributes, attributes, strict=True))
    for name in _AXES.intersection(named):
        axis = named[name]
        if axis is None or axis == ():
            return _reduce_all(op, operands, named, level)
        many = isinstance(axis, list | tuple)
        listed = many and isinstance(axis[0], list | tuple)
        if listed:
            (axis,) = axis  # as in flip(x, (0, 1)); flip(x, 0, 1) is not listed
        moved = [normalize_axis(op.name, one, ndim) + 1 for one in (axis if many else (axis,))]
        axes = tuple(moved) if many else moved[0]
        named[name] = (axes,) if listed else axes
    return op.general(tuple(values), tuple(named.values()))


def _reduce_all(op: Any, operands: Sequence[Any], named: dict[str, Any], level: int) -> Any:
    """Run a reduction over all axes: flatten each element of the batch to one axis, and reduce
    along this axis.
    """
    if "keepdim" not in named and op.name != "count_nonzero":
        return call_one_by_one(op, operands, tuple(named.values()), level)
    value = whole(operands, level)[0]
    size = value._layout.shape[0]
    given = {**named, "dim": 1}
    kept = given.get("keepdim", False)
    if kept:
        given["keepdim"] = False
    if len(value._layout.shape) != 2:
        value = value.reshape(size, math.prod(value._layout.shape[1:]))
    found = op.general((value,), tuple(given.values()))
    return found.reshape(size, *(1,) * len(_shape(operands[0]))) if kept else found


def _scalars_as_rows(
    op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int
) -> Any:
    """Run an op on a batch of 0-d tensors: give each tensor an axis of length 1, then remove it."""
    rows = [batched(value.reshape(-1, 1), level) for value in whole(operands, level)]
    found = along_axes(op, rows, attributes, level)
    if isinstance(found, tuple):
        return tuple([one.reshape(-1) for one in found])
    return found.reshape(-1)


def for_empty_batch(
    op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int
) -> Any:
    """Return an empty batch of the results that op has for zeros. This function is for ops that do
    not accept an axis of length 0.
    """
    return loop(lambda *one: op.general(one, attributes), operands, level)


def call_one_by_one(
    op: Any, operands: Sequence[Any], attributes: tuple[Any, ...], level: int
) -> Any:
    """Call op once for each element of the batch, with a warning."""

    def call(*one: Any) -> Any:
        return op.general(one, attributes)

    warn_of_loop(op.name)
    return loop(call, operands, level)


# ---- In-place changes of a batch
# ------------------------------------------------------------------


def change_batch(method: Callable[..., Any], operands: Sequence[Any], **named: Any) -> Tensor:
    """Call an in-place method on the value of the first operand, with the values of the other
    operands; return the first operand.

    Raises  RuntimeError if another operand is a batch at a level at which the first operand is not
            a batch
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
    value, *others = aligned(operands, level)
    method(value, *others, **named)
    return target


def joined_batch(tensors: Sequence[Any], dim: int, join: Callable[..., Any], out: Any) -> Any:
    """Join tensors, one of which is a batch, along the axis dim; NOT_TAKEN if none is a batch."""
    level = level_of(tensors)
    if not level:
        return NOT_TAKEN
    if out is not None:
        raise TakesNoBatch("vmap: cat(..., out=...) writes into a tensor that is not a batch")
    tensors = [one for one in tensors if _shape(one) != (0,)] or tensors
    axis = normalize_axis("cat", dim, max(len(_shape(one)) for one in tensors))
    return batched(join(whole(tensors, level), axis + 1), level)
