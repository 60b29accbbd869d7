"""A fork waits for other threads that import: in the child such a module would never be loaded."""

# Note [Forks and imports]
# Python locks a module while a thread imports it. A child that is forked meanwhile finds the lock
# held by a thread that it does not have, and its own import of that module waits forever. Kernels
# are imported at their first use, by whichever thread comes first, so that a fork looks for such
# imports and waits for their end. Imports of other packages are not looked at: a program may run
# for as long as it likes inside of one.

from __future__ import annotations

import os
import sys
import threading
import time
from types import FrameType
from typing import Final

_OURS: Final = ("fastdist", "numba", "llvmlite", "scipy", "numpy", "ml_dtypes")
_LOADER: Final = "<frozen importlib._bootstrap>"
# Numba takes 0.3 s on an idle machine.
_LONGEST_S: Final = 20.0
_LOOK_EACH_S: Final = 0.002


class Forks:
    """Whether another fork handler waits for imports, together with its own locks."""

    wait_elsewhere = False


def others_import() -> bool:
    """Return whether another thread imports one of our modules, or one that we import late."""
    mine = threading.get_ident()
    return any(_imports(frame) for thread, frame in sys._current_frames().items() if thread != mine)


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        code = frame.f_code
        if code.co_filename == _LOADER and code.co_name == "_find_and_load":
            name = str(frame.f_locals.get("name", ""))
            if name.partition(".")[0] in _OURS:
                return True
        frame = frame.f_back
    return False


def wait_for_imports(until: float | None = None) -> None:
    """Return when no other thread imports, or at a time of time.monotonic."""
    until = time.monotonic() + _LONGEST_S if until is None else until
    never = threading.Event()
    while others_import() and time.monotonic() < until:
        never.wait(_LOOK_EACH_S)  # lets them go on


def _before_fork() -> None:
    if not Forks.wait_elsewhere and threading.active_count() > 1:
        wait_for_imports()


os.register_at_fork(before=_before_fork)
