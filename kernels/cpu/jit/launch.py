"""Runs compiled loops on one or several threads, and chooses the thread pool.

Several Python threads may use Numba's OpenMP pool at the same time. Where no OpenMP library can be
loaded, Numba's own `workqueue` pool is used. It would abort the process if two threads used it at
the same time, so a lock protects it. A child that is forked after a launch inherits a pool without
threads, in which OpenMP would crash. Such a child runs kernels on one thread.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import importlib.util
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import numpy as np

from fastdist.core.errors import ShapeError
from fastdist.system.held_interrupt import interrupt_held

from .array_objects import ARRAY, OVERLAP, require_arrays
from .kernel_cache import find_function, stored_function
from .source_stamp import can_load_objects

Array = Any
# A compiler.Loop or a kernel_cache.FoundLoop.
Loop = Any


def _most_threads() -> int:
    """Return the size of Numba's pool: NUMBA_NUM_THREADS, by default the number of cores."""
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    is_plain = not asked or (asked.isdigit() and int(asked) > 0)
    if "numba" in sys.modules or not (is_plain and can_load_objects()):
        import numba

        config: Any = numba.config
        return int(config.NUMBA_NUM_THREADS)
    return int(asked) if asked else max(1, len(os.sched_getaffinity(0)))


def _initial_threads() -> int:
    # Launchers set OMP_NUM_THREADS to divide a machine's cores among several processes.
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    most = _most_threads()
    return min(int(asked), most) if asked.isdigit() and int(asked) > 0 else most


class _Pool:
    """The thread pool of this process."""

    # The address of the function that runs work on the pool; 0 before the pool is started.
    address: int = 0
    # The name of the pool, and the file of its library.
    layer: str = ""
    library: str = ""
    lock: AbstractContextManager[Any] = nullcontext()
    threads: int = _initial_threads()
    # True in a forked child: the pool's threads exist only in the parent.
    orphaned: bool = False
    # Held while the pool is chosen and started.
    start_lock = threading.Lock()


def get_num_threads() -> int:
    """Return the number of threads that one kernel may use."""
    return 1 if _Pool.orphaned else _Pool.threads


def set_num_threads(count: int) -> None:
    """Set the number of threads that one kernel may use, for the whole process.

    Raises  ValueError if count is not positive
    Note    a count above the size of Numba's pool (NUMBA_NUM_THREADS, by default the number of
            cores) is reduced to this size
    """
    if count < 1:
        raise ValueError(f"set_num_threads expects a positive integer, got {count!r}")
    _Pool.threads = min(count, _most_threads())


def threading_layer() -> str:
    """Start the pool that runs kernels, and return its name: omp, tbb or workqueue."""
    _open_pool()
    return _Pool.layer


def pool() -> tuple[int, AbstractContextManager[Any]]:
    """Start the thread pool if needed. Return the address of the function that runs work on it, and
    a lock that must be held while this function is called.
    """
    return _Pool.address or _open_pool(), _Pool.lock


