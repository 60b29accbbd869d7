"""How worker processes start: forked where nothing forbids it, by a server that forks otherwise."""

from __future__ import annotations

import ast
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from typing import Any

from ..core.caller_warning import warn_caller
from ..core.short_repr import short_repr
from ..namespace.threads import end_idle_threads

# Note [Fork, or a server]
# A forked child is ready in milliseconds and has everything that its parent has, also objects that
# do not pickle. But it has only one thread: a lock that another thread held stays locked forever,
# and a pool without its threads, a ZeroMQ context or a CUDA driver waits for them. So a process
# forks if it has no other thread at that moment, which the system reports: it does not matter which
# library might have started some. The threads of OpenMP and OpenBLAS, which fastdist itself starts
# and which wait between two kernels, are ended before the check, and start again with the next
# large kernel.
#
# Otherwise the first workers start a server, a process that imports fastdist once and forks on
# request; it lives as long as this process. Its children get their data from here, so that must
# pickle, and they import the script again, as spawned processes do.
#
# A script without a guard, and a notebook, cannot be imported again: no worker of a server would
# start. There a process with other threads forks after all, as PyTorch does on Linux, and warns. A
# progress bar of tqdm is enough to have another thread.
_PRELOADED = "fastdist.data.worker_process"
_KERNELS = "fastdist.kernels.cpu.jit.launch"
# How long others may be asleep, and be there at all, until they count as there to stay. A thread
# that has been joined is in the system's list until it has a core to end on: for a moment, or, on a
# busy machine, longer. It is not asleep meanwhile.
_PATIENCE_S = 0.05
_MOST_PATIENCE_S = 0.5


def choose_start(given: Any, parts: Iterable[object] = ()) -> tuple[BaseContext, str]:
    """Return a context of multiprocessing, and in words why it does not fork, if it does not.

    Args:
        parts: what the workers need: the dataset and functions

    Note    a context that was given stands, and so does a "spawn" of set_start_method
    """
    if given is not None:
        if given.get_start_method() == "forkserver":
            _preload()
        elif given.get_start_method() == "fork":
            end_idle_threads()
        return given, f"multiprocessing_context={short_repr(given.get_start_method())} was given"
    if multiprocessing.get_start_method(allow_none=True) == "spawn":
        return multiprocessing.get_context("spawn"), "the start method of this process is 'spawn'"
    reason = why_not_fork()
    if reason is None:
        return multiprocessing.get_context("fork"), ""
    if sys.platform == "linux" and (obstacle := _why_not_import_main(parts)):
        warn_caller(
            f"DataLoader forks its workers although {reason}: {obstacle}, which new processes "
            "would import. A lock that another thread holds at the moment of the fork stays locked "
            "in a worker. Put the program's work into a script, under `if __name__ == "
            "'__main__':`, or pass multiprocessing_context='fork', which does not warn",
            once=True,
        )
        end_idle_threads()
        return multiprocessing.get_context("fork"), ""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn"), reason
    _preload()
    return multiprocessing.get_context("forkserver"), reason


def _why_not_import_main(parts: Iterable[object]) -> str | None:
    """Return why a new process cannot get these from the program without running it, or None."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None:
        needed = (one for part in parts for one in (part, *getattr(part, "__dict__", {}).values()))
        return "the program is not a file" if any(map(_is_of_main, needed)) else None
    try:
        with open(path, "rb") as file:
            parsed = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return None  # compiled, or of an archive: new processes import it by its name
    if any(isinstance(one, ast.If) and _reads_name(one.test) for one in parsed.body):
        return None
    return f"{os.path.basename(path)} has no `if __name__ == '__main__':`"


def _is_of_main(one: object) -> bool:
    return "__main__" in (getattr(one, "__module__", None), type(one).__module__)


def _reads_name(test: ast.expr) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(test))


def why_not_fork() -> str | None:
    """Return the reason for which this process must not fork, or None.

    Source  see Note [Fork, or a server]
    """
    if sys.platform != "linux":
        return f"a fork is not safe on {sys.platform}"
    others = [thread.name for thread in threading.enumerate()]
    others.remove(threading.current_thread().name)
    if others:
        return f"this process has other threads ({', '.join(others)})"
    end_idle_threads()
    if count := _count_others():
        return f"libraries in this process run their own threads ({count})"
    return None


def _count_others() -> int:
    """Return how many other threads the system knows, once those that are ending have ended."""
    now = time.monotonic()
    asleep_until, latest = now + _PATIENCE_S, now + _MOST_PATIENCE_S
    while states := _states_of_others():
        now = time.monotonic()
        if any(state != "S" for state in states.values()):
            asleep_until = now + _PATIENCE_S
        if now >= min(asleep_until, latest):
            break
        os.sched_yield()
    return len(states)


def _states_of_others() -> dict[int, str]:
    """Return the system's state of each other thread: S if it is asleep, see proc(5)."""
    states = {}
    for thread in map(int, os.listdir("/proc/self/task")):
        if thread != threading.get_native_id():
            # One that has ended by now is not there.
            with suppress(OSError), open(f"/proc/self/task/{thread}/stat", "rb") as file:
                # A thread's name, before it, may hold parentheses, and what is no UTF-8.
                states[thread] = chr(file.read().rpartition(b") ")[2][0])
    return states


def _preload() -> None:
    server: Any = forkserver._forkserver
    # Where nobody has said what to load. Not the script, the default: one that is not guarded would
    # run in the server.
    if server._preload_modules == ["__main__"]:
        names = [_PRELOADED, *([_KERNELS] if _KERNELS in sys.modules else [])]
        forkserver.set_forkserver_preload(names)
