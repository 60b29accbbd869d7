"""The table of the group's workers: it looks them up, connects to them, and admits callers."""

from __future__ import annotations

import functools
import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from fastdist.concurrency.future import Future
from fastdist.core.device import Device
from fastdist.core.errors import (
    GivenUpError,
    RpcError,
    RpcNotRunningError,
    StoreError,
    WorkerLostError,
)
from fastdist.distributed.arena.lender import Lender
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.sockets.liveness_timeouts import crowding
from fastdist.system.foreign_text import one_line

from ..message.error_parts import fresh
from ..message.types import MessageType
from .callers import Callers
from .group import LOOK_S, Group
from .hooks import add_silence_hook as add_silence_hook  # pickles of earlier versions use this name
from .hooks import lost_hooks, silence_hooks, tell_of_return
from .latest import remember
from .progress import Progress
from .record import Record, WorkerInfo, hint_for, in_words, require_room_for_peer
from .session import LivenessTimeouts, Times
from .standing import is_life, is_out, refusal_of, stale_error
from .worker import Worker

_logger = logging.getLogger(__name__)
# The most names in an error about a wrong name.
_MOST_NAMED = 64


class Workers:
    """The present life of each rank of the group, including this worker's own.

    In a small static group all members are known from the beginning. In other groups the store is
    queried for a member that is unknown, or that is dead and may have a successor.

    `submit(function, *arguments)` runs slow functions, and users' functions, on another thread;
    `lender_to(worker)` returns the object that lends memory to a worker, or None.

    Thread  any; `admit` and `note_goodbye_read` on the pool's leader only
    """

    def __init__(
        self,
        group: Group,
        context: Context,
        callers: Callers,
        progress: Progress,
        submit: Callable[..., object],
        lender_to: Callable[[Worker], Lender | None],
        times: Times = Times(),  # noqa: B008 -- a tuple
    ) -> None:
        self.group, self.me, self.context, self.progress = group, group.me, context, progress
        self._callers, self._submit, self._lender_to = callers, submit, lender_to
        self._times = times
        # One thread reads the store at a time: an older result must not replace a newer one.
        self._refresh_lock = threading.RLock()
        # Guards changes of all attributes below. May be taken while _refresh_lock is held.
        self._lock = threading.RLock()
        # The present life of each rank: names from users and ids in messages mean this life.
        self._by_id: dict[int, Worker] = {}
        self._by_name: dict[str, Worker] = {}
        # By incarnation: the refusals for former lives that were given up and may wake up.
        self._refusals_by_incarnation: dict[int, GivenUpError] = {}
        # By id: the names of lost workers that were removed from the table and may come back.
        self._missed: dict[int, str] = {}
        # How many more peers may be connected before open descriptors are counted again.
        self._may_meet = 0
        self.is_open = False
        # The error if the other members gave this worker up; None while it is a member.
        self.given_up: GivenUpError | None = None
        # The incarnations of the members that reported that they gave this worker up.
        self._given_up_by: dict[int, None] = {}
        # Called on a pool thread: lost_callbacks with each worker that is lost or leaves,
        # returned_callbacks with each new life of a known rank.
        self.lost_callbacks: list[Callable[[Worker], None]] = []
        self.returned_callbacks: list[Callable[[Worker], None]] = []
        # Notified when a worker has acknowledged our goodbye, and when a worker ends.
        self._parting = threading.Condition()
        others = [one for one in self.group.members if one.incarnation != self.me.incarnation]
        self._take_in([*others, self.me])

    def close(self) -> bool:
        """Connect to no further workers; return False if this was called before."""
        with self._lock:
            was_open, self.is_open = self.is_open, False
            return was_open

    def require_member(self) -> None:
        """Check that this worker is still a member of the group.

        Raises  GivenUpError if the other members have given it up
        """
        if self.given_up is not None:
            raise fresh(self.given_up)

    # ---- members -------------------------------------------------------------------------------

    def find(self, to: str | int | WorkerInfo) -> Worker | None:
        """Return the present life of a name or an id; None if there is no such member."""
        return self._find(to)[0]

    def _find(self, to: str | int | WorkerInfo) -> tuple[Worker | None, str]:
        found, unread = self._known(to), ""
        if self._may_have_changed(found):
            unread = self._look_up(to)
            found = self._known(to)
        return found, unread

    def find_life(self, rank: int, incarnation: object) -> Worker | None:
        """Return the life with this incarnation; None if the rank's present life is another one.

        Note    reads the store, because the end of a life without a connection is not noticed
        """
        found = self._by_id.get(rank)
        if not is_life(found, incarnation) and (
            self.group.takes_members_later or self._may_have_changed(found)
        ):
            self._look_up(rank)
            found = self._by_id.get(rank)
        return found if is_life(found, incarnation) else None

    def _may_have_changed(self, found: Worker | None) -> bool:
        if self.group.takes_members_later:
            return found is None or found.is_dead
        return found is None and not self.group.knows_all

    def get(self, to: str | int | WorkerInfo) -> Worker:
        """Return the present life of a name or an id.

        Raises  RpcError naming the members that exist
        """
        worker, unread = self._find(to)
        if worker is None:
            if not self.group.is_static:
                self.refresh()  # for the names in the error
            known = self._names()
            kind = "name" if isinstance(to, str) else "id"
            lost = self._explain_missed(to)
            near = "" if lost or unread else hint_for(to, self._by_name, self.me.world_size)
            raise self._not_found(f"{kind} {to}; the group has: {known}{lost}{near}{unread}")
        return worker

    def _names(self) -> str:
        """Return the names of known members, only the first ones if there are many."""
        names = sorted(self._by_name)
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        others = "" if self.group.knows_all or not self.group.is_static else ", and others"
        return f"{', '.join(names[:_MOST_NAMED])}{more}{others}"

    def _not_found(self, what: str) -> RpcError:
        sender = f"name:{self.me.name},rank:{self.me.rank}"
        return RpcError(f"{sender} could not find destination {what}")

    def _explain_missed(self, to: str | int | WorkerInfo) -> str:
        """Return error text about a lost worker that has not come back; empty for any other."""
        wanted = getattr(to, "name", to)
        for rank, name in list(self._missed.items()):
            if wanted in (rank, name):
                return f"; {name!r} (rank {rank}) was lost, and has not come back"
        return ""

    def known(self, rank: int) -> Worker | None:
        """Return the present life of a rank as known here, without reading the store."""
        return self._by_id.get(rank)

    def in_words(self, rank: int) -> str:
        """Return the text for a rank in messages, without reading the store."""
        worker = self.known(rank)
        return f"the worker of rank {rank}" if worker is None else in_words(worker)

    def may_return(self, worker: Worker) -> bool:
        """Return whether a lost worker of a static group may be followed by another life."""
        return self.group.is_static and self.group.takes_members_later and bool(worker.why_lost)

    def info_of(self, to: str | int | WorkerInfo) -> WorkerInfo:
        """Return the WorkerInfo of a member; each life has one WorkerInfo object.

        Raises  the errors of get
        """
        worker = self._by_name.get(to) if isinstance(to, str) else self._known(to)
        return self.get(to).info if worker is None or worker.is_dead else worker.info

    def url_of(self, name: str) -> dict[str, str]:
        """Return the addresses of a worker by transport.

        Raises  RpcError
        """
        worker = self.find(name)
        if worker is None:
            raise self._not_found(f"url for name {name}")
        return worker.record.addresses

    def all(self) -> list[Worker]:
        """Return all members, by id."""
        if not (self.group.is_static and self.group.knows_all):
            self.refresh()
        return self.known_here()

    def known_here(self) -> list[Worker]:
        """Return the members that this worker knows, by id, without reading the store."""
        with self._lock:
            return [self._by_id[rank] for rank in sorted(self._by_id)]

    def mapped_devices(self) -> list[Device]:
        """Return the devices of this worker that its own or other members' device maps contain."""
        with self._lock:
            others = [mine for worker in self._by_id.values() for mine in worker.map_back]
        own = [Device.parse(mine) for there in self.me.device_maps.values() for mine in there]
        return sorted({*own, *others}, key=lambda device: (device.type, device.index or 0))

    def met(self) -> list[Worker]:
        """Return the workers, also dead ones, to which this worker is or was connected."""
        return [worker for worker in list(self._by_id.values()) if worker.is_met]

    def meet_all(self) -> None:
        """Connect to all members soon, so that they learn that this life follows another."""
        for worker in self.all():
            self.progress.post(self._watch, worker)

    def living(self) -> list[Worker]:
        """Return the connected workers that were not lost and have not left."""
        return [worker for worker in self.met() if not worker.is_dead]

    def lost(self) -> list[str]:
        """Return a text for each worker that was lost, with the reason."""
        return [
            f"{worker.name!r} (rank {worker.id}): {worker.why_lost}"
            for worker in self.known_here()
            if worker.is_dead and worker.why_lost
        ]

    # ---- connections ---------------------------------------------------------------------------

    def reach(self, to: int | Worker, kind: MessageType = MessageType.HELLO) -> Worker:
        """Return the life to which a message of type `kind` can be sent; connect it if necessary.

        A rank, which only users pass, stands for the rank's current life.

        Raises  RpcNotRunningError after shutdown; GivenUpError; RpcError for an unknown id;
                WorkerLostError for a worker that left before it was connected
        """
        worker = self._by_id.get(to) if isinstance(to, int) else to
        if worker is None or worker.is_dead or not worker.is_met:
            worker = self._life_to_meet(to, worker)
        if worker.is_met and self.is_open:
            return worker
        with self._lock:
            self.require_member()
            if not self.is_open:
                raise RpcNotRunningError(
                    f"Node {self.me.rank} tried to send() a message of type {kind.name} but RPC "
                    f"is no longer running on this node. It was for worker {worker.name!r}"
                )
            if worker.is_met:
                return worker
            if worker.is_dead:
                raise WorkerLostError(
                    f"{in_words(worker)} left before this worker could connect to it: "
                    f"{worker.why_lost or 'it has shut down'}",
                    may_have_run=False,
                )
            self._require_room()
            worker.meet()
        worker.lender = self._lender_to(worker)
        worker.open()
        return worker

    def _require_room(self) -> None:
        """Check that descriptors for one more peer are left; count open ones only now and then.

        Raises  RpcError
        """
        if not self._may_meet:
            self._may_meet = (require_room_for_peer() + 1) // 2
        self._may_meet -= 1

    def _life_to_meet(self, to: int | Worker, known: Worker | None) -> Worker:
        """Return the intended life; the rank may have a new life that is not known here.

        This worker does not notice the end of a life to which it was never connected.
        """
        if known is None:
            return self.get(to)  # type: ignore[arg-type]
        if not self.group.takes_members_later or known.is_self or self.given_up is not None:
            return known
        if known.is_dead and known is to:
            return known
        if not known.is_dead and self.progress.is_current_thread():
            return known  # a look-up would block the progress thread, which serves all peers
        self._look_up(known.id)
        now = self._by_id.get(known.id) if known is to else self.get(known.id)
        if now is not known and (now is None or known is to or now.name != known.name):
            whose = "nobody's" if now is None else f"that of worker {now.name!r}"
            left = f"{in_words(known)} has left: its rank is {whose} now"
            raise WorkerLostError(left, may_have_run=False)
        return now

    def admit(self, rank: int, incarnation: int, meant_for: str) -> Worker:
        """Return the Worker object of a caller that connects.

        Raises  StaleIncarnationError if the caller or the addressee is an earlier life;
                GivenUpError if the caller or this worker was declared lost; RpcError if the rank
                is not a member
        """
        if self.given_up is not None and rank != self.me.rank:
            raise fresh(self.given_up)
        worker = self.find_life(rank, incarnation) or self.get(rank)
        if worker.record.incarnation != incarnation or meant_for != f"{self.me.incarnation:x}":
            refusal = self._refusals_by_incarnation.get(incarnation)
            raise stale_error(worker.name, rank) if refusal is None else fresh(refusal)
        if worker.is_dead:
            raise refusal_of(self.me, worker) or stale_error(worker.name, rank)
        if not worker.is_met:
            # The caller may hold references and memory here, so its end must be noticed.
            self.progress.post(self._watch, worker)
        return worker

    def part(self, timeout_s: float) -> None:
        """Notify all peers that this worker leaves, and wait until they have read its messages.

        Note    without this wait, answers would be lost: if a peer made the connection, its libzmq
                drops messages that arrive just before this worker closes the connection, unless a
                thread of the peer is receiving at that moment
        """
        others = [worker for worker in self.met() if not worker.is_self]
        for worker in others:
            worker.say_goodbye()
        with self._parting:
            self._parting.wait_for(
                lambda: all(worker.is_dead or worker.acknowledged_goodbye for worker in others),
                timeout_s,
            )

    def note_goodbye_read(self, worker: Worker) -> None:
        """Record that a peer has read all messages of this worker, which leaves."""
        with self._parting:
            worker.acknowledged_goodbye = True
            self._parting.notify_all()

    def call_after(self, seconds: float, function: Callable[[], None]) -> None:
        """Call `function` on a pool thread after `seconds`, unless the agent has shut down."""
        when = time.monotonic() + seconds
        self.progress.post(self.progress.call_at, when, lambda: self._submit(function))

    # ---- methods of Owner; on the progress thread ----------------------------------------------

    def is_silent(self, worker: Worker, why: str) -> None:
        """Report a worker that does not answer; launch/lost_workers.py checks whether it hangs."""
        _logger.warning("worker %r %s", worker.name, why)
        if worker.hangs:
            self._submit(lambda: self.group.report_to_launcher(worker.record, why, hangs=True))
        for hook in silence_hooks:
            self._submit(hook, worker.info, why)

    def were_given_up(self, by: Worker, error: GivenUpError) -> None:
        """Record that `by` has given up this worker; fence this worker after enough reports."""
        # The living members except `by`. A member that gave this worker up earlier counts as dead.
        there = [other for other in self.living() if not (other.is_self or other is by)]
        remember(self._given_up_by, by.record.incarnation)
        stood_still = self.progress.stood_still_lately(self._times.frozen_s)
        if self.given_up is None and is_out(self._given_up_by, len(there), stood_still=stood_still):
            self._fence(GivenUpError(*error.args, incarnation=self.me.incarnation))

    def handle_lost(self, worker: Worker) -> None:
        """Notify all holders of data about a worker that it has ended.

        Note    if `worker` is this worker, which was given up, only the packages above rpc are
                notified, because their code may wait for this worker
        """
        if worker.is_self:
            for hook in lost_hooks:
                self._submit(hook, worker)
            return
        with self._parting:
            self._parting.notify_all()
        refusal = refusal_of(self.me, worker)
        self._callers.forget(worker, refusal)
        if worker.is_surely_over:
            self._submit(functools.partial(self.group.take_out, worker.record, was_lost=True))
        elif refusal is not None and self.group.takes_members_later:
            # `worker` may be frozen: its successor waits for this entry, and `worker` is refused.
            remember(self._refusals_by_incarnation, worker.record.incarnation, refusal)
            self._submit(self.group.tell_given_up, worker.record, worker.why_lost)
        callbacks = [*lost_hooks, *self.lost_callbacks]
        ended = itertools.count(1)

        def tell(callback: Callable[[Worker], None]) -> None:
            try:
                callback(worker)
            finally:
                if next(ended) == len(callbacks):
                    worker.end_handled.set_result(None)

        for callback in callbacks:
            self._submit(tell, callback)

    # ---- beginnings and ends -------------------------------------------------------------------

    def _known(self, to: str | int | WorkerInfo) -> Worker | None:
        if to.__class__ is str:
            return self._by_name.get(to)
        return self._by_id.get(to if isinstance(to, int) else to.id)  # type: ignore[union-attr]

    def refresh(self) -> None:
        """Read the members from the store; if it does not answer, the tables stay unchanged."""
        with self._refresh_lock:
            try:
                came = self._take_in(self.group.read_members(LOOK_S))
            except StoreError as error:
                _logger.info("cannot read from the store which workers are in the group: %s", error)
                return
        self._tell_who_came(came)

    def _look_up(self, to: str | int | WorkerInfo) -> str:
        """Read the member with a name or id from the store; return error text if that fails."""
        with self._refresh_lock:
            try:
                record = self.group.find(to if isinstance(to, (str, int)) else to.id, LOOK_S)
            except StoreError as error:
                return f"; who that is could not be read from the store: {error}"
            with self._lock:
                before = self._known(to)
                # In a static group no rank becomes free: it may only be missing in a new store.
                if record is None and before is not None and not self.group.is_static:
                    self._forget_if_dead(before)
                came = [] if record is None else self._take_in_one(record)
        self._tell_who_came(came)
        return ""

    def _take_in(self, records: Sequence[Record]) -> list[tuple[Worker | None, Worker]]:
        """Set the members to `records`; return pairs of a former life and the life that follows it,
        with None for a former life that was removed from the table earlier.

        Note    a dead worker stays while the group has it; otherwise it would seem a new member
        """
        there = {record.incarnation for record in records}
        with self._lock:
            for worker in list(self._by_id.values()):
                if worker.record.incarnation not in there:
                    self._forget_if_dead(worker, among={record.rank for record in records})
            return [pair for record in records for pair in self._take_in_one(record)]

    def _forget_if_dead(self, worker: Worker, among: Collection[int] = ()) -> None:
        """Remove a dead member that the group does not have any more."""
        if worker.is_dead and not worker.is_self and worker.id not in among:
            self._drop(worker)
            if worker.why_lost:
                remember(self._missed, worker.id, worker.name)

    def _take_in_one(self, record: Record) -> list[tuple[Worker | None, Worker]]:
        before = self._by_id.get(record.rank)
        if before is not None and before.record.incarnation == record.incarnation:
            return []
        if before is not None and before.is_self:
            self._is_followed()
            return []
        if before is not None:
            self._drop(before)
        now = self._add(record)
        missed = self._missed.pop(record.rank, None)
        return [(before, now)] if before is not None or missed == now.name else []

    def _is_followed(self) -> None:
        """Fence this worker, because another life has its rank."""
        me = self.me
        if self.given_up is None:
            error = GivenUpError(
                f"worker {me.name!r} (rank {me.rank}) was replaced by another process of its "
                "rank, which the others accepted while this one gave no sign of life; end this "
                "process",
                incarnation=me.incarnation,
            )
            self.progress.post(self._fence, error)

    def _tell_who_came(self, came: Sequence[tuple[Worker | None, Worker]]) -> None:
        """End the lives that have a successor, and notify the program of returned workers."""
        for before, now in came:
            if before is None:
                self._submit(tell_of_return, now.info)
                continue
            before.was_replaced()
            for callback in self.returned_callbacks:
                self._submit(callback, now)
            if before.name == now.name:
                # Report the return only after all data about the former life was released.
                tell = functools.partial(self._tell_if_lost, before, now)
                before.end_handled.when_done(tell)

    def _add(self, record: Record) -> Worker:
        # Messages to the worker obey the smaller of both workers' limits.
        limits = self.me.limits.towards(record.limits)
        if limits is not record.limits and record.rank != self.me.rank:
            record = replace(record, limits=limits)
        worker = Worker(record, self, self._liveness_timeouts_of(record))
        self._by_id[worker.id] = self._by_name[worker.name] = worker
        return worker

    def _drop(self, worker: Worker) -> None:
        del self._by_id[worker.id]
        # The name may belong to another worker by now, which must stay in the table.
        if self._by_name.get(worker.name) is worker:
            del self._by_name[worker.name]

    def _tell_if_lost(self, before: Worker, now: Worker, _: Future[None]) -> None:
        if before.why_lost:
            self._submit(tell_of_return, now.info)

    def _liveness_timeouts_of(self, record: Record) -> LivenessTimeouts:
        # Either end may have to wait for a core, so the more crowded machine counts.
        there = max(self.group.num_on_machine(record), self.group.num_on_machine(self.me))
        is_near = self.me.shares_host_with(record)
        return self._times.towards(crowding=crowding(there), is_near=is_near)

    def _watch(self, worker: Worker) -> None:
        # Do not watch a worker that is dead by now, or any worker if this one was given up.
        if self.is_open and self.given_up is None and not worker.is_dead:
            self.reach(worker)

    def _fence(self, error: GivenUpError) -> None:
        """End all interaction of this worker with the others.

        All its waits end with the error, and later waits fail immediately with the error. Its
        connections to members that have not given it up end as well, which notifies those members.
        """
        if self.given_up is not None:
            return
        _logger.error("%s", one_line(error))
        with self._lock:
            # From here on this worker connects to nobody and admits nobody.
            self.given_up = error
            workers = list(self._by_id.values())
        self._callers.fence(error)
        for worker in workers:
            # Fence also workers without a connection: others may have sent data about them.
            worker.fence(error)
