"""How the members of a group find each other through a store, and set up shared memory."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from fastdist.core.errors import CollectiveError, RankTakenError
from fastdist.distributed.pipe.registry import names_of
from fastdist.distributed.rendezvous import worker_address, worker_security
from fastdist.distributed.sockets.addresses import require_own_address
from fastdist.distributed.sockets.liveness_timeouts import frozen_s as choose_frozen_s
from fastdist.distributed.store import Store
from fastdist.system.foreign_text import one_line

from . import segment as segments
from .algorithms import fastest_first
from .bulk import choose_seal
from .group import LinksTransport
from .hub import Hub, close_if_unused, find_hub, get_or_create_hub
from .members import Members, Record, machines_of
from .segment import Segment, SegmentError

NOTICE_S = 5.0
_MOST_RANKS_TEXT: Final = 400


def connect(
    store: Store,
    rank: int,
    size: int,
    timeout_s: float,
    *,
    ranks: Sequence[int] | None = None,
    world_size: int | None = None,
    security: str | None = None,
    certificates: str | None = None,
    local_address: str | None = None,
    notice_s: float = NOTICE_S,
    frozen_s: float | None = None,
    encrypts: bool | None = None,
    machine: str = "",
) -> LinksTransport:
    """Meet the other members of a group, and return the transport of its collectives.

    `store` belongs to this group; for example, it is a PrefixStore with the group's name. `ranks`
    are the global ranks of the members in a job of `world_size` processes. With encrypts=False or
    FASTDIST_COLLECTIVES_ENCRYPT=0, large sums between machines are authenticated but not encrypted;
    this is only for trusted networks with private addresses. Members with different values of
    `machine` use sockets to each other, even on the same machine.

    Raises  StoreTimeoutError with the members that did not join in time; CollectiveLostError as
            soon as a member that joined has ended; CollectiveError, on all members, if their
            versions or settings differ
    """
    numbers = tuple(range(size)) if ranks is None else tuple(ranks)
    if not 0 <= rank < size or len(numbers) != size or len(set(numbers)) != size:
        raise ValueError(f"rank {rank} of a group of {size} with ranks {numbers}")
    deadline = time.monotonic() + timeout_s
    hub = _hub_of(
        store,
        numbers[rank],
        max(numbers) + 1 if world_size is None else world_size,
        security=security,
        certificates=certificates,
        local_address=local_address,
        frozen_s=choose_frozen_s(frozen_s),
    )
    try:
        return _join(hub, store, rank, numbers, deadline, notice_s, machine, encrypts)
    except BaseException:
        close_if_unused(hub)
        raise


def _hub_of(
    store: Store,
    rank: int,
    world_size: int,
    *,
    security: str | None,
    certificates: str | None,
    local_address: str | None,
    frozen_s: float,
) -> Hub:
    hub = find_hub(rank)
    if hub is not None:
        return hub
    host = worker_address(store, given=local_address)
    require_own_address("FASTDIST_ADDRESS" if local_address is None else "local_address", host)
    protection = worker_security(
        store, rank, world_size, security=security, certificates=certificates
    )
    return get_or_create_hub(rank, host, protection, frozen_s)


def _join(
    hub: Hub,
    store: Store,
    rank: int,
    ranks: Sequence[int],
    deadline: float,
    notice_s: float,
    machine: str,
    encrypts: bool | None,
) -> LinksTransport:
    mine = Record(
        rank=ranks[rank],
        incarnation=hub.incarnation,
        group_id=int.from_bytes(os.urandom(7), "little"),
        addresses=hub.addresses,
        security=hub.security_kind,
        ranks=_joined(ranks),
        bulk=choose_seal(hub.security_kind, hub.host, encrypts=encrypts),
        tags=fastest_first(encrypts=False),
        ciphers=fastest_first(encrypts=True),
        shares_nothing=_why_no_memory(),
        machine=machine,
    )
    meeting = _Meeting(store, rank, len(ranks), deadline, lambda: hub.require_there(ranks))
    try:
        found = meeting.all_of("members", mine.encode())
    except RankTakenError as error:
        raise _place_taken(error, rank) from error
    records = [Record.decode(one) for one in found]
    _require_agreement(records)
    group = records[0].group_id
    try:
        # From now on, the loss of a member ends all waits for that member.
        _watch(hub, group, rank, records, machines_of(records))
        machines, segment = _share_memory(meeting, records)
        transport = LinksTransport(hub, rank, records, machines, segment, notice_s)
        hub.attach(group, transport)
    except BaseException:
        hub.detach(group)
        raise
    try:
        _watch(hub, group, rank, records, machines)
        hub.await_connections(group, deadline)
        meeting.all_of("ready", b"")
        if rank == 0:
            # All members have read the values under these keys by now.
            for what in ("members", "segments", "mapped"):
                store.disband(what)
    except BaseException as error:
        # The abort notifies the members that have joined, so that neither side waits for the other.
        transport.abort(error if isinstance(error, Exception) else CollectiveError(repr(error)))
        transport.close()
        raise
    return transport


class _Meeting:
    """One member's exchanges of values, through the store, with all members of a new group."""

    def __init__(
        self, store: Store, rank: int, size: int, deadline: float, look: Callable[[], None]
    ) -> None:
        self.rank = rank
        self._store, self._size, self._deadline, self._look = store, size, deadline, look

    def all_of(self, what: str, value: bytes) -> list[bytes]:
        """Publish a value; wait for all members to publish theirs, and return all values."""
        left_s = max(0.0, self._deadline - time.monotonic())
        return self._store.join(what, self.rank, value, self._size, left_s, look=self._look)


