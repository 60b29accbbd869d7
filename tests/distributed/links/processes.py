"""Functions that run in the member processes of a group; tests stop or kill these processes."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from fastdist.core.errors import CollectiveError
from fastdist.distributed.links import LinksTransport, connect
from fastdist.distributed.process_group.transport import Call
from fastdist.distributed.sockets import ipc_directory
from fastdist.distributed.store import TCPStore

LARGE = 4_000_000

_held: dict[str, Any] = {}


def join(machines: str, notice_s: float = 5.0) -> None:
    """Join a group; each letter names one member's machine."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=not rank)
    _held["store"] = store
    # The folder of this process's Unix sockets lives as long as the process.
    ipc_directory()
    store.join("before", rank, b"", size)
    _held["descriptors"] = descriptors()
    _held["transport"] = connect(store, rank, size, 30.0, machine=machines[rank], notice_s=notice_s)
    _held["sequence"] = 0


def leave() -> set[str]:
    """Leave the group; return the descriptors that were opened since `join` and stay open."""
    transport().close()
    # libzmq closes its descriptors on another thread.
    until = time.monotonic() + 3.0
    while (left := set(descriptors()) - set(_held["descriptors"])) and time.monotonic() < until:
        threading.Event().wait(0.002)
    return left


def end() -> None:
    """Leave the group unless this process has left before, and close the store."""
    transport().close()
    _held.pop("store").close()


def descriptors() -> list[str]:
    """Return the names of the descriptors that this process has open."""
    found = []
    for one in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{one}"))
        except FileNotFoundError:
            continue  # the descriptor of the listing itself, which is closed again
    return found


def transport() -> LinksTransport:
    found = _held["transport"]
    assert isinstance(found, LinksTransport)
    return found


def call(name: str, timeout_s: float = 30.0, agreed: str = "") -> Call:
    _held["sequence"] += 1
    line = f"program{transport().rank}.py:{_held['sequence']}"
    return Call(_held["sequence"], name, agreed, line, time.monotonic() + timeout_s)


def sum_up(size: int, timeout_s: float = 30.0) -> tuple[str, str, float, bool]:
    """Sum an array; return the error's type and text, the time, and if the array is unchanged."""
    array = np.full(size, 1.0 + transport().rank, np.float32)
    kind, text = "", ""
    try:
        transport().all_reduce(call("all_reduce", timeout_s), array, "sum")
    except CollectiveError as error:
        kind, text = type(error).__name__, str(error)
    return kind, text, time.monotonic(), bool((array == 1.0 + transport().rank).all())


def sum_for_ever(size: int) -> tuple[str, str, float, bool]:
    """Sum arrays until a sum fails; return the result of that sum."""
    while True:
        found = sum_up(size)
        if found[0]:
            return found


def sum_and_die(size: int, step: int) -> None:
    """Sum arrays, and kill this process before its `step`-th notice of progress to others."""
    left = itertools.count(1)
    machine, post = transport()._machine, transport()._post

    def dying(function: Callable[..., None]) -> Callable[..., None]:
        def run(*args: Any) -> None:
            if next(left) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            function(*args)

        return run

    machine.publish = dying(machine.publish)  # type: ignore[method-assign]
    post.send = dying(post.send)  # type: ignore[method-assign]
    sum_for_ever(size)


def pid() -> int:
    return os.getpid()


def mix_up(kinds: dict[int, str]) -> tuple[str, str, float]:
    """Make the call given for this rank; return its error and how long the call took."""
    what, began = kinds[transport().rank], time.monotonic()
    try:
        if what == "barrier":
            transport().barrier(call("barrier"))
        else:
            transport().all_reduce(call("all_reduce", agreed=what), np.ones(3), "sum")
    except CollectiveError as error:
        return type(error).__name__, str(error), time.monotonic() - began
    return "", "", 0.0


def sum_different_sizes() -> tuple[str, str]:
    """Sum arrays of different sizes without announcing the sizes; return the error."""
    size = 40_000 if transport().rank == 2 else 10
    try:
        transport().all_reduce(call("all_reduce"), np.ones(size, np.float32), "sum")
    except CollectiveError as error:
        return type(error).__name__, str(error)
    return "", ""


def send_until_a_signal(to: int, seconds: float) -> tuple[list[str], float]:
    """Send to a member that reads nothing; return the stack and the time when a signal came."""

    def interrupt(*_: object) -> None:
        raise InterruptedError("a signal")

    before = signal.signal(signal.SIGALRM, interrupt)
    data, sequence = np.zeros(1 << 14, np.uint8), _held["sequence"]
    began = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        while True:
            transport().send(call("send"), data, to, 0)
    except InterruptedError as error:
        frames = traceback.extract_tb(error.__traceback__)
        return [frame.name for frame in frames], time.monotonic() - began
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _held["sequence"] = sequence
        signal.signal(signal.SIGALRM, before)
