"""The directory of a group: who has which name and rank, and what has changed since a revision.

And which group of its job a worker comes to, which the directories of earlier ones tell.
"""

# Note [One request enters] Name and rank are two claims. A worker that looks first and then sets
# them may race with another one that looked at the same time; a worker that claims one after the
# other may be killed between the two. So one request claims both, in the place of a life that is
# over if there is one, and brings the record. The store runs one request at a time: of two workers
# that want a place at once the first gets it, and the other gets the first one's record. A worker
# that is killed before its request has not entered; one that is killed later has, and its place
# stays taken until it is followed or removed.
#
# The workers of a static group enter all at once, when they have met (join, in the store).

# Note [Who is looked up when]
# n members that read n records each move n * n. So a member of a group of more than MOST_READ reads
# only the records that it is bound to need when it joins: its neighbours in the tree of the barrier
# (tree.py), which may be needed when the store is gone. All others are looked up when somebody
# first calls them, one request each. In a group of at most MOST_READ all are read at once, so that
# no worker loses a peer by the loss of the store.

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from fastdist.core.errors import RpcError
from fastdist.distributed.store import PrefixStore, Store
from fastdist.distributed.store.requests import Op

from .record import Record

# A group of at most so many is read whole: see Note [Who is looked up when].
MOST_READ: Final = 64
_NAME: Final = b"rpc_members"
_MACHINE: Final = "machine "
# The prefix of a label's key: counts the members that have the label.
LABEL: Final = "@"
WITH_MAPS: Final = "device maps"


class Changes(NamedTuple):
    """Changes of a group since a revision; `is_whole` says that `came` has all members.

    `ended` are incarnations.
    """

    revision: int
    is_whole: bool
    came: list[Record]
    ended: list[int]


class StoreDirectory:
    """The directory of a group's members, which its store keeps.

    Given timeout_s, the store is waited for so long. `name` is that of the group in the store.

    Thread  any
    Raises  StoreError where the store does not answer; RpcError for an entry that none of ours
            wrote
    """

    def __init__(self, store: Store, timeout_s: float | None = None, name: bytes = _NAME) -> None:
        self._store, self._timeout_s, self._name = store, timeout_s, name

    def meet(
        self, me: Record, wanted: Sequence[int | str], timeout_s: float, *, may_follow: bool
    ) -> list[bytes]:
        """Wait until all members of a static group have come; return what is found of ranks, names
        and labels; nothing where all had met before, and this one may follow a member.

        Raises  RankTakenError; StoreError where two disagree; StoreTimeoutError naming who is
                missing
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
        """Let an earlier life of this rank not have come, unless all have."""
        self._store.withdraw(self._name.decode(), me.rank, me.world_size)

    def claim(
        self, me: Record, over: Record | None = None, num_lost: int = 0
    ) -> tuple[Record | None, int]:
        """Claim name and rank at once, in the place of a life that is over if one is given, the
        `num_lost`th that was; return the member that has one of them, None if all is well, and how
        many lives of the place were lost.
        """
        place = [b"%d" % me.rank, b"%d" % me.world_size, me.encode()]
        former = b"" if over is None else _life_of(over)
        other, lost = self._ask(Op.ENTER, *place, *_claim_of(me), former, b"%d" % num_lost)
        return (Record.decode(other) if other else None), _number(lost)

    def find(self, keys: Sequence[int | str]) -> list[Record | None]:
        """Return the members that have ranks or names."""
        return decode_found(keys, self._ask(Op.MEMBERS, *map(_key_of, keys)))

    def count(self, label: str) -> int:
        """Return how many members have a label."""
        (found,) = self._ask(Op.MEMBERS, f"{LABEL}{label}".encode())
        return _number(found)

    def changes(self, since: int) -> Changes:
        """Return the changes since a revision; all members where that is 0 or forgotten."""
        revision, is_whole, num_came, *rest = self._ask(Op.CHANGES, b"%d" % since)
        num = _number(num_came)
        came, ended = map(Record.decode, rest[:num]), map(_number, rest[num:])
        return Changes(_number(revision), is_whole == b"1", [*came], [*ended])

    def leave(self, gone: Record) -> None:
        """Free the place of a member."""
        self._end(gone, b"0", 0)

    def declare_lost(self, gone: Record) -> None:
        """Free the place of a member that was lost: another life of it may come back."""
        self._end(gone, b"1", gone.restart_count + 1)

    def was_cut_short(self, rank: int, name: str) -> bool:
        """Return whether the last life of a place was lost, or has not ended."""
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
    """Return the values that all members of a group must have in common."""
    return repr([getattr(record, what) for what in COMMON]).encode()


COMMON: Final = ("wire_version", "version", "security", "world_size", "restarts")


def machine_label(record: Record) -> str:
    """Return the label of all members that run on the machine of one."""
    return f"{_MACHINE}{record.boot_id}"


def decode_found(keys: Sequence[int | str], values: Iterable[bytes]) -> list[Record | None]:
    """Return the records that were looked up.

    Raises  RpcError for the record of another one
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
    # No name of a worker begins so.
    return key.encode() if key[:1] == LABEL else b"=" + key.encode()


def _number(text: bytes) -> int:
    if not text.isdigit():
        raise RpcError(f"the store holds {text[:80]!r} instead of a number")
    return int(text)


def view(prefix: str, store: Store, timeout_s: float | None = None) -> PrefixStore:
    """Return a store's keys of a prefix, to be waited for so long; None is as long as the store."""
    keys = PrefixStore(prefix, store)
    if timeout_s is not None:
        keys.set_timeout(timeout_s)
    return keys


# Note [Which group]
# Each group of a process has its own keys in the store, with the number that counts them. A worker
# that was killed and restarted counts from 0, though its job may be in a later group. So groups
# that take lives back record in the store which has begun last, and the first group of a process is
# that one: where all meet again each time, the others are there, or come. In groups without a world
# size each worker counts separately. There it is the last group that a former life was in, and did
# not leave.

# The newest one, in separate keys: see note_again.
_ALL: Final = "rpc_groups"
_NEWEST: Final = "newest"
_PREFIX_OF_GROUP: Final = "rpc_prefix_"


def keys_of_group(store: Store, number: int) -> PrefixStore:
    """Return the part of a store for the group with a number."""
    return PrefixStore(f"{_PREFIX_OF_GROUP}{number}", store)


def find_number(store: Store, count: int, rank: int, name: str, *, is_static: bool) -> int:
    """Return the number of the group to join, where groups take lives back; record it.

    `count` is how many groups this process has been in.

    Raises  StoreError; RpcError for an entry that none of ours wrote
    """
    newest = _note(PrefixStore(_ALL, store), count)
    if count > 0:
        return count
    return newest if is_static else _last_of_former_life(store, newest, rank, name)


def note_again(keys: PrefixStore) -> None:
    """Note a group by its keys, in a store that has another host and may know nothing of it.

    Raises  StoreError once it has waited as long as `keys` does; RpcError for what none of ours
            wrote
    """
    groups = view(_ALL, keys.underlying_store, keys.timeout.total_seconds())
    _note(groups, int(keys.prefix.removeprefix(_PREFIX_OF_GROUP)))


def _note(groups: PrefixStore, number: int) -> int:
    """Let a number be noted, or a higher one; return what is."""
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
