"""The members of a group: who joins it, follows a lost member or leaves, in one order."""

# Note [Revisions]
# Each change of a group has a number, its revision. The group keeps its changes in that order, and
# only the latest of each place (a rank and a name): a member that left or was followed drops the
# entry of its joining. So a member reads the changes since a revision that it knows, and the table
# is as long as the group, not as its history. The latest MOST_EMPTY empty places are remembered; a
# member with an older revision reads the whole group.

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

MOST_EMPTY: Final = 8192
# So many missing ranks are named to one that waits, however many there are: n members wait.
MOST_NAMED: Final = 64


class Member(NamedTuple):
    """A member's entry: `life` differs between processes that have one rank one after another.

    `labels` are counted over the group: a member can query how many have one.
    """

    rank: int
    value: bytes
    life: bytes = b""
    name: bytes = b""
    labels: tuple[bytes, ...] = ()


class Empty(NamedTuple):
    """A place whose last member has left or was lost; how many lost ones there were."""

    life: bytes
    was_lost: bool
    num_lost: int


@dataclass(slots=True)
class Group:
    """The members of one group, and the members that wait for the rest.

    A group without a world size (0) is never complete: members come and go.
    """

    world_size: int
    members: dict[int, Member] = field(default_factory=dict)
    # Requests; state.py, which has their class, imports this module.
    parked: list[Any] = field(default_factory=list)
    error: str = ""
    # The values of the two members that cannot be in one group.
    claims: list[bytes] = field(default_factory=list)
    # Whether all had met before this store knew of the group: then waiters need not wait.
    has_met: bool = False
    # The values that all members must have in common, as the first one sent them.
    agreement: bytes | None = None
    revision: int = 0
    _by_name: dict[bytes, int] = field(default_factory=dict)
    _by_life: dict[bytes, int] = field(default_factory=dict)
    _labels: Counter[bytes] = field(default_factory=Counter)
    _empty: dict[tuple[int, bytes], Empty] = field(default_factory=dict)
    # See Note [Revisions]: which place has changed at which revision, and at which it last did.
    _changes: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    _changed_at: dict[tuple[int, bytes], int] = field(default_factory=dict)
    _forgotten: int = 0
    _lowest: int = 0

    def is_complete(self) -> bool:
        """Return whether all have joined."""
        return self.has_met or 0 < self.world_size == len(self.members)

    def missing(self) -> list[int]:
        """Return the ranks that have not joined."""
        return [rank for rank in range(self.world_size) if rank not in self.members]

    def first_missing(self) -> tuple[list[int], int]:
        """Return the first MOST_NAMED ranks that have not joined, and how many more there are.

        All below `_lowest` have joined, so that a query need not go through them.
        """
        while self._lowest in self.members:
            self._lowest += 1
        absent = (one for one in range(self._lowest, self.world_size) if one not in self.members)
        named = list(itertools.islice(absent, MOST_NAMED))
        return named, max(0, self.world_size - len(self.members) - len(named))

    def free_rank(self) -> int:
        """Return the lowest rank that has not joined."""
        return next(rank for rank in range(self.world_size) if rank not in self.members)

    def conflict(self, member: Member) -> Member | None:
        """Return another life that has the rank or the name of a member."""
        there = self.members.get(member.rank)
        if there is not None and there.life != member.life:
            return there
        rank = self._by_name.get(member.name) if member.name else None
        return None if rank is None or rank == member.rank else self.members[rank]

    def put(self, member: Member) -> None:
        """Let a member have its rank and name, which are free, or its own."""
        self._take_away(member.rank)
        self.members[member.rank] = member
        self._labels.update(member.labels)
        if member.life:
            self._by_life[member.life] = member.rank
            self._by_name[member.name] = member.rank
            self._note(member.rank, member.name)

    def withdraw(self, rank: int) -> None:
        """Let a rank not have joined."""
        member = self._take_away(rank)
        if member is not None:
            del self.members[rank]
            self._changes.pop(self._changed_at.pop((rank, member.name), 0), None)

    def end(self, life: bytes, place: tuple[int, bytes], *, was_lost: bool, num_lost: int) -> None:
        """Free the place of a life; `num_lost` lives of the place have been lost.

        Where nothing is known of the place, its loss is noted: the store may have another host.
        """
        rank = self._by_life.get(life)
        if rank is not None:
            place = (rank, self.members[rank].name)
            self._take_away(rank)
            del self.members[rank]
        elif not was_lost or place in self._empty or place[0] in self.members:
            return
        before = self._empty.pop(place, Empty(b"", was_lost=False, num_lost=0))
        self._empty[place] = Empty(life, was_lost, max(before.num_lost, num_lost))
        self._note(*place)
        if len(self._empty) > MOST_EMPTY:
            self._forget(next(iter(self._empty)))

    def _forget(self, place: tuple[int, bytes]) -> None:
        del self._empty[place]
        member = self.members.get(place[0])
        if member is None or member.name != place[1]:
            at = self._changed_at.pop(place)
            del self._changes[at]
            self._forgotten = max(self._forgotten, at)

    def last_at(self, rank: int, name: bytes) -> Empty | None:
        """Return the last life of a place that has ended."""
        return self._empty.get((rank, name))

    def find(self, key: bytes) -> bytes:
        """Return the value of a member by `rank` or `=name`, empty if there is none; how many have
        `@label`; and for `?` the first ranks that nobody has, and how many more there are.
        """
        if key == b"?":
            named, more = self.first_missing()
            return b"%s %d" % (b" ".join(b"%d" % rank for rank in named), more)
        if key[:1] == b"@":
            return b"%d" % self._labels[key[1:]]
        rank = self._by_name.get(key[1:], -1) if key[:1] == b"=" else int(key)
        return self.members[rank].value if rank in self.members else b""

    def changes_since(self, revision: int) -> list[bytes]:
        """Return the revision now, b"1" if all members follow and b"0" if those that have come
        since, how many, their values, and the lives that have ended since.
        """
        if not self._forgotten <= revision <= self.revision or revision == 0:
            values = [self.members[rank].value for rank in sorted(self.members)]
            return [b"%d" % self.revision, b"1", b"%d" % len(values), *values]
        came: list[bytes] = []
        ended: list[bytes] = []
        for rank, name in self._since(revision):
            member = self.members.get(rank)
            if member is not None and member.name == name:
                came.append(member.value)
            if (rank, name) in self._empty:
                ended.append(self._empty[rank, name].life)
        return [b"%d" % self.revision, b"0", b"%d" % len(came), *came, *ended]

    def _since(self, revision: int) -> Iterator[tuple[int, bytes]]:
        for at in reversed(self._changes):
            if at <= revision:
                return
            yield self._changes[at]

    def _note(self, rank: int, name: bytes) -> None:
        self.revision += 1
        self._changes.pop(self._changed_at.get((rank, name), 0), None)
        self._changes[self.revision] = rank, name
        self._changed_at[rank, name] = self.revision

    def _take_away(self, rank: int) -> Member | None:
        member = self.members.get(rank)
        if member is not None:
            self._lowest = min(self._lowest, rank)
            self._labels.subtract(member.labels)
            if self._by_name.get(member.name) == rank:
                del self._by_name[member.name]
            self._by_life.pop(member.life, None)
        return member


