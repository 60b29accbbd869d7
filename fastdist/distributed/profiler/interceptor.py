"""Metadata of profiled calls and their answers: settings to the callee, events back."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from fastdist.distributed.rpc.message.metadata_fields import flag, number, numbers, texts
from fastdist.distributed.rpc.message.types import USER_WORK, MessageType

from ...core.errors import MessageError
from ...instrumentation.time_ranges import TimeRange, clock, time_ranges, wanted_of
from ..rpc.message.message import Message
from ..rpc.torch_names.remote_profiler_manager import (
    REMOTE_PROFILING_KEY_PREFIX,
    RemoteProfilerManager,
)
from .group_recording import group_recording
from .ranges_as_bytes import pack_ranges, unpack_ranges
from .served import ServedRecording

# Names in a message's metadata, in this order: the job-wide id of a call; whether the callee must
# return events; which events; when the request arrived and was answered, on the callee's clock; the
# ranges; the recording of a request (on the callee only); the job-wide id of sent gradients.
_ID: Final = "profiler.id"
_EVENTS: Final = "profiler.events"
_WANTED: Final = "profiler.wanted"
_CLOCK: Final = "profiler.clock"
_RANGES: Final = "profiler.ranges"
_RECORDING: Final = "profiler.recording"
_FLOW: Final = "profiler.flow"
# The most bytes of ranges in an answer; they must fit in the answer's header.
_MOST_BYTES: Final = 256 << 10


class ServingInterceptor:
    """Records the work of profiled calls from other workers; installed while RPC runs."""

    # Other requests do not pass through this interceptor.
    serves: frozenset[int] | None = frozenset({MessageType.RUN_WITH_PROFILING_REQ})

    def request_in(self, message: Message) -> AbstractContextManager[Any] | None:
        """Record the work of a request if the caller profiles the call."""
        if message.type != MessageType.RUN_WITH_PROFILING_REQ:
            return None
        came_ns, metadata, sender = clock(), message.metadata, message.peer.id
        flow_id = number(metadata, _ID, sender)
        opened: AbstractContextManager[Any] = nullcontext()
        if flag(metadata, _EVENTS, sender):
            recording = ServedRecording(wanted_of(texts(metadata, _WANTED, sender)))
            # Another thread may send the answer; it finds the recording in the request.
            metadata[_RECORDING] = (recording, came_ns)  # type: ignore[assignment]
            opened = recording.here()
        group = group_recording()
        return opened if group is None else group.around(opened, sender, flow_id)

    def response_out(self, message: Message, request: Message) -> None:
        """Add the events of a request to its answer."""
        kept: Any = request.metadata.get(_RECORDING)
        if kept is None or request.type != MessageType.RUN_WITH_PROFILING_REQ:
            return
        recording, came_ns = kept
        recording.await_devices()
        message.metadata[_RANGES] = pack_ranges(list(recording.ranges), _MOST_BYTES)
        message.metadata[_CLOCK] = [came_ns, clock()]
        message.wrap(MessageType.RUN_WITH_PROFILING_RESP)


class ProfiledCall(Protocol):
    """A call by this worker."""

    key: str
    profiling_id: int
    sent_ns: int
    recording: ServedRecording | None

    def hand_in(self, known: TimeRange) -> None:
        """Add a range to all recordings that follow this call."""


class _Making(threading.local):
    call: ProfiledCall | None = None


class CallingInterceptor(ServingInterceptor):
    """Also wraps this worker's profiled calls; installed while a recording is open.

    Thread  any
    """

    serves = None  # None means all requests, including gradients

    def __init__(self) -> None:
        self._making = _Making()
        self._manager = RemoteProfilerManager.get_instance()
        self._calls: dict[int, ProfiledCall] = {}  # no lock: insertions and removals are atomic

    def begin(self, call: ProfiledCall) -> None:
        """Associate the next request of this thread with a call."""
        self._making.call = call

    def done(self) -> None:
        """End the association of this thread's requests with a call."""
        self._making.call = None

    def has_calls(self) -> bool:
        """Return whether profiled calls are under way."""
        return bool(self._calls)

    def forget(self, call: ProfiledCall) -> None:
        """Forget a call that has ended."""
        self._calls.pop(call.profiling_id, None)
        self._manager.erase_key(call.profiling_id)

    def request_in(self, message: Message) -> AbstractContextManager[Any] | None:
        """Record the arrival of gradients, and the work of a request from a profiled call."""
        _take_gradients(message)
        return super().request_in(message)

    def response_out(self, message: Message, request: Message) -> None:
        """Add events to an answer, and mark the gradients in that answer."""
        if _FLOW in request.metadata:
            self._mark_gradients(message)
        super().response_out(message, request)

    def _mark_gradients(self, message: Message) -> None:
        # The root worker of a pass that waits sends messages without gradients: nothing to mark.
        group = group_recording() if message.tensors else None
        if group is not None:
            flow_id = message.metadata[_FLOW] = self._manager.get_next_profiler_id()
            group.note_departure(message.peer.id, flow_id)

    def request_out(self, message: Message) -> None:
        """Wrap a call of this thread, and mark gradients that this thread sends."""
        if message.effective_type == MessageType.BACKWARD_AUTOGRAD_REQ:
            self._mark_gradients(message)
            return
        call = self._making.call
        if call is None or message.effective_type not in USER_WORK:
            return
        self._making.call = None
        manager = self._manager
        key, profiling_id = manager.get_current_profiling_key(), manager.get_next_profiler_id()
        manager.unset_current_key()
        manager.save_rpc_key(profiling_id, key)
        call.profiling_id, call.sent_ns = profiling_id, clock()
        self._calls[profiling_id] = call
        message.metadata[_ID] = profiling_id
        message.metadata[_EVENTS] = time_ranges.follows_calls or call.recording is not None
        message.metadata[_WANTED] = time_ranges.wanted.names()
        message.wrap(MessageType.RUN_WITH_PROFILING_REQ)

    def response_in(self, message: Message, request: Message) -> None:
        """Add the ranges in an answer, with the call's name and times on this worker's clock."""
        _take_gradients(message)
        if _RANGES not in message.metadata or _ID not in request.metadata:
            return
        profiling_id = number(request.metadata, _ID, message.peer.id)
        call = self._calls.get(profiling_id)
        if call is None:
            return
        key = self._manager.retrieve_rpc_profiling_key(profiling_id)
        offset_ns = _offset_ns(call.sent_ns, numbers(message.metadata, _CLOCK, message.peer.id))
        for known in unpack_ranges(message.metadata[_RANGES], message.peer.id):
            call.hand_in(
                known._replace(
                    name=f"{key}{REMOTE_PROFILING_KEY_PREFIX}{known.name}",
                    start_ns=known.start_ns + offset_ns,
                    stop_ns=known.stop_ns + offset_ns,
                    is_remote=True,
                )
            )


def _take_gradients(message: Message) -> None:
    group = group_recording()
    if group is not None and _FLOW in message.metadata:
        group.note_arrival(message.peer.id, number(message.metadata, _FLOW, message.peer.id))


def _offset_ns(sent_ns: int, theirs: tuple[int, ...]) -> int:
    """Return the offset of this worker's clock from the callee's clock.

    The request and the answer are assumed to be under way for equally long.
    """
    if len(theirs) != 2:
        raise MessageError(f"the answer of a profiled call has the times {theirs}; expected two")
    came_ns, answered_ns = theirs
    return (sent_ns - came_ns + clock() - answered_ns) // 2
