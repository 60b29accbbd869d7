"""Streams: queues of a GPU's work, and the current stream of this thread."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ..core.folded_frames import fold_public
from ..core.missing import explain_missing
from ..devices.backend import backend_of
from ..devices.cuda.stream import CudaStream as Stream
from ..devices.cuda.stream import ExternalStream
from ..devices.gpus import index_of
from .event import CudaEvent as Event

__all__ = [
    "Event", "ExternalStream", "Stream", "StreamContext", "current_stream", "default_stream",
    "get_stream_from_external", "set_stream", "stream",
]  # fmt: skip


def current_stream(device: Any = None) -> Stream:
    """Return the current stream, on which this thread's GPU work is queued.

    Raises  DeviceError without a GPU
    """
    backend: Any = backend_of("cuda")
    found: Stream = backend.current_stream(index_of(device))
    return found


def default_stream(device: Any = None) -> Stream:
    """Return the default stream, which is current unless a program chooses another stream.

    Raises  DeviceError without a GPU
    """
    backend: Any = backend_of("cuda")
    found: Stream = backend.default_stream(index_of(device))
    return found


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """Return an ExternalStream for a CUDA stream handle that another library created."""
    return ExternalStream(data_ptr, device)


class stream:
    """`with stream(s):` makes s this thread's current stream; None does nothing."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.stream is not None:
            self.stream.__exit__(kind, error, trace)


StreamContext = stream


def set_stream(stream: Any) -> None:
    """Make a stream this thread's current stream; None does nothing."""
    if stream is not None:
        stream.use()


fold_public(__name__)
explain_missing(__name__)
