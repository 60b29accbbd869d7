"""`x[...]` and `x[...] = y` under vmap, if an operand is a batch: one indexing for all calls.

The index is split as for one call: integers and slices make a view, for which there is a batching
rule. Tensors then select positions in that view. An additional index, the numbers of the calls,
selects along the axis of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.dtypes import bool_, int32, int64
from ...core.torch_function import NOT_TAKEN
from ...interpreters.batch_loop import loop, warn_of_loop
from ...interpreters.batched_tensor import (
    Batched,
    NeedsNumbers,
    batched,
    level_of,
    levels,
    value_at,
)
from ...tensor.broadcast import broadcast_shapes
from ...tensor.layout import Shape
from ...tensor.tensor import Tensor, from_array
from .. import late_ops
from .index_entries import split_index


class _Named(NamedTuple):
    """The positions that index tensors select in the view `part`, for all calls: `places` has one
    entry for each axis of the view. The axes that result from the index tensors have the lengths
    `met`, and come after `lead` other axes.
    """

    part: Any
    places: tuple[Any, ...]
    met: Shape
    lead: int
    is_scalar: bool  # a batch of 0-d index tensors was reshaped to vectors


def indexed_batch(input: Tensor, index: Any) -> Any:
    """Return input[index] if input or index is a batch, otherwise NOT_TAKEN."""
    entries = index if isinstance(index, tuple) else (index,)
    level = level_of((input, *entries))
    if not level:
        return NOT_TAKEN
    if level_of(entries) < level and _tensors_in(entries) < 2:
        return batched(value_at(input, level)[(slice(None), *entries)], level)
    named = _named(input, entries, level)
    if named is None:

        def nth(one: Tensor, *places: Any) -> Any:
            return one[places]

        warn_of_loop("index")
        return batched(loop(nth, (input, *entries), level), level)
    value = value_at(named.part, level)
    count, lead = len(named.met), named.lead
    if value is named.part:  # input is not a batch: all calls have the same input
        found = value[named.places].movedim(lead, 0)
    else:
        found = value[(_each(level, count, value), *named.places)]
        if lead:
            found = found.movedim(_axes(1, count), _axes(lead + 1, count))
    return batched(found.squeeze(lead + 1) if named.is_scalar else found, level)


def assign_batch(target: Tensor, index: Any, value: Any, *, accumulate: bool = False) -> bool:
    """Do target[index] = value, or +=, if any of the three is a batch; otherwise return False.

    Raises  RuntimeError if target is not batched at the level of index or value
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
    # With an additional axis in front, the axes of several index tensors may come elsewhere.
    if level_of(entries) == level or accumulate or _tensors_in(entries) > 1:
        _write_named(target, entries, value, level, accumulate)
        return True
    where = (slice(None), *entries)
    given = value_at(value, level)
    if given is not value:
        if value._layout.numel == 1:
            given = given.to(target.dtype)
        more = len(target.value[where]._layout.shape) - len(given._layout.shape)
        size, *shape = given._layout.shape
        # Additional leading axes of length 1 are dropped, as without a batch.
        given = given.reshape(size, *(1,) * more, *shape[max(-more, 0) :]) if more else given
    target.value[where] = given
    return True


def _write_named(
    target: Tensor, entries: Sequence[Any], value: Any, level: int, accumulate: bool
) -> None:
    mask = entries[0]
    if len(entries) == 1 and isinstance(mask, Tensor) and mask._layout.dtype is bool_:
        is_number = not isinstance(value, Tensor) or not value._layout.shape
        if is_number and not accumulate and mask._layout.shape:
            _write_masked(target, mask, value)
            return
    named = _named(target, entries, level)
    if named is None:

        def assign(part: Tensor, given: Any, *places: Any) -> Tensor:
            if accumulate:
                return part.index_put_(places, given, accumulate=True)
            part[places] = given
            return part

        warn_of_loop("index_put_")
        loop(assign, (target, value, *entries), level)
        return
    room = named.part.value
    if isinstance(value, Tensor):
        value = _laid_as_named(value, named, level)
    places = (_each(level, len(named.met), room), *named.places)
    if accumulate:
        room.index_put_(places, value, accumulate=True)
    else:
        room[places] = value


