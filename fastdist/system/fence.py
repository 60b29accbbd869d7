"""A memory fence for two processes, built from Python's own means, and where it is missing."""

from __future__ import annotations

import platform
import threading
from typing import Final

# Note [Processors that order memory]
# Rings (distributed/pipe/ring) and arenas (distributed/arena) rely on two things of the processor:
# writes of one process are seen by another in their order, and a fence keeps a read behind the
# writes before it. x86 guarantees the first, and any lock gives the second: an atomic
# read-modify-write is a full barrier there. Other processors give neither: on aarch64, to take and
# release a lock lets a later read go before an earlier write, so that a ring loses the bell of its
# reader, and two processes may each take a block of an arena for theirs. Python has no instruction
# for it. So both are refused there, and everything goes through sockets.
#
# Nothing else relies on it. Shared blocks (share_memory, DataLoader) are handed over by pipes and
# semaphores, and slabs of GPUs take the table of an arena: see system/sealed_memory.py. Threads of
# one process hand the interpreter lock on, which orders all they wrote on any processor.
_ORDERING: Final = frozenset({"x86_64", "amd64", "x86", "i386", "i486", "i586", "i686"})

# Nothing is guarded by it: on these processors, to take and release any lock keeps a read from
# moving before the writes that precede it. `with fence: pass` is for where a call would cost more.
fence = threading.Lock()


def why_no_fence() -> str | None:
    """Return why processes of this machine share no memory that they write at once; None if they
    may. See Note [Processors that order memory].
    """
    machine = platform.machine()
    if machine.lower() in _ORDERING:
        return None
    return (
        f"processors of type {machine or 'unknown'} may reorder reads and writes of shared memory, "
        "and this version can keep them in order on x86 only"
    )


def full_fence() -> None:
    """Let other processors see what was written before what comes next is read."""
    with fence:
        pass
