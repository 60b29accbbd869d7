"""Memory without a name that processes may map: it can neither shrink nor grow any more."""

# A process that maps another one's memory relies on its size: a read beyond the end of a file kills
# it. So the size is sealed before anybody else sees it, and checked before it is mapped.
#
# The order in which processes see each other's writes is handled elsewhere: rings and arenas, which
# both sides write at once, use system/fence.py; shared blocks are handed over by system calls.

from __future__ import annotations

import functools
import itertools
import mmap
import os
import stat
import sys
import weakref
from typing import Any, Final

# <asm-generic/mman.h>: the new mapping takes the place of what is at its address.
MAP_FIXED: Final = 0x10


def why_not_viable() -> str | None:
    """Return why processes of this system cannot share sealed memory; None if they can."""
    try:
        import fcntl  # which some systems lack
    except ImportError:
        return f"{sys.platform} has no descriptors that could be sealed (fcntl)"
    if not hasattr(os, "memfd_create") or not hasattr(fcntl, "F_ADD_SEALS"):
        return f"{sys.platform} has no memory without a name (memfd_create)"
    return None


def create(name: str, size: int) -> int:
    """Return a descriptor of new memory of size bytes, which read as zeros; `name` is for lists.

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
    """Return a mapping of what another process has made as memory of size bytes.

    Raises  OSError unless it is that, and sealed; `what` it should be is said there
    """
    import fcntl

    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_size != size:
        raise OSError(f"it is not {what} memory of {size} bytes")
    if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _seals() != _seals():
        raise OSError("it could shrink while it is read")
    return map_shared(descriptor, size, what)


def map_shared(descriptor: int, size: int, what: str) -> mmap.mmap:
    """Return a mapping of shared memory that keeps no descriptor of it; `what` is for `mapped`.

    Raises  OSError

    Note    mmap.mmap keeps a duplicate of its descriptor, which would be four for each peer of a
            worker. Python 3.13 has an option against that; in older ones the memory replaces
            anonymous memory that mmap.mmap has mapped.
    """
    if sys.version_info >= (3, 13):
        mapping = mmap.mmap(descriptor, size, trackfd=False)
    else:
        mapping = _map_in_place(descriptor, size)
    number = next(_numbers)
    _mapped[number] = what, weakref.ref(mapping, lambda _: _mapped.pop(number, None))
    return mapping


# The open mappings; an entry is added and removed at once.
_mapped: dict[int, tuple[str, weakref.ref[mmap.mmap]]] = {}
_numbers = itertools.count()


def mapped() -> list[str]:
    """Return the names of mappings that are not closed, oldest first; for tests of leaks."""
    known = [(what, find()) for what, find in list(_mapped.values())]
    return [what for what, mapping in known if mapping is not None and not mapping.closed]


def _map_in_place(descriptor: int, size: int) -> mmap.mmap:
    import ctypes

    mapping = mmap.mmap(-1, size)
    exported = ctypes.c_char.from_buffer(mapping)
    address = ctypes.addressof(exported)
    # The mapping cannot be closed while it is exported.
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
    """Return mmap of the C library: address, length, protection, flags, descriptor, offset."""
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    return function


def _seals() -> int:
    import fcntl

    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
