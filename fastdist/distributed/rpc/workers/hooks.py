"""Functions that programs register for a worker that is silent, is lost, or is back."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fastdist.distributed.restarts import run_restart_hooks

from .record import WorkerInfo
from .worker import Worker

_logger = logging.getLogger(__name__)

# Called by every agent, on a pool thread, with each worker that is lost or leaves.
lost_hooks: list[Callable[[Worker], None]] = []
# Called on a pool thread with each silent worker, and a description of its silence.
silence_hooks: list[Callable[[WorkerInfo, str], None]] = []


def add_silence_hook(hook: Callable[[WorkerInfo, str], None]) -> None:
    """Call hook(worker, why), on a pool thread, for each worker that does not answer.

    The worker may still come back. The hook is called after 3 s without a sign of life. Calls to
    the worker fail only after the time in the option `frozen_s`. The hook is also called for a
    process that is alive but whose Python has not answered for 60 s. Calls to such a process
    continue to wait.

    Args:
        hook: A function of a WorkerInfo and the reason as a string.

    Example:
        >>> rpc.add_silence_hook(lambda worker, why: print(worker.name, why))
    """
    silence_hooks.append(hook)


def tell_of_return(worker: WorkerInfo) -> None:
    """Notify the program that a worker is back, after the end of its former life was reported."""
    try:
        run_restart_hooks(worker)
    except Exception:  # users' code; an error in it does not keep the worker out
        _logger.exception("a hook of on_restart failed for worker %r", worker.name)
