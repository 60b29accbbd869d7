"""Calls with tensors on devices: the caller continues, and a pool thread waits for the devices."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastdist.concurrency.future import Future
from fastdist.core.device import CPU
from fastdist.distributed.pipe.frames import Buffer
from fastdist.tensor.tensor import Tensor

from ..calls.outgoing import FutureCall, pack_request
from ..message.metadata import Value
from ..message.tensors import Departure
from ..message.types import MessageType
from ..workers.worker import Worker

if TYPE_CHECKING:
    from ..calls.client import Client

# Note [Calls that leave late]
# A call on the shared lane returns a Future, so its caller does not wait until the call's GPU
# tensors are copied to the CPU. The caller's thread packs the call, and queues the copies on its
# streams, behind its earlier work and before its later work. The thread also takes the peer's
# credit and registers the call. A thread of the pool waits for the copies, and writes the message;
# an error of either step becomes the Future's error. Such calls to one peer are sent in the order
# in which they were made. Calls that need no wait (all tensors are on the CPU, or are sent by
# cuda_ipc) are sent immediately, before the waiting calls.
#
# If a call ends before it was sent (a timeout, a lost peer), its packing is undone. The peer never
# received the call, and gets no notice.


class LateCall(FutureCall):
    """A call that may not have been sent yet when its caller continues.

    Thread  the lock guards _has_left and _is_stopped
    """

    departure: Departure | None = None

    def __init__(self, *made_of: Any) -> None:
        super().__init__(*made_of)
        self._lock = threading.RLock()
        self._has_left = self._is_stopped = False

    def size_bytes(self) -> int:
        """Return the bytes of the request."""
        if self.frames or self.departure is None:
            return super().size_bytes()
        return len(self.message.body) + self.departure.size_bytes()

    def leaves(self) -> bool:
        """Mark the call as sent, unless it has ended; return whether it may be sent."""
        with self._lock:
            self._has_left = not self._is_stopped
            return self._has_left

    def fail(self, error: Exception) -> None:
        """End the call with an error of the pipe."""
        if self._stop():
            self.message.undo_packing()
        super().fail(error)

    def lost(self, *, may_have_run: bool) -> None:
        """End a call if the call or its answer was lost when a connection broke."""
        if self._stop():
            self.end(None, self.lost_error(may_have_run=False))
        else:
            super().lost(may_have_run=may_have_run)

    def expire(self) -> None:
        """End the call at its deadline, unless it has ended otherwise."""
        if not self._stop():
            super().expire()
        elif self.peer.pipe.take_pending(self.message.message_id) is not None:
            self.message.undo_packing()
            self.end(None, self.timeout_error())

    def _stop(self) -> bool:
        """Stop the call if it was not sent yet; return whether the call is stopped."""
        with self._lock:
            self._is_stopped = not self._has_left
            return self._is_stopped


class LateCalls:
    """Sends the requests of a client instead of `Client.request`, if the worker has device maps.

    Thread  any; the lock guards the queues
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.RLock()
        # Peer -> its waiting calls, in the order in which they were made.
        self._waiting: dict[Worker, deque[LateCall]] = {}

    def request(
        self,
        to: int | Worker,
        kind: MessageType,
        value: Any = None,
        tensors: Sequence[Tensor] = (),
        metadata: Mapping[str, Value] | None = None,
        timeout_s: float = 0.0,
        what: object = None,
    ) -> Future[Any]:
        """Send a request as Client.request does, without waiting for a device."""
        client = self._client
        message = client.new_message(to, kind, tensors, metadata)
        call = LateCall(client, message, timeout_s, kind.name if what is None else what)
        client.number(call)
        try:
            frames = self._announce(call, value)
        except BaseException:
            call.peer.pipe.close_call(call.message.message_id)
            raise
        if frames:
            call.leaves()
            try:
                client.write(call, frames)
            except Exception as error:
                client.could_not_write(call, error)
        elif not call.is_over:
            self._queue(call)
        return call.future

    def _announce(self, call: LateCall, value: Any) -> Sequence[Buffer]:
        pack_request(call, value)
        try:
            self._depart(call)
        except BaseException:
            call.was_not_sent()
            raise
        return self._client.announce(call)

    def _depart(self, call: LateCall) -> None:
        """Make the frames of a call, or start the copies that the frames need."""
        message = call.message
        if any(tensor._layout.device is not CPU for tensor in message.tensors):
            device_map = self._client.device_map_to(call.peer)
            call.departure = Departure(
                *(message.tensors, device_map, call.peer.lender, message.message_id),
                goals=message.goals,
                is_late=True,
            )
            if call.departure.waits:
                return
        self._encode(call)

    def _encode(self, call: LateCall) -> None:
        message, peer = call.message, call.peer
        call.frames = message.encode(
            *(peer.lender, self._client.device_map_to),
            limits=peer.record.limits,
            departure=call.departure,
        )
        message.body = b""  # the frames contain it

    def _queue(self, call: LateCall) -> None:
        with self._lock:
            queue = self._waiting.get(call.peer)
            if queue is not None:
                queue.append(call)
                return
            self._waiting[call.peer] = deque([call])
        if not self._client.pool.submit_uncounted(self._send_all, call.peer):
            self._send_all(call.peer)

    def _send_all(self, peer: Worker) -> None:
        """Send a peer's waiting calls one after another, until none is left."""
        while True:
            with self._lock:
                queue = self._waiting[peer]
                if not queue:
                    del self._waiting[peer]
                    return
                call = queue.popleft()
            self._send(call)
            del call

    def _send(self, call: LateCall) -> None:
        client = self._client
        try:
            if call.is_over:
                self._take_back(call)
                return
            self._encode(call)
            frames, call.departure = call.frames, None
            if len(frames) > 1:
                call.frames = ()  # not kept for a resend: Client.announce gives the reason
            if call.leaves():
                client.write(call, frames)
            else:
                self._take_back(call)
        except Exception as error:
            client.could_not_write(call, error)

    def _take_back(self, call: LateCall) -> None:
        if call.peer.lender is not None:
            call.peer.lender.end(call.message.message_id)
