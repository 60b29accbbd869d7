"""The protocol of RRefs: references that this worker creates, owns and uses, and its notices."""

# Note [The life of a reference]
# The owner keeps a value while something refers to it: an RRef object on the owner, or a known
# reference of another worker (a fork). A call of remote() registers the caller's fork. When a
# reference is sent, it forks: the receiver gets another reference. The sender keeps its own
# reference alive until the owner knows the new reference ("pending child": forks.py). The receiver
# notifies the owner (RREF_FORK_REQUEST), and then the sender (RREF_CHILD_ACCEPT). The receiver
# waits a moment first, because most references are arguments and end soon: if a reference has ended
# by then, only the sender is notified. If the sender is the owner, it registers the fork when it
# packs the message. In this case the answer to the call shows that the reference has arrived, and
# no notice is needed. The same holds if a call sends a reference to the reference's owner. The
# notice of a reference's end (RREF_USER_DELETE) never precedes the notice of its beginning
# (held.py). A worker that dies or leaves holds no references any more. The pending children that
# were sent to that worker are dropped, and a moment later the forks that it held. By then the
# workers to which it has passed references have notified the owners.
#
# Other workers may query the owner for a value before the call that makes the value has arrived at
# the owner. The owner must know when that call cannot arrive any more. The value's id has only the
# rank of the worker that made the call, which may have a later life by now. So if ranks have
# several lives, a sent reference names the life that makes its value, unless the owner sends the
# reference. The notice to the owner names that life too.
#
# No caller waits for notices of ends or acceptances, so they are sent in batches (notices.py).

from __future__ import annotations

import itertools
import logging
import reprlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from fastdist.concurrency.future import Future, InternalFuture
from fastdist.core.errors import MessageError, OwnerLostError, RpcError

from ..calls.client import Client
from ..calls.serving import run_function
from ..handlers import DeferredResult, Reply, ValueReply, register_handler
from ..message.body import register_reducer
from ..message.ids import RANK_SHIFT
from ..message.message import Message, packing
from ..message.metadata_fields import ids_of, lists_of, number, refuse
from ..message.remote_errors import UNREAD, tell_origin
from ..message.types import MessageType, remote_type_of
from ..notices import RETRIES, TOGETHER_S, NoticeSender
from ..workers.latest import remember
from ..workers.record import WorkerInfo
from ..workers.worker import Worker
from ..workers.workers import Workers
from .forks import Forks
from .held import NOBODY, Do, Event, HeldReference, State
from .owned import OwnedValues
from .rref import OwnedValue, RRef, copy_of, creation_error, id_as_text, late_bound

_logger = logging.getLogger(__name__)

# Seconds for which the references of a lost worker still count. In this time, the workers to which
# it had passed references can report their own references to the owner.
_PASSED_ON_S = 10 * TOGETHER_S


