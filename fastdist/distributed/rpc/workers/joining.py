"""How a worker enters a group: all meet, and agree on what they must have in common."""

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
# Under this a rank's latest life is noted before all have met, in a group that takes lives back.
_CLAIMS: Final = "claims"
_NO_CLAIM: Final = b"\0absent"
_MAY_FOLLOW: Final = (
    "if the first has ended, and the second was started in its place: a lost worker may come "
    "back where FASTDIST_ALLOW_RESTART=worker is set for all workers"
)

Answers: TypeAlias = Callable[[Record], bool]


def _always(earlier: Record) -> bool:
    """Say that one which lives answers, where nobody can greet it."""
    return True


def join_static(
    store: Store,
    me: Record,
    timeout_s: float,
    frozen_s: float | None = None,
    answers: Answers = _always,
) -> Group:
    """Meet all members of a group with a world size.

    With frozen_s, a worker may also join after all have met: it replaces an incarnation that has
    ended, or that has given no sign of life for that long. `answers` queries an incarnation that
    is alive but may be frozen: see Note [Taking over a stale incarnation].

    Raises  RpcError, at every member, where two disagree; RankTakenError where two have one rank,
            at every member that waits; StoreTimeoutError naming who is missing
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
            # All had met before, in this store or in one that had another host.
            return _come_back_static(store, me, frozen_s or 0.0, answers)
        records = [one for one in decode_found(wanted, found[: len(wanted)]) if one is not None]
        require_agreement(records or [me])
    except RankTakenError as error:
        first, second = map(Record.decode, error.claims)
        if first.rank != second.rank:
            _wait_until_all_know(store, me)
            require_agreement([first, second])
            raise RpcError(str(error)) from error
        if not _has_begun(store, me.rank):
            _wait_until_all_know(store, me)
        raise RankTakenError(f"{error}: {_both(error)}; {_MAY_FOLLOW}", error.claims) from error
    except (StoreTimeoutError, StoreLostError):
        raise  # the missing workers, or a store that is gone, cannot be notified
    except (RpcError, StoreError):
        _wait_until_all_know(store, me)
        raise
    group = Group(store, me, records, restarts=takes_back)
    group.set_on_machine(int(found[-2]))
    group.has_maps = found[-1] != b"0"
    group.publish()
    return group


def _wanted_by(me: Record) -> list[int]:
    """Return the ranks whose records a member reads at once: see Note [Who is looked up when]."""
    if me.world_size <= MOST_READ:
        return [*range(me.world_size)]
    return neighbours_of(me.rank, me.world_size)


def join_dynamic(
    store: Store, me: Record, frozen_s: float = FROZEN_S, answers: Answers = _always
) -> Group:
    """Enter a group without a world size; in the place of an earlier life that is over.

    `answers` greets one that lives: it may be frozen, see Note [Taking over a stale incarnation].

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
            # Another member had struck out the earlier life already.
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
    """Tell a store that has another host, and knows nothing of the group, who is in it.

    Nothing changes where it knows this worker, or one that has followed it. `lost` are members that
    this worker has lost, and that may come back.

    Raises  StoreError; RpcError for what none of ours wrote
    """
    me, directory = group.me, StoreDirectory(store)
    _require_kind(store, "static" if group.is_static else "dynamic")
    _require_version(store, me)
    (there,) = directory.find([me.rank])
    if there is None:
        # In a static group also those that are lost: others may follow them.
        for one in group.members if group.is_static else ():
            directory.claim(one)
        for one in () if group.is_static else lost:
            directory.declare_lost(one)
        (there,) = directory.find([me.rank])
    if there is None or _precedes(there, me):
        # The worker that recorded the group first may have known an earlier life of this rank.
        directory.claim(me, there, me.restart_count)
        group.publish()


def _precedes(one: Record, other: Record) -> bool:
    """Return whether one life of a rank began before another."""
    return (one.restart_count, one.incarnation) < (other.restart_count, other.incarnation)


