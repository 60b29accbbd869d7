"""The directory of a group: its members by name and rank, and the changes since a revision.

This module also finds the number of the group that a worker joins.
"""

# Note [One request enters]
# A worker must claim its name and its rank. If it checked that both are free before it set them,
# another worker could set them in between. If it claimed the name and the rank separately, it could
# be killed between the two claims. So one request claims both. The request contains the worker's
# record, and may replace a life that is over. The store runs one request at a time. If two workers
# want the same name or rank, the first request gets it, and the answer to the second request has
# the record of the first worker. If a worker is killed before it has sent the request, it has not
# joined. If it is killed later, it has joined: its name and rank stay taken until another life
# follows it or it is removed.
#
# All workers of a static group join in one step, when the last of them has arrived (`join` in the
# store).

# Note [Who is looked up when]
# If n members each read n records, n * n records are sent. So in a group of more than MOST_READ
# members, a joining member reads only the records of its neighbours in the barrier's tree
# (tree.py), which it may need when the store is gone. It looks up any other member with one
# request, before its first call to that member. In a group of at most MOST_READ members, a joining
# member reads all records, and can connect to all peers even if the store is lost.

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from fastdist.core.errors import RpcError
from fastdist.distributed.store import PrefixStore, Store
from fastdist.distributed.store.requests import Op

from .record import Record

# In a group of at most this size, a member reads all records: see Note [Who is looked up when].
MOST_READ: Final = 64
_NAME: Final = b"rpc_members"
_MACHINE: Final = "machine "
# The prefix of a label's key. The value of such a key is the number of members with the label.
LABEL: Final = "@"
WITH_MAPS: Final = "device maps"


class Changes(NamedTuple):
    """Changes of a group since a revision.

    `came` has the members that joined since then, or all members if `is_whole`. `ended` has the
    incarnations of the members that ended since then.
    """

    revision: int
    is_whole: bool
    came: list[Record]
    ended: list[int]


class StoreDirectory:
    """The directory of a group's members in the group's store.

    `timeout_s` is how long to wait for the store. `name` is the key of the group in the store.

    Thread  any
    Raises  StoreError if the store does not answer; RpcError for an invalid entry
    """

    def __init__(self, store: Store, timeout_s: float | None = None, name: bytes = _NAME) -> None:
        self._store, self._timeout_s, self._name = store, timeout_s, name

    def meet(
        self, me: Record, wanted: Sequence[int | str], timeout_s: float, *, may_follow: bool
    ) -> list[bytes]:
        """Wait until all members of a static group have come; return the values of `wanted`.

        `wanted` has ranks, names and labels. The result is empty if all members had met before; in
        this case this worker may follow an earlier life of its rank.

        Raises  RankTakenError; StoreError if two members disagree; StoreTimeoutError naming the
                missing members
        """
        more = [
            *_claim_of(me),
            agreement_of(me),
            b"\n".join(map(_key_of, wanted)),
            b"1" if may_follow else b"0",
        ]
        who = f"{me.name!r} (rank {me.rank})"
        world_size = me.world_size
        return self._store.join(
            self._name.decode(), me.rank, me.encode(), world_size, timeout_s, who=who, more=more
        )

    def withdraw(self, me: Record) -> None:
        """Remove the claim of an earlier life of this rank, unless all members have joined."""
        self._store.withdraw(self._name.decode(), me.rank, me.world_size)

    def claim(
        self, me: Record, over: Record | None = None, num_lost: int = 0
    ) -> tuple[Record | None, int]:
        """Claim name and rank in one request; return another member that has one, or None.

        `over` is an ended life that `me` replaces. `num_lost` is the number of lost lives with this
        name and rank, including `over`. The second result is that number according to the store.
        """
        place = [b"%d" % me.rank, b"%d" % me.world_size, me.encode()]
        former = b"" if over is None else _life_of(over)
        other, lost = self._ask(Op.ENTER, *place, *_claim_of(me), former, b"%d" % num_lost)
        return (Record.decode(other) if other else None), _number(lost)

    def find(self, keys: Sequence[int | str]) -> list[Record | None]:
        """Return the members with these ranks or names; None for each that does not exist."""
        return decode_found(keys, self._ask(Op.MEMBERS, *map(_key_of, keys)))

    def count(self, label: str) -> int:
        """Return how many members have a label."""
        (found,) = self._ask(Op.MEMBERS, f"{LABEL}{label}".encode())
        return _number(found)

    def changes(self, since: int) -> Changes:
        """Return the changes since a revision; all members if it is 0 or the store forgot it."""
        revision, is_whole, num_came, *rest = self._ask(Op.CHANGES, b"%d" % since)
        num = _number(num_came)
        came, ended = map(Record.decode, rest[:num]), map(_number, rest[num:])
        return Changes(_number(revision), is_whole == b"1", [*came], [*ended])

    def leave(self, gone: Record) -> None:
        """Free the name and rank of a member that leaves."""
        self._end(gone, b"0", 0)

    def declare_lost(self, gone: Record) -> None:
        """Free the name and rank of a lost member; another life of its rank may join later."""
        self._end(gone, b"1", gone.restart_count + 1)

    def was_cut_short(self, rank: int, name: str) -> bool:
        """Return whether the last life with this rank and name was lost, or has not ended."""
        how, _ = self._ask(Op.LAST_AT, b"%d" % rank, name.encode())
        return how in (b"in", b"lost")

    def missing(self) -> tuple[list[int], int]:
        """Return the first ranks that no worker has taken, and the number of further ones."""
        (found,) = self._ask(Op.MEMBERS, b"?")
        named = found.split()
        return [*map(_number, named[:-1])], _number(named[-1]) if named else 0

    def _end(self, gone: Record, was_lost: bytes, num_lost: int) -> None:
        place = (b"%d" % gone.rank, gone.name.encode())
        self._ask(Op.LEAVE, _life_of(gone), was_lost, b"%d" % num_lost, *place)

    def _ask(self, op: Op, *arguments: bytes) -> list[bytes]:
        return self._store._ask(op, [self._name, *arguments], self._timeout_s)