class RRefContext:
    """All RRefs of one agent.

    Thread  any
    """

    def __init__(
        self, workers: Workers, client: Client, notice_sender: NoticeSender, id_offset: int
    ) -> None:
        self.me = workers.get(workers.me.rank)
        self._workers, self.client, self._notice_sender = workers, client, notice_sender
        self._numbers = itertools.count(id_offset)
        self._maker = self.me.record.incarnation if id_offset else 0
        self.owned = OwnedValues(workers)
        # Guards _held, _refused and the states of references. Threads send nothing while they hold
        # this lock.
        self._lock = threading.RLock()
        self._held: dict[int, HeldReference] = {}  # by fork id
        self._refused: dict[int, None] = {}  # the latest fork ids that are refused if they arrive
        self._forks = Forks(self._notice_sender, self.owned, self._hold_or_refuse)
        self.gave_up = self._forks.gave_up
        for kind, handler in (
            (MessageType.SCRIPT_REMOTE_CALL, self._remote_call_came),
            (MessageType.PYTHON_REMOTE_CALL, self._remote_call_came),
            (MessageType.PYTHON_RREF_FETCH_CALL, self._fetch_came),
            (MessageType.RREF_USER_DELETE, self._delete_came),
            (MessageType.RREF_FORK_REQUEST, self._fork_came),
            (MessageType.RREF_CHILD_ACCEPT, self._accept_came),
            (MessageType.RREF_GIVE_UP_REQ, self._forks.given_up),
        ):
            register_handler(kind, handler)
        workers.lost_callbacks.append(self._worker_lost)

    def create_remote(
        self,
        to: WorkerInfo,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        timeout_s: float,
    ) -> RRef[Any]:
        """Run `function` on the worker `to`; return an RRef to its result without waiting."""
        rref_id = self._new_id()
        owner = self._workers.get(to.id)
        is_owner = owner.is_self
        fork_id = rref_id if is_owner else self._new_id()
        owned = self.owned.get_or_create(rref_id, self.me, for_local=True) if is_owner else None
        maker = 0 if is_owner else self._maker
        held = None
        if not is_owner:
            held = self._hold(HeldReference(owner, rref_id, fork_id, State.CREATING, maker=maker))
        rref: RRef[Any] = RRef._make(self, owner, rref_id, fork_id, owned, held)
        metadata = {"rref": rref_id, "fork": fork_id}
        value = (function, tuple(args), dict(kwargs))
        try:
            kind = remote_type_of(function)
            creation = self.client.request(owner, kind, value, (), metadata, timeout_s, function)
        except BaseException as error:
            if held is not None:
                self._step(held, Event.UNSENT)
            else:
                # The traceback keeps the reference alive. Without an error as the value, fetches
                # would wait forever.
                self.owned.fail(rref_id, RpcError(f"the call that makes it was not sent: {error}"))
            raise
        rref._creation = creation
        if held is not None:
            held.creation = creation
        creation.when_done(lambda done: self._creation_ended(owner, rref_id, held, done))
        return rref

    def new_owned(self, value: object) -> OwnedValue:
        """Make `value` a value that this worker owns; return its OwnedValue."""
        owned = self.owned.get_or_create(self._new_id(), self.me, for_local=True)
        self.owned.complete(owned, value)
        return owned

    def fetch(self, rref: RRef[Any], timeout: float) -> Any:
        """Return the value of an RRef that another worker owns; wait until it exists."""
        kind, metadata = MessageType.PYTHON_RREF_FETCH_CALL, {"rref": rref._id}
        return self.client.begin(rref._owner, kind, None, metadata, timeout, _Fetch(rref)).wait()

    def _worker_lost(self, worker: Worker) -> None:
        self.owned.maker_lost(worker)
        self._forks.worker_lost(worker)
        self._workers.call_after(_PASSED_ON_S, partial(self.owned.end_uses_of, worker))

    def reference_dropped(self, held: HeldReference) -> None:
        """Schedule the end of a reference that no object refers to; called by finalizers."""
        held.is_dropped = True
        self._notice_sender.enqueue(self._take_dropped, None, held)

    def owned_died(self, owned: OwnedValue) -> None:
        """Schedule a check whether a value of this worker is still needed; called by finalizers."""
        self._notice_sender.enqueue(self.owned.local_ended, None, owned)

    def delete_all(self, deadline: float) -> None:
        """Release all references and notify their owners, before a graceful shutdown."""
        for held in self._all_held():
            creation = held.creation
            # A failure is raised where the reference is used, or logged when it is dropped.
            if creation is not None and not creation.wait_until_done(
                max(0.0, deadline - time.monotonic())
            ):
                _logger.info("a remote call had not ended at shutdown")
        for held in self._all_held():
            self._step(held, Event.GIVEN_UP)
        self._notice_sender.flush()

    def has_any(self) -> bool:
        """Return whether this worker has references, or sent references that have not arrived."""
        return bool(self._held or self._forks)

    def close(self) -> None:
        """Forget all references and values."""
        with self._lock:
            self._held.clear()
        self.owned.clear()
        self._forks.clear()

    def leaks(self) -> list[tuple[str, str]]:
        """Return (value's id, fork's id), as text, for each fork of a value of this worker."""
        pairs = [(owned.rref_id, fork) for owned in self.owned.values() for fork in owned.users]
        return [(id_as_text(value), id_as_text(fork)) for value, fork in pairs]

    def get_debug_info(self) -> dict[str, str]:
        """Return counts under torch's names."""
        with self._lock:
            return {
                **self.owned.get_debug_info(),
                "num_pending_users": str(
                    sum(held.state is not State.COUNTED for held in self._held.values())
                ),
                "num_pending_children": str(len(self._forks)),
                "num_users": str(len(self._held)),
            }

    # ---- references in messages ----------------------------------------------------------------

    def fork(self, rref: RRef[Any]) -> tuple[int, ...]:
        """Return the numbers to send for a reference: the owner's id, the RRef's id, the fork's id,
        the id of the parent (this worker, or NOBODY), and the owner's incarnation.

        The incarnation of the worker that makes the value is appended if the owner may need it.

        Raises  OwnerLostError
        """
        rref._require_owner()
        message = packing.message
        fork_id = self._new_id()
        if rref._owned is not None and message is not None and not message.peer.is_self:
            self.owned.add_user(rref._owned, fork_id, message.peer)
        owner, parent = rref._owner, self.me.id
        if message is not None and not message.is_answer and owner in (self.me, message.peer):
            parent = NOBODY
        self._forks.leave(fork_id, rref, message, is_notified=parent != NOBODY)
        numbers = owner.id, rref._id, fork_id, parent, owner.record.incarnation
        maker = 0 if rref._held is None else rref._held.maker
        return (*numbers, maker) if maker else numbers

    def arrive(
        self, owner_id: int, rref_id: int, fork_id: int, parent: int, life: int, maker: int = 0
    ) -> RRef[Any]:
        """Create this worker's own reference from the numbers of a reference in a message.

        Raises  OwnerLostError if the value belongs to an earlier life of its owner
        """
        owner = self._workers.find_life(owner_id, life)
        if owner is None:
            raise _earlier_life(self._workers.get(owner_id))
        if owner.is_self:
            # Hold the value before the reference is accepted: after that, the last other reference
            # may end.
            owned = self.owned.hear_of(rref_id, maker, for_local=True)
            rref = RRef._make(self, self.me, rref_id, rref_id, owned)
            self._require_wanted(rref, fork_id)
            self.owned.fail_if_unborn(owned)
            self._accept(parent, fork_id)
            return rref
        is_counted = parent in (owner_id, NOBODY)
        state = State.COUNTED if is_counted else State.ARRIVED
        held = HeldReference(owner, rref_id, fork_id, state, parent=parent, maker=maker)
        rref = RRef._make(self, owner, rref_id, fork_id, held=self._hold(held))
        self._require_wanted(rref, fork_id)
        if is_counted:
            self._accept(parent, fork_id)
        else:
            self._notice_sender.enqueue(self._tell_forks, owner, held)
        return rref

    def _hold(self, held: HeldReference) -> HeldReference:
        with self._lock:
            self._held[held.fork_id] = held
        return held

    def _all_held(self) -> list[HeldReference]:
        with self._lock:
            return list(self._held.values())

    def _hold_or_refuse(self, fork_ids: Iterable[int]) -> list[int]:
        """Return the forks that have arrived on this worker; refuse the others from now on."""
        with self._lock:
            held = [fork_id for fork_id in fork_ids if fork_id in self._held]
            for fork_id in set(fork_ids).difference(held):
                remember(self._refused, fork_id)
        return held

    def _require_wanted(self, rref: RRef[Any], fork_id: int) -> None:
        """Raise RpcError for a reference that was refused.

        Note    this is called after the reference was added to `_held`. Until then, the sender
                may have received the reply that the reference is refused
        """
        if fork_id in self._refused:
            if rref._held is not None:
                self._step(rref._held, Event.REFUSED)
            raise RpcError(
                f"{rref} comes too late: its sender has given up the call that brings it"
            )

    def _tell_forks(self, owner: Worker, arrived: Sequence[HeldReference]) -> None:
        """Notify an owner of references that have arrived on this worker and have not ended."""
        told = []
        for held in arrived:
            if Do.TELL in self._step(held, Event.DROPPED if held.is_dropped else Event.TELLS):
                told.append(held)
        if not told:
            return
        metadata = {
            "rref": tuple([held.rref_id for held in told]),
            "fork": tuple([held.fork_id for held in told]),
            "maker": tuple([held.maker for held in told]),
        }
        kind = MessageType.RREF_FORK_REQUEST
        sent = self.client.send(owner, kind, (), metadata, retries=RETRIES)
        sent.when_done(lambda done: self._forks_acknowledged(owner, told, done))

    def _forks_acknowledged(
        self, owner: Worker, told: Sequence[HeldReference], done: Future[Any]
    ) -> None:
        # Nothing more is sent to a dead owner: its values are gone.
        is_known = done.exception() is None or owner.is_dead
        for held in told:
            self._step(held, Event.KNOWN if is_known else Event.UNKNOWN)

    def _take_dropped(self, _: None, dropped: Sequence[HeldReference]) -> None:
        for held in dropped:
            self._step(held, Event.DROPPED)

    def _step(self, held: HeldReference, event: Event) -> tuple[Do, ...]:
        """Process one event of a reference, and enqueue the notices that the event requires."""
        with self._lock:
            actions = held.step(event)
            if held.state is State.ENDED:
                self._held.pop(held.fork_id, None)
        if Do.ACCEPT in actions:
            self._accept(held.parent, held.fork_id)
        if Do.END in actions and not held.owner.is_dead:
            ended = (held.rref_id, held.fork_id)
            self._notice_sender.enqueue(self._tell_delete, held.owner, ended)
        return actions

    def _accept(self, parent: int, fork_id: int) -> None:
        if parent != NOBODY:
            self._notice_sender.enqueue(self._tell_accept, parent, fork_id)

    def _tell_accept(self, parent: int, fork_ids: Sequence[int]) -> None:
        if parent == self.me.id:
            self._forks.accepted(fork_ids)
        elif (sender := self._workers.find(parent)) is not None:
            metadata = {"fork": tuple(fork_ids)}
            kind, failure = MessageType.RREF_CHILD_ACCEPT, "references were not accepted"
            self._notice_sender.send(sender, kind, metadata, failure=failure)

    # ---- requests of other workers -------------------------------------------------------------

    def _remote_call_came(self, request: Message) -> DeferredResult | Reply | None:
        rref_id, fork_id = ids_of(request)
        owned = self.owned.begin(rref_id, request.peer)
        if fork_id != rref_id:
            self.owned.add_user(owned, fork_id, request.peer)
        try:
            result = run_function(*request.value())
        except BaseException as error:  # raised when the value is fetched
            self.owned.complete(owned, None, self._without_frames(error))
            if request.refusal is not None:
                owned.future.was_read()  # the function did not run; the caller has given up
            # If the request was not read, some of its references were not received.
            return None if request.is_read else Reply([], {UNREAD: True})
        if not isinstance(result, DeferredResult):
            self.owned.complete(owned, result)
            return None
        answer: Future[None] = InternalFuture()

        def finish(done: Future[Any]) -> None:
            error = done.exception()
            if error is None:
                self.owned.complete(owned, done.value())
            else:
                self.owned.complete(owned, None, self._without_frames(error))
            answer.set_result(None)

        result.future.add_done_callback(finish)
        return DeferredResult(answer, result.what)

    def _without_frames(self, error: BaseException) -> BaseException:
        """Return a copy of a function's error without frames, with its origin in the notes.

        The error lives as long as the references to the value. Its frames would keep the function's
        variables alive. The variables may hold references to other workers' values, and these
        values may in turn refer to this value.
        """
        kept = copy_of(error)
        tell_origin(kept, error, self.me.name)
        return kept

    def _fetch_came(self, request: Message) -> Any:
        # The maker's life is not known here; the RREF_FORK_REQUEST for the reference will name it.
        owned = self.owned.hear_of(number(request.metadata, "rref", request.peer.id))
        self.owned.fail_if_unborn(owned)
        if owned.future.done():
            return ValueReply(owned.value())
        value = owned.future.then(lambda done: ValueReply(owned.value()))
        return DeferredResult(value, "to_here")

    def _delete_came(self, request: Message) -> None:
        rows = _of_one_length(request, lists_of(request, "rref", "fork"))
        self.owned.end_uses([*zip(*rows, strict=True)])
        # A reference that has ended has also arrived, even if its call has no answer yet.
        self._forks.accepted(rows[1])

    def _fork_came(self, request: Message) -> None:
        rows = _of_one_length(request, lists_of(request, "rref", "fork", "maker"))
        for rref_id, fork_id, maker in zip(*rows, strict=True):
            owned = self.owned.hear_of(rref_id, maker)
            self.owned.add_user(owned, fork_id, request.peer)
            self.owned.fail_if_unborn(owned)

    def _accept_came(self, request: Message) -> None:
        self._forks.accepted(*lists_of(request, "fork"))

    # ---- creation and end ----------------------------------------------------------------------

    def _new_id(self) -> int:
        return self.me.id << RANK_SHIFT | next(self._numbers) + 1

    def _creation_ended(
        self, owner: Worker, rref_id: int, held: HeldReference | None, done: Future[Any]
    ) -> None:
        error = done.peek_error()
        if error is not None:
            self.owned.fail(rref_id, creation_error(error))
            self._forks.not_made(owner, rref_id)
        if held is not None:
            self._step(held, Event.KNOWN)

    def _tell_delete(self, owner: Worker, ended: Sequence[tuple[int, int]]) -> None:
        rref_ids, fork_ids = zip(*ended, strict=True)
        metadata = {"rref": rref_ids, "fork": fork_ids}
        kind, failure = MessageType.RREF_USER_DELETE, "references were not ended"
        self._notice_sender.send(owner, kind, metadata, failure=failure)