def _come_back_static(store: Store, me: Record, frozen_s: float, answers: Answers) -> Group:
    """Enter a static group in the place of an earlier life of this rank, which is over.

    Raises  RankTakenError where that lives; RpcError where this worker is none that was there
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
    """Return my record with the restart count of a life that follows `before`."""
    count = before.restart_count + (not me.is_of_process_of(before))
    return replace(me, restart_count=count) if count > me.restart_count else me


def count_former_lives(store: Store, rank: int) -> int:
    """Return how often a rank was started again, as the store of a group that is over tells.

    A process that first comes to a later group was started after an earlier one had been in it.
    """
    (before,) = StoreDirectory(store).find([rank])
    return 1 if before is None else before.restart_count + 1


def _replace_claim(store: Store, me: Record, frozen_s: float) -> Record:
    """Withdraw the claim of an earlier life that came and ended before all had met."""
    claims = PrefixStore(_CLAIMS, store)
    key = str(me.rank)
    held = claims.compare_set(key, _NO_CLAIM, _NO_CLAIM)
    before = None if held == _NO_CLAIM else Record.decode(held)
    # A launcher that counts has seen its end.
    if restart_count() > 0 or (before is not None and is_over(before, me, frozen_s)):
        StoreDirectory(store).withdraw(me)
    if before is not None:
        me = _follow(me, before)
    claims.set(key, me.encode())
    return me


def _has_begun(store: Store, rank: int) -> bool:
    """Return whether a rank works already, so that nobody waits for the group any more."""
    try:
        return PrefixStore("names", store).check([str(rank)])
    except StoreError:
        return False  # gone with its host, which has heard the same


# Note [Taking over a stale incarnation]
# A process that exists, or a host that accepts connections at the address, is a live worker, for
# however long its Python may be busy: a second process that was started by mistake must not take
# the place of a working one. Where nothing answers, the host may be gone or the network may be
# down; the members would then declare the worker lost after frozen_s, and this process does the
# same.
#
# A frozen worker still exists. It keeps its place until a member has declared it lost, which that
# member writes to the store, and then for as long as it answers: the member may itself have been
# cut off. If it wakes after another process has taken its place, the members notify it that it was
# declared lost.

_TRY_AGAIN_S: Final = 1.0

_logger = logging.getLogger(__name__)


def leaves_its_place(
    store: Store, earlier: Record, me: Record, frozen_s: float, answers: Callable[[Record], bool]
) -> bool:
    """Return whether an earlier life is over, or was given up by a member and does not answer.

    `answers` greets it. One that lives and does not answer is waited for, for as long as the store
    is: it may answer yet, end, or be given up.

    Raises  StoreError; RpcError for an address that is none
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

    Thread  waits: not at all where the process table tells, a round trip where its host answers
    Raises  RpcError for an address that is none
    """
    if me.shares_processes_with(earlier):
        return not process_lives(earlier.pid, earlier.process_start)
    address = earlier.addresses.get("uv")
    if address is None:
        return False  # only processes that share its memory can reach it
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


# The one that works answers at once, unless it has ended.
_ANSWERS_S: Final = 1.5
_WHO: Final = "twin"
# The most letters of the other worker's description of itself.
_MOST_LETTERS: Final = 500


def make_known(context: Context, store: Store, me: Record, taken: RankTakenError) -> RankTakenError:
    """Tell who works as this worker's rank, and the store's host, of this one; return its error.

    Note    who still waits for the group hears it from the store
    """
    first, second = map(Record.decode, taken.claims)
    if second.incarnation != me.incarnation:
        return taken  # this one came first, or is a third
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
    """Greet the other as what this one says it is; return whether it has answered."""
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
    """Warn of another worker that greets with this one's name and rank.

    Raises  RankTakenError, which is the answer to the greeting
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
    """Give all members time to read a mistake before the one that serves the store ends it."""
    told = view("told", store, TELL_S)
    try:
        told.set(str(me.rank), "")
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
    """Check that this worker has the fastdist of the first member, before others read its record.

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
    """Check that workers agree where they must, and have unique names.

    Raises  RpcError naming the two that disagree, and on what
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
