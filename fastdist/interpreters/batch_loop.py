"""Calls a function without a batching rule once for each element of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ..core.caller_warning import warn_caller
from ..core.interpreter import NOT_TAKEN, Interpreters, resumed
from ..core.torch_function import values_of
from ..random_numbers.generator import Generator, bookmarks, go_to_all
from ..tensor.pytree import tree_map
from ..tensor.tensor import Tensor
from .batched_tensor import (
    Batched,
    NeedsNumbers,
    TakesNoBatch,
    batch_at,
    batched,
    in_batches,
    level_of,
    levels,
    levels_of,
    sizes_at,
    value_at,
)

# Functions that make a tensor like another one. For a batch, they make a writable batch.
_LIKE = frozenset({"empty_like", "full_like", "ones_like", "zeros_like"})
# Functions that depend on the positions of elements in memory, which are different in a batch.
_REFUSED = frozenset({"as_strided_scatter"})
# Functions whose results have lengths that depend on values.
_OF_ANY_LENGTH = frozenset({"argwhere", "masked_select", "nonzero", "unique", "unique_consecutive"})
# The composites that stack or join results; namespace/load.py stores them here.
STACK: Final[list[Callable[..., Any]]] = []


def warn_of_loop(name: str) -> None:
    """Warn that a function is called once for each element of a batch."""
    warn_caller(
        "There is a performance drop because we have not yet implemented the batching rule for "
        f"aten::{name}: its calls are made one after the other."
    )


def loop(function: Callable[..., Any], args: Sequence[Any], level: int) -> Any:
    """Call `function` once for each element of the batches in `args`, and return the stacked
    results. For an empty batch, call `function` once with zeros, and return empty batches of such
    results.
    """
    size, kinds = levels.sizes[level - 1], levels.randomness
    marks, found = [], list[Any]()
    if kinds[level - 1] == "same":
        marks = bookmarks(*[one for one in args if isinstance(one, Generator)])
    try:
        if kinds[level - 1] == "different":
            # Each call draws numbers for itself alone, not for all calls of this level.
            levels.randomness = (*kinds[: level - 1], "same", *kinds[level:])
        for i in range(size) if size else (None,):
            if found:
                go_to_all(marks)
            found.append(function(*[_nth(one, i, level) for one in args]))
    finally:
        levels.randomness = kinds
    if not size:
        return tree_map(lambda each: STACK[0]([each])[:0], found[0])
    return _joined(found)


def _joined(found: Sequence[Any]) -> Any:
    return tree_map(lambda *column: STACK[0](list(column)), *found)


def _nth(arg: Any, i: int | None, level: int) -> Any:
    """Return the argument for the i-th call, or zeros of the same shape if i is None."""
    if isinstance(arg, list | tuple) and level_of(arg):
        return type(arg)([_nth(one, i, level) for one in arg])
    value = value_at(arg, level)
    if value is arg:
        return arg
    return value.new_zeros(arg._layout.shape) if i is None else value[i]


def over_batch(op: Any, rest: Interpreters, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a composite that has a batch among its arguments. Return NOT_TAKEN for other calls.
    `rest` are the interpreters that come after vmap.
    """
    name, function = op.name, op.general
    level = level_of(values_of((*args, *kwargs.values())))
    if not level:
        return NOT_TAKEN

    given = (*args, *kwargs.values())
    _refuse(name, given)
    if name.endswith("_") and not (given[0].__class__ is Batched and given[0].level == level):
        raise NeedsNumbers(
            f"vmap: {name}(self, *extra_args) is not possible because there exists a Tensor "
            "`other` in extra_args that has more elements than `self`: it is vmapped over, and "
            "`self` is not"
        )

    def anew(*given: Any) -> Any:
        named = dict(zip(kwargs, given[len(args) :], strict=True))
        return function(given[: len(args)], named, None)

    def call(*given: Any) -> Any:
        return resumed(op, rest, anew, *given)

    try:
        found = call(*given)
        if name in _LIKE:
            return batch_like(args[0] if args else kwargs["input"], found)
        return found
    except NeedsNumbers:
        warn_of_loop(name)
    # The calls are offered to vmap again, because other arguments may be batches of an outer level.
    result = loop(anew, given, level)
    if name.endswith("_"):
        return args[0]  # each call has written into its element
    return tree_map(lambda one: batch_at(one, level), result)


def _refuse(name: str, given: Sequence[Any]) -> None:
    """Raise TakesNoBatch for a function that does not support batches."""
    if name in _REFUSED:
        raise TakesNoBatch(
            f"vmap: {name} has no batching rule, because it addresses memory directly; use "
            "slices, unfold or diagonal"
        )
    one_mask = name == "masked_select" and not level_of(given[1:])
    if name in _OF_ANY_LENGTH and not one_mask:
        raise TakesNoBatch(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted "
            f"to vmap over aten::{name}; mask with where() instead"
        )


def writable_copy(input: Any, others: Sequence[Any]) -> Any:
    """Return a writable copy of `input`, or a batch of copies if `others` contain a batch."""
    level = level_of((input, *others))
    if not level or (isinstance(input, Batched) and input.level == level):
        return input.clone()
    return batched(value_at(input, level, size=levels.sizes[level - 1]).clone(), level)


def batch_like(input: Tensor, made: Tensor) -> Tensor:
    """Return `made`, a tensor for one call, as a writable batch at each level at which input is a
    batch.
    """
    found = levels_of([input])
    whole = made.expand(*sizes_at(found), *made._layout.shape).contiguous()
    return in_batches(whole, found)
