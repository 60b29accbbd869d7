"""A worker's side of a group profile: starts to record, reports its clock, sends the ranges."""

from __future__ import annotations

import threading
from typing import Final

from fastdist.distributed.rpc.message.metadata_fields import number, text, texts
from fastdist.distributed.rpc.workers.worker import Worker

from ...core.errors import RpcError
from ...instrumentation.time_ranges import Wanted, clock, wanted_of
from ..rpc.handlers import Reply
from ..rpc.message.message import Message
from . import group_recording
from .ranges_as_bytes import pack_ranges

# The most bytes of recorded ranges in one answer; they must fit in a message's header.
PIECE_BYTES: Final = 256 << 10

# Guards the variables below: the worker that profiles the group; the worker that last ended a
# profile; and the recorded ranges, until that worker has fetched them.
_lock = threading.Lock()
_profiler: Worker | None = None
_fetcher: Worker | None = None
_packed = b""


def answer(request: Message) -> Reply:
    """Answer a request of the profiling worker."""
    metadata, sender = request.metadata, request.peer
    what = text(metadata, "do", sender.id)
    if what == "begin":
        begin(sender, wanted_of(texts(metadata, "wanted", sender.id)))
    elif what == "end":
        size, dropped = end(sender)
        return Reply([], {"size": size, "dropped": dropped})
    elif what == "fetch":
        return Reply([], {"ranges": fetch(sender, number(metadata, "at", sender.id))})
    elif what != "clock":
        raise RpcError(f"worker {sender.id} requested {what!r}, which this profiler does not know")
    return Reply([], {"clock": clock()})


def begin(profiler: Worker, wanted: Wanted) -> None:
    """Start to record for a worker.

    Raises  RpcError if a worker profiles the group already; the error names that worker
    """
    global _profiler, _packed
    with _lock:
        if _profiler is not None:
            raise RpcError(f"the group is being profiled already, by worker {_profiler.id}")
        group_recording.begin(wanted)
        _profiler, _packed = profiler, b""


def end(profiler: Worker) -> tuple[int, int]:
    """End the recording; return the number of its bytes, and the number of dropped ranges."""
    global _profiler, _fetcher, _packed
    with _lock:
        if _profiler is not profiler:
            return 0, 0
        _profiler, _fetcher = None, profiler
        recording = group_recording.end()
        assert recording is not None
        _packed = pack_ranges(recording.ranges)
        return len(_packed), recording.dropped


def fetch(profiler: Worker, at: int) -> bytes:
    """Return the recording's piece from byte `at`; b"" for a worker that did not end it."""
    global _packed
    with _lock:
        if _fetcher is not profiler:
            return b""
        piece = _packed[at : at + PIECE_BYTES]
        if at + PIECE_BYTES >= len(_packed):
            _packed = b""
        return piece


def worker_lost(worker: Worker) -> None:
    """Stop recording for a worker that is lost or has left."""
    global _packed
    end(worker)
    with _lock:
        if _fetcher is worker:
            _packed = b""
