"""Makes forks wait for imports in other threads, because the child could never finish these."""

# Note [Forks and imports]
# Python locks a module while a thread imports it. A child that is forked meanwhile inherits the
# lock without the thread that holds it, so its own import of that module waits forever. Kernels are
# imported at first use, by any thread. So a fork checks for such imports and waits until they end.
# Imports of other packages are ignored, because a program may run for any length of time inside of
# such an import.

from __future__ import annotations

import os
import sys
import threading
import time
from types import FrameType
from typing import Final

_OURS: Final = ("fastdist", "numba", "llvmlite", "scipy", "numpy", "ml_dtypes")
_LOADER: Final = "<frozen importlib._bootstrap>"
# Importing Numba takes 0.3 s on an idle machine.
_LONGEST_S: Final = 20.0
_LOOK_EACH_S: Final = 0.002


class Forks:
    """A flag: whether another fork handler waits for imports, together with its own locks."""

    wait_elsewhere = False


def others_import() -> bool:
    """Return whether another thread imports a fastdist module, or a package imported late."""
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
    """Wait until no other thread imports, or until a time of time.monotonic."""
    until = time.monotonic() + _LONGEST_S if until is None else until
    never = threading.Event()
    while others_import() and time.monotonic() < until:
        never.wait(_LOOK_EACH_S)  # releases the interpreter lock


def _before_fork() -> None:
    if not Forks.wait_elsewhere and threading.active_count() > 1:
        wait_for_imports()


os.register_at_fork(before=_before_fork)
