"""The members of a group, and its numbered changes: members join, leave, or follow lost members."""

# Note [Revisions]
# Each change of a group has a number, its revision. The group keeps its changes in that order, but
# only the latest change of each place (a rank and a name). When a member leaves, or another life
# takes its place, the entry for its joining is dropped. So a member can read the changes since a
# revision that it knows, and the table grows with the group, not with the number of changes. The
# group remembers the MOST_EMPTY places that became empty last. A member whose revision is older
# than a forgotten change reads the whole group.

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

MOST_EMPTY: Final = 8192
# An answer names at most this many missing ranks, as each of n waiting members gets an answer.
MOST_NAMED: Final = 64


class Member(NamedTuple):
    """A member's entry: `life` distinguishes processes that have the same rank one after another.

    `labels` are counted over the group: a member can query how many members have a label.
    """

    rank: int
    value: bytes
    life: bytes = b""
    name: bytes = b""
    labels: tuple[bytes, ...] = ()


class Empty(NamedTuple):
    """A place whose last member left or was lost, and how many lives of this place were lost."""

    life: bytes
    was_lost: bool
    num_lost: int


@dataclass(slots=True)
class Group:
    """The members of one group, and the join requests that wait until all members have joined.

    A group whose world size is 0 is never complete: members come and go.
    """

    world_size: int
    members: dict[int, Member] = field(default_factory=dict)
    # Join requests (`Request` of requests.py) that wait until all members have joined.
    parked: list[Any] = field(default_factory=list)
    error: str = ""
    # The values of the two members whose conflict is the `error`; empty for other errors.
    claims: list[bytes] = field(default_factory=list)
    # Whether all members have met before, in a store on another host; if so, no join has to wait.
    has_met: bool = False
    # The values that must be equal for all members, as the first member sent them.
    agreement: bytes | None = None
    revision: int = 0
    _by_name: dict[bytes, int] = field(default_factory=dict)
    _by_life: dict[bytes, int] = field(default_factory=dict)
    _labels: Counter[bytes] = field(default_factory=Counter)
    _empty: dict[tuple[int, bytes], Empty] = field(default_factory=dict)
    # See Note [Revisions]. `_changes` maps a revision to the place that changed, and `_changed_at`
    # maps a place to the revision of its last change.
    _changes: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    _changed_at: dict[tuple[int, bytes], int] = field(default_factory=dict)
    _forgotten: int = 0
    _lowest: int = 0

    def is_complete(self) -> bool:
        """Return whether all members have joined."""
        return self.has_met or 0 < self.world_size == len(self.members)

    def missing(self) -> list[int]:
        """Return the ranks that have not joined."""
        return [rank for rank in range(self.world_size) if rank not in self.members]

    def first_missing(self) -> tuple[list[int], int]:
        """Return the first MOST_NAMED missing ranks, and the number of other missing ranks.

        All ranks below `_lowest` have joined, so the search starts at `_lowest`.
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
        """Return another life that has the rank or the name of `member`, or None."""
        there = self.members.get(member.rank)
        if there is not None and there.life != member.life:
            return there
        rank = self._by_name.get(member.name) if member.name else None
        return None if rank is None or rank == member.rank else self.members[rank]

    def put(self, member: Member) -> None:
        """Add a member under its rank and name, which must be free or already belong to it."""
        self._take_away(member.rank)
        self.members[member.rank] = member
        self._labels.update(member.labels)
        if member.life:
            self._by_life[member.life] = member.rank
            self._by_name[member.name] = member.rank
            self._note(member.rank, member.name)

    def withdraw(self, rank: int) -> None:
        """Remove a rank as if it had not joined."""
        member = self._take_away(rank)
        if member is not None:
            del self.members[rank]
            self._changes.pop(self._changed_at.pop((rank, member.name), 0), None)

    def end(self, life: bytes, place: tuple[int, bytes], *, was_lost: bool, num_lost: int) -> None:
        """Free the place of a life; `num_lost` lives of the place have been lost.

        A loss is recorded even if the place is unknown: a store on a new host may not have the
        member yet.
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
        """Return the last life of a place if it has ended, or None."""
        return self._empty.get((rank, name))

    def find(self, key: bytes) -> bytes:
        """Return the answer to one key of a query.

        For a key `rank` or `=name`, the answer is the member's value, or empty without such a
        member. For `@label`, it is the number of members with the label. For `?`, it is the first
        missing ranks, and the number of other missing ranks.
        """
        if key == b"?":
            named, more = self.first_missing()
            return b"%s %d" % (b" ".join(b"%d" % rank for rank in named), more)
        if key[:1] == b"@":
            return b"%d" % self._labels[key[1:]]
        rank = self._by_name.get(key[1:], -1) if key[:1] == b"=" else int(key)
        return self.members[rank].value if rank in self.members else b""

    def changes_since(self, revision: int) -> list[bytes]:
        """Return the present revision and the changes since `revision`.

        The parts are: the revision; b"1" if the values of all members follow, b"0" if only the
        values of members that joined after `revision`; the number of values; the values; and, after
        b"0", the lives that ended after `revision`.
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
    """Return why a member cannot join `group`, and the values of the two members that disagree.

    The reason is empty if the member can join. The value of the lower rank comes first.
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
    """Return the error text for a world size that is not the group's; empty if they are equal."""
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
    """Return the missing ranks; if `is_brief`, the first MOST_NAMED and a count of the others."""
    if not is_brief:
        return [b"%d" % rank for rank in group.missing()]
    named, more = group.first_missing()
    return [b"%d" % rank for rank in named] + ([b"%d more" % more] if more else [])


def show(key: bytes) -> str:
    """Return a key as text, shortened to one line."""
    return repr(key[:200].decode(errors="replace"))