def agreement_of(record: Record) -> bytes:
    """Return the values that must be equal for all members of a group."""
    return repr([getattr(record, what) for what in COMMON]).encode()


COMMON: Final = ("wire_version", "version", "security", "world_size", "restarts")


def machine_label(record: Record) -> str:
    """Return the label of all members that run on the machine of `record`."""
    return f"{_MACHINE}{record.boot_id}"


def decode_found(keys: Sequence[int | str], values: Iterable[bytes]) -> list[Record | None]:
    """Decode the looked-up records; None for an empty value.

    Raises  RpcError for a record with another name or rank
    """
    found = [Record.decode(value) if value else None for value in values]
    for key, record in zip(keys, found):
        if record is not None and key not in (record.rank, record.name):
            raise RpcError(f"the store holds {record.whereabouts}, as the record of {key}")
    return found


def _claim_of(record: Record) -> list[bytes]:
    labels = [machine_label(record), *([WITH_MAPS] if record.device_maps else [])]
    return [_life_of(record), record.name.encode(), "\n".join(labels).encode()]


def _life_of(record: Record) -> bytes:
    return b"%d" % record.incarnation


def _key_of(key: int | str) -> bytes:
    if isinstance(key, int):
        return b"%d" % key
    # The prefix distinguishes names from labels and ranks.
    return key.encode() if key[:1] == LABEL else b"=" + key.encode()


def _number(text: bytes) -> int:
    if not text.isdigit():
        raise RpcError(f"the store holds {text[:80]!r} instead of a number")
    return int(text)


def view(prefix: str, store: Store, timeout_s: float | None = None) -> PrefixStore:
    """Return a view of the store's keys with a prefix; a `timeout_s` of None keeps its timeout."""
    keys = PrefixStore(prefix, store)
    if timeout_s is not None:
        keys.set_timeout(timeout_s)
    return keys


# Note [Which group]
# Each group that a process joins has its own keys in the store, under the group's number. A
# restarted process counts its groups from 0, although its job may be in a later group. So groups
# with `restarts` record the number of the newest group in the store. If groups are static, a new
# process joins the newest group: all members meet for each group, so the other members have joined
# this group or will join it. If groups have no world size, each worker counts its groups
# separately, and a new process joins the last group that a former life joined and did not leave.

# The keys of the newest group's number. They are outside of the groups' keys: see note_again.
_ALL: Final = "rpc_groups"
_NEWEST: Final = "newest"
_PREFIX_OF_GROUP: Final = "rpc_prefix_"


def keys_of_group(store: Store, number: int) -> PrefixStore:
    """Return the part of a store for group `number`."""
    return PrefixStore(f"{_PREFIX_OF_GROUP}{number}", store)


def find_number(store: Store, count: int, rank: int, name: str, *, is_static: bool) -> int:
    """Return and record the number of the group to join; for groups whose members may change.

    `count` is how many groups this process has joined before.

    Raises  StoreError; RpcError for an invalid entry
    """
    newest = _note(PrefixStore(_ALL, store), count)
    if count > 0:
        return count
    return newest if is_static else _last_of_former_life(store, newest, rank, name)


def note_again(keys: PrefixStore) -> None:
    """Record the number of the group with these keys; its store may be new and empty.

    Raises  StoreError after the timeout of `keys`; RpcError for an invalid entry
    """
    groups = view(_ALL, keys.underlying_store, keys.timeout.total_seconds())
    _note(groups, int(keys.prefix.removeprefix(_PREFIX_OF_GROUP)))


def _note(groups: PrefixStore, number: int) -> int:
    """Raise the recorded number to at least `number`; return the number now recorded."""
    newest = _read(groups.compare_set(_NEWEST, "", str(number)))
    while newest < number:
        newest = _read(groups.compare_set(_NEWEST, str(newest), str(number)))
    return newest


def _last_of_former_life(store: Store, newest: int, rank: int, name: str) -> int:
    for number in range(newest, 0, -1):
        if StoreDirectory(keys_of_group(store, number)).was_cut_short(rank, name):
            return number
    return 0


def _read(told: bytes) -> int:
    if not told.isdigit():
        raise RpcError(f"the store holds {told[:80]!r} instead of the number of a group")
    return int(told)
