"""The log of a dynamic group: who entered it and left, in the one order that its store saw."""

# Note [One line enters] Name and rank are two claims. Who looks and then sets them may have company
# that looked at the same time; who claims them by two compare_set, one after the other, may fail or
# be killed between the two, and then nobody can tell that from one who is slow. So one append to
# the group's log claims both. All read its lines in the same order: a line enters if its name and
# its rank were free there, else it counts for nobody. What a member tells of itself is in the store
# before its line, so that nothing is left to do after it. One that is killed before has not entered
# and is in nobody's way; one that is killed later has, and its name and rank stay taken.

from __future__ import annotations

from typing import Final, NamedTuple

from fastdist.core.errors import RpcError
from fastdist.distributed.store import PrefixStore, Store

_PREFIX: Final = "group"
_LOG: Final = "log"
_ENTERS: Final = "+"
_LEAVES: Final = "-"


class Entry(NamedTuple):
    """One life of a member, as the log tells it."""

    incarnation: int
    rank: int
    name: str


def enter(store: Store, me: Entry) -> Entry | None:
    """Claim a name and a rank at once; return the member that has one of them, None if all is well.

    See Note [One line enters].
    """
    log = PrefixStore(_PREFIX, store)
    while True:
        log.append(_LOG, f"{_ENTERS} {me.incarnation} {me.rank} {me.name}\n")
        present = read_present(store)
        if me in present:
            return None
        for other in present:
            if other.rank == me.rank or other.name == me.name:
                return other
        # Whoever was there left between the two.


def leave(store: Store, incarnation: int, timeout_s: float) -> None:
    """Free the name and the rank of a member, or of one that may have become one."""
    log = PrefixStore(_PREFIX, store)
    log.set_timeout(timeout_s)
    log.append(_LOG, f"{_LEAVES} {incarnation}\n")


def read_present(store: Store, timeout_s: float | None = None) -> list[Entry]:
    """Return who has entered and not left, in the order of ranks.

    Units   timeout_s in seconds; None is the store's own

    Raises  RpcError for a log that none of ours wrote
    """
    log = PrefixStore(_PREFIX, store)
    if timeout_s is not None:
        log.set_timeout(timeout_s)
    if not log.check([_LOG]):
        return []
    present: dict[int, Entry] = {}
    ranks: set[int] = set()
    names: set[str] = set()
    for line in log.get(_LOG).decode(errors="replace").splitlines():
        kind, entry = _read_line(line)
        if kind == _LEAVES:
            gone = present.pop(entry.incarnation, None)
            if gone is not None:
                ranks.remove(gone.rank)
                names.remove(gone.name)
        elif entry.rank not in ranks and entry.name not in names:
            present[entry.incarnation] = entry
            ranks.add(entry.rank)
            names.add(entry.name)
    return sorted(present.values(), key=lambda entry: entry.rank)


def _read_line(line: str) -> tuple[str, Entry]:
    try:
        kind, incarnation, *claim = line.split(" ")
        if kind == _LEAVES and not claim:
            return kind, Entry(int(incarnation), -1, "")
        rank, name = claim
        if kind == _ENTERS:
            return kind, Entry(int(incarnation), int(rank), name)
    except ValueError:
        pass  # said below
    raise RpcError(f"the store holds no log of a group's members but {line[:80]!r}")
