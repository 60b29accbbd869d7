"""References in transit: the sender keeps each until it has arrived, or can never arrive."""

# Note [References that never come]
# The owner counts a fork from the moment when the fork is packed. If the fork's message was not
# sent, or could not be read, the packing is undone (Note [Packing]). If the message's connection
# breaks, the peer is queried and the message is sent again, as long as the caller waits. If the
# caller has given up the call, there is no query, and references in the call and in its answer may
# be lost. So, in addition to the CANCEL, a caller that gives up a call sends a report, which is
# repeated until it arrives. The callee takes back the references in its answer, as the caller will
# not read the answer. The callee replies which references of the call it holds, and the caller
# takes back the others. The callee also takes back memory that it lent for the answer. If other
# workers wait for the value that the call should have made, they get an error.
#
# References must not arrive after they were taken back. So an answer that no caller waits for is
# not read. If the callee has reported that it does not hold a reference of a call, the call cannot
# be read later, and does not run. An answer that arrives a second time is not read either, since
# its references may have ended after the first arrival.

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

from fastdist.core.errors import MessageError
from fastdist.system.foreign_text import one_line

from ..calls.outgoing import Call
from ..handlers import Reply
from ..message.message import Message
from ..message.metadata import Value
from ..message.metadata_fields import lists_of, numbers
from ..message.types import REMOTE_CALLS, MessageType
from ..notices import NoticeSender
from ..workers.latest import remember
from ..workers.worker import Worker
from .owned import OwnedValues
from .rref import RRef

_logger = logging.getLogger(__name__)


class _Child(NamedTuple):
    """A fork: its receiver, its parent, and the call that contains it, or whose answer does."""

    to: Worker | None
    parent: RRef[Any]
    call_id: int
    in_answer: bool


class Event(Enum):
    """How the transfer of a fork ends. At the first such event, the sender forgets the fork."""

    CAME = auto()  # the fork has arrived at the receiver, where it may have ended since
    LOST = auto()  # the receiver or the owner of the value is lost
    WILL_NOT_COME = auto()  # not sent, not held by the callee, or in an answer that is not read