def _of_one_length(request: Message, rows: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
    if len({*map(len, rows)}) != 1:
        refuse(request.metadata, "fork", request.peer.id, "as many ids as in the other entries")
    return rows


class _Fetch:
    """The name of a fetch in errors. Its text is made only when an error needs the text."""

    __slots__ = ("_rref",)

    def __init__(self, rref: RRef[Any]) -> None:
        self._rref = rref

    def __str__(self) -> str:
        return f"to_here of {self._rref}"


def _earlier_life(owner: Worker) -> OwnerLostError:
    """Return the error for a value that belongs to an earlier life of its owner."""
    return OwnerLostError(
        f"the value of a reference is gone: it lived in an earlier life of worker {owner.name!r} "
        f"(rank {owner.id})"
    )


def reduce_rref(rref: RRef[Any]) -> tuple[Any, ...]:
    """Return the function by which the receiver rebuilds a reference, and its arguments.

    Raises  RpcError for a reference that was given up at shutdown; the error of the call that
            should have made the value
    """
    if rref._is_deleted:
        raise RpcError(f"{rref} has been deleted. Cannot call fork an UserRRef after deletion.")
    rref._require_made()
    return rebuild_rref, late_bound["context"]().fork(rref)


def rebuild_rref(
    owner_id: int, rref_id: int, fork_id: int, parent: int, life: int, maker: int = 0
) -> RRef[Any]:
    """Create this worker's own reference from the numbers of a reference in a message.

    Raises  MessageError for values that are not numbers; OwnerLostError
    """
    numbers = (owner_id, rref_id, fork_id, parent, life, maker)
    if {*map(type, numbers)} != {int}:
        raise MessageError(f"a reference of {reprlib.repr(numbers)}; expected numbers")
    rref: RRef[Any] = late_bound["context"]().arrive(*numbers)
    return rref


# RRefs must be read, because the owner counts a sent reference until the receiver reports its end.
register_reducer(RRef, reduce_rref, rebuild_rref, must_be_read=True)
