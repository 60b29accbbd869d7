"""How a worker joins a group: all members meet and compare their settings."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeAlias

from fastdist.core.errors import (
    FastdistError,
    RankTakenError,
    RpcError,
    StoreError,
    StoreLostError,
    StoreTimeoutError,
)
from fastdist.core.folded_frames import private_cause
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.pipe.host import process_lives
from fastdist.distributed.pipe.lane import LaneClosed, LaneInDoubt, LaneTimeout
from fastdist.distributed.restarts import restart_count
from fastdist.distributed.sockets import Doorbell, knock
from fastdist.distributed.sockets.liveness_timeouts import FROZEN_S
from fastdist.distributed.store import PrefixStore, Store
from fastdist.distributed.store.wait_log import WaitLog
from fastdist.system.foreign_text import one_line

from ..message.message import Message
from ..message.types import MessageType
from .directory import (
    COMMON,
    LABEL,
    MOST_READ,
    WITH_MAPS,
    StoreDirectory,
    decode_found,
    machine_label,
    view,
)
from .group import GIVEN_UP, TELL_S, Group
from .record import SAME_VERSION, Record
from .tree import neighbours_of

_GROUP_KIND: Final = "group_kind"
_GROUP_VERSION: Final = "group_version"
# The prefix of the keys that have the latest life of each rank until all members have met, in a
# group that allows restarts.
_CLAIMS: Final = "claims"
_NO_CLAIM: Final = b"\0absent"
_MAY_FOLLOW: Final = (
    "if the first has ended, and the second was started in its place: a lost worker may come "
    "back where FASTDIST_ALLOW_RESTART=worker is set for all workers"
)

Answers: TypeAlias = Callable[[Record], bool]


def _always(earlier: Record) -> bool:
    """Return True, as if the earlier life had answered; used where no greeting can be sent."""
    return True


def join_static(
    store: Store,
    me: Record,
    timeout_s: float,
    frozen_s: float | None = None,
    answers: Answers = _always,
) -> Group:
    """Join a group with a world size, and wait until all its members have joined.

    If `frozen_s` is given, the worker may also join after all members have met. It then replaces an
    incarnation of its rank that has ended, or that has given no sign of life for `frozen_s`.
    `answers` greets an incarnation that exists but may be frozen: see Note [Taking over a stale
    incarnation].

    Raises  RpcError, at every member, if two members disagree; RankTakenError, at every member that
            waits, if two members have the same rank; StoreTimeoutError naming the missing members
    """
    directory, takes_back = StoreDirectory(store), frozen_s is not None
    wanted = _wanted_by(me)
    try:
        _require_kind(store, "static")
        if frozen_s is not None:
            me = _replace_claim(store, me, frozen_s)
        keys: list[int | str] = [*wanted, f"{LABEL}{machine_label(me)}", f"{LABEL}{WITH_MAPS}"]
        found = directory.meet(me, keys, timeout_s, may_follow=takes_back)
        if not found:
            # All members had met before, in this store or in its predecessor on another host.
            return _come_back_static(store, me, frozen_s or 0.0, answers)
        records = [one for one in decode_found(wanted, found[: len(wanted)]) if one is not None]
        require_agreement(records or [me])
    except RankTakenError as error:
        first, second = map(Record.decode, error.claims)
        if first.rank != second.rank:
            _wait_until_all_know(store, me)
            require_agreement([first, second])
            raise RpcError(str(error)) from private_cause(error)
        if not _has_begun(store, me.rank):
            _wait_until_all_know(store, me)
        raise RankTakenError(f"{error}: {_both(error)}; {_MAY_FOLLOW}", error.claims) from error
    except (StoreTimeoutError, StoreLostError):
        raise  # this error cannot be sent to missing workers or through a lost store
    except (RpcError, StoreError):
        _wait_until_all_know(store, me)
        raise
    group = Group(store, me, records, restarts=takes_back)
    group.set_on_machine(int(found[-2]))
    group.has_maps = found[-1] != b"0"
    group.publish()
    return group


def _wanted_by(me: Record) -> list[int]:
    """Return the ranks whose records a member reads first: see Note [Who is looked up when]."""
    if me.world_size <= MOST_READ:
        return [*range(me.world_size)]
    return neighbours_of(me.rank, me.world_size)


def join_dynamic(
    store: Store, me: Record, frozen_s: float = FROZEN_S, answers: Answers = _always
) -> Group:
    """Join a group without a world size, possibly as the successor of an earlier life.

    `answers` greets an earlier life that may be frozen: see Note [Taking over a stale incarnation].

    Raises  RpcError if the name or the rank is taken
    """
    _require_kind(store, "dynamic")
    _require_version(store, me)
    group, directory = Group(store, me), StoreDirectory(store)
    try:
        # See Note [One request enters].
        other, num_lost = directory.claim(me)
        while other is not None:
            if not leaves_its_place(store, other, me, frozen_s, answers):
                raise RpcError(
                    f"RPC worker name {me.name} with rank {me.rank} is not unique: the group "
                    f"has {other.name} with rank {other.rank}; give each worker its own name "
                    "and rank"
                )
            _logger.info("%s of rank %d has ended, and its place is free", other.name, other.rank)
            me = group.me = _follow(me, other)
            other, num_lost = directory.claim(me, other, other.restart_count + 1)
        group.came_back = num_lost > 0
        if num_lost > me.restart_count:
            # Another member had already removed the earlier life.
            me = group.me = replace(me, restart_count=num_lost)
            directory.claim(me)
        group.note(me, directory)
        group.publish()
    except BaseException:
        try:
            StoreDirectory(store, TELL_S).leave(me)
        except StoreError as error:
            _logger.info("could not release name and rank: %s", error)
        raise
    return group


def be_in_again(store: Store, group: Group, lost: Sequence[Record]) -> None:
    """Write the members to a store that was started again on another host and is empty.

    Nothing changes if the store has this worker, or a life that followed it. `lost` has the members
    that are lost as far as this worker knows, and that may come back.

    Raises  StoreError; RpcError for an invalid entry in the store
    """
    me, directory = group.me, StoreDirectory(store)
    _require_kind(store, "static" if group.is_static else "dynamic")
    _require_version(store, me)
    (there,) = directory.find([me.rank])
    if there is None:
        # In a static group, write the lost members as well, because other lives may follow them.
        for one in group.members if group.is_static else ():
            directory.claim(one)
        for one in () if group.is_static else lost:
            directory.declare_lost(one)
        (there,) = directory.find([me.rank])
    if there is None or _precedes(there, me):
        # The worker that wrote the members first may have known only an earlier life of this rank.
        directory.claim(me, there, me.restart_count)
        group.publish()


def _precedes(one: Record, other: Record) -> bool:
    """Return whether one life of a rank began before another."""
    return (one.restart_count, one.incarnation) < (other.restart_count, other.incarnation)


def _come_back_static(store: Store, me: Record, frozen_s: float, answers: Answers) -> Group:
    """Join a static group as the successor of an earlier life of this rank that has ended.

    Raises  RankTakenError if that life still works; RpcError if the rank or its name does not match
    """
    directory = StoreDirectory(store)
    while True:
        (before,) = directory.find([me.rank])
        if before is None:
            raise RpcError(
                f"{me.whereabouts} cannot join a group of {me.world_size} workers, which has no "
                f"rank {me.rank}"
            )
        if before.name != me.name:
            raise RpcError(
                f"rank {me.rank} came back as {me.name!r}, but was {before.name!r}: a worker "
                "keeps its name when it is started again"
            )
        require_agreement([before, me], names=False)
        if not leaves_its_place(store, before, me, frozen_s, answers):
            claims = (before.encode(), me.encode())
            raise RankTakenError(
                f"rank {me.rank} is taken: {before.whereabouts}, is alive, and then "
                f"{me.whereabouts} tried to join",
                claims,
            )
        me = _follow(me, before)
        if directory.claim(me, before, before.restart_count + 1)[0] is None:
            break
    others = [rank for rank in _wanted_by(me) if rank != me.rank]
    near = [one for one in directory.find(others) if one is not None]
    group = Group(store, me, [me, *near], restarts=True, came_back=True)
    group.set_on_machine(directory.count(machine_label(me)))
    group.publish()
    return group


def _follow(me: Record, before: Record) -> Record:
    """Return `me` with the restart count of a life that follows `before`."""
    count = before.restart_count + (not me.is_of_process_of(before))
    return replace(me, restart_count=count) if count > me.restart_count else me


def count_former_lives(store: Store, rank: int) -> int:
    """Return how often a rank was started again, according to the store of a former group.

    Call this in a process whose first group is not the first group of its rank. Another process had
    the rank in earlier groups, so the count is at least 1.
    """
    (before,) = StoreDirectory(store).find([rank])
    return 1 if before is None else before.restart_count + 1


def _replace_claim(store: Store, me: Record, frozen_s: float) -> Record:
    """Withdraw the claim of an earlier life that ended before all members had met."""
    claims = PrefixStore(_CLAIMS, store)
    key = str(me.rank)
    held = claims.compare_set(key, _NO_CLAIM, _NO_CLAIM)
    before = None if held == _NO_CLAIM else Record.decode(held)
    # If the launcher has counted a restart, it has seen the end of the earlier life.
    if restart_count() > 0 or (before is not None and is_over(before, me, frozen_s)):
        StoreDirectory(store).withdraw(me)
    if before is not None:
        me = _follow(me, before)
    claims.set(key, me.encode())
    return me


def _has_begun(store: Store, rank: int) -> bool:
    """Return whether a worker of this rank has joined; then no member waits for the group."""
    try:
        return PrefixStore("names", store).check([str(rank)])
    except StoreError:
        return False  # the store's host got the same error, and the store ended with it


# Note [Taking over a stale incarnation]
# A worker counts as live if its process exists, or if a host accepts connections at its address. It
# does not matter how long its Python has been busy: a second process that was started by mistake
# must not replace a working worker. If no host accepts a connection, the host or the network may be
# down. In this case the members declare the worker lost after frozen_s, so a process that wants to
# take over the rank waits for the same time.
#
# A frozen worker counts as live. It keeps its rank until a member declares it lost and writes this
# to the store. After that, the worker keeps its rank only while it answers greetings: the member
# that declared it lost may itself have been cut off. If a frozen worker wakes after another process
# has taken its rank, the members notify it that it was declared lost.

_TRY_AGAIN_S: Final = 1.0

_logger = logging.getLogger(__name__)


def leaves_its_place(
    store: Store, earlier: Record, me: Record, frozen_s: float, answers: Callable[[Record], bool]
) -> bool:
    """Return whether an earlier life is over, or was given up by a member and does not answer.

    `answers` greets the earlier life. If that life exists but does not answer, this function waits,
    up to the store's timeout, until the life answers, ends, or is given up.

    Raises  StoreError; RpcError for an invalid address
    """
    given_up = PrefixStore(GIVEN_UP, store)
    with WaitLog(f"{me.name!r} (rank {me.rank})", store.timeout.total_seconds()) as line:
        while not is_over(earlier, me, frozen_s):
            if answers(earlier):
                return False
            if given_up.check([str(earlier.incarnation)]):
                _logger.warning("the others declared %s lost", earlier.whereabouts)
                return True
            if line.is_over:
                return False
            line.log_now_and_again(f"the others to declare {earlier.whereabouts} lost")
            with suppress(StoreTimeoutError):
                given_up.wait([str(earlier.incarnation)], _TRY_AGAIN_S)
    return True


def is_over(earlier: Record, me: Record, frozen_s: float) -> bool:
    """Return whether an earlier life has ended, or has given no sign of life for frozen_s.

    Thread  blocks for a round trip to the life's host, or for frozen_s if that host does not
            answer; does not block if both lives are in one process id namespace
    Raises  RpcError for an invalid address
    """
    if me.shares_processes_with(earlier):
        return not process_lives(earlier.pid, earlier.process_start)
    address = earlier.addresses.get("uv")
    if address is None:
        return False  # reachable only from processes that share its memory
    until = time.monotonic() + frozen_s
    while True:
        try:
            answer = knock(address, min(until, time.monotonic() + _TRY_AGAIN_S))
        except (ValueError, OverflowError) as error:
            raise RpcError(
                f"a worker's address in the store is invalid: {address[:80]!r}"
            ) from error
        if answer is not None:
            return not answer
        if time.monotonic() >= until:
            _logger.warning(
                "%s has given no sign of life for %g s; assuming that it has ended",
                *(earlier.whereabouts, frozen_s),
            )
            return True


# The timeout for a worker's answer to a greeting.
_ANSWERS_S: Final = 1.5
_WHO: Final = "twin"
# The most characters of the text by which the other worker describes itself.
_MOST_LETTERS: Final = 500


def make_known(context: Context, store: Store, me: Record, taken: RankTakenError) -> RankTakenError:
    """Report this worker to the store's host and to the first worker of its rank; return the error.

    Note    a member that still waits for the group gets the error from the store
    """
    first, second = map(Record.decode, taken.claims)
    if second.incarnation != me.incarnation:
        return taken  # this worker was first; the second worker reports the conflict
    try:
        store.query_host(
            f"a second worker that says it is rank {me.rank} was refused: {me.whereabouts}; the "
            f"first is {first.whereabouts}"
        )
    except StoreError as error:
        _logger.info("could not notify the store's host of a second rank %d: %s", me.rank, error)
    what = "was notified of this one" if answers(context, me, first) else "does not answer"
    return RankTakenError(f"{taken}; the first {what}", taken.claims)


def answers(context: Context, me: Record, first: Record) -> bool:
    """Greet the worker of the record `first`; return whether it answered."""
    greeting = Message(
        MessageType.HELLO,
        source=me.rank,
        incarnation=me.incarnation,
        metadata={"to": f"{first.incarnation:x}", _WHO: me.whereabouts},
    )
    deadline = time.monotonic() + _ANSWERS_S
    bell = Doorbell()
    try:
        transport = context.choose(first.addresses, same_host=me.shares_host_with(first))
        address = first.addresses[transport]
        lane = context.connect(transport, address, bell, f"rank:{first.rank}")
        try:
            lane.send(greeting.encode(), deadline)
            lane.receive(deadline)
            return True
        finally:
            lane.close()
    except (FastdistError, OSError, LaneClosed, LaneInDoubt, LaneTimeout):
        return False
    finally:
        bell.close()


def refuse_twin(me: Record, greeting: Message) -> None:
    """Refuse a greeting from another worker with this worker's rank, and log a warning.

    Raises  RankTakenError, which is sent as the answer to the greeting
    """
    if greeting.source != me.rank or greeting.incarnation == me.incarnation:
        return
    who = one_line(greeting.metadata.get(_WHO, "it did not identify itself"), _MOST_LETTERS)
    _logger.warning(
        "a second worker says that it is rank %d, and was refused: %s; this one, %s, goes on",
        *(me.rank, who, me.whereabouts),
    )
    raise RankTakenError(f"rank {me.rank} belongs to {me.whereabouts}")


def _both(taken: RankTakenError) -> str:
    first, second = (Record.decode(claim).whereabouts for claim in taken.claims)
    return f"{first}, joined first, and then {second}"


def _wait_until_all_know(store: Store, me: Record) -> None:
    """Give all members time to read the error before rank 0, which may host the store, ends.

    Note    the other members do not wait: if rank 0 has a smaller world size, it ends before they
            have found each other, and they would try to reach its store again
    """
    told = view("told", store, TELL_S)
    try:
        told.set(str(me.rank), "")
        if me.rank == 0:
            told.wait([str(rank) for rank in range(me.world_size)])
    except StoreError as error:
        _logger.info("some members may not have been notified of the mistake: %s", error)


def _require_kind(store: Store, kind: str) -> None:
    found = store.compare_set(_GROUP_KIND, "", kind).decode()
    if found != kind:
        raise RpcError(
            "RPC group mixes statically and dynamically initialized members which is not "
            f"supported. The group is {found}, this worker would be {kind}: pass the same "
            "world_size to all of them, or to none"
        )


def _require_version(store: Store, me: Record) -> None:
    """Check that this worker has the first member's fastdist version, before it publishes a record.

    Raises  RpcError naming both versions
    """
    mine = f"{me.version}, wire version {me.wire_version}"
    found = store.compare_set(_GROUP_VERSION, "", mine).decode(errors="replace")
    if found != mine:
        raise RpcError(
            f"the group has fastdist {one_line(found, 100)}; worker {me.name!r} has {mine}; "
            f"{SAME_VERSION}"
        )


def require_agreement(records: Sequence[Record], *, names: bool = True) -> None:
    """Check that workers agree on the common settings, and have unique names.

    Raises  RpcError naming two workers that disagree, and the setting
    """
    first = records[0]
    named: dict[str, Record] = {}
    for record in records:
        other = named.setdefault(record.name, record)
        if names and other is not record:
            raise RpcError(
                f"RPC worker name {record.name} is not unique: ranks {other.rank} and "
                f"{record.rank} both have it; give each worker its own name: it is that of "
                f"{other.whereabouts}, and of {record.whereabouts}"
            )
        for what in COMMON:
            mine: Any = getattr(record, what)
            if mine != getattr(first, what):
                remedy = f"; {SAME_VERSION}" if "version" in what else ""
                raise RpcError(
                    f"the workers disagree on {what}: {first.name!r} has "
                    f"{getattr(first, what)!r}, {record.name!r} has {mine!r}{remedy}"
                )