def _share_memory(meeting: _Meeting, records: Sequence[Record]) -> tuple[list[list[int]], Segment]:
    """Return lists of the members that share memory, and the memory of this member's list."""
    rank, size = meeting.rank, len(records)
    machines = machines_of(records)
    here = next(one for one in machines if rank in one)
    board = segments.board_bytes()
    descriptor, mapping = -1, None
    try:
        if here[0] == rank and len(here) > 1:
            descriptor, mapping = segments.create(len(here), size, board)
        offers = meeting.all_of("segments", json.dumps([descriptor, board]).encode())
        why = ""
        if len(here) > 1 and mapping is None:
            try:
                mapping = _open(records[here[0]].pid, offers[here[0]], len(here), size)
            except SegmentError as error:
                why = one_line(error)
        board = _numbers_of(offers[here[0]])[1] if len(here) > 1 else board
        answers = meeting.all_of("mapped", why.encode())
    finally:
        if descriptor >= 0:
            # All members have mapped the memory. It is freed when the last mapping ends, even if a
            # process is killed.
            os.close(descriptor)
    machines = [
        part
        for one in machines
        for part in ([one] if not any(answers[member] for member in one) else [[m] for m in one])
    ]
    here = next(one for one in machines if rank in one)
    if len(here) == 1:
        mapping, board = segments.private(size), segments.board_bytes()
    assert mapping is not None
    return machines, Segment(mapping, len(here), size, board)


def _watch(
    hub: Hub, group: int, rank: int, records: Sequence[Record], machines: Sequence[Sequence[int]]
) -> None:
    """Let the hub watch the other members; leaders of different machines watch by connection."""
    leaders = {one[0] for one in machines}
    here = next(one for one in machines if rank in one)
    for member, record in enumerate(records):
        if record.incarnation != hub.incarnation:
            is_far = member in leaders and rank in leaders and member not in here
            hub.watch(group, record, by_connection=is_far)


def _joined(ranks: Sequence[int]) -> str:
    """Return ranks as text: a range if possible. In a long list, a digest replaces the rest of the
    ranks, because each member reads the texts of all others.
    """
    first = ranks[0]
    if list(ranks) == list(range(first, first + len(ranks))):
        return f"{first} to {ranks[-1]}"
    text = ", ".join(map(str, ranks))
    if len(text) <= _MOST_RANKS_TEXT:
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return f"{text[:_MOST_RANKS_TEXT]}... ({len(ranks)} ranks, digest {digest})"


def _place_taken(error: RankTakenError, place: int) -> Exception:
    """Return the error for two members that claim one place: with one rank, or for other groups."""
    claims = [Record.decode(one) for one in error.claims]
    if len({one.rank for one in claims}) < 2:
        return error
    names = Members(claims)
    who = " and ".join(
        f"{names.name(number)}, whose group has the ranks {one_line(one.ranks)}"
        for number, one in enumerate(claims)
    )
    return CollectiveError(
        f"{who}, both claim place {place} of one group: all processes of a job make their groups "
        "in the same order, and with the same ranks"
    )


def _why_no_memory() -> str:
    transports, channels = names_of("FASTDIST_TRANSPORTS"), names_of("FASTDIST_CHANNELS")
    if transports is not None and "shm" not in transports:
        return "FASTDIST_TRANSPORTS does not have shm"
    if channels is not None and channels == ["basic"]:
        return "FASTDIST_CHANNELS is basic"
    return segments.why_not_viable() or ""


def _open(pid: int, offer: bytes, count: int, size: int) -> mmap.mmap:
    descriptor, board = _numbers_of(offer)
    return segments.open_other(pid, descriptor, count, size, board)


def _numbers_of(offer: bytes) -> tuple[int, int]:
    try:
        descriptor, board = json.loads(offer)
    except (ValueError, TypeError) as error:
        raise CollectiveError(f"not the memory of a member: {one_line(offer)}") from error
    if type(descriptor) is not int or type(board) is not int:
        raise CollectiveError(f"not the memory of a member: {one_line(offer)}")
    return descriptor, board


def _require_agreement(records: Sequence[Record]) -> None:
    first = records[0]
    for record in records:
        for what, mine, theirs in (
            ("fastdist", first.version, record.version),
            ("security", first.security, record.security),
            ("a group of ranks", first.ranks, record.ranks),
            ("bulk connections", first.bulk or "none", record.bulk or "none"),
        ):
            if mine != theirs:
                raise CollectiveError(
                    f"rank {first.rank} has {what} {one_line(mine)}, rank {record.rank} "
                    f"{one_line(theirs)}: all members of a group must have the same"
                )
