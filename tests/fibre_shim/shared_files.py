"""Memory that another process opens with a 64-byte handle, like CUDA IPC's handles."""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple

import numpy as np

# The process id, its descriptor, the size, a number that the creator chose, and a mark.
_HANDLE = struct.Struct("<QQQQ8s24x")
_MARK = b"fibreipc"


class Shared(NamedTuple):
    """A mapping of shared memory, and the handle by which other processes open it."""

    mapping: mmap.mmap
    handle: bytes
    number: int

    @property
    def address(self) -> int:
        """The address in this process."""
        return int(np.frombuffer(self.mapping, np.uint8).__array_interface__["data"][0])


def share(size: int, number: int = 0) -> Shared:
    """Return new memory of this process, which lives as long as any process maps it."""
    fd = os.memfd_create("fibre-shim", os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    handle = _HANDLE.pack(os.getpid(), fd, size, number, _MARK)
    return Shared(mmap.mmap(fd, size), handle, number)


def close_file(shared: Shared) -> None:
    """Prevent further processes from opening the memory."""
    os.close(_HANDLE.unpack(shared.handle)[1])


def is_own(handle: bytes) -> bool:
    """Return whether this process has created the memory of a handle."""
    return _HANDLE.unpack(handle)[0] == os.getpid()


def number_of(handle: bytes) -> int:
    """Return the number in the handle, which the creator of the memory chose."""
    return int(_HANDLE.unpack(handle)[3])


def opened(handle: bytes) -> Shared | None:
    """Map the memory of another process, and return it; None if the handle is invalid."""
    pid, fd, size, number, mark = _HANDLE.unpack(handle)
    if mark != _MARK:
        return None
    try:
        mine = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return Shared(mmap.mmap(mine, size), handle, number)
    finally:
        os.close(mine)
