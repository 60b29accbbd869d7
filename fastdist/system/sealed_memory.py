"""Memory without a name that processes may map: it can neither shrink nor grow any more."""

# A process that maps another one's memory relies on its size: a read beyond the end of a file kills
# it. So the size is sealed before anybody else sees it, and checked before it is mapped.
#
# The order in which processes see each other's writes is handled elsewhere: rings and arenas, which
# both sides write at once, use system/fence.py; shared blocks are handed over by system calls.

from __future__ import annotations

import mmap
import os
import stat
import sys


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
    return mmap.mmap(descriptor, size)


def _seals() -> int:
    import fcntl

    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
