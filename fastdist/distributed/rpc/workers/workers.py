"""All workers of the group that this one knows: found, met, admitted when they call, given up."""

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
from .hooks import add_silence_hook as add_silence_hook  # earlier pickles name it here
from .hooks import lost_hooks, silence_hooks, tell_of_return
from .latest import remember
from .progress import Progress
from .record import Record, WorkerInfo, did_you_mean, in_words, require_room_for_peer
from .session import LivenessTimeouts, Times
from .standing import is_life, is_out, refusal_of, stale_error
from .worker import Worker

_logger = logging.getLogger(__name__)
# So many names stand in an error about a wrong one.
_MOST_NAMED = 64


class Workers:
    """The present life of each rank of the group, this worker's own among them.

    In a small static group all are known from the beginning. Elsewhere a member that is not known,
    or that is over and may be followed, is looked up in the store.

    `submit(function, *arguments)` runs what is slow, or users', elsewhere; `lender_to(worker)`
    returns what lends to a worker that is met, if both may share memory.

    Thread  any; `admit` and `note_goodbye_read` are for the pool's leader
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
        # One reads the store at a time: what one read must not replace what another read later.
        self._refresh_lock = threading.RLock()
        # Guards all below it; looked up without it. May be taken while the one above is held.
        self._lock = threading.RLock()
        # The one table by rank: what users name, and ids on the wire, stand for the present life.
        self._by_id: dict[int, Worker] = {}
        self._by_name: dict[str, Worker] = {}
        # Refusals for former lives that were given up and wake, by incarnation.
        self._refusals_by_incarnation: dict[int, GivenUpError] = {}
        # The names of workers that were lost and are forgotten, by id: one of them may come back.
        self._missed: dict[int, str] = {}
        # How many peers may be met before descriptors are counted again.
        self._may_meet = 0
        self.is_open = False
        # Why this worker is none of the group any more: the others gave it up.
        self.given_up: GivenUpError | None = None
        # The members that say so, by incarnation.
        self._given_up_by: dict[int, None] = {}
        # Called, on a pool thread, with each worker that is lost or leaves, and with each new life
        # of one that was known.
        self.lost_callbacks: list[Callable[[Worker], None]] = []
        self.returned_callbacks: list[Callable[[Worker], None]] = []
        # Notified of each who has answered our goodbye, and of each worker's end.
        self._parting = threading.Condition()
        others = [one for one in self.group.members if one.incarnation != self.me.incarnation]
        self._take_in([*others, self.me])

    def close(self) -> bool:
        """Meet nobody any more; return whether that is new."""
        with self._lock:
            was_open, self.is_open = self.is_open, False
            return was_open

    def require_member(self) -> None:
        """Check that this worker is one of the group.

        Raises  GivenUpError once the others have given it up
        """
        if self.given_up is not None:
            raise fresh(self.given_up)

    # ---- who is there --------------------------------------------------------------------------

    def find(self, to: str | int | WorkerInfo) -> Worker | None:
        """Return the present life of a name or an id, or None."""
        return self._find(to)[0]

    def _find(self, to: str | int | WorkerInfo) -> tuple[Worker | None, str]:
        found, unread = self._known(to), ""
        if self._may_have_changed(found):
            unread = self._look_up(to)
            found = self._known(to)
        return found, unread

    def find_life(self, rank: int, incarnation: object) -> Worker | None:
        """Return the life of a rank with an incarnation; None where that is not the present one.

        Note    nobody here notices the end of one that was never met: the store has it
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

        Raises  RpcError naming the ones that exist
        """
        worker, unread = self._find(to)
        if worker is None:
            if not self.group.is_static:
                self.refresh()  # for the names in the error
            known = self._names()
            kind = "name" if isinstance(to, str) else "id"
            lost = self._explain_missed(to)
            near = "" if lost or unread else did_you_mean(to, self._by_name)
            raise self._not_found(f"{kind} {to}; the group has: {known}{lost}{near}{unread}")
        return worker

    def _names(self) -> str:
        """Return the names that are known here, the first ones of many."""
        names = sorted(self._by_name)
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        others = "" if self.group.knows_all or not self.group.is_static else ", and others"
        return f"{', '.join(names[:_MOST_NAMED])}{more}{others}"

    def _not_found(self, what: str) -> RpcError:
        sender = f"name:{self.me.name},rank:{self.me.rank}"
        return RpcError(f"{sender} could not find destination {what}")

    def _explain_missed(self, to: str | int | WorkerInfo) -> str:
        """Return the fate of a lost worker, before the group forgets it."""
        wanted = getattr(to, "name", to)
        for rank, name in list(self._missed.items()):
            if wanted in (rank, name):
                return f"; {name!r} (rank {rank}) was lost, and has not come back"
        return ""

    def known(self, rank: int) -> Worker | None:
        """Return the present life of a rank as far as it is known here; asks nobody."""
        return self._by_id.get(rank)

    def in_words(self, rank: int) -> str:
        """Return how messages call the present life of a rank; asks nobody."""
        worker = self.known(rank)
        return f"the worker of rank {rank}" if worker is None else in_words(worker)

    def may_return(self, worker: Worker) -> bool:
        """Return whether another life may follow a worker of a static group that was lost."""
        return self.group.is_static and self.group.takes_members_later and bool(worker.why_lost)

    def info_of(self, to: str | int | WorkerInfo) -> WorkerInfo:
        """Return the WorkerInfo of a member; one object for each life.

        Raises  as get
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
        """Return the members that this worker knows, by id; asks nobody."""
        with self._lock:
            return [self._by_id[rank] for rank in sorted(self._by_id)]

    def mapped_devices(self) -> list[Device]:
        """Return this worker's devices that a device map names, its own or another member's."""
        with self._lock:
            others = [mine for worker in self._by_id.values() for mine in worker.map_back]
        own = [Device.parse(mine) for there in self.me.device_maps.values() for mine in there]
        return sorted({*own, *others}, key=lambda device: (device.type, device.index or 0))

    def met(self) -> list[Worker]:
        """Return those that this worker speaks with, or did, dead ones of a static group too."""
        return [worker for worker in list(self._by_id.values()) if worker.is_met]

    def meet_all(self) -> None:
        """Greet all members soon: who follows an earlier life of this worker shall be known."""
        for worker in self.all():
            self.progress.post(self._watch, worker)

    def living(self) -> list[Worker]:
        """Return those that are met, and neither lost nor gone."""
        return [worker for worker in self.met() if not worker.is_dead]

    def lost(self) -> list[str]:
        """Return the workers that were lost, not those that have left, and how."""
        return [
            f"{worker.name!r} (rank {worker.id}): {worker.why_lost}"
            for worker in self.known_here()
            if worker.is_dead and worker.why_lost
        ]

    # ---- speaking with them --------------------------------------------------------------------

    def reach(self, to: int | Worker, kind: MessageType = MessageType.HELLO) -> Worker:
        """Return a life to send a message of a kind to, connected now if it was not.

        A rank stands for its present life: only users name one by it.

        Raises  RpcNotRunningError after shutdown; GivenUpError; RpcError for an unknown id;
                WorkerLostError for one that has gone unmet
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
        """Check that this process may open what one more peer takes; now and then, as it counts
        what is open.

        Raises  RpcError
        """
        if not self._may_meet:
            self._may_meet = (require_room_for_peer() + 1) // 2
        self._may_meet -= 1

    def _life_to_meet(self, to: int | Worker, known: Worker | None) -> Worker:
        """Return the life that is meant: a rank may have a new one that is not known here.

        Nobody here noticed the end of a life that was never met, and its successor may be in.
        """
        if known is None:
            return self.get(to)  # type: ignore[arg-type]
        if not self.group.takes_members_later or known.is_self or self.given_up is not None:
            return known
        if known.is_dead and known is to:
            return known
        if not known.is_dead and self.progress.is_current_thread():
            return known  # which reads for all, and is sent here for one that has just called
        self._look_up(known.id)
        now = self._by_id.get(known.id) if known is to else self.get(known.id)
        if now is not known and (now is None or known is to or now.name != known.name):
            whose = "nobody's" if now is None else f"that of worker {now.name!r}"
            left = f"{in_words(known)} has left: its rank is {whose} now"
            raise WorkerLostError(left, may_have_run=False)
        return now

    def admit(self, rank: int, incarnation: int, meant_for: str) -> Worker:
        """Return a worker that calls.

        Raises  StaleIncarnationError for an earlier life, of the caller or of this worker;
                GivenUpError for a worker that was declared lost, or if this one was; RpcError for
                no member
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
            # A caller holds things here: its death must be noticed.
            self.progress.post(self._watch, worker)
        return worker

    def part(self, timeout_s: float) -> None:
        """Notify all workers that this one leaves, and wait until they have read what it sent.

        Note    a worker that closes a connection earlier loses answers: libzmq drops messages that
                arrive just before the end of a connection that a peer made, unless a thread is
                there to take them
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
        """Take note of one that has read all that this worker, which leaves, has sent."""
        with self._parting:
            worker.acknowledged_goodbye = True
            self._parting.notify_all()

    def call_after(self, seconds: float, function: Callable[[], None]) -> None:
        """Call function then, on a pool thread, unless the agent has shut down."""
        when = time.monotonic() + seconds
        self.progress.post(self.progress.call_at, when, lambda: self._submit(function))

    # ---- as the Owner of each; on the progress thread ------------------------------------------

    def is_silent(self, worker: Worker, why: str) -> None:
        """Report a worker that does not answer; launch/lost_workers.py looks whether it hangs."""
        _logger.warning("worker %r %s", worker.name, why)
        if worker.hangs:
            self._submit(lambda: self.group.report_to_launcher(worker.record, why, hangs=True))
        for hook in silence_hooks:
            self._submit(hook, worker.info, why)

    def were_given_up(self, by: Worker, error: GivenUpError) -> None:
        """Take note that a worker has given up this one, and fence this one if it is out."""
        # The others that are neither lost to this one nor have given it up.
        there = [other for other in self.living() if not (other.is_self or other is by)]
        remember(self._given_up_by, by.record.incarnation)
        stood_still = self.progress.stood_still_lately(self._times.frozen_s)
        if self.given_up is None and is_out(self._given_up_by, len(there), stood_still=stood_still):
            self._fence(GivenUpError(*error.args, incarnation=self.me.incarnation))

    def handle_lost(self, worker: Worker) -> None:
        """Notify all code that keeps anything of a worker of its end.

        Note    for this worker, when it was given up, only the packages above, which may wait for
                it
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
            # It may be frozen: its successor waits for this, and it gets the refusal when it wakes.
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
        """Read who is in the group; what the store does not tell stays as it was."""
        with self._refresh_lock:
            try:
                came = self._take_in(self.group.read_members(LOOK_S))
            except StoreError as error:
                _logger.info("cannot read from the store which workers are in the group: %s", error)
                return
        self._tell_who_came(came)

    def _look_up(self, to: str | int | WorkerInfo) -> str:
        """Read who has a name or an id now; return the end of an error if the store is silent."""
        with self._refresh_lock:
            try:
                record = self.group.find(to if isinstance(to, (str, int)) else to.id, LOOK_S)
            except StoreError as error:
                return f"; who that is could not be read from the store: {error}"
            with self._lock:
                before = self._known(to)
                # No rank of a static group is ever free: a store with another host knows less.
                if record is None and before is not None and not self.group.is_static:
                    self._forget_if_dead(before)
                came = [] if record is None else self._take_in_one(record)
        self._tell_who_came(came)
        return ""

    def _take_in(self, records: Sequence[Record]) -> list[tuple[Worker | None, Worker]]:
        """Let these be the members, and return the lives that follow others, each behind the one
        that it follows, or None where that is forgotten.

        Note    one that is dead here stays as long as the group has it: it must not seem to be new
        """
        there = {record.incarnation for record in records}
        with self._lock:
            for worker in list(self._by_id.values()):
                if worker.record.incarnation not in there:
                    self._forget_if_dead(worker, among={record.rank for record in records})
            return [pair for record in records for pair in self._take_in_one(record)]

    def _forget_if_dead(self, worker: Worker, among: Collection[int] = ()) -> None:
        """Forget a member that the group does not have any more, once its end was noticed here."""
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
        """Be none of the group any more, for another life has this worker's rank."""
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
        """End the lives that others follow, and notify the program of returned workers."""
        for before, now in came:
            if before is None:
                self._submit(tell_of_return, now.info)
                continue
            before.was_replaced()
            for callback in self.returned_callbacks:
                self._submit(callback, now)
            if before.name == now.name:
                # Once all that was kept of the former life has gone.
                tell = functools.partial(self._tell_if_lost, before, now)
                before.end_handled.when_done(tell)

    def _add(self, record: Record) -> Worker:
        if record.rank != self.me.rank:
            # From here on these are what may be sent to it: no more than either end allows.
            record = replace(record, limits=self.me.limits.towards(record.limits))
        worker = Worker(record, self, self._liveness_timeouts_of(record))
        self._by_id[worker.id] = self._by_name[worker.name] = worker
        return worker

    def _drop(self, worker: Worker) -> None:
        del self._by_id[worker.id]
        # Its name may be another's by now: what is for that must find it.
        if self._by_name.get(worker.name) is worker:
            del self._by_name[worker.name]

    def _tell_if_lost(self, before: Worker, now: Worker, _: Future[None]) -> None:
        if before.why_lost:
            self._submit(tell_of_return, now.info)

    def _liveness_timeouts_of(self, record: Record) -> LivenessTimeouts:
        # Either end may wait for a core.
        there = max(self.group.num_on_machine(one) for one in (record, self.me))
        is_near = self.me.shares_host_with(record)
        return self._times.towards(crowding=crowding(there), is_near=is_near)

    def _watch(self, worker: Worker) -> None:
        # A worker that is gone by now, or refused, needs no watching.
        if self.is_open and self.given_up is None and not worker.is_dead:
            self.reach(worker)

    def _fence(self, error: GivenUpError) -> None:
        """End all interaction of this worker with the others.

        All its waits end with the error, and later ones fail with it at once. Members that have not
        given it up are also notified: the connections between it and them end as well.
        """
        if self.given_up is not None:
            return
        _logger.error("%s", one_line(error))
        with self._lock:
            # Nobody is met from here on, and nobody admitted.
            self.given_up = error
            workers = list(self._by_id.values())
        self._callers.fence(error)
        for worker in workers:
            # Those that were never met, too: others may have brought what is theirs.
            worker.fence(error)
