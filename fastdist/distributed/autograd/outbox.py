"""Gradients on their way between workers: what is ready together travels together."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...core.future import Future
from ...tensor.tensor import Tensor
from ..pipe.metadata import Value
from ..rpc.agent import get_current_agent
from ..rpc.message_types import MessageType
from ..rpc.words import Words, numbers, refuse
from .sparse_parts import SPARSE, apart, together

if TYPE_CHECKING:
    from ..rpc.lane_call import LaneCall

# Note [Gradients that wait a little]
# A thread that works on a pass holds gradients for other workers back while what it does next is
# light: those of many calls to one worker then leave as one message. It never holds them longer
# than HOLD_S or one light Node, and not at all once it has nothing else to do.
#
# Where they leave to is known at three places. The root's own thread will only wait: it sends on a
# lane of its own, asks for the answer `in_person`, and takes it without a hop. A worker that can
# answer such a message for good puts the gradients for its sender into the answer. All else goes
# as messages by the shared lane.

HOLD_S = 200e-6
LIGHT = 1 << 14  # elements

# Names in a message's metadata: pairs of an autograd message id and how many tensors answer it.
MESSAGES = "messages"
IN_PERSON = "in_person"
AUTO = "auto"
# Instead of how many.
UNUSED = -1


class Gradients(NamedTuple):
    """The gradients of the tensors of one message; None where nothing follows from any of them."""

    message_id: int
    tensors: Sequence[Tensor] | None


class Context(Protocol):
    """What an outbox knows of its context."""

    id: int
    pass_id: int

    requester: int
    is_auto: bool
    lost_messages: frozenset[int]

    def add_outstanding_rpc(self, future: Future[Any], *, wait: bool, pass_id: int) -> None:
        """Remember a parcel whose error ends the pass, and that it may wait for."""

    def note_sent(self, pass_id: int) -> bool:
        """Count a gradient message; False if its pass is over and another has begun."""


class Parcel:
    """Gradients for one worker, and the Future of its having got them."""

    __slots__ = ("gradients", "sent", "worker_id")

    def __init__(self, worker_id: int) -> None:
        self.worker_id = worker_id
        self.gradients: list[Gradients] = []
        self.sent: Future[None] = Future()

    def content(self) -> tuple[list[Tensor], dict[str, Value]]:
        """Return all tensors, one message after the other, and the words by which the other side
        knows which belong to which message.
        """
        numbers: list[Value] = []
        for message_id, tensors in self.gradients:
            numbers += (message_id, UNUSED if tensors is None else len(tensors))
        found, told = apart([one for _, tensors in self.gradients for one in tensors or ()])
        return found, {MESSAGES: numbers, SPARSE: told} if told else {MESSAGES: numbers}

    def look(self, answered: Future[Any]) -> None:
        """Take the end of the message that carried this."""
        self.sent.try_complete(None, answered.exception())


class Outbox:
    """What one thread has to send for a pass.

    Thread  its own
    """

    def __init__(self, context: Context, pass_id: int, retain_graph: bool) -> None:
        self.context = context
        # Not the context's: a thread may still be inside a Node of a pass that was given up, when
        # the next one has begun.
        self.pass_id = pass_id
        self.parcels: dict[int, Parcel] = {}
        self._retain_graph = retain_graph
        self._since = 0.0

    def add(self, worker_id: int, gradients: Gradients) -> None:
        """Put gradients in; the pass waits for them from now on, if it is not over."""
        if not self.context.note_sent(self.pass_id):
            return
        parcel = self.parcels.get(worker_id)
        if parcel is None:
            if not self.parcels:
                self._since = time.perf_counter()
            parcel = self.parcels[worker_id] = Parcel(worker_id)
            # The worker for which this one runs its part waits for the answer to that; and its own
            # part cannot end before it has these gradients. So nobody need wait for it here.
            wait = worker_id != self.context.requester
            self.context.add_outstanding_rpc(parcel.sent, wait=wait, pass_id=self.pass_id)
        parcel.gradients.append(gradients)

    def is_due(self, next_elements: int) -> bool:
        """Return whether to send now, before a Node of so many elements runs."""
        return bool(self.parcels) and (
            next_elements > LIGHT or time.perf_counter() - self._since > HOLD_S
        )

    def flush(self) -> None:
        """Send all by the shared lanes."""
        parcels, self.parcels = self.parcels, {}
        for parcel in parcels.values():
            self.send(parcel)

    def send(self, parcel: Parcel) -> None:
        """Send one parcel by the shared lane."""
        kind, (tensors, words) = MessageType.BACKWARD_AUTOGRAD_REQ, self._packed(parcel)
        try:
            answered = get_current_agent().send(parcel.worker_id, kind, tensors, words)
        except Exception as error:
            # Whoever waits for the parcel raises it.
            parcel.sent.try_complete(error=error)
            return
        answered.add_done_callback(parcel.look)

    def send_in_person(self) -> tuple[Parcel, LaneCall] | None:
        """Send all, one of them on a lane whose answer this thread will take; None if it cannot."""
        if not self.parcels:
            return None
        parcels, self.parcels = self.parcels, {}
        worker_id, parcel = parcels.popitem()
        for other in parcels.values():
            self.send(other)
        tensors, words = self._packed(parcel)
        words[IN_PERSON] = True
        kind = MessageType.BACKWARD_AUTOGRAD_REQ
        try:
            call = get_current_agent().send_in_person(worker_id, kind, tensors, words)
        except Exception as error:
            parcel.sent.try_complete(error=error)
            return None
        if call is None:
            self.send(parcel)
            return None
        return parcel, call

    def _packed(self, parcel: Parcel) -> tuple[list[Tensor], dict[str, Value]]:
        tensors, words = parcel.content()
        return tensors, {
            "context_id": self.context.id,
            "pass_id": self.pass_id,
            "retain_graph": self._retain_graph,
            AUTO: self.context.is_auto,
            **words,
        }


def unpack(tensors: Sequence[Tensor], words: Words, sender: int) -> list[Gradients]:
    """Return the gradients of a message; behind them its tensors may have brought tangents.

    Raises  MessageError where the numbers do not fit the tensors
    """
    pairs = numbers(words, MESSAGES, sender)
    tensors = together(tensors, words, sender)
    counts = pairs[1::2]
    is_fit = len(pairs) % 2 == 0 and all(count >= UNUSED for count in counts)
    if not is_fit or sum(count for count in counts if count > 0) > len(tensors):
        refuse(
            words, MESSAGES, sender, f"message ids, each with how many of {len(tensors)} tensors"
        )
    found, at = [], 0
    for message_id, count in zip(pairs[::2], counts, strict=True):
        if count == UNUSED:
            found.append(Gradients(message_id, None))
            continue
        found.append(Gradients(message_id, tensors[at : at + count]))
        at += count
    return found


class _ThisThread(threading.local):
    outbox: Outbox | None = None


_this_thread = _ThisThread()


def current_outbox() -> Outbox | None:
    """Return where this thread puts gradients; None in a thread that works on no distributed pass.

    A device's thread is such a one: it sends at once.
    """
    return _this_thread.outbox


def set_current_outbox(outbox: Outbox | None) -> Outbox | None:
    """Let this thread put gradients there from now on; return where it did before."""
    before, _this_thread.outbox = _this_thread.outbox, outbox
    return before
