"""Anonymous memory that processes can map; its size is sealed."""

# If a process maps memory of another process and reads beyond the end of the file, the system kills
# the reader. So the size of the memory is sealed before another process gets it. The other process
# checks the size and the seal before it maps the memory.
#
# The order in which processes see each other's writes is handled elsewhere. Rings and arenas, to
# which both sides write, use system/fence.py. Shared blocks are passed on by system calls.

from __future__ import annotations

import functools
import itertools
import mmap
import os
import stat
import sys
import weakref
from typing import Any, Final

# <asm-generic/mman.h>: the new mapping replaces the one at its address.
MAP_FIXED: Final = 0x10


def why_not_viable() -> str | None:
    """Return the reason why processes cannot share sealed memory here; None if they can."""
    try:
        import fcntl  # some systems do not have it
    except ImportError:
        return f"{sys.platform} has no descriptors that could be sealed (fcntl)"
    if not hasattr(os, "memfd_create") or not hasattr(fcntl, "F_ADD_SEALS"):
        return f"{sys.platform} has no memory without a name (memfd_create)"
    return None


def create(name: str, size: int) -> int:
    """Return a descriptor of new zeroed memory of `size` bytes; `name` appears in system listings.

    Raises  OSError
    """
    import fcntl

    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _seals())
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def map_of(descriptor: int, size: int, what: str) -> mmap.mmap:
    """Return a mapping of memory that another process has created with `size` bytes.

    Raises  OSError unless the memory has that size and is sealed; the message contains `what`, a
            description of the memory
    """
    import fcntl

    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_size != size:
        raise OSError(f"it is not {what} memory of {size} bytes")
    if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _seals() != _seals():
        raise OSError("it could shrink while it is read")
    return map_shared(descriptor, size, what)


def map_shared(descriptor: int, size: int, what: str) -> mmap.mmap:
    """Map shared memory without keeping a descriptor; `what` is the mapping's name in `mapped`.

    Raises  OSError

    Note    mmap.mmap keeps a duplicate of its descriptor: a worker would keep four for each
            peer. Python 3.13 has an option to keep none. In older versions, mmap.mmap makes an
            anonymous mapping, and C's mmap then maps the shared memory at the same address
    """
    if sys.version_info >= (3, 13):
        mapping = mmap.mmap(descriptor, size, trackfd=False)
    else:
        mapping = _map_in_place(descriptor, size)
    number = next(_numbers)
    _mapped[number] = what, weakref.ref(mapping, lambda _: _mapped.pop(number, None))
    return mapping


# Maps a number to the name and the mapping. Each change of the dict is atomic.
_mapped: dict[int, tuple[str, weakref.ref[mmap.mmap]]] = {}
_numbers = itertools.count()


def mapped() -> list[str]:
    """Return the names of all open mappings, oldest first; for leak tests."""
    known = [(what, find()) for what, find in list(_mapped.values())]
    return [what for what, mapping in known if mapping is not None and not mapping.closed]


def _map_in_place(descriptor: int, size: int) -> mmap.mmap:
    import ctypes

    mapping = mmap.mmap(-1, size)
    exported = ctypes.c_char.from_buffer(mapping)
    address = ctypes.addressof(exported)
    # `exported` is a view of the mapping, which cannot be closed while the view exists.
    del exported
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    flags = mmap.MAP_SHARED | MAP_FIXED
    if libc_mmap()(address, size, protection, flags, descriptor, 0) != address:
        error = ctypes.get_errno()
        mapping.close()
        raise OSError(error, os.strerror(error))
    return mapping


@functools.cache
def libc_mmap() -> Any:
    """Return the C library's mmap(address, length, protection, flags, descriptor, offset)."""
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    return function


def _seals() -> int:
    import fcntl

    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
