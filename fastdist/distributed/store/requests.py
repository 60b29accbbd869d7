"""The requests and answers of a store: its ops, their arguments, and the limits."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from fastdist.core.errors import StoreError

# A key or value must fit into one frame; a larger one is refused before it is stored.
MAX_KEY_BYTES = 64 * 1024
MAX_VALUE_BYTES = 32 * 1024 * 1024
# Message ids have 16 bits for a rank.
MAX_MEMBERS = 1 << 16


class Op(IntEnum):
    """The operations of a store. The numbers are wire format.

    In the comments, `->` stands between the arguments of an op and the frames of its answer.
    """

    SET = 1  # key, value, key, value, ...
    GET = 2  # keys -> values, when all exist
    WAIT = 3  # keys -> nothing, when all exist
    CHECK = 4  # keys -> b"1" if all exist now
    ADD = 5  # key, amount -> the new number
    COMPARE_SET = 6  # key, expected, desired -> the value afterwards
    DELETE = 7  # key -> b"1" if it existed
    NUM_KEYS = 8  # -> the number of keys
    APPEND = 9  # key, value
    JOIN = 10  # group, rank, world, value -> all values by rank, when all have joined;
    # or with six further arguments: life, name, labels, agreement, wanted keys, b"1" if the member
    # may follow an earlier life of its rank -> the values of the wanted keys; nothing if all
    # members had met before
    WATCH = 11  # prefix -> nothing, then a CHANGED for each existing key and at each change
    ENDED = 12  # rank, world -> nothing; no group of that size waits for that rank any more
    QUERY_HOST = 13  # lines for the host to log -> the host, then the peers that it refused
    ROUND = 14  # -> nothing; the job starts again, so ranks that have ended may join again
    # group, rank, world -> nothing; cancels the join of a rank, unless all have joined
    WITHDRAW = 15
    PUSH = 16  # queue, value -> nothing
    POP = 17  # queue, b"1" to wait for a value -> the value, or nothing
    QUEUE_LENGTH = 18  # queue -> the number of values
    KEYS = 19  # prefix -> the keys that begin with it
    DISBAND = 20  # group -> nothing; the store forgets the group if all members have joined
    ENTER = 21  # group, rank, world, value, life, name, labels, the lost life that `life` follows,
    # the number of lost lives of the place -> the value of another member that has the rank or
    # name (or empty), the number of lost lives of the place
    LEAVE = 22  # group, life, b"1" if it was lost, number of lost lives, rank, name -> nothing
    MEMBERS = 23  # group, keys -> the result of Group.find in membership.py for each key
    CHANGES = 24  # group, revision -> the result of Group.changes_since in membership.py
    LAST_AT = 25  # group, rank, name -> b"in", b"lost", b"left" or empty; number of lost lives


class Status(IntEnum):
    """The meaning of an answer. The numbers are wire format."""

    OK = 0
    TIMED_OUT = 1  # frames: the missing keys or ranks
    REFUSED = 2  # the reason; if two members claim one rank of a group, also the values of both
    CHANGED = 3  # key, b"1" if it exists or b"0" if it was deleted, value
    ENDED = 4  # the host closes the store; frames: the ranks for which a join still waited


# The number of arguments of each op; ops that are not listed take any number.
_NUM_ARGUMENTS = {
    Op.ADD: 2,
    Op.COMPARE_SET: 3,
    Op.DELETE: 1,
    Op.NUM_KEYS: 0,
    Op.APPEND: 2,
    Op.WATCH: 1,
    Op.ENDED: 2,
    Op.ROUND: 0,
    Op.WITHDRAW: 3,
    Op.PUSH: 2,
    Op.POP: 2,
    Op.QUEUE_LENGTH: 1,
    Op.KEYS: 1,
    Op.DISBAND: 1,
    Op.ENTER: 9,
    Op.LEAVE: 6,
    Op.CHANGES: 2,
    Op.LAST_AT: 3,
}
NUM_OF_JOIN = (4, 10)
# Ops that change the dictionary; a replicated store must record these.
MUTATIONS = frozenset(
    {
        *(Op.SET, Op.ADD, Op.COMPARE_SET, Op.DELETE, Op.APPEND),
        *(Op.JOIN, Op.WITHDRAW, Op.DISBAND, Op.ENTER, Op.LEAVE),
        *(Op.PUSH, Op.POP),
    }
)


@dataclass(slots=True, eq=False)
class Request:
    """One request of `owner`; if `owner` is None, no answer is sent."""

    op: Op
    arguments: list[bytes]
    owner: Hashable
    deadline: float
    is_answered: bool = False


class Answer(NamedTuple):
    """An answer that is sent to `owner`."""

    owner: Hashable
    status: Status
    frames: list[bytes]


def awaited(request: Request) -> list[bytes]:
    """Return the keys for which a request may wait."""
    return request.arguments[:1] if request.op is Op.POP else request.arguments


def require_arguments(request: Request) -> None:
    """Raise StoreError if a request has the wrong number of arguments for its op."""
    given, expected = len(request.arguments), _NUM_ARGUMENTS.get(request.op)
    if expected is not None and given != expected:
        raise StoreError(f"{request.op.name.lower()}: {given} arguments, expected {expected}")


def number(text: bytes) -> int:
    """Return the number in an argument; raise StoreError if it is not a number."""
    try:
        return int(text)
    except ValueError:
        raise StoreError(f"{text[:40]!r} is not a number") from None


def words(text: bytes) -> tuple[bytes, ...]:
    """Return the lines of a text; none for an empty text."""
    return tuple(text.split(b"\n")) if text else ()


def require_fits(key: bytes, value: bytes) -> None:
    """Raise StoreError for a key or a value above the store's size limits."""
    if len(key) > MAX_KEY_BYTES:
        raise StoreError(f"key of {len(key)} bytes; a store takes at most {MAX_KEY_BYTES}")
    if len(value) > MAX_VALUE_BYTES:
        raise StoreError(
            f"value of {len(value)} bytes; a store takes at most {MAX_VALUE_BYTES}: send it by rpc"
        )
