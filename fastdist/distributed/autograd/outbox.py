"""Gradients on their way between workers: what is ready together travels together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ...concurrency.future import Future, InternalFuture
from ...core.device import CPU, Device
from ...devices.staging import HostCopies, wait_for
from ...tensor.tensor import Tensor, layout_near, wrap
from ..rpc.agent import get_current_agent
from ..rpc.message.metadata import Value
from ..rpc.message.metadata_fields import Metadata, numbers, refuse, texts
from ..rpc.message.remote_errors import text_of
from ..rpc.message.tensors import arrival_of
from ..rpc.message.types import MessageType
from .abort import abort_everywhere
from .backward_pass import BackwardPass
from .sparse_parts import SPARSE, apart, spread, together

if TYPE_CHECKING:
    from ..rpc.calls.outgoing import LaneCall
    from ..rpc.message.message import Message
    from ..rpc.workers.worker import Worker

# Note [Gradients that wait a little]
# A thread that works on a pass holds back gradients for other workers while its next Node is light:
# the gradients of many calls to one worker then leave as one message. It never holds them longer
# than HOLD_S or one light Node, and not at all once it has nothing else to do.
#
# Gradients leave in one of three ways. The root's own thread will only wait: it sends on a separate
# lane, requests a `direct` answer, and takes it without a hop. A worker that can complete such a
# message puts the gradients for its sender into the answer. All others go as messages by the shared
# lane.

HOLD_S = 200e-6
LIGHT = 1 << 14  # elements

# Names in a message's metadata: pairs of an autograd message id and how many tensors answer it.
MESSAGES = "messages"
DIRECT = "direct"
# For each pair the id of the send that was filed for these gradients, or NOT_RECORDED; with
# create_graph alone.
RECORDED = "recorded"
NOT_RECORDED = -1
# On which devices of the receiver gradients go on: one text for each, where one is not on the CPU.
DEVICES = "devices"
# Instead of how many.
UNUSED = -1


class Gradients(NamedTuple):
    """The gradients of the tensors of one message; None where nothing follows from any of them.

    `devices` tells where each belongs at the receiver, as the device map of the message says; empty
    where all belong on the CPU.
    """

    message_id: int
    tensors: Sequence[Tensor] | None
    # The message id of the send and receive of the gradients, where they have a history.
    recorded: int = NOT_RECORDED
    devices: Sequence[str] = ()
    # By which the tensors come to the CPU, where they do: to be waited for before they are read.
    copies: HostCopies | None = None
    # Makes a thread's current streams wait for the tensors that travel, or arrived, on devices.
    follow: Callable[[], None] | None = None


class GradientBatch:
    """Gradients for one worker, and the Future of its having got them."""

    __slots__ = ("gradients", "sent", "to")

    def __init__(self, to: Worker) -> None:
        self.to = to
        self.gradients: list[Gradients] = []
        self.sent: Future[None] = InternalFuture()

    def content(self) -> tuple[list[Tensor], dict[str, Value]]:
        """Return all tensors, one message after the other, and the words by which the other side
        knows which belong to which message. Waits for those that come to the CPU.

        Raises  what failed on a device
        """
        numbers: list[Value] = []
        devices: list[Value] = []
        copies = [one.copies for one in self.gradients if one.copies is not None]
        if copies:
            wait_for(copies)
        for message_id, tensors, _, places, _, follow in self.gradients:
            numbers += (message_id, UNUSED if tensors is None else len(tensors))
            devices += places or [""] * len(tensors or ())
            if follow is not None:
                follow()
        found, told = apart([one for sent in self.gradients for one in sent.tensors or ()])
        metadata: dict[str, Value] = {MESSAGES: numbers}
        if told:
            metadata[SPARSE] = told
        recorded: list[Value] = [one.recorded for one in self.gradients]
        if any(message_id != NOT_RECORDED for message_id in recorded):
            metadata[RECORDED] = recorded
        if any(devices):
            metadata[DEVICES] = devices
        return found, metadata

    def look(self, answered: Future[Any]) -> None:
        """Take the end of the message that carried this."""
        self.sent.try_complete(None, answered.exception())


class Outbox:
    """The messages that one thread sends for a pass.

    Thread  its own
    """

    def __init__(self, part: BackwardPass) -> None:
        self.part = part
        self.batches: dict[Worker, GradientBatch] = {}
        self._since = 0.0

    def add(self, to: Worker, gradients: Gradients) -> None:
        """Put gradients in; the pass waits for them from now on, if it is not over."""
        is_unused = gradients.tensors is None
        if not self.part.note_sent(gradients.message_id, is_unused=is_unused):
            return
        batch = self.batches.get(to)
        if batch is None:
            if not self.batches:
                self._since = time.perf_counter()
            batch = self.batches[to] = GradientBatch(to)
            # The worker for which this one runs its part waits for the answer to that; and its own
            # part cannot end before it has these gradients. So nobody need wait for it here.
            wait = to is not self.part.requester
            self.part.add_outstanding_rpc(batch.sent, wait=wait)
            if not wait:
                batch.sent.add_done_callback(self._tell_if_lost)
        batch.gradients.append(gradients)

    def _tell_if_lost(self, sent: Future[None]) -> None:
        """Let the pass fail everywhere: this worker may have answered already that all is well."""
        error = sent.exception()
        if error is not None:
            abort_everywhere(self.part.reached(), self.part.terms, text_of(error))

    def is_due(self, next_elements: int) -> bool:
        """Return whether to send what there is now, before a Node of so many elements runs."""
        return next_elements > LIGHT or time.perf_counter() - self._since > HOLD_S

    def flush(self) -> None:
        """Send all by the shared lanes."""
        batches, self.batches = self.batches, {}
        for batch in batches.values():
            self.send(batch)

    def send(self, batch: GradientBatch) -> None:
        """Send one batch by the shared lane."""
        kind = MessageType.BACKWARD_AUTOGRAD_REQ
        try:
            tensors, metadata = self._packed(batch)
            answered = get_current_agent().send(batch.to, kind, tensors, metadata)
        except Exception as error:
            # A waiter for the batch raises it.
            batch.sent.try_complete(error=error)
            return
        answered.add_done_callback(batch.look)

    def send_direct(self) -> tuple[GradientBatch, LaneCall] | None:
        """Send all, one of them on a lane whose answer this thread will take; None if it cannot."""
        if not self.batches:
            return None
        batches, self.batches = self.batches, {}
        to, batch = batches.popitem()
        for other in batches.values():
            self.send(other)
        kind = MessageType.BACKWARD_AUTOGRAD_REQ
        try:
            tensors, metadata = self._packed(batch)
            metadata[DIRECT] = True
            call = get_current_agent().send_direct(to, kind, tensors, metadata)
        except Exception as error:
            batch.sent.try_complete(error=error)
            return None
        if call is None:
            self.send(batch)
            return None
        return batch, call

    def _packed(self, batch: GradientBatch) -> tuple[list[Tensor], dict[str, Value]]:
        tensors, metadata = batch.content()
        return tensors, {**self.part.terms._asdict(), **metadata}


def goals_of(message: Message) -> Sequence[Device]:
    """Return where those gradients of a message belong that travel on devices, among all that it
    carries; nothing where none does.
    """
    metadata: Any = message.metadata
    if DEVICES not in metadata or all(tensor._layout.device is CPU for tensor in message.tensors):
        return ()
    devices = spread(metadata[DEVICES], metadata.get(SPARSE, ()))
    # Behind them are tangents, each of one before it.
    has_tangent = {entry.tangent: entry.tensor for entry in message.tangents}
    found: list[Device] = []
    for i, tensor in enumerate(message.tensors):
        if tensor._layout.device is CPU:
            found.append(CPU)
        else:
            found.append(Device(devices[i]) if i < len(devices) else found[has_tangent[i]])
    return found


def unpack(tensors: Sequence[Tensor], metadata: Metadata, sender: int) -> list[Gradients]:
    """Return the gradients of a message; behind them its tensors may have brought tangents.

    Thread  the one that opened the message
    Raises  MessageError where the numbers do not fit the tensors
    """
    pairs = numbers(metadata, MESSAGES, sender)
    tensors = together(_own_memory(tensors), metadata, sender)
    # Behind what `together` gave the device.
    follow = arrival_of(tensors)
    counts = pairs[1::2]
    is_fit = len(pairs) % 2 == 0 and all(count >= UNUSED for count in counts)
    if not is_fit or sum(count for count in counts if count > 0) > len(tensors):
        refuse(
            metadata, MESSAGES, sender, f"message ids, each with how many of {len(tensors)} tensors"
        )
    recorded: Sequence[int] = (NOT_RECORDED,) * len(counts)
    if RECORDED in metadata:
        recorded = numbers(metadata, RECORDED, sender)
        if len(recorded) != len(counts):
            refuse(metadata, RECORDED, sender, f"{len(counts)} numbers, one for each message id")
    devices = _devices_of(metadata, len(tensors), sender)
    found, at = [], 0
    for message_id, count, own in zip(pairs[::2], counts, recorded, strict=True):
        if count == UNUSED:
            found.append(Gradients(message_id, None))
            continue
        end = at + count
        found.append(Gradients(message_id, tensors[at:end], own, devices[at:end], None, follow))
        at = end
    return found


def _own_memory(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the tensors of a message, with copies of tensors that share another one's memory.

    Gradients that shared memory at the sender arrive in one buffer (rpc/message/tensors.py): those
    of x + y are one array. But code that adds to a gradient here must own it.
    """
    if len(tensors) < 2:
        return tensors
    by_owner: dict[int, list[int]] = {}
    for i, one in enumerate(tensors):
        if one._layout.device is CPU:
            base = one._array.base
            by_owner.setdefault(id(one._array if base is None else base), []).append(i)
    found = [*tensors]
    for members in by_owner.values():
        if len(members) < 2:
            continue  # nearly all
        end = 0
        for low, high, i in sorted((*_span(tensors[i]._array), i) for i in members):
            if low < end and low < high:
                array = tensors[i]._array.copy(order="K")
                found[i] = wrap(array, layout_near(array, tensors[i]._layout))
            end = max(end, high)
    return found


def _span(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return where an array's memory begins, and where it ends."""
    if not array.flags.c_contiguous:
        return byte_bounds(array)
    low = array.__array_interface__["data"][0]
    return low, low + array.nbytes


def _devices_of(metadata: Metadata, count: int, sender: int) -> Sequence[str]:
    if DEVICES not in metadata:
        return ()
    devices = texts(metadata, DEVICES, sender)
    if len(devices) > count:
        refuse(metadata, DEVICES, sender, f"one for each of {count} gradients")
    return devices


class _ThisThread(threading.local):
    outbox: Outbox | None = None


_this_thread = _ThisThread()


def current_outbox() -> Outbox | None:
    """Return where this thread puts gradients; None if it works on no distributed pass."""
    return _this_thread.outbox


def set_current_outbox(outbox: Outbox | None) -> Outbox | None:
    """Let this thread put gradients there from now on; return where it did before."""
    before, _this_thread.outbox = _this_thread.outbox, outbox
    return before
