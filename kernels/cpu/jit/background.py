"""Compiling while NumPy serves: FASTDIST_START=numpy, for programs that must not wait.

One thread compiles, in the order in which kernels were first wanted, and ends when none is left.
"""

# Note [NumPy until then] Both sides compute right results, and they agree within rounding; but the
# side that serves a call depends on when the compiler is done, so two runs of a program differ in
# the last bits. That is why users must opt in. It works for pointwise kernels, for those along rows
# (numpy_rows.py: sums, extremes, softmax, norms, cross entropy), and for code that calls
# is_numpys_turn and has an alternative: steps of optimisers, products in panels, attention,
# convolutions, pools, batch norm, recurrent layers, gather, scatter, running extremes, draws,
# sparse sums, CTC. Others (steps by gradients of few rows, and unusual layouts) wait for the kernel
# under way and for their own; these come before the kernels that the thread has yet to compile.

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

from .waiting import compiling_for_nobody

VARIABLE = "FASTDIST_START"


@functools.cache
def numpy_serves() -> bool:
    """Say whether NumPy is to serve while the compiler is busy.

    Raises  DeviceError if FASTDIST_START is set to anything but numpy
    """
    given = os.environ.get(VARIABLE, "")
    if given not in ("", "numpy"):
        raise DeviceError(f"{VARIABLE} is {given!r}; expected numpy, or not to be set")
    return given == "numpy"


class _State:
    # Guards what is below; nothing is taken while it is held.
    lock = threading.Lock()
    wanted: ClassVar[deque[tuple[Hashable, Callable[[], object]]]] = deque()
    # Those wanted or under way, and what those that failed raised.
    keys: ClassVar[set[Hashable]] = set()
    errors: ClassVar[dict[Hashable, BaseException]] = {}
    # Arguments of is_numpys_turn whose kernels are ready.
    found: ClassVar[set[Hashable]] = set()
    thread: threading.Thread | None = None


def compile_later(key: Hashable, compile_it: Callable[[], object]) -> None:
    """Have the thread call compile_it, unless the key is queued already.

    Thread  any
    Raises  what compile_it raised, once; the next call has it tried again
    """
    with _State.lock:
        error = _State.errors.pop(key, None)
        if error is None and key not in _State.keys:
            _State.keys.add(key)
            _State.wanted.append((key, compile_it))
            if _State.thread is None:
                # Not joined by Python at its end, but by _end, which lets it do no more.
                thread = threading.Thread(target=_work, name="fastdist-compiler", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    # Too many threads, or the interpreter ends: a later call tries again.
                    _State.wanted.clear()
                    _State.keys.clear()
                else:
                    _State.thread = thread
    if error is not None:
        raise error


def is_numpys_turn(find: Callable[..., object], *given: Hashable) -> bool:
    """Return whether NumPy must compute in place of the kernel that find(*given) returns.

    It must if NumPy may serve (FASTDIST_START=numpy), until the background thread has called find,
    which compiles the kernel and caches it.

    Thread  any
    Raises  what find raised, once
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
            is_done = not _State.wanted
            if is_done:
                _State.thread = None
            else:
                key, compile_it = _State.wanted.popleft()
        if is_done:
            _release_once()
            return
        error: BaseException | None = None
        try:
            with compiling_for_nobody():
                compile_it()
        except BaseException as raised:  # a thread has nobody to raise to: the next call has
            error = raised
        with _State.lock:
            _State.keys.discard(key)
            if error is not None:
                _State.errors[key] = error


@functools.cache
def _release_once() -> None:
    """Release what the first kernels have left: not each time, for tensors reuse that memory."""
    release_unused_memory()


@atexit.register
def _end() -> None:
    """Wait for the kernel under way, which is then kept, and for no other."""
    with _State.lock:
        _State.wanted.clear()
        thread = _State.thread
    if thread is not None:
        thread.join()


def _after_fork_in_child() -> None:
    # The child does not have the thread; a fork waits for the kernel under way, see waiting.py, and
    # the next call requests the other kernels again.
    _State.lock = threading.Lock()
    _State.wanted, _State.keys, _State.thread = deque(), set(), None


os.register_at_fork(after_in_child=_after_fork_in_child)
