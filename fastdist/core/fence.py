"""A fence for memory that two processes share, out of what Python has."""

from __future__ import annotations

import threading

# Nothing is guarded by it: to take and release any lock keeps the processor from moving a read
# before the writes that precede it. `with fence: pass` is for where a call would cost more.
fence = threading.Lock()


def full_fence() -> None:
    """Let other processors see what was written before what comes next is read."""
    with fence:
        pass