def disagreement(
    name: bytes, group: Group, member: Member, world_size: int, agreement: bytes
) -> tuple[str, list[bytes]]:
    """Return why a member cannot join group, and the values of the two members that disagree.

    The reason is empty if it can join. The value of the lower rank comes first.
    """
    why = other_size(name, group, f"rank {member.rank}", world_size)
    if why:
        return why, []
    held = group.members.get(member.rank)
    if held is not None and held.value != member.value:
        why = (
            f"join {show(name)}: rank {member.rank} of {world_size} joined twice; give each "
            "process its own rank, and the store an address or file that no earlier run has used"
        )
        return why, [held.value, member.value]
    other = group.conflict(member)
    what = "" if other is None else f"ranks {other.rank} and {member.rank} have one name"
    if other is None and group.members and agreement != (group.agreement or b""):
        other = group.members[min(group.members)]
        what = f"ranks {other.rank} and {member.rank} do not fit together"
    if other is None:
        return "", []
    pair = sorted([other, member])
    return f"join {show(name)}: {what}", [one.value for one in pair]


def other_size(name: bytes, group: Group, who: str, world_size: int) -> str:
    """Return why a world size cannot be that of group, or nothing if it can."""
    if group.world_size == world_size:
        return ""
    ranks = ", ".join(str(other) for other in sorted(group.members))
    others = (f"ranks {ranks} say", f"rank {ranks} says", "its host says")
    told = others[0 if len(group.members) > 1 else 1 if group.members else 2]
    return (
        f"join {show(name)}: {who} says the world has {world_size} members, "
        f"but {told} {group.world_size}; start all with the same world size"
    )


def name_missing(group: Group, *, is_brief: bool) -> list[bytes]:
    """Return the ranks that have not joined; if brief, the first ones and how many more."""
    if not is_brief:
        return [b"%d" % rank for rank in group.missing()]
    named, more = group.first_missing()
    return [b"%d" % rank for rank in named] + ([b"%d more" % more] if more else [])


def show(key: bytes) -> str:
    """Return a key as people wrote it, no more than a line of it."""
    return repr(key[:200].decode(errors="replace"))