def _write_masked(target: Any, mask: Any, value: Any) -> None:
    more = len(target._layout.shape) - len(mask._layout.shape)
    if more < 0 or mask._layout.shape != target._layout.shape[: len(mask._layout.shape)]:
        split_index(target, (mask.value[0],))  # raises the error of a single call
    mask = mask.reshape(*mask._layout.shape, *(1,) * more)
    if isinstance(value, Tensor):
        value = value.to(target.dtype)
    target.copy_(late_ops.where(mask, value, target))


def _named(input: Tensor, entries: Sequence[Any], level: int) -> _Named | None:
    """Return the positions that entries select in input. Return None if each call must be indexed
    separately, such as for a batch of masks, or for a batch of 0-d index tensors with others.
    """
    batches = [one for one in entries if isinstance(one, Batched)]
    if any(one._layout.dtype is not int64 and one._layout.dtype is not int32 for one in batches):
        return None
    is_scalar = any(not one._layout.shape for one in batches)
    if (is_scalar and _tensors_in(entries) > 1) or any(isinstance(one, bool) for one in entries):
        return None
    given = [
        one.reshape(1) if isinstance(one, Batched) and not one._layout.shape else one
        for one in entries
    ]
    basic, found = split_index(input, tuple(given))
    if found is None:
        return None
    part = input if not basic else input[basic]
    used = [i for i, one in enumerate(found) if one is not None]
    met = broadcast_shapes("index", [found[i]._layout.shape for i in used])
    lead = used[0] if used == list(range(used[0], used[-1] + 1)) else 0
    places = tuple([slice(None) if one is None else _behind(one, len(met), level) for one in found])
    return _Named(part, places, met, lead, is_scalar)


def _behind(places: Tensor, ndim: int, level: int) -> Any:
    """Return the positions of all calls. Axes of length 1 are inserted after the axis of the batch,
    so that the positions of all index tensors broadcast.
    """
    value = value_at(places, level)
    if value is places:
        return places
    size, *shape = value._layout.shape
    return value.reshape(size, *(1,) * (ndim - len(shape)), *shape)


def _each(level: int, ndim: int, like: Tensor) -> Any:
    """Return the numbers of the calls as a tensor with `ndim` additional axes of length 1, so that
    the numbers broadcast with the positions of all calls.
    """
    size = levels.sizes[level - 1]
    return from_array(np.arange(size).reshape(size, *(1,) * ndim)).to(like.device)


def _laid_as_named(value: Any, named: _Named, level: int) -> Any:
    """Return value with the axes of positions moved to the front, after the axis of the batch."""
    shape, places = named.part._layout.shape, named.places
    rest = sum(i >= len(places) or isinstance(places[i], slice) for i in range(len(shape)))
    count, lead = len(named.met), named.lead
    wanted = count + rest - named.is_scalar
    given = value_at(value, level)
    first = int(given is not value)  # the number of batch axes of given: 0 or 1
    if value._layout.numel == 1 and value._layout.dtype is not named.part._layout.dtype:
        given = given.to(named.part._layout.dtype)
    own = value._layout.shape
    while len(own) > wanted and own[0] == 1:
        own = own[1:]
    batch = given._layout.shape[:first]
    given = given.reshape(*batch, *(1,) * (wanted - len(own)), *own)
    if named.is_scalar:
        given = given.unsqueeze(first + lead)
    return given.movedim(_axes(first + lead, count), _axes(first, count)) if lead else given


def _tensors_in(entries: Sequence[Any]) -> int:
    return sum(isinstance(one, Tensor | list | np.ndarray) for one in entries)


def _axes(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + count))
