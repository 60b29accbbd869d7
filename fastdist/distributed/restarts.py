"""Workers that were started again: how often, and what a program wants done when one is back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..core.missing import show_public
from .store.environment import may_workers_return
from .store.environment import restart_count as given_restart_count

__all__ = [
    "begin_life",
    "may_workers_return",
    "note_restarts",
    "on_restart",
    "restart_count",
    "run_restart_hooks",
]

# Keys of a launcher's store, under no prefix of a round or group. The first holds a line for each
# worker that another has declared lost, the second is set once the launcher starts nobody again,
# and the third, with a rank behind it, once that worker has ended.
DECLARED_LOST = "fastdist/declared_lost"
NO_RESTARTS = "fastdist/no_restarts"
ENDED = "fastdist/ended/"

# An rpc.WorkerInfo, which this room is too low to know.
Hook = Callable[[Any], object]

# How often this worker was started again, as far as the store of its group has told.
_counted = 0

# Guards the list; no hook runs while it is held.
_hooks_lock = threading.Lock()
_hooks: list[Hook] = []


def restart_count() -> int:
    """Return how often this worker has been started again, with its group or alone; 0 at first.

    A launcher gives the number (FASTDIST_RESTART_COUNT, torchrun's TORCHELASTIC_RESTART_COUNT).
    Where none does, as in a Kubernetes Job, init_rpc finds it in the store of the group, if that
    takes lost workers back; it is 0 before. The larger of the two numbers counts.

    Raises  RendezvousError if a variable does not hold a number
    """
    return max(given_restart_count(), _counted)


def note_restarts(count: int) -> None:
    """Note how often this worker was started again, as the store of its group tells."""
    global _counted
    _counted = max(_counted, count)


def begin_life() -> None:
    """Forget starts and hooks, as in a new process: engines use processes again."""
    global _counted
    _counted = 0
    with _hooks_lock:
        _hooks.clear()


def on_restart(hook: Hook) -> Hook:
    """Have hook(worker_info) called for each worker that is back after a restart; return hook.

    A worker that was started again has it called for itself, by the init_rpc that it joins with:
    the place to load what it has to go on from. Where it came back alone (`fastdist run
    --restart=worker`), the others have it called for it, as soon as they know of its new life: what
    they kept of the old one (RRefs, contexts, calls) is gone. Register hooks before init_rpc. It
    can be written as a decorator.

    Thread  any; in the others the hook runs on a thread of RPC's
    Raises  TypeError if hook cannot be called
    """
    if not callable(hook):
        raise TypeError(f"hook is {hook!r}; expected a function of one argument, the worker")
    with _hooks_lock:
        _hooks.append(hook)
    return hook


def run_restart_hooks(worker_info: Any) -> None:
    """Call the hooks that were registered, in their order, for a worker that is back.

    Raises  what a hook raises, once all have run; several errors as one ExceptionGroup
    """
    with _hooks_lock:
        hooks = list(_hooks)
    errors: list[Exception] = []
    for hook in hooks:
        try:
            hook(worker_info)
        except Exception as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup(f"hooks of on_restart failed for {worker_info!r}", errors)


show_public(__name__)
