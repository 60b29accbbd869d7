"""Launching compiled loops on one or several threads, and which thread pool does it.

Numba's OpenMP pool may be entered by several Python threads at once; its own `workqueue` pool, used
where no OpenMP library loads, aborts the process then, so it is entered under a lock. A child
forked after a launch inherits a pool without threads, in which OpenMP dies: its kernels run on one
thread.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import numba
import numpy as np
from numba.np.ufunc import parallel as _parallel

from fastdist.core.errors import ShapeError

from .compiler import Loop, entry_point
from .iteration import OVERLAP, run_alone, run_on_threads

Array = Any

_WORD: Final = numba.int64
_config: Any = numba.config
_pool: Any = _parallel


def _initial_threads() -> int:
    # OMP_NUM_THREADS is how launchers of several processes on one machine share out its cores.
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    most = int(_config.NUMBA_NUM_THREADS)
    return min(int(asked), most) if asked.isdigit() and int(asked) > 0 else most


class _Runners:
    """The two compiled runners, and what this process knows of its pool."""

    alone: Callable[..., int] | None = None
    on_threads: Callable[..., int] | None = None
    pool_lock: AbstractContextManager[Any] = nullcontext()
    threads: int = _initial_threads()
    # A forked child without the threads of the pool that it inherited.
    orphaned: bool = False
    # Held while the runners are compiled or loaded and the pool is chosen.
    start_lock = threading.Lock()


def get_num_threads() -> int:
    """Return how many threads one kernel may use."""
    return 1 if _Runners.orphaned else _Runners.threads


def set_num_threads(count: int) -> None:
    """Set how many threads one kernel may use, in the whole process.

    Raises  ValueError if count is not positive
    Note    more than Numba's pool has (NUMBA_NUM_THREADS, by default the cores) counts as that many
    """
    if count < 1:
        raise ValueError(f"set_num_threads expects a positive integer, got {count!r}")
    _Runners.threads = min(count, _config.NUMBA_NUM_THREADS)


def threading_layer() -> str:
    """Return the name of the pool that runs kernels: omp, tbb or workqueue. Starts it."""
    with _Runners.start_lock:
        _start_pool()
    return str(_pool.threading_layer())


def launcher(loop: Loop) -> Callable[[tuple[Array, ...]], None]:
    """Return the function that runs loop over operands, inputs first, which broadcast to the last
    one, the output.

    Thread  any, several at once; releases the GIL
    Raises  ShapeError if they do not broadcast
    """
    # Bound to names of the closure: looked up one by one they cost half of a short launch.
    address, sizes, share = loop.address, loop.sizes_address, loop.elements_per_thread
    two_shares, array_type, runners = 2 * share, np.ndarray, _Runners

    def launch(operands: tuple[Array, ...]) -> None:
        for operand in operands:
            # A NumPy scalar has a dtype and a shape as well, but not an array's memory.
            assert operand.__class__ is array_type or isinstance(operand, array_type), operand
        size = operand.size
        # Addresses instead of arrays: see Note [Reading array objects]. The tuple lives in this
        # frame until the call is over, the loop as long as this function.
        if size < two_shares or runners.threads < 2 or runners.orphaned:
            alone = runners.alone or _load_alone()
            status = alone(address, id(operands), len(operands), sizes)
        else:
            on_threads = runners.on_threads or _load_on_threads()
            threads = min(runners.threads, size // share)
            with runners.pool_lock:
                status = on_threads(address, id(operands), len(operands), sizes, threads)
        if status == OVERLAP:
            launch((*[array.copy() for array in operands[:-1]], operands[-1]))
        elif status:
            shapes = ", ".join(str(array.shape) for array in operands[:-1])
            raise ShapeError(f"{shapes} do not broadcast to the output's {operands[-1].shape}")

    launch.loop = loop  # type: ignore[attr-defined]
    return launch


def _load_alone() -> Callable[..., int]:
    with _Runners.start_lock:
        if _Runners.alone is None:
            _Runners.alone = entry_point(run_alone, (_WORD,) * 4)
        return _Runners.alone


def _load_on_threads() -> Callable[..., int]:
    with _Runners.start_lock:
        if _Runners.on_threads is None:
            _start_pool()
            if _pool.threading_layer() == "workqueue":
                _Runners.pool_lock = threading.Lock()
            _Runners.on_threads = entry_point(run_on_threads, (_WORD,) * 5)
        return _Runners.on_threads


def _start_pool() -> None:
    # omp before tbb, which Numba would take first: the fork rule below is made for omp. A user's
    # NUMBA_THREADING_LAYER stands above either.
    _config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]
    _pool._launch_threads()


# omp_pause_hard of omp.h
_PAUSE_HARD: Final = 2


def end_idle_threads() -> None:
    """End the threads that wait for this thread's launches; its next one starts others.

    Note    a fork copies none of them, and what they leave behind makes OpenMP die in the child
    """
    if _Runners.on_threads is None or _pool.threading_layer() != "omp":
        return
    # Found through what is linked to it: a process may hold the OpenMP of other packages as well.
    pause = getattr(
        ctypes.CDLL(sys.modules["numba.np.ufunc.omppool"].__file__), "omp_pause_resource_all", None
    )
    if pause is not None:  # of OpenMP 5
        pause(_PAUSE_HARD)


def _after_fork_in_child() -> None:
    # The lock may have been held by a thread that does not exist here.
    _Runners.start_lock = threading.Lock()
    _Runners.orphaned = _Runners.on_threads is not None


os.register_at_fork(after_in_child=_after_fork_in_child)
