"""The start method of worker processes: fork if it is safe, otherwise a fork server."""

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
# A forked child is ready in milliseconds and has everything that its parent has, including objects
# that cannot be pickled. But the child has only one thread. A lock that another thread of the
# parent held stays locked in the child forever. In the child, a thread pool, a ZeroMQ context or a
# CUDA driver waits for threads that do not exist. So a process forks only if it has no other thread
# at that moment. The operating system lists all threads, whichever library started them. Between
# two kernels, fastdist's own OpenMP and OpenBLAS threads are idle. These threads are ended before
# the check, and start again with the next large kernel.
#
# If the process has other threads, it starts a fork server before its first workers. The server
# imports fastdist once, forks workers on request, and lives as long as this process. Workers get
# their data from this process by pickle, and import the script again, as spawned processes do.
#
# A script without `if __name__ == "__main__":`, or a notebook, cannot be imported again, so a
# server's workers could not start. In this case a process forks although it has other threads, as
# PyTorch does on Linux, and warns. A tqdm progress bar is enough for this, as it starts a thread.
_PRELOADED = "fastdist.data.worker_process"
_KERNELS = "fastdist.kernels.cpu.jit.launch"
# Other threads count as permanent if they have been asleep for _PATIENCE_S. The check waits for
# this at most _MOST_PATIENCE_S. A joined thread stays in the system's list, in a state other than
# asleep, until a core has run its exit code: briefly, or longer on a busy machine.
_PATIENCE_S = 0.05
_MOST_PATIENCE_S = 0.5


def choose_start(given: Any, parts: Iterable[object] = ()) -> tuple[BaseContext, str]:
    """Return a multiprocessing context, and the reason why it does not fork ("" if it does).

    Args:
        given: The context that the program passed, which is used unchanged; or None.
        parts: The objects that the workers need: dataset and functions.

    Note    without `given`, "spawn" is used if the program selected it by set_start_method
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
    """Return why a new process cannot import `parts` from the script, or None if it can."""
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None:
        needed = (one for part in parts for one in (part, *getattr(part, "__dict__", {}).values()))
        return "the program is not a file" if any(map(_is_of_main, needed)) else None
    try:
        with open(path, "rb") as file:
            parsed = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return None  # the script is compiled or in an archive: new processes import it by name
    if any(isinstance(one, ast.If) and _reads_name(one.test) for one in parsed.body):
        return None
    return f"{os.path.basename(path)} has no `if __name__ == '__main__':`"


def _is_of_main(one: object) -> bool:
    return "__main__" in (getattr(one, "__module__", None), type(one).__module__)


def _reads_name(test: ast.expr) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(test))


def why_not_fork() -> str | None:
    """Return the reason why this process must not fork, or None.

    Source  Note [Fork, or a server]
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
    """Wait for threads that are ending; return how many other threads the system then lists."""
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
    """Return the state of each other thread, as the system reports it: "S" is asleep (proc(5))."""
    states = {}
    for thread in map(int, os.listdir("/proc/self/task")):
        if thread != threading.get_native_id():
            # If a thread has just ended, its file does not exist.
            with suppress(OSError), open(f"/proc/self/task/{thread}/stat", "rb") as file:
                # The state comes after the name, which may contain parentheses or invalid UTF-8.
                states[thread] = chr(file.read().rpartition(b") ")[2][0])
    return states


def _preload() -> None:
    server: Any = forkserver._forkserver
    # Replace only the default module list, which is the script itself: without a check of
    # `__name__`, the script would run in the server.
    if server._preload_modules == ["__main__"]:
        names = [_PRELOADED, *([_KERNELS] if _KERNELS in sys.modules else [])]
        forkserver.set_forkserver_preload(names)
