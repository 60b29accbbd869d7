"""Launching compiled loops on one or several threads, and which thread pool does it.

Numba's OpenMP pool may be entered by several Python threads at once; its own `workqueue` pool, used
where no OpenMP library loads, aborts the process then, so it is entered under a lock. A child
forked after a launch inherits a pool without threads, in which OpenMP dies: its kernels run on one
thread.
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
from .kernel_cache import find_function
from .source_stamp import can_load_objects

Array = Any
# A compiler.Loop or a kernel_cache.FoundLoop.
Loop = Any


def _most_threads() -> int:
    """Return how many threads Numba's pool has: NUMBA_NUM_THREADS, by default the cores."""
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    is_plain = not asked or (asked.isdigit() and int(asked) > 0)
    if "numba" in sys.modules or not (is_plain and can_load_objects()):
        import numba

        config: Any = numba.config
        return int(config.NUMBA_NUM_THREADS)
    return int(asked) if asked else max(1, len(os.sched_getaffinity(0)))


def _initial_threads() -> int:
    # OMP_NUM_THREADS is how launchers of several processes on one machine share out its cores.
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    most = _most_threads()
    return min(int(asked), most) if asked.isdigit() and int(asked) > 0 else most


class _Pool:
    """The thread pool of this process."""

    # The address of the function that enters the pool, 0 until there is one.
    address: int = 0
    # The name of the pool, and the file of its library.
    layer: str = ""
    library: str = ""
    lock: AbstractContextManager[Any] = nullcontext()
    threads: int = _initial_threads()
    # A forked child without the threads of the pool that it inherited.
    orphaned: bool = False
    # Held while the pool is chosen.
    start_lock = threading.Lock()


def get_num_threads() -> int:
    """Return how many threads one kernel may use."""
    return 1 if _Pool.orphaned else _Pool.threads


def set_num_threads(count: int) -> None:
    """Set how many threads one kernel may use, in the whole process.

    Raises  ValueError if count is not positive
    Note    more than Numba's pool has (NUMBA_NUM_THREADS, by default the cores) counts as that many
    """
    if count < 1:
        raise ValueError(f"set_num_threads expects a positive integer, got {count!r}")
    _Pool.threads = min(count, _most_threads())


def threading_layer() -> str:
    """Return the name of the pool that runs kernels: omp, tbb or workqueue. Starts it."""
    _open_pool()
    return _Pool.layer


def pool() -> tuple[int, AbstractContextManager[Any]]:
    """Return the address of what enters the pool of threads, which is started for it, and what is
    held meanwhile.
    """
    return _Pool.address or _open_pool(), _Pool.lock


def launcher(loop: Loop) -> Callable[[tuple[Array, ...]], None]:
    """Return the function that runs loop over operands, inputs first, which broadcast to the last
    one, the output.

    Thread  any, several at once; releases the GIL
    Raises  ShapeError if they do not broadcast
    """
    run = _runner()
    # Bound to names of the closure: looked up one by one they cost half of a short launch.
    address, sizes, share = loop.address, loop.sizes_address, loop.elements_per_thread
    two_shares, array_type, pool = 2 * share, ARRAY, _Pool

    def launch(operands: tuple[Array, ...]) -> None:
        for operand in operands:
            # A NumPy scalar has a dtype and a shape as well, but not an array's memory.
            if type(operand) is not array_type:
                require_arrays(operand)
        size = operand.size
        # Addresses instead of arrays: see Note [Reading array objects]. The tuple lives in this
        # frame until the call is over, the loop as long as this function.
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
    """Return the function that runs a loop of row_code over a tuple of arrays in C order, which it
    does not check: (operands, rows, n, a, b). Its `alone`, of operands, rows and n, enters no pool.

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
        """Return a function that runs over so many rows, and its words: it takes their address and
        that of the tuple of operands. It uses threads only where they may pay. If it checks, it
        returns 1, and has done nothing, where the first operand is not an array, or is of a derived
        class; else its caller has checked that.
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
        if n:  # by which loops divide
            run(address, id(operands), rows, n, 0.0, 0.0, 1, 0)

    launch.alone = alone  # type: ignore[attr-defined]
    return launch


_Shares: Final = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)


def share_out(work: Callable[[range], None], count: int, threads: int) -> None:
    """Call work for ranges that make up 0 to count, on so many threads of the pool.

    Exceptions of work are raised here. It must not enter a pool, and pays where most of its time
    goes into code that releases the GIL. Python's own threads would wait for cores on which those
    of the pool still spin after a launch.
    """
    failed: list[BaseException] = []

    def run(words: int, shares: int) -> None:
        try:
            first = ctypes.c_int64.from_address(words + 8).value
            work(range(first, first + shares))
        except BaseException as error:  # raised below, in the thread that asked for the work
            failed.append(error)

    loop = _Shares(run)
    # Not by ctypes.cast, after which loop would hold itself, and with it all that work sees.
    address = ctypes.c_void_p.from_buffer(loop).value
    enter, lock = pool()
    # A KeyboardInterrupt between the two functions would be lost: ctypes prints and forgets it.
    with interrupt_held(), lock:
        _row_runner()(address, 0, count, 0, 0.0, 0.0, threads, enter)
    if failed:
        raise failed[0]


@functools.cache
def _row_runner() -> Callable[..., None]:
    return find_function("jit.row_loops", "runner")


@functools.cache
def _job_runner() -> Callable[[int, int], None]:
    return find_function("jit.row_loops", "job_runner")


@functools.cache
def _checked_runner() -> Callable[[int, int], int]:
    return find_function("jit.row_loops", "checked_runner")


@functools.cache
def _runner() -> Callable[..., int]:
    return find_function("jit.iteration", "runner")


def _open_pool() -> int:
    with _Pool.start_lock:
        if not _Pool.address:
            # omp before tbb, which Numba would take first: the fork rule below is made for omp. A
            # user's NUMBA_THREADING_LAYER stands above either.
            is_free = os.environ.get("NUMBA_THREADING_LAYER", "default") in ("default", "omp")
            if not (is_free and can_load_objects() and _start_omp()):
                _start_pool_of_numba()
            if _Pool.layer == "workqueue":
                _Pool.lock = threading.Lock()
        return _Pool.address


def _start_omp() -> bool:
    """Start Numba's OpenMP pool without Numba; return False where its library does not load.

    Note    Numba, if it comes later, loads the same library, and says how many threads it has
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
        return False  # there is no libgomp, or no such file
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


# omp_pause_hard of omp.h
_PAUSE_HARD: Final = 2


def end_idle_threads() -> None:
    """End the threads that wait for this thread's launches; its next one starts others.

    Note    a fork copies none of them, and what they leave behind makes OpenMP die in the child
    """
    if not _Pool.address or _Pool.layer != "omp":
        return
    # Found through what is linked to it: a process may hold the OpenMP of other packages as well.
    pause = getattr(ctypes.CDLL(_Pool.library), "omp_pause_resource_all", None)
    if pause is not None:  # of OpenMP 5
        pause(_PAUSE_HARD)


def _after_fork_in_child() -> None:
    # The lock may have been held by a thread that does not exist here.
    _Pool.start_lock = threading.Lock()
    _Pool.orphaned = _Pool.address != 0


os.register_at_fork(after_in_child=_after_fork_in_child)
