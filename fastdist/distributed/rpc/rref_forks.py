"""References on their way: kept by their sender until they have come, or never will."""

# Note [References that never come]
# A fork counts at its owner from the moment it is packed. If its message was not sent, or could not
# be read, packing it is undone (outgoing.py, Note [Parcels]). If the message lies in a connection
# that breaks it is asked about and sent again, as long as its caller waits. What is left are calls
# that were given up: nobody asks about them, and both what such a call brought and what its answer
# brings may have been lost. So who gives a call up says so, once more than by its CANCEL, in a
# message that goes until it arrives. The callee takes back what its answer brings, for nobody will
# have it there, and tells what it holds of what the call brought; the caller takes back the rest.
# Others may wait for the value that the call should have made: they hear that it will not be.
#
# What comes after all when it was taken back: an answer that nobody waits for is not read; a call
# with a reference that its callee has said not to hold cannot be read, and does not run. Nor is an
# answer read that comes for the second time, for its references may have ended by then.

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fastdist.core.errors import MessageError
from fastdist.core.future import Future

from .handlers import Reply
from .message_types import MessageType
from .rref_notices import RETRIES, Notices, lists_of
from .rref_owned import OwnedValues, remember
from .words import numbers

if TYPE_CHECKING:
    from fastdist.distributed.pipe.metadata import Value

    from .agent import RpcAgent
    from .interceptors import Envelope
    from .membership import WorkerInfo
    from .outgoing import Call, Parcel
    from .rref import RRef

_logger = logging.getLogger(__name__)


class _Child(NamedTuple):
    """A fork: whom it goes to, what it is a fork of, and the call that it goes in."""

    to: int
    parent: RRef[Any]
    call_id: int
    in_answer: bool


class Forks:
    """What has left this worker and was not accepted yet.

    `hold_or_refuse(fork_ids)` returns which references are here, of forks that others sent, and
    lets the others not come any more.

    Thread  any
    """

    def __init__(
        self,
        agent: RpcAgent,
        notices: Notices,
        owned: OwnedValues,
        hold_or_refuse: Callable[[Iterable[int]], list[int]],
    ) -> None:
        self._agent = agent
        self._notices = notices
        self._owned = owned
        self._hold_or_refuse = hold_or_refuse
        # Guards the two below it. No reference is dropped while it is held.
        self._lock = threading.Lock()
        self._children: dict[int, _Child] = {}
        # The latest calls of others that they have given up; some may run here yet.
        self._given_up: dict[int, None] = {}

    def __len__(self) -> int:
        """Return how many were not accepted yet."""
        return len(self._children)

    def leave(self, fork_id: int, parent: RRef[Any], parcel: Parcel | None) -> None:
        """Keep the parent of a fork that is about to travel."""
        if parcel is None:
            child = _Child(-1, parent, -1, False)
        else:
            child = _Child(parcel.goes_to, parent, parcel.message_id, parcel.is_answer)
        with self._lock:
            self._children[fork_id] = child
        # Looked at last: who is lost only now drops what is here when that is heard of.
        if self._agent.is_dead(child.to) or (child.in_answer and child.call_id in self._given_up):
            self._take_back(None, [fork_id])
        elif parcel is not None:
            undo = functools.partial(self._notices.put, self._take_back, None, fork_id)
            parcel.undo = [*(parcel.undo or ()), undo]

    def accepted(self, fork_ids: Iterable[int]) -> None:
        """Take note that forks have come."""
        with self._lock:
            children = [self._children.pop(fork_id, None) for fork_id in fork_ids]
        del children

    def gave_up(self, call: Call) -> None:
        """Take note that this worker waits no more for a call whose answer has not come."""
        self._notices.start()
        is_remote = call.envelope.effective_type == MessageType.PYTHON_REMOTE_CALL
        made = call.envelope.metadata.get("rref") if is_remote else None
        self._notices.put(self._tell_given_up, call.goes_to, (call.message_id, made))

    def given_up(self, request: Envelope) -> Reply:
        """Take back what the answers to calls bring, and tell which forks are here; a handler."""
        call_ids, fork_ids, made = lists_of(request, "call", "fork", "made")
        with self._lock:
            for call_id in call_ids:
                remember(self._given_up, call_id)
        self._take_back(None, self._children_of(request.peer, call_ids, in_answer=True))
        self._owned.fail_unmade(made, request.peer)
        return Reply([], {"held": (*self._hold_or_refuse(fork_ids),)})

    def worker_lost(self, worker: WorkerInfo) -> None:
        """Let go of what went to a worker that is lost, and of what it owned."""
        with self._lock:
            for call_id in [call_id for call_id in self._given_up if call_id >> 48 == worker.id]:
                del self._given_up[call_id]
            lost = [
                fork_id
                for fork_id, child in self._children.items()
                if worker.id in (child.to, child.parent._owner.id)
            ]
        self.accepted(lost)

    def clear(self) -> None:
        """Forget everything."""
        self.accepted(list(self._children))

    def _tell_given_up(self, callee: int, calls: Sequence[tuple[int, Value]]) -> None:
        if self._agent.is_dead(callee):
            return
        call_ids = [call_id for call_id, _ in calls]
        fork_ids = self._children_of(callee, call_ids, in_answer=False)
        made = [rref_id for _, rref_id in calls if rref_id is not None]
        metadata: dict[str, Value] = {"call": (*call_ids,), "fork": (*fork_ids,), "made": (*made,)}
        kind = MessageType.RREF_GIVE_UP_REQ
        told = self._agent.send(callee, kind, (), metadata, retries=RETRIES)
        told.when_done(functools.partial(self._look_at_held, callee, fork_ids))

    def _look_at_held(self, callee: int, fork_ids: Sequence[int], done: Future[Reply]) -> None:
        if done.exception() is not None:
            _logger.info("what came of calls that were given up is not known: %s", done.exception())
            return
        try:
            held = numbers(done.value().metadata, "held", callee)
        except MessageError as error:
            _logger.warning("worker %d is taken for one that holds nothing: %s", callee, error)
            held = ()
        for fork_id in set(fork_ids).difference(held):
            self._notices.put(self._take_back, None, fork_id)

    def _children_of(self, to: int, call_ids: Iterable[int], *, in_answer: bool) -> list[int]:
        wanted = {(to, call_id, in_answer) for call_id in call_ids}
        with self._lock:
            return [
                fork_id
                for fork_id, child in self._children.items()
                if (child.to, child.call_id, child.in_answer) in wanted
            ]

    def _take_back(self, _: None, fork_ids: Sequence[int]) -> None:
        """Forget forks that have not come, and will not."""
        with self._lock:
            children = [(i, self._children.pop(i, None)) for i in fork_ids]
        ended = [(child.parent._id, fork_id) for fork_id, child in children if child is not None]
        del children
        self._owned.end_uses(ended)
