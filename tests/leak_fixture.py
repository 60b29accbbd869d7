"""Tests may not leave behind threads, processes, sockets, files, contexts or references."""

from __future__ import annotations

import gc
import os
import re
import select
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

# How long threads and processes may take to end; a test without a leak does not wait this long.
PATIENCE_S = 5.0
SHARED_MEMORY = "/dev/shm"
# Threads that are started on first use and live as long as the process.
LASTING_THREADS = (
    "fastdist-engine-",
    "fastdist-cpu-continuations",
    "fastdist-cuda-",
    "fastdist-sim-",
    # Compiles kernels for short rows while NumPy computes; ends when no kernel is left to compile.
    "fastdist-compiler",
)


class Held(NamedTuple):
    """The resources that this process holds at one moment."""

    threads: frozenset[threading.Thread]
    processes: frozenset[int]
    names: Counter[str]  # everything other than threads and processes, as text


def socket_names(sockets: Any) -> list[str]:
    return [f"ZeroMQ socket {name!r}" for name in sockets.open_socket_names()]


def contexts(autograd: Any) -> list[str]:
    return ["autograd context"] * counted(autograd, "_get_debug_info", "num_autograd_contexts")


def references(rpc: Any) -> list[str]:
    owned, used = (
        counted(rpc, "_rref_context_get_debug_info", key)
        for key in ("num_owner_rrefs", "num_users")
    )
    return ["RRef owned here"] * owned + ["RRef used here"] * used


def counted(room: Any, function: str, key: str) -> int:
    """Return a counter that a module reports under PyTorch's name; 0 if it has none."""
    tell = getattr(room, function, None)
    try:
        return int(tell().get(key, 0)) if tell else 0
    except RuntimeError:
        return 0  # before init the module raises, and holds no resources


# Only modules that a test has already imported are checked: this file imports nothing of fastdist.
ROOMS: dict[str, Callable[[Any], list[str]]] = {
    "fastdist.distributed.sockets": socket_names,
    "fastdist.distributed.autograd": contexts,
    "fastdist.distributed.rpc": references,
}


def hold() -> Held:
    """Return the resources that this process holds; takes less than a millisecond."""
    # A dummy thread represents a thread of foreign C code that once called Python.
    threads = (t for t in threading.enumerate() if not isinstance(t, threading._DummyThread))
    return Held(frozenset(threads), frozenset(_children()), Counter(_names()))


@contextmanager
def nothing_left_behind(scope: str, wider: bool = False) -> Iterator[None]:
    """Fail if the block leaves resources behind.

    With `wider`, new resources are allowed if their kind existed before: an object that outlives
    the block may have opened them. For example, a pool may have started a thread, or an agent a
    lane. Another check covers the lifetime of that object.
    """
    before = hold()
    yield
    found = left(before, wider)
    if found:
        pytest.fail(f"the {scope} left behind: " + ", ".join(found), pytrace=False)


def left(before: Held, wider: bool) -> list[str]:
    """Return all new resources, after waiting for threads and processes that are about to end."""
    if not _new(before, wider):
        return []
    gc.collect()  # a cycle may hold a socket or a reference; it is garbage, not a leak
    deadline = time.monotonic() + PATIENCE_S
    now = hold()
    for thread in now.threads - before.threads:
        if not _lasts(thread, before, wider):
            thread.join(max(0.0, deadline - time.monotonic()))
    for process in now.processes - before.processes:
        _wait_for_end(process, deadline)
    if (pool := sys.modules.get("fastdist.data.worker_pool")) is not None:
        pool.forget_ended()  # otherwise the pool does this when it next starts workers
    return _new(before, wider)


def _new(before: Held, wider: bool) -> list[str]:
    now = hold()
    threads = [t for t in now.threads - before.threads if not _lasts(t, before, wider)]
    names = now.names - before.names
    kinds_before = {_kind(name) for name in before.names} if wider else set()
    return [
        *sorted(f"thread {thread.name!r}" for thread in threads),
        *sorted(f"process {_describe(child)}" for child in now.processes - before.processes),
        *sorted(name for name in names.elements() if _kind(name) not in kinds_before),
    ]


