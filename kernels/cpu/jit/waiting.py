"""Waiting for Numba: only one thread compiles at a time, waits are announced, forks wait as well.

This module is loaded before Numba, and does not load it.
"""

# Note [Announced waits] A call waits for its kernel, so that each run gives the same bits. After
# half a second one line on stderr says why the call waits, once per process. The line is written
# only where people read it: on a terminal, and below a notebook's cell. Elsewhere stderr may carry
# a worker's protocol, or may be a file that a test compares. Each wait of more than half a second
# is also logged, at INFO, which is off by default.

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from fastdist.core.running_op import running_op
from fastdist.language.scalar import Node, to_text
from fastdist.system.cache_directory import cache_directory
from fastdist.system.forked_imports import Forks, others_import, wait_for_imports
from fastdist.system.held_interrupt import interrupt_held

_logger = logging.getLogger(__name__)

NOTIFY_AFTER_S = 0.5
# The longest time that a fork waits for imports of other threads. See Note [Forks and imports].
_IMPORTS_TAKE_S: Final = 20.0
_KEPT: Final = (
    "it is cached for later runs; `fastdist info --warm` compiles common kernels beforehand"
)
_NOT_KEPT: Final = "each process compiles it again: `fastdist info` says why no folder can cache it"


_MOST_WORDS: Final = 50


def describe_kernel(tree: Node, out_dtype: Any) -> str:
    """Return a description of a pointwise kernel for messages."""
    text = to_text(tree)
    short = text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}..."
    return f"the kernel of {short} in {out_dtype}"


class _State:
    """The state that the threads of this process share."""

    # Held while Numba compiles or loads, and during a fork, because a child could wait forever for
    # a lock that another thread held. While this lock is held, Numba's own lock may be taken, but
    # no module is imported that compiles during its import.
    lock = threading.RLock()
    # Guards the attributes below; no other lock is taken while it is held.
    counts_lock = threading.Lock()
    # The threads that wait for the compiler, and the condition that wakes the background thread
    # when no thread waits.
    waiters: ClassVar[set[int]] = set()
    nobody_waits = threading.Condition(counts_lock)
    resting = 0
    was_collecting = False
    was_notified = False
    # Whether the handler before a fork has taken the lock. It has not taken the lock if the fork
    # began before another thread's import had registered the handlers.
    held_for_fork = False


class _Local(threading.local):
    is_waiting = False


_local = _Local()


@contextlib.contextmanager
def compiling(what: str) -> Iterator[None]:
    """In the `with` block, hold the compiler's lock, and delay a Ctrl-C until the end of the block.
    Announcements describe the kernel as `what`.

    Thread  any; waits for the thread that compiles
    """
    with waiting_for(what), _first_of_all(), interrupt_held():
        yield


@contextlib.contextmanager
def _first_of_all() -> Iterator[None]:
    """Hold the compiler's lock in the `with` block; background compilation waits for it."""
    with _State.counts_lock:
        _State.waiters.add(threading.get_ident())
    try:
        with _State.lock:
            _wait_is_over()
            yield
    finally:
        _wait_is_over()  # a Ctrl-C may have prevented the call above


def _wait_is_over() -> None:
    with _State.counts_lock:
        _State.waiters.discard(threading.get_ident())
        if not _State.waiters:
            _State.nobody_waits.notify_all()


@contextlib.contextmanager
def compiling_for_nobody() -> Iterator[None]:
    """Hold the compiler's lock in the background thread. Nothing is announced, and threads that
    wait for a kernel have priority.
    """
    _local.is_waiting = True
    try:
        with _State.nobody_waits:
            _State.nobody_waits.wait_for(lambda: not _State.waiters)
        with _State.lock:
            yield
    finally:
        _local.is_waiting = False


@contextlib.contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """If the `with` block takes more than half a second, announce that it waits for `what`. See
    Note [Announced waits].

    Note    a nested block has no announcement: it belongs to the wait of the outermost block.
            Python's garbage collector is paused: otherwise it takes a quarter of the time of
            importing Numba
    """
    if _local.is_waiting:
        yield
        return
    over = threading.Event()
    # Find the running op in this thread, because the watcher thread has another stack.
    watcher = threading.Thread(
        target=_watch, args=(over, what + _for_op()), name="fastdist-waiting", daemon=True
    )
    _local.is_waiting = True
    try:
        # During the interpreter's shutdown no thread can start, and no announcement is needed.
        with contextlib.suppress(RuntimeError):
            watcher.start()
        with _collector_at_rest():
            yield
    finally:
        _local.is_waiting = False
        over.set()
        if watcher.ident is not None:
            watcher.join()


def _watch(over: threading.Event, what: str) -> None:
    if not over.wait(NOTIFY_AFTER_S):
        _tell(what)


def _for_op() -> str:
    op = running_op()
    return f", for {op}" if op else ""


def _tell(what: str) -> None:
    kept = _KEPT if cache_directory("numba") is not None else _NOT_KEPT
    text = f"waiting for the compiler: {what}; {kept}"
    _logger.info("%s", text)
    with _State.counts_lock:
        is_first, _State.was_notified = not _State.was_notified, True
    if is_first and sys.stderr is not None and _is_read(sys.stderr):
        with contextlib.suppress(OSError):  # the terminal may be closed
            sys.stderr.write(f"fastdist: {text}\n")
            sys.stderr.flush()


def _is_read(stream: Any) -> bool:
    # Jupyter's stream writes to the running cell, but its isatty() is False.
    return bool(stream.isatty()) or type(stream).__module__.partition(".")[0] == "ipykernel"


@contextlib.contextmanager
def _collector_at_rest() -> Iterator[None]:
    with _State.counts_lock:
        if _State.resting == 0:
            _State.was_collecting = gc.isenabled()
            gc.disable()
        _State.resting += 1
    try:
        yield
    finally:
        with _State.counts_lock:
            _State.resting -= 1
            _wake_collector()


def _wake_collector() -> None:
    if _State.resting == 0 and _State.was_collecting:
        gc.enable()


def _after_fork() -> None:
    if _State.held_for_fork:
        _State.held_for_fork = False
        _State.lock.release()


def _after_fork_in_child() -> None:
    _after_fork()
    # The other waiting threads do not exist in the child.
    _State.counts_lock = threading.Lock()
    _State.nobody_waits, _State.waiters = threading.Condition(_State.counts_lock), set()
    was_resting, _State.resting = _State.resting, 0
    if was_resting:
        _wake_collector()


def _before_fork() -> None:
    """Take the lock while no other thread imports, because an importing thread may need the lock as
    well.
    """
    until = time.monotonic() + _IMPORTS_TAKE_S
    while True:
        wait_for_imports(until)
        _State.lock.acquire()
        if not others_import() or time.monotonic() >= until:
            _State.held_for_fork = True
            return
        _State.lock.release()


Forks.wait_elsewhere = True
os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork,
    after_in_child=_after_fork_in_child,
)