class Forks:
    """The forks that this worker has packed and that their receivers have not accepted yet.

    `hold_or_refuse(fork_ids)` returns which of these forks, sent by other workers, this worker
    holds. It refuses the others from then on.

    Thread  any
    """

    def __init__(
        self,
        notice_sender: NoticeSender,
        owned: OwnedValues,
        hold_or_refuse: Callable[[Iterable[int]], list[int]],
    ) -> None:
        self._notice_sender = notice_sender
        self._owned = owned
        self._hold_or_refuse = hold_or_refuse
        # Guards the attributes below, and the given-up calls of each worker. A thread that holds
        # this lock must not drop a reference.
        self._lock = threading.RLock()
        self._children: dict[int, _Child] = {}

    def __len__(self) -> int:
        """Return the number of forks that were not accepted yet."""
        return len(self._children)

    def leave(
        self, fork_id: int, parent: RRef[Any], message: Message | None, *, is_notified: bool = True
    ) -> None:
        """Keep the parent of a fork that is being packed, until the receiver accepts the fork.

        Without `is_notified`, the answer to the call that contains the fork counts as acceptance.
        """
        if message is None:
            child = _Child(None, parent, -1, False)
        else:
            child = _Child(message.peer, parent, message.message_id, message.is_answer)
        with self._lock:
            self._children[fork_id] = child
        if message is None:
            return
        # The receiver is checked after the fork was added to the table: if the receiver is lost
        # later, `worker_lost` drops the fork.
        to = message.peer
        if to.is_dead or (child.in_answer and child.call_id in to.given_up):
            self._end(Event.WILL_NOT_COME, [fork_id])
        else:
            enqueue = self._notice_sender.enqueue
            undo = functools.partial(enqueue, self._end, Event.WILL_NOT_COME, fork_id)
            message.undo_steps = (*message.undo_steps, undo)
            if not is_notified:
                accept = functools.partial(self.accepted, (fork_id,))
                message.delivery_steps = (*message.delivery_steps, accept)

    def accepted(self, fork_ids: Iterable[int]) -> None:
        """Record that forks have arrived."""
        self._end(Event.CAME, fork_ids)

    def gave_up(self, call: Call) -> None:
        """Report to the callee a call that this worker has given up before the answer arrived."""
        is_remote = call.message.effective_type in REMOTE_CALLS
        made = call.message.metadata.get("rref") if is_remote else None
        self._notice_sender.enqueue(self._tell_given_up, call.peer, (call.message.message_id, made))

    def not_made(self, owner: Worker, rref_id: int) -> None:
        """Report to the owner that a call failed which should have made the value `rref_id`.

        Note    this is for a call that was refused before its function ran. An error of the
                function is stored as the value
        """
        self._notice_sender.enqueue(self._tell_given_up, owner, (None, rref_id))

    def given_up(self, request: Message) -> Reply:
        """Take back references in answers to given-up calls; reply which sent forks are held."""
        call_ids, fork_ids, made = lists_of(request, "call", "fork", "made")
        with self._lock:
            for call_id in call_ids:
                remember(request.peer.given_up, call_id)
        if (lender := request.peer.lender) is not None:
            for call_id in call_ids:
                lender.end(call_id)
        self._end(Event.WILL_NOT_COME, self._children_of(request.peer, call_ids, in_answer=True))
        self._owned.fail_unmade(made, request.peer)
        return Reply([], {"held": (*self._hold_or_refuse(fork_ids),)})

    def worker_lost(self, worker: Worker) -> None:
        """Release the forks that were sent to a lost worker, and the forks of its values."""
        with self._lock:
            lost = [
                fork_id
                for fork_id, child in self._children.items()
                if worker in (child.to, child.parent._owner)
            ]
        self._end(Event.LOST, lost)

    def clear(self) -> None:
        """Forget all forks."""
        self._end(Event.LOST, list(self._children))

    def _tell_given_up(self, callee: Worker, calls: Sequence[tuple[int | None, Value]]) -> None:
        call_ids = [call_id for call_id, _ in calls if call_id is not None]
        fork_ids = self._children_of(callee, call_ids, in_answer=False)
        made = [rref_id for _, rref_id in calls if rref_id is not None]
        metadata: dict[str, Value] = {"call": (*call_ids,), "fork": (*fork_ids,), "made": (*made,)}
        kind = MessageType.RREF_GIVE_UP_REQ
        look = functools.partial(self._look_at_held, callee, fork_ids)
        failure = "the outcome of calls that were given up is unknown"
        self._notice_sender.send(callee, kind, metadata, failure=failure, then=look)

    def _look_at_held(self, callee: Worker, fork_ids: Sequence[int], reply: Reply) -> None:
        try:
            held = numbers(reply.metadata, "held", callee.id)
        except MessageError as error:
            text = "assuming worker %d holds no references: %s"
            _logger.warning(text, callee.id, one_line(error))
            held = ()
        for fork_id in set(fork_ids).difference(held):
            self._notice_sender.enqueue(self._end, Event.WILL_NOT_COME, fork_id)

    def _children_of(self, to: Worker, call_ids: Iterable[int], *, in_answer: bool) -> list[int]:
        wanted = {(to, call_id, in_answer) for call_id in call_ids}
        with self._lock:
            return [
                fork_id
                for fork_id, child in self._children.items()
                if (child.to, child.call_id, child.in_answer) in wanted
            ]

    def _end(self, event: Event, fork_ids: Iterable[int]) -> None:
        """Release the parents of forks. On the owner, stop counting forks that will not arrive."""
        with self._lock:
            children = [(i, self._children.pop(i, None)) for i in fork_ids]
        ended = [(child.parent._id, fork_id) for fork_id, child in children if child is not None]
        del children
        if event is Event.WILL_NOT_COME:
            self._owned.end_uses(ended)
