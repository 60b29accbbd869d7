"""The collectives of one GPU of this process, through an NCCL communicator."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from ...core.device import Device
from ...devices.cuda import nccl
from .carriers import GroupingTransport
from .device_memory import DeviceMemory
from .device_work import DeviceWork, Progress
from .transport import Call

Act = Callable[[Any, Call], None]

# A barrier reduces an array of this size.
_MARK_BYTES: Final = 1


class DeviceTransport(GroupingTransport):
    """Implements Transport for arrays of one GPU, on a separate stream.

    `run` makes the stream current and calls the other methods, which queue work on it and return.

    Thread  one at a time; `abort`: any
    """

    memory: DeviceMemory

    def __init__(self, device: Device, communicator: nccl.Communicator, rank: int, size: int):
        from ...devices.backend import backend_of

        backend: Any = backend_of(device.type)
        self.rank, self.size, self.device = rank, size, device
        self.stream = backend.stream(device.index, priority=-1)
        self.memory = DeviceMemory(device, self.stream)
        self.communicator = communicator
        self._blocks_host = False

    def run(self, act: Act, call: Call, result: list[Any]) -> DeviceWork:
        """Queue a collective after the work queued on the current stream, and return its Work."""
        progress, memory, stream = Progress(self.device, call), self.memory, self.stream
        work = DeviceWork(result, progress)
        backend = memory.backend
        current = backend.current_stream(self.device.index)
        progress.is_captured = memory.is_captured = backend.is_capturing(self.device.index)
        memory.kept, self._blocks_host = progress.kept, False
        if progress.is_captured:
            backend.allocator.share_capture(current.native.ptr, stream.native.ptr)
        stream.wait_event(current.record_event())
        try:
            with stream.native_device, stream:
                act(self, call)
        except BaseException:
            if progress.is_captured:
                # A graph capture must end on the stream on which it began, so `current` waits for
                # `stream` here.
                current.wait_event(stream.record_event())
            raise
        work.blocks_host |= self._blocks_host
        progress.event = stream.record_event()
        return work

    def grouped(self) -> AbstractContextManager[None]:
        """Return a context manager; the calls in its block start together, at the block's end."""
        return nccl.grouped()

    def all_reduce(self, call: Call, array: Any, op: str) -> None:
        """Replace `array` on each member by the reduction of all members' arrays."""
        self.communicator.all_reduce(_what(call), array, op, self.stream)

    def reduce(self, call: Call, array: Any, op: str, root: int) -> None:
        """Replace `array` on member `root` by the reduction of all members' arrays."""
        self.communicator.reduce(_what(call), array, op, root, self.stream)

    def broadcast(self, call: Call, array: Any, root: int) -> None:
        """Replace `array` on all members by the array of member `root`."""
        self.communicator.broadcast(_what(call), array, root, self.stream)

    def all_gather(self, call: Call, out: Any, array: Any) -> None:
        """Copy the array of each member i into row i of `out`."""
        self.communicator.all_gather(_what(call), out, array, self.stream)

    def reduce_scatter(self, call: Call, out: Any, array: Any, op: str) -> None:
        """Write the reduction of row i of all members' arrays to `out` of member i."""
        self.communicator.reduce_scatter(_what(call), out, array, op, self.stream)

    def all_to_all(self, call: Call, outs: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Send `arrays[member]` to each member, and receive `outs[member]` from each member."""
        with self.grouped():
            for member in range(self.size):
                self.send(call, arrays[member], member, 0)
                self.recv(call, outs[member], member, 0)

    def gather(self, call: Call, outs: Sequence[Any] | None, array: Any, root: int) -> None:
        """Copy the array of each member into `outs[member]` of member `root`."""
        with self.grouped():
            self.send(call, array, root, 0)
            if self.rank == root:
                assert outs is not None
                for member in range(self.size):
                    self.recv(call, outs[member], member, 0)

    def scatter(self, call: Call, out: Any, arrays: Sequence[Any] | None, root: int) -> None:
        """Copy `arrays[i]` of member `root` into `out` of each member i."""
        with self.grouped():
            self.recv(call, out, root, 0)
            if self.rank == root:
                assert arrays is not None
                for member in range(self.size):
                    self.send(call, arrays[member], member, 0)

    def barrier(self, call: Call) -> None:
        """Queue a reduction, which ends when all members have called; its Work's wait() blocks."""
        mark = self.memory.empty(_MARK_BYTES, "uint8")
        self.communicator.all_reduce(_what(call), mark, "max", self.stream)
        self._blocks_host = True

    def send(self, call: Call, array: Any, to: int, tag: int) -> None:
        """Send `array` to a member. NCCL has no tags; messages arrive in the order of the calls."""
        if array.size:
            self.communicator.send(_what(call), array, to, self.stream)

    def recv(self, call: Call, array: Any, sender: int, tag: int) -> int:
        """Fill `array` with the next message from a member."""
        if array.size:
            self.communicator.recv(_what(call), array, sender, self.stream)
        return sender

    def require_healthy(self, call: Call) -> None:
        """Raise an error if the communicator has reported one; do not wait."""
        self.communicator.require_healthy(_what(call))

    def abort(self) -> None:
        """Abort all work under way."""
        self.communicator.abort()

    def close(self, under_way: Sequence[Progress], seconds: float) -> None:
        """Close the communicator when its work is done; abort work that takes longer than `seconds`
        seconds.
        """
        deadline = time.monotonic() + seconds
        while not all(one.error is not None or one.passed() for one in under_way):
            if time.monotonic() > deadline:
                self.abort()
                return
            under_way[0].failed.wait(0.0005)
        self.communicator.close()


def _what(call: Call) -> str:
    return f"{call.name} ({call.agreed}), called at {call.line}"