def launcher(loop: Loop) -> Callable[[tuple[Array, ...]], None]:
    """Return the function that runs `loop` over operands. The inputs come first; they broadcast to
    the last operand, the output.

    Thread  any, several at once; releases the GIL
    Raises  ShapeError if an input does not broadcast
    """
    run = _runner()
    # Local names, because looking up attributes would take half the time of a short launch.
    address, sizes, share = loop.address, loop.sizes_address, loop.elements_per_thread
    two_shares, array_type, pool = 2 * share, ARRAY, _Pool

    def launch(operands: tuple[Array, ...]) -> None:
        for operand in operands:
            # A NumPy scalar has a dtype and a shape as well, but no array memory.
            if type(operand) is not array_type:
                require_arrays(operand)
        size = operand.size
        # Pass addresses instead of arrays: see Note [Reading array objects]. The tuple lives in
        # this frame until the call returns; the loop lives as long as this function.
        if size < two_shares or pool.threads < 2 or pool.orphaned:
            status = run(address, id(operands), len(operands), sizes, 1, 0)
        else:
            enter = pool.address or _open_pool()
            threads = min(pool.threads, size // share)
            with pool.lock:
                status = run(address, id(operands), len(operands), sizes, threads, enter)
        if status == OVERLAP:
            launch((*[array.copy() for array in operands[:-1]], operands[-1]))
        elif status:
            shapes = ", ".join(str(array.shape) for array in operands[:-1])
            raise ShapeError(f"{shapes} do not broadcast to the output's {operands[-1].shape}")

    launch.loop = loop  # type: ignore[attr-defined]
    return launch


def row_launcher(loop: Loop) -> Callable[..., None]:
    """Return the function of (operands, rows, n, a, b) that runs a loop of row_code. The operands
    are a tuple of arrays in C order; their order is not checked. The returned function's attribute
    `alone` is a function of (operands, rows, n) that uses no thread pool.

    Thread  any, several at once; releases the GIL
    """
    run = _row_runner()
    address, share, pool = loop.address, loop.elements_per_thread, _Pool
    two_shares, array_type = 2 * share, ARRAY

    def launch(operands: tuple[Array, ...], rows: int, n: int, a: float, b: float) -> None:
        for operand in operands:
            if type(operand) is not array_type:
                require_arrays(operand)
        by_address(id(operands), rows, n, a, b)

    def by_address(operands: int, rows: int, n: int, a: float, b: float) -> None:
        if rows * n < two_shares or rows < 2 or pool.threads < 2 or pool.orphaned:
            run(address, operands, rows, n, a, b, 1, 0)
            return
        enter = pool.address or _open_pool()
        threads = min(pool.threads, rows, rows * n // share)
        with pool.lock:
            run(address, operands, rows, n, a, b, threads, enter)

    def prepare(
        rows: int, n: int, a: float, b: float, *, checks: bool = False
    ) -> tuple[Callable[[int, int], int | None], Array]:
        """Return a function for `rows` rows, and an array of words. The function takes the
        addresses of the words and of the tuple of operands. It uses threads only for many elements.
        With `checks`, it does not run the loop for operands that are not plain arrays: it returns 1
        or, if it uses threads, raises TypeError. Without `checks`, the caller checks the operands.
        """
        words = np.array([address, rows, n, 0, 0, id(array_type)])
        words[3:5].view(np.float64)[:] = a, b
        if rows * n < two_shares or rows < 2:
            return _checked_runner() if checks else _job_runner(), words

        def on_threads(job: int, operands: int) -> None:
            if checks:
                require_arrays(*ctypes.cast(operands, ctypes.py_object).value)
            by_address(operands, rows, n, a, b)

        return on_threads, words

    launch.prepare = prepare  # type: ignore[attr-defined]

    def alone(operands: tuple[Array, ...], rows: int, n: int) -> None:
        for operand in operands:
            if type(operand) is not array_type:
                require_arrays(operand)
        if n:  # loops divide by n
            run(address, id(operands), rows, n, 0.0, 0.0, 1, 0)

    launch.alone = alone  # type: ignore[attr-defined]
    return launch


_Shares: Final = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)


def share_out(work: Callable[[range], None], count: int, threads: int) -> None:
    """Call `work` for ranges that make up 0 to `count`, on `threads` threads of the pool.

    An exception in `work` is raised here. `work` must not use a pool itself. Several threads save
    time only if `work` spends most of its time in code that releases the GIL. The pool is used
    because new Python threads would have to wait for the cores on which the pool's threads still
    spin after a launch.
    """
    failed: list[BaseException] = []

    def run(words: int, shares: int) -> None:
        try:
            first = ctypes.c_int64.from_address(words + 8).value
            work(range(first, first + shares))
        except BaseException as error:  # raised below, in the calling thread
            failed.append(error)

    loop = _Shares(run)
    # ctypes.cast would create a reference cycle that keeps loop, and all objects of work, alive.
    address = ctypes.c_void_p.from_buffer(loop).value
    enter, lock = pool()
    # In the callback, ctypes would print and drop a KeyboardInterrupt, so it is delayed.
    with interrupt_held(), lock:
        _row_runner()(address, 0, count, 0, 0.0, 0.0, threads, enter)
    if failed:
        raise failed[0]


def are_row_runners_stored() -> bool:
    """Return whether a stored loop over rows can be run without a compiler."""
    return None not in [stored_function(*one) for one in (_RUNNER, _JOB_RUNNER, _CHECKED_RUNNER)]


_RUNNER: Final = ("jit.row_loops", "runner")
_JOB_RUNNER: Final = ("jit.row_loops", "job_runner")
_CHECKED_RUNNER: Final = ("jit.row_loops", "checked_runner")


@functools.cache
def _row_runner() -> Callable[..., None]:
    return find_function(*_RUNNER)


@functools.cache
def _job_runner() -> Callable[[int, int], None]:
    return find_function(*_JOB_RUNNER)


@functools.cache
def _checked_runner() -> Callable[[int, int], int]:
    return find_function(*_CHECKED_RUNNER)


@functools.cache
def _runner() -> Callable[..., int]:
    return find_function("jit.iteration", "runner")


def _open_pool() -> int:
    with _Pool.start_lock:
        if not _Pool.address:
            # Prefer omp to tbb, which Numba would try first, because the rule for forks is made for
            # omp. A user's NUMBA_THREADING_LAYER has priority.
            is_free = os.environ.get("NUMBA_THREADING_LAYER", "default") in ("default", "omp")
            if not (is_free and can_load_objects() and _start_omp()):
                _start_pool_of_numba()
            if _Pool.layer == "workqueue":
                _Pool.lock = threading.Lock()
        return _Pool.address


def _start_omp() -> bool:
    """Start Numba's OpenMP pool without importing Numba; return False if its library cannot be
    loaded.

    Note    if Numba is imported later, it loads the same library, with the same number of threads
    """
    spec = importlib.util.find_spec("numba")
    if spec is None or not spec.submodule_search_locations:
        return False
    [suffix, *_] = importlib.machinery.EXTENSION_SUFFIXES
    path = os.path.join(spec.submodule_search_locations[0], "np", "ufunc", f"omppool{suffix}")
    loader = importlib.machinery.ExtensionFileLoader("omppool", path)
    found = importlib.util.spec_from_loader("omppool", loader)
    assert found is not None
    try:
        library: Any = importlib.util.module_from_spec(found)
        loader.exec_module(library)
    except ImportError:
        return False  # libgomp or the file is missing
    for name in ("launch_threads", "set_num_threads"):
        ctypes.CFUNCTYPE(None, ctypes.c_int)(getattr(library, name))(_most_threads())
    _Pool.layer, _Pool.library, _Pool.address = "omp", path, library.parallel_for
    return True


def _start_pool_of_numba() -> None:
    import llvmlite.binding  # type: ignore[import-untyped]
    import numba
    from numba.np.ufunc import parallel

    config: Any = numba.config
    its_pool: Any = parallel
    config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]
    its_pool._launch_threads()
    _Pool.layer = str(its_pool.threading_layer())
    if _Pool.layer == "omp":
        _Pool.library = str(sys.modules["numba.np.ufunc.omppool"].__file__)
    _Pool.address = llvmlite.binding.address_of_symbol("numba_parallel_for")


# The constant omp_pause_hard in omp.h.
_PAUSE_HARD: Final = 2


def end_idle_threads() -> None:
    """End the idle OpenMP threads of the calling thread; its next launch starts new ones.

    Note    a fork does not copy these threads, and OpenMP would crash in the child because of their
            state
    """
    if not _Pool.address or _Pool.layer != "omp":
        return
    # The pool's own library is used, because the process may have loaded other OpenMP libraries.
    pause = getattr(ctypes.CDLL(_Pool.library), "omp_pause_resource_all", None)
    if pause is not None:  # the function exists since OpenMP 5
        pause(_PAUSE_HARD)


def _after_fork_in_child() -> None:
    # Another thread, which does not exist here, may have held the lock.
    _Pool.start_lock = threading.Lock()
    _Pool.orphaned = _Pool.address != 0


os.register_at_fork(after_in_child=_after_fork_in_child)
