"""How references travel in bodies: as a few numbers, of which both ends keep account."""

from __future__ import annotations

import reprlib
from typing import Any

from fastdist.core.errors import MessageError

from ..agent import get_current_agent
from ..message.body import register_reducer
from .rref import RRef


def reduce_rref(rref: RRef[Any]) -> tuple[Any, ...]:
    """Return the function that rebuilds a reference at the other end, and what it takes."""
    return rebuild_rref, get_current_agent().rrefs.fork(rref)


def rebuild_rref(
    owner_id: int, rref_id: int, fork_id: int, parent: int, life: int, maker: int = 0
) -> RRef[Any]:
    """Return this worker's own reference of one that has travelled here.

    Raises  MessageError for anything but numbers; OwnerLostError
    """
    numbers = (owner_id, rref_id, fork_id, parent, life, maker)
    if not all(type(number) is int for number in numbers):
        raise MessageError(f"a reference of {reprlib.repr(numbers)}; expected numbers")
    rref: RRef[Any] = get_current_agent().rrefs.arrive(*numbers)
    return rref


# Whoever sends one promises its owner that there is one more, until the receiver says otherwise.
register_reducer(RRef, reduce_rref, rebuild_rref, must_be_read=True)
