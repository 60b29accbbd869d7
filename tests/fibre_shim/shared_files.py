"""Memory that another process finds by 64 bytes, as those are that CUDA gives out for its own."""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple

import numpy as np

# The process, its descriptor, the size, what is the same at both ends, and that it is a handle.
_HANDLE = struct.Struct("<QQQQ8s24x")
_MARK = b"fibreipc"


class Shared(NamedTuple):
    """A mapping of memory that processes share, and the key by which others find it."""

    mapping: mmap.mmap
    handle: bytes
    number: int

    @property
    def address(self) -> int:
        """Where it lies in this process."""
        return int(np.frombuffer(self.mapping, np.uint8).__array_interface__["data"][0])


def share(size: int, number: int = 0) -> Shared:
    """Return new memory of this process's, which lives as long as anybody maps it."""
    fd = os.memfd_create("fibre-shim", os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    handle = _HANDLE.pack(os.getpid(), fd, size, number, _MARK)
    return Shared(mmap.mmap(fd, size), handle, number)


def close_file(shared: Shared) -> None:
    """Let nobody open it any more."""
    os.close(_HANDLE.unpack(shared.handle)[1])


def is_own(handle: bytes) -> bool:
    """Return whether memory is of this process."""
    return _HANDLE.unpack(handle)[0] == os.getpid()


def number_of(handle: bytes) -> int:
    """Return the number that it was shared with."""
    return int(_HANDLE.unpack(handle)[3])


def opened(handle: bytes) -> Shared | None:
    """Return another process's memory, mapped; None if there is none by this handle."""
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
