"""A memory fence between two processes, and the processors on which it works."""

from __future__ import annotations

import platform
import threading
from typing import Final

# Note [Processors that order memory]
# Rings (distributed/pipe/ring) and arenas (distributed/arena) need two guarantees of the processor.
# Other processes must see the writes of one process in order. And a fence must keep a read after
# the writes before it. x86 guarantees the first, and any lock provides the second: an atomic
# read-modify-write is a full barrier there. Other processors guarantee neither. On aarch64, a later
# read may move before an earlier write in spite of a lock. A ring would then lose the bell of its
# reader, and two processes could take the same block of an arena. Python has no fence instruction.
# So rings and arenas are refused on such processors, and sockets carry everything.
#
# Nothing else needs these guarantees. Shared blocks (share_memory, DataLoader) are passed on by
# pipes and semaphores, and GPU slabs use the table of an arena: see system/sealed_memory.py.
# Threads of one process pass on the interpreter lock, which orders their writes on any processor.
_ORDERING: Final = frozenset({"x86_64", "amd64", "x86", "i386", "i486", "i586", "i686"})

# This lock guards nothing: on x86, taking and releasing any lock keeps a read from moving before
# the preceding writes. Use `with fence: pass` where a function call would cost more.
fence = threading.Lock()


def why_no_fence() -> str | None:
    """Return why processes of this machine must not write to the same shared memory; None if they
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
    """Make earlier writes visible to other processors before any later read."""
    with fence:
        pass