def _kind(name: str) -> str:
    return name.partition("'")[0]


def _lasts(thread: threading.Thread, before: Held, wider: bool) -> bool:
    if thread.name.startswith(LASTING_THREADS):
        return thread.daemon
    stems = {_stem(other.name) for other in before.threads} if wider else set()
    return _stem(thread.name) in stems


def _stem(name: str) -> str:
    """Return the part of a name that all threads of a pool share, including its watcher thread."""
    return re.sub(r"-(\d+|watch)$", "", name)


def _children() -> Iterator[int]:
    if (workers := sys.modules.get("tests.distributed.templates")) is not None:
        yield from workers.unended()  # children of a template process, not of this one
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return  # there are no children: the usual case, which takes one system call
    trackers = _trackers()
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children", "rb", buffering=0) as file:
                listed = file.read().split()
        except OSError:
            continue  # that thread has just ended
        yield from (int(child) for child in listed if int(child) not in trackers)


def _trackers() -> set[int]:
    """Return the helper processes of multiprocessing and of the tests, which live until the
    interpreter ends.
    """
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    server = sys.modules.get("multiprocessing.forkserver")
    workers = sys.modules.get("tests.distributed.templates")
    return {
        *(workers.templates() if workers else ()),
        getattr(getattr(tracker, "_resource_tracker", None), "_pid", None) or 0,
        getattr(getattr(server, "_forkserver", None), "_forkserver_pid", None) or 0,
    }


def _wait_for_end(process: int, deadline: float) -> None:
    """Wait without reaping: the code that started the process reads its exit status."""
    try:
        descriptor = os.pidfd_open(process)
    except OSError:
        return  # already ended
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
    finally:
        os.close(descriptor)


def _describe(process: int) -> str:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return str(process)
    return f"{process} ({b' '.join(words).decode(errors='replace').strip() or 'never waited for'})"


def _names() -> Iterator[str]:
    for room, names_of in ROOMS.items():
        if room in sys.modules:
            yield from names_of(sys.modules[room])
    yield from _shared_memory()
    yield from _runtime_files()


_OURS = re.compile(r"fastdist-(\d+)\b")


def _shared_memory() -> Iterator[str]:
    """Yield the names of this process's shared memory; skip memory of other living processes."""
    for name in _listing(SHARED_MEMORY):
        maker = _OURS.match(name)
        if maker and (int(maker[1]) == os.getpid() or not os.path.exists(f"/proc/{maker[1]}")):
            yield f"shared memory {name!r}"
    # Unnamed files appear only as open descriptors of a process; only this process is searched.
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink("/proc/self/fd/" + descriptor)
        except OSError:
            continue  # the descriptor of the listing itself
        if link.startswith("/memfd:fastdist-"):
            yield f"shared memory {link.removeprefix('/memfd:').partition(' ')[0]!r}"
    # A mapping remains after its descriptor is closed.
    if (sealed_memory := sys.modules.get("fastdist.system.sealed_memory")) is not None:
        yield from (f"mapping of a {what}" for what in sealed_memory.mapped())


def _runtime_files() -> Iterator[str]:
    """Yield this process's files in the private runtime directory, which only this test run uses.

    A killed process cannot remove its socket files; the next process removes them. See
    tests/conftest.py for the directory.
    """
    directory = os.path.join(os.environ["XDG_RUNTIME_DIR"], "fastdist")
    own = f"ipc-{os.getpid()}-"
    for entry in _listing(directory):
        if not entry.startswith("ipc-"):
            yield f"file {entry!r}"
        elif entry.startswith(own):
            files = _listing(os.path.join(directory, entry)) - {"owner.lock"}
            yield from (f"socket file {name!r}" for name in files)


def _listing(directory: str) -> set[str]:
    try:
        return set(os.listdir(directory))
    except FileNotFoundError:
        return set()
