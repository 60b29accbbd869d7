"""The log of a group: who entered it, came back and left, in the one order that its store saw.

And which group of its job a worker comes to, which the logs of earlier ones tell.
"""

# Note [One line enters] Name and rank are two claims. Who looks and then sets them may have company
# that looked at the same time; who claims them by two compare_set, one after the other, may fail or
# be killed between the two, and then nobody can tell that from one who is slow. So one append to
# the group's log claims both. All read its lines in the same order: a line enters if its name and
# its rank were free there, else it counts for nobody. What a member tells of itself is in the store
# before its line, so that nothing is left to do after it. One that is killed before has not entered
# and is in nobody's way; one that is killed later has, and its name and rank stay taken until it is
# struck out, or followed: who follows it strikes it out by the same append by which it enters, and
# of two that want that at once the first is in.
#
# The workers of a static group enter all at once, when they have met.

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from fastdist.core.errors import RpcError
from fastdist.distributed.store import PrefixStore, Store

_PREFIX: Final = "group"
_LOG: Final = "log"
# The same key, as the group's store has it.
LOG: Final = f"{_PREFIX}/{_LOG}"
_ENTERS: Final = "+"
_LEAVES: Final = "-"
_LOST: Final = "x"


class Entry(NamedTuple):
    """One life of a member, as the log tells it."""

    incarnation: int
    rank: int
    name: str


def found(store: Store, members: Iterable[Entry]) -> None:
    """Begin the log with these, unless it has begun."""
    PrefixStore(_PREFIX, store).compare_set(_LOG, "", "".join(map(_line_of, members)))


def enter(
    store: Store, me: Entry, over: Entry | None = None, restart_count: int = 0
) -> Entry | None:
    """Claim a name and a rank at once, in the place of a life that is over, if one is given; return
    the member that has one of them, None if all is well. `restart_count` is that of the life over.

    See Note [One line enters].
    """
    log = PrefixStore(_PREFIX, store)
    while True:
        lost = "" if over is None else _lost_line(over.incarnation, restart_count)
        log.append(_LOG, lost + _line_of(me))
        present = read_present(store)
        if me in present:
            return None
        for other in present:
            if other.rank == me.rank or other.name == me.name:
                return other
        # Whoever was there left between the two.


def _line_of(entry: Entry) -> str:
    return f"{_ENTERS} {entry.incarnation} {entry.rank} {entry.name}\n"


def _lost_line(incarnation: int, restart_count: int) -> str:
    return f"{_LOST} {incarnation} {restart_count}\n"


def leave(
    store: Store,
    incarnation: int,
    timeout_s: float,
    *,
    was_lost: bool = False,
    restart_count: int = 0,
) -> None:
    """Free the name and the rank of a member, or of one that may have become one."""
    log = view(_PREFIX, store, timeout_s)
    left = f"{_LEAVES} {incarnation}\n"
    log.append(_LOG, _lost_line(incarnation, restart_count) if was_lost else left)


def knows(store: Store, me: Entry) -> bool:
    """Return whether a life has ever been a member, or has wanted to be one."""
    return me in [entry for _, entry in _read_lines(store)]


def note_lost(store: Store, gone: Entry, restart_count: int = 0) -> None:
    """Tell a log that knows nothing of a member that there was one, and that it was lost."""
    log = PrefixStore(_PREFIX, store)
    log.append(_LOG, _line_of(gone) + _lost_line(gone.incarnation, restart_count))


def count_restarts(store: Store, me: Entry) -> int:
    """Return how often a rank and name was started again: 0 where no earlier life was lost.

    Each line of a lost life holds the number of those before it.
    """
    lives: dict[int, Entry] = {}
    restarts = 0
    for kind, entry in _read_lines(store):
        if kind == _ENTERS:
            lives[entry.incarnation] = entry
        elif kind == _LOST and lives.get(entry.incarnation, me)[1:] == me[1:]:
            restarts = max(restarts, entry.rank + 1)
    return restarts


def was_cut_short(store: Store, rank: int, name: str) -> bool:
    """Return whether the last life of a worker there was lost, or has not ended."""
    last, has_left = -1, True
    for kind, entry in _read_lines(store):
        if entry[1:] == (rank, name):
            last, has_left = entry.incarnation, False
        elif kind == _LEAVES and entry.incarnation == last:
            has_left = True
    return not has_left


def read_present(store: Store, timeout_s: float | None = None) -> list[Entry]:
    """Return who is in the group, by rank: those who entered, and have not left.

    Units   timeout_s in seconds; None is the store's own
    Raises  RpcError for a log that none of ours wrote
    """
    present: dict[int, Entry] = {}
    taken: set[int | str] = set()
    for kind, entry in _read_lines(store, timeout_s):
        if kind != _ENTERS:
            gone = present.pop(entry.incarnation, None)
            if gone is not None:
                taken.difference_update(gone[1:])
        elif taken.isdisjoint(entry[1:]):
            present[entry.incarnation] = entry
            taken.update(entry[1:])
    return sorted(present.values(), key=lambda entry: entry.rank)


def view(prefix: str, store: Store, timeout_s: float | None = None) -> PrefixStore:
    """Return a store's keys of a prefix, to be waited for so long; None is as long as the store."""
    keys = PrefixStore(prefix, store)
    if timeout_s is not None:
        keys.set_timeout(timeout_s)
    return keys


def _read_lines(store: Store, timeout_s: float | None = None) -> list[tuple[str, Entry]]:
    """Return kind and life of each line; that of a lost life has its restart count for a rank."""
    log = view(_PREFIX, store, timeout_s)
    lines = log.get(_LOG) if log.check([_LOG]) else b""
    return [_read_line(line) for line in lines.decode(errors="replace").splitlines()]


def _read_line(line: str) -> tuple[str, Entry]:
    try:
        kind, incarnation, *claim = line.split(" ")
        if kind == _LEAVES and not claim:
            return kind, Entry(int(incarnation), -1, "")
        if kind == _LOST:
            (restart_count,) = claim
            return kind, Entry(int(incarnation), int(restart_count), "")
        rank, name = claim
        if kind == _ENTERS:
            return kind, Entry(int(incarnation), int(rank), name)
    except ValueError:
        pass  # said below
    raise RpcError(f"the store holds {line[:80]!r} instead of a log of the group's members")


# Note [Which group]
# Each group of a process has keys of its own in the store, with the number that counts them. Who
# was killed and is started again counts from 0, though its job may be in a later one. So the groups
# that take lives back note in the store which has begun last, and the first group of a process is
# that: where all meet anew each time, the others are there, or come. In groups without a world size
# each goes its own way. There it is the last one that a former life was in, and did not leave.

# Which is the newest, in keys of their own: see note_again.
_ALL: Final = "rpc_groups"
_NEWEST: Final = "newest"
_PREFIX_OF_GROUP: Final = "rpc_prefix_"


def keys_of_group(store: Store, number: int) -> PrefixStore:
    """Return what a store holds of the group with a number."""
    return PrefixStore(f"{_PREFIX_OF_GROUP}{number}", store)


def find_number(store: Store, count: int, rank: int, name: str, *, is_static: bool) -> int:
    """Return the number of the group to come to, of those that take lives back; note it.

    `count` is how many groups this process has been in.

    Raises  StoreError; RpcError for what none of ours wrote
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
        if was_cut_short(keys_of_group(store, number), rank, name):
            return number
    return 0


def _read(told: bytes) -> int:
    if not told.isdigit():
        raise RpcError(f"the store holds {told[:80]!r} instead of the number of a group")
    return int(told)
