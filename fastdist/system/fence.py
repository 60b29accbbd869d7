"""A memory fence between two processes, and the processors on which it works."""

from __future__ import annotations

import platform
import threading
from typing import Final

# Note [Processors that order memory]
# Rings (distributed/pipe/ring) and arenas (distributed/arena) need two guarantees of the processor.
# First, other processes must see the writes of one process in order. Second, there must be a fence:
# reads after it must not be executed before writes that precede it. x86 guarantees the first. On
# x86, any lock is such a fence, because an atomic read-modify-write is a full barrier. Other
# processors guarantee neither. On aarch64, a later read may be executed before an earlier write in
# spite of a lock. Then the reader of a ring could miss its bell, and two processes could take the
# same block of an arena. Python has no fence instruction. So rings and arenas are refused on such
# processors, and sockets carry all messages.
#
# Nothing else needs these guarantees. Shared blocks (share_memory, DataLoader) are passed on by
# pipes and semaphores, and GPU slabs use the table of an arena: see system/sealed_memory.py.
# Threads of one process hold the interpreter lock in turn, which orders their writes on any
# processor.
_ORDERING: Final = frozenset({"x86_64", "amd64", "x86", "i386", "i486", "i586", "i686"})

# This lock guards no data: on x86, no read is executed before earlier writes if a lock is taken and
# released in between. Use `with fence: pass` where the call of full_fence would take too long.
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
