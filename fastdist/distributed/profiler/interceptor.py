"""Metadata of profiled calls and their answers: configuration out, events back."""

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

# Names in a message's metadata: of the call, or the gradients, in the whole job; whether events
# shall come back, and which are wanted; when the call came and was answered, by the callee's clock;
# and the ranges. The recording of a request stays with it, on the callee, under another name.
_ID: Final = "profiler.id"
_EVENTS: Final = "profiler.events"
_WANTED: Final = "profiler.wanted"
_CLOCK: Final = "profiler.clock"
_RANGES: Final = "profiler.ranges"
_RECORDING: Final = "profiler.recording"
_FLOW: Final = "profiler.flow"
# The most bytes that an answer brings back: its header must hold them.
_MOST_BYTES: Final = 256 << 10


class ServingInterceptor:
    """Records what the profiled calls of others take here; installed as long as RPC is there."""

    # Other requests do not meet it.
    serves: frozenset[int] | None = frozenset({MessageType.RUN_WITH_PROFILING_REQ})

    def request_in(self, message: Message) -> AbstractContextManager[Any] | None:
        """Record what is done for a request whose caller profiles it."""
        if message.type != MessageType.RUN_WITH_PROFILING_REQ:
            return None
        came_ns, metadata, sender = clock(), message.metadata, message.peer.id
        flow_id = number(metadata, _ID, sender)
        opened: AbstractContextManager[Any] = nullcontext()
        if flag(metadata, _EVENTS, sender):
            recording = ServedRecording(wanted_of(texts(metadata, _WANTED, sender)))
            # An answer may be sent by another thread, which has the request alone.
            metadata[_RECORDING] = (recording, came_ns)  # type: ignore[assignment]
            opened = recording.here()
        group = group_recording()
        return opened if group is None else group.around(opened, sender, flow_id)

    def response_out(self, message: Message, request: Message) -> None:
        """Let the events of a request go back with its answer."""
        kept: Any = request.metadata.get(_RECORDING)
        if kept is None or request.type != MessageType.RUN_WITH_PROFILING_REQ:
            return
        recording, came_ns = kept
        recording.await_devices()
        message.metadata[_RANGES] = pack_ranges(list(recording.ranges), _MOST_BYTES)
        message.metadata[_CLOCK] = [came_ns, clock()]
        message.wrap(MessageType.RUN_WITH_PROFILING_RESP)


class ProfiledCall(Protocol):
    """A call that this worker makes."""

    key: str
    profiling_id: int
    sent_ns: int
    recording: ServedRecording | None

    def hand_in(self, known: TimeRange) -> None:
        """Give a range to all who follow this call."""


class _Making(threading.local):
    call: ProfiledCall | None = None


class CallingInterceptor(ServingInterceptor):
    """Wraps the calls that are profiled, too; installed while somebody records.

    Thread  any
    """

    serves = None  # gradients, too

    def __init__(self) -> None:
        self._making = _Making()
        self._manager = RemoteProfilerManager.get_instance()
        self._calls: dict[int, ProfiledCall] = {}  # entries come and go one at a time

    def begin(self, call: ProfiledCall) -> None:
        """Let the next request of this thread be a call."""
        self._making.call = call

    def done(self) -> None:
        """Let the requests of this thread be what they are."""
        self._making.call = None

    def has_calls(self) -> bool:
        """Return whether calls are under way."""
        return bool(self._calls)

    def forget(self, call: ProfiledCall) -> None:
        """Know a call no more: it is over."""
        self._calls.pop(call.profiling_id, None)
        self._manager.erase_key(call.profiling_id)

    def request_in(self, message: Message) -> AbstractContextManager[Any] | None:
        """Record what is done for a request whose caller profiles it, and gradients that come."""
        _take_gradients(message)
        return super().request_in(message)

    def response_out(self, message: Message, request: Message) -> None:
        """Let events go back; mark gradients that are the answer to others."""
        if _FLOW in request.metadata:
            self._mark_gradients(message)
        super().response_out(message, request)

    def _mark_gradients(self, message: Message) -> None:
        # A root that has waited for a while sends messages without gradients: these are not marked.
        group = group_recording() if message.tensors else None
        if group is not None:
            flow_id = message.metadata[_FLOW] = self._manager.get_next_profiler_id()
            group.note_departure(message.peer.id, flow_id)

    def request_out(self, message: Message) -> None:
        """Wrap the call that this thread makes; mark gradients that it sends."""
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
        """Add the ranges in an answer, named after the call, with times of this worker's clock."""
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
    """Return the offset of our clock from the callee's: the callee's share of the call is put into
    the middle of the call's time.
    """
    if len(theirs) != 2:
        raise MessageError(f"the answer of a profiled call has the times {theirs}; expected two")
    came_ns, answered_ns = theirs
    return (sent_ns - came_ns + clock() - answered_ns) // 2
