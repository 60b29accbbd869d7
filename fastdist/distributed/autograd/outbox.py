"""Batches gradients for other workers: gradients that are ready together are sent together."""

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
# A thread that works on a pass holds back gradients for other workers while its next Node is light
# (has at most LIGHT elements). The gradients of many calls to one worker are then sent as one
# message. The thread holds them back for at most HOLD_S plus the time of one light Node, and sends
# them immediately when it has nothing else to do.
#
# Gradients are sent in one of three ways. First, the thread that began the pass has no other work
# after it has sent gradients. So it sends them on a separate lane, requests a `direct` answer, and
# reads the answer itself, without a switch of threads. Second, a worker that can answer such a
# message immediately puts the gradients for the message's sender into the answer. Third, all other
# gradients are sent as messages on the shared lane.

HOLD_S = 200e-6
LIGHT = 1 << 14  # elements

# Names in a message's metadata. MESSAGES: pairs of an autograd message id and a tensor count.
MESSAGES = "messages"
DIRECT = "direct"
# RECORDED: for each of these pairs, the id of the send that was added for the gradients, or
# NOT_RECORDED; present only with create_graph.
RECORDED = "recorded"
NOT_RECORDED = -1
# The receiver's device of each gradient, as text; left out if all are on the CPU.
DEVICES = "devices"
# In place of the tensor count: there are no gradients.
UNUSED = -1


class Gradients(NamedTuple):
    """The gradients of the tensors of one message.

    `tensors` is None if no root depends on any of the tensors. `devices` has, for each gradient,
    its device on the receiver, from the device map of the message; empty if all are on the CPU.
    """

    message_id: int
    tensors: Sequence[Tensor] | None
    # The message id of the gradients' own send and receive, if they have a history.
    recorded: int = NOT_RECORDED
    devices: Sequence[str] = ()
    # The copies from devices to the CPU that must be complete before the tensors are read.
    copies: HostCopies | None = None
    # A function that makes the calling thread's current streams wait for the tensors on devices.
    follow: Callable[[], None] | None = None


class GradientBatch:
    """Gradients for one worker, and a Future that is done when the worker has received them."""

    __slots__ = ("gradients", "sent", "to")

    def __init__(self, to: Worker) -> None:
        self.to = to
        self.gradients: list[Gradients] = []
        self.sent: Future[None] = InternalFuture()

    def content(self) -> tuple[list[Tensor], dict[str, Value]]:
        """Return the tensors of all messages in order, and the metadata from which the receiver
        knows which tensors belong to which message. Waits for copies to the CPU.

        Raises  errors of a device
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
        """Complete `sent` when the message that carried this batch is answered."""
        self.sent.try_complete(None, answered.exception())


class Outbox:
    """The messages that one thread sends for a pass.

    Thread  the thread that created it
    """

    def __init__(self, part: BackwardPass) -> None:
        self.part = part
        self.batches: dict[Worker, GradientBatch] = {}
        self._since = 0.0

    def add(self, to: Worker, gradients: Gradients) -> None:
        """Add gradients to a batch; the pass waits for their delivery. Does nothing if the pass is
        over.
        """
        is_unused = gradients.tensors is None
        if not self.part.note_sent(gradients.message_id, is_unused=is_unused):
            return
        batch = self.batches.get(to)
        if batch is None:
            if not self.batches:
                self._since = time.perf_counter()
            batch = self.batches[to] = GradientBatch(to)
            # The requester of this part waits for its answer, and the requester's own part cannot
            # end before it has these gradients. So this part does not wait for their delivery.
            wait = to is not self.part.requester
            self.part.add_outstanding_rpc(batch.sent, wait=wait)
            if not wait:
                batch.sent.add_done_callback(self._tell_if_lost)
        batch.gradients.append(gradients)

    def _tell_if_lost(self, sent: Future[None]) -> None:
        """Abort the pass everywhere on an error: this worker may already have sent an answer
        without an error.
        """
        error = sent.exception()
        if error is not None:
            abort_everywhere(self.part.reached(), self.part.terms, text_of(error))

    def is_due(self, next_elements: int) -> bool:
        """Return whether to send now, before a Node of next_elements elements runs."""
        return next_elements > LIGHT or time.perf_counter() - self._since > HOLD_S

    def flush(self) -> None:
        """Send all batches on the shared lanes."""
        batches, self.batches = self.batches, {}
        for batch in batches.values():
            self.send(batch)

    def send(self, batch: GradientBatch) -> None:
        """Send one batch on the shared lane."""
        kind = MessageType.BACKWARD_AUTOGRAD_REQ
        try:
            tensors, metadata = self._packed(batch)
            answered = get_current_agent().send(batch.to, kind, tensors, metadata)
        except Exception as error:
            # The error is raised where the pass waits for the batch.
            batch.sent.try_complete(error=error)
            return
        answered.add_done_callback(batch.look)

    def send_direct(self) -> tuple[GradientBatch, LaneCall] | None:
        """Send all batches, one of them on a separate lane, and return that batch and the call. The
        calling thread must read the call's answer. Return None if no separate lane was used.
        """
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
    """Return, for each gradient and tangent in a message, its device on the receiver. Return an
    empty sequence if all of them are on the CPU.
    """
    metadata: Any = message.metadata
    if DEVICES not in metadata or all(tensor._layout.device is CPU for tensor in message.tensors):
        return ()
    devices = spread(metadata[DEVICES], metadata.get(SPARSE, ()))
    # The tensors after the gradients are tangents; each is the tangent of an earlier tensor.
    has_tangent = {entry.tangent: entry.tensor for entry in message.tangents}
    found: list[Device] = []
    for i, tensor in enumerate(message.tensors):
        if tensor._layout.device is CPU:
            found.append(CPU)
        else:
            found.append(Device(devices[i]) if i < len(devices) else found[has_tangent[i]])
    return found


def unpack(tensors: Sequence[Tensor], metadata: Metadata, sender: int) -> list[Gradients]:
    """Return the gradients of a message; tangents may follow them among the tensors.

    Thread  the thread that decoded the message
    Raises  MessageError if the numbers do not fit the tensors
    """
    pairs = numbers(metadata, MESSAGES, sender)
    tensors = together(_own_memory(tensors), metadata, sender)
    # Called after `together`, so that `follow` also waits for the work of `together` on the device.
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
    """Return the tensors of a message; a tensor that shares memory with an earlier one is copied.

    Gradients that shared memory at the sender arrive in one buffer (rpc/message/tensors.py). For
    example, the gradients of x and y in x + y are one array. But this worker may add to a gradient
    in place, so the gradient must own its memory.
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
            continue  # the usual case
        end = 0
        for low, high, i in sorted((*_span(tensors[i]._array), i) for i in members):
            if low < end and low < high:
                array = tensors[i]._array.copy(order="K")
                found[i] = wrap(array, layout_near(array, tensors[i]._layout))
            end = max(end, high)
    return found


def _span(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return the first address of an array's memory, and the address after its last byte."""
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
    """Return the outbox of this thread; None if it works on no distributed pass."""
    return _this_thread.outbox


def set_current_outbox(outbox: Outbox | None) -> Outbox | None:
    """Set the outbox of this thread, and return the previous one."""
    before, _this_thread.outbox = _this_thread.outbox, outbox
    return before
