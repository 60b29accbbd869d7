"""Makes forks wait for imports in other threads, which a forked child could never finish."""

# Note [Forks and imports]
# Python locks a module while a thread imports it. A child that is forked during the import inherits
# the held lock, but not the thread that would release it. So an import of that module in the child
# waits forever. Any thread may import kernels, at their first use. So before a fork, fastdist waits
# until no other thread imports a module of _OURS. Imports of other packages are ignored, because a
# program may run for any length of time inside of such an import.

from __future__ import annotations

import os
import sys
import threading
import time
from types import FrameType
from typing import Final

_OURS: Final = ("fastdist", "numba", "llvmlite", "scipy", "numpy", "ml_dtypes")
_LOADER: Final = "<frozen importlib._bootstrap>"
# The longest wait. Importing Numba takes 0.3 s on an idle machine.
_LONGEST_S: Final = 20.0
_LOOK_EACH_S: Final = 0.002


class Forks:
    """A flag: whether another fork handler waits for imports, in addition to its own locks."""

    wait_elsewhere = False


def others_import() -> bool:
    """Return whether another thread is importing a module of one of the packages in _OURS."""
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
    """Wait while `others_import()`, at most until the time `until` of time.monotonic()."""
    until = time.monotonic() + _LONGEST_S if until is None else until
    never = threading.Event()
    while others_import() and time.monotonic() < until:
        never.wait(_LOOK_EACH_S)  # releases the interpreter lock


def _before_fork() -> None:
    if not Forks.wait_elsewhere and threading.active_count() > 1:
        wait_for_imports()


os.register_at_fork(before=_before_fork)
