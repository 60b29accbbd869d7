"""Compiling in the background while NumPy computes: FASTDIST_START=numpy, opt-in.

One thread compiles kernels in the order in which they were first requested, and ends when the queue
is empty.
"""

# Note [NumPy until then] The results of NumPy and Numba are both correct, and agree within
# rounding. But the time at which the compiler is done determines which of the two computes a call,
# so two runs of a program differ in the last bits. Therefore users must opt in. The option works
# for pointwise kernels, for kernels along rows (numpy_rows.py: sums, extremes, softmax, norms,
# cross entropy), and for code that calls is_numpys_turn and can compute with NumPy: optimizer
# steps, matrix products in panels, attention, convolutions, pools, batch norm, recurrent layers,
# gather, scatter, running extremes, random draws, sparse sums, CTC. A call of any other kernel
# (steps by gradients of few rows, and unusual layouts) waits until the compiler has finished its
# current kernel, and then until the kernel of the call is compiled, before the kernels in the
# queue.

from __future__ import annotations

import atexit
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import ClassVar

from fastdist.core.errors import DeviceError
from fastdist.system.unused_memory import release_unused_memory

from .machine_code import can_execute
from .waiting import compiling_for_nobody

VARIABLE = "FASTDIST_START"


@functools.cache
def numpy_serves() -> bool:
    """Return whether NumPy computes while kernels are compiled in the background.

    Raises  DeviceError if FASTDIST_START is set to anything but numpy
    """
    given = os.environ.get(VARIABLE, "")
    if given not in ("", "numpy"):
        raise DeviceError(f"{VARIABLE} is {given!r}; expected numpy, or not to be set")
    return given == "numpy"


class _State:
    # Guards the attributes below; no other lock is taken while it is held.
    lock = threading.Lock()
    wanted: ClassVar[deque[tuple[Hashable, Callable[[], object]]]] = deque()
    # The keys that are queued or being compiled, and the errors of keys whose kernel failed to
    # compile.
    keys: ClassVar[set[Hashable]] = set()
    errors: ClassVar[dict[Hashable, BaseException]] = {}
    # The (find, given) pairs of is_numpys_turn whose kernels are ready.
    found: ClassVar[set[Hashable]] = set()
    thread: threading.Thread | None = None
    has_released = False


def compile_later(key: Hashable, compile_it: Callable[[], object]) -> None:
    """Let the background thread call compile_it, unless the key is queued already, or the system
    does not let compiled code run.

    Thread  any
    Raises  the error of an earlier compile_it of this key, once; the next call queues the key again
    """
    if not can_execute():
        return
    with _State.lock:
        error = _State.errors.pop(key, None)
        if error is None and key not in _State.keys:
            _State.keys.add(key)
            _State.wanted.append((key, compile_it))
            if _State.thread is None:
                # A daemon, so that Python does not wait for the whole queue at exit: _end waits for
                # one kernel.
                thread = threading.Thread(target=_work, name="fastdist-compiler", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    # There are too many threads, or the interpreter is shutting down: a later call
                    # tries again.
                    _State.wanted.clear()
                    _State.keys.clear()
                else:
                    _State.thread = thread
    if error is not None:
        raise error


def is_numpys_turn(find: Callable[..., object], *given: Hashable) -> bool:
    """Return whether NumPy must compute instead of the kernel that find(*given) returns.

    NumPy must compute if FASTDIST_START=numpy is set, until the background thread has called find,
    which compiles and caches the kernel.

    Thread  any
    Raises  the error of find, once
    """
    if not numpy_serves():
        return False
    key = (find, given)
    if key in _State.found:
        return False

    def compile_it() -> None:
        find(*given)
        _State.found.add(key)

    compile_later(key, compile_it)
    return True


def _work() -> None:
    while True:
        with _State.lock:
            if not (_State.wanted or _State.has_released):
                # Tensors reuse the memory that the first kernels used, so release it only once;
                # and here, because _end waits for what is in the queue.
                _State.has_released = True
                _State.wanted.append((None, release_unused_memory))
            if not _State.wanted:
                _State.thread = None
                return
            key, compile_it = _State.wanted.popleft()
        error: BaseException | None = None
        try:
            with compiling_for_nobody():
                compile_it()
        except BaseException as raised:  # the next call of compile_later raises this
            error = raised
        with _State.lock:
            _State.keys.discard(key)
            if error is not None:
                _State.errors[key] = error


@atexit.register
def _end() -> None:
    """At exit, wait for the kernel that is being compiled, so that it is stored. Drop the queue."""
    with _State.lock:
        _State.wanted.clear()
        thread = _State.thread
    if thread is not None:
        thread.join()


def _after_fork_in_child() -> None:
    # The child does not have the compiler thread. A fork waits for the kernel that is being
    # compiled, see waiting.py. The next calls request the kernels of the queue again.
    _State.lock = threading.Lock()
    _State.wanted, _State.keys, _State.thread = deque(), set(), None


os.register_at_fork(after_in_child=_after_fork_in_child)
