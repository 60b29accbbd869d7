"""Restarted workers: how often they were started again, and hooks to run when one is back."""

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

# Keys of a launcher's store, without the prefix of a round or group. The first lists the workers
# that another worker has declared lost, one per line. The second is set when the launcher starts no
# worker again. The third, followed by a rank, is set when that worker has ended.
DECLARED_LOST = "fastdist/declared_lost"
NO_RESTARTS = "fastdist/no_restarts"
ENDED = "fastdist/ended/"

# The argument is an rpc.WorkerInfo, which this module must not import.
Hook = Callable[[Any], object]

# The number of restarts of this worker, from the store of its group.
_counted = 0

# Guards _hooks; it is not held while a hook runs.
_hooks_lock = threading.Lock()
_hooks: list[Hook] = []


def restart_count() -> int:
    """Return how often this worker has been restarted, alone or with its group; 0 in the first run.

    A launcher provides the number (FASTDIST_RESTART_COUNT, torchrun's TORCHELASTIC_RESTART_COUNT).
    Without a launcher, as in a Kubernetes Job, init_rpc reads the number from the store of a group
    that takes lost workers back. Until then the number is 0. If the launcher's number and the
    store's number differ, the larger one is returned.

    Raises  RendezvousError if a variable does not contain a number
    """
    return max(given_restart_count(), _counted)


def note_restarts(count: int) -> None:
    """Record the number of restarts from the store of this worker's group.

    Args:
        count: The number of restarts.
    """
    global _counted
    _counted = max(_counted, count)


def begin_life() -> None:
    """Reset counts and hooks as in a new process, because engines such as Ray reuse processes."""
    global _counted
    _counted = 0
    with _hooks_lock:
        _hooks.clear()


def on_restart(hook: Hook) -> Hook:
    """Register hook(worker_info), which is called for each worker that is back; return the hook.

    On a restarted worker, init_rpc calls the hook for the worker itself; the hook should load the
    state from which to continue. If the worker was restarted alone (`fastdist run
    --restart=worker`), the other workers call the hook as soon as they know its new incarnation.
    By then all RRefs, contexts and calls of the old incarnation are invalid on these workers.
    Register hooks before init_rpc. The function can be used as a decorator.

    Thread  any; on the other workers the hook runs on a thread of RPC
    Raises  TypeError if hook is not callable

    Args:
        hook: A function of the WorkerInfo of the worker that is back.
    """
    if not callable(hook):
        raise TypeError(f"hook is {hook!r}; expected a function of one argument, the worker")
    with _hooks_lock:
        _hooks.append(hook)
    return hook


def run_restart_hooks(worker_info: Any) -> None:
    """Call the registered hooks, in their order, for a worker that is back.

    Raises  the error of a hook after all hooks have run; several errors as one ExceptionGroup

    Args:
        worker_info: The worker that is back.
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
