"""CUDA memory and events shared between processes, for the CuPy shim.

Copies from and to such memory are delayed, as for pinned memory. The bytes are wrong if a reader
does not wait for the event after the writes, or a writer does not wait for pending copies.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.fibre_shim import shared_files
from tests.fibre_shim.shared_files import Shared
from tests.fibre_shim.streams import CUDARuntimeError, open_event, shared_event, state

_INVALID = 1  # cudaErrorInvalidValue
_OUT_OF_MEMORY = 2
_DEVICE_MEMORY = 2  # cudaMemoryTypeDevice
# New memory contains garbage in this many bytes at either end, as if from its last owner.
# Overwriting a whole slab of 64 MB took half of a worker's time.
_WRITTEN_BYTES = 1 << 20

# By address: memory of this process, and memory of other processes that this one has opened.
_shared: dict[int, Shared] = {}
# Addresses that were opened, and addresses that were closed again.
opened: list[int] = []
closed: list[int] = []


class Memory:
    """Memory of cudaMalloc, outside of any pool; `free_bytes` is the largest possible size."""

    free_bytes = 1 << 40

    def __init__(self, size: int) -> None:
        if size > Memory.free_bytes:
            raise CUDARuntimeError(_OUT_OF_MEMORY)
        self.size, self.device_id = size, state.device
        self._own = shared_files.share(size)
        self.ptr = self._own.address
        _shared[self.ptr] = self._own
        written = np.frombuffer(self._own.mapping, np.uint8)
        written[:_WRITTEN_BYTES] = written[-_WRITTEN_BYTES:] = 0xF7

    def __del__(self) -> None:
        if hasattr(self, "ptr"):
            del _shared[self.ptr]
            shared_files.close_file(self._own)


def is_shared(address: int) -> bool:
    """Return whether an address is in memory that several processes share."""
    return bool(mappings_at(address))


def mappings_at(*addresses: int) -> list[Shared]:
    """Return the shared memory at these addresses; the result keeps this memory mapped."""
    return [
        one
        for at, one in [*_shared.items()]
        if any(at <= address < at + len(one.mapping) for address in addresses)
    ]


def _handle_of(address: int) -> bytes:
    if address not in _shared:
        raise CUDARuntimeError(_INVALID)
    return _shared[address].handle


def _open(handle: bytes, flags: int = 1) -> int:
    assert len(handle) == 64, "CuPy reads as many bytes as a handle has"
    found = None if shared_files.is_own(handle) else shared_files.opened(handle)
    if found is None:
        raise CUDARuntimeError(_INVALID)
    _shared[found.address] = found
    opened.append(found.address)
    return found.address


def _close(address: int) -> None:
    if _shared.pop(address, None) is None:
        raise CUDARuntimeError(_INVALID)
    closed.append(address)


def _attributes(address: int) -> Any:
    return SimpleNamespace(type=_DEVICE_MEMORY if is_shared(address) else 0, device=0)


def _event_handle(event: int) -> bytes:
    counts = shared_event(event)
    if counts is None:
        raise CUDARuntimeError(_INVALID)
    return counts.handle


def _open_event(handle: bytes) -> int:
    assert len(handle) == 64, "CuPy reads as many bytes as a handle has"
    if shared_files.is_own(handle):
        return shared_files.number_of(handle)
    found = shared_files.opened(handle)
    if found is None:
        raise CUDARuntimeError(_INVALID)
    return open_event(found)


RUNTIME: dict[str, Any] = {
    "ipcGetMemHandle": _handle_of,
    "ipcOpenMemHandle": _open,
    "ipcCloseMemHandle": _close,
    "ipcGetEventHandle": _event_handle,
    "ipcOpenEventHandle": _open_event,
    "pointerGetAttributes": _attributes,
}
