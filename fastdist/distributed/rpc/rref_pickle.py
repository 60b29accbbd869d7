"""How references travel in bodies: as four numbers, of which both ends keep account."""

from __future__ import annotations

import reprlib
from typing import Any

from fastdist.core.errors import MessageError

from .agent import get_current_agent
from .body import register_reducer
from .rref import RRef


def reduce_rref(rref: RRef[Any]) -> tuple[Any, ...]:
    """Return the function that rebuilds a reference at the other end, and what it takes."""
    return rebuild_rref, get_current_agent().rrefs.fork(rref)


def rebuild_rref(owner_id: int, rref_id: int, fork_id: int, parent: int) -> RRef[Any]:
    """Return this worker's own reference of one that has travelled here.

    Raises  MessageError for anything but four numbers
    """
    numbers = (owner_id, rref_id, fork_id, parent)
    if not all(type(number) is int for number in numbers):
        raise MessageError(f"a reference of {reprlib.repr(numbers)}; expected four numbers")
    rref: RRef[Any] = get_current_agent().rrefs.arrive(owner_id, rref_id, fork_id, parent)
    return rref


# Whoever sends one promises its owner that there is one more, until the receiver says otherwise.
register_reducer(RRef, reduce_rref, rebuild_rref, must_be_read=True)
