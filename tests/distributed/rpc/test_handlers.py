"""Signal handlers that interrupt RPC may raise in a shutdown, and may call shutdown()."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastdist.core.errors import RpcNotRunningError, StaleIncarnationError, WorkerLostError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.agent import get_current_agent
from fastdist.distributed.rpc.closing import Closing
from fastdist.distributed.rpc.leaving import Stage
from fastdist.distributed.rpc.metrics import CallCounts
from tests.distributed.members import join, leave
from tests.distributed.workers import Group


class Stop(Exception):
    """The error that the tests' handlers raise."""


def stop(*_: object) -> None:
    raise Stop


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group(__file__, 2)
    try:
        group.run_all(join, {})
        yield group
        assert group.end() == [0, 0]
    finally:
        group.kill()


def raise_in_wait() -> None:
    """Raise in a signal handler while this worker waits for the other worker in shutdown()."""
    signal.signal(signal.SIGUSR1, stop)
    main, leaving = threading.get_ident(), get_current_agent().leaving  # type: ignore[attr-defined]
    tell_shutdown = leaving._group.tell_shutdown

    def tell_and_be_interrupted() -> None:
        tell_shutdown()
        signal.pthread_kill(main, signal.SIGUSR1)

    leaving._group.tell_shutdown = tell_and_be_interrupted
    with pytest.raises(Stop):
        rpc.shutdown()
    leaving._group.tell_shutdown = tell_shutdown
    assert rpc.rpc_sync("w1", abs, (-1,)) == 1


@pytest.mark.one_in(8)
def test_a_handler_that_raises_in_a_shutdown_leaves_rpc_up_for_a_second_one(group: Group) -> None:
    group[0].run(raise_in_wait)
    group[1].start(leave)
    group[0].run(leave)
    group[1].result()


def raise_in_closing() -> None:
    """Raise in a signal handler while this worker closes its resources; then shut down again."""
    signal.signal(signal.SIGUSR1, stop)
    agent: Any = get_current_agent()
    end, is_interrupted = agent.progress.stop, []

    def be_interrupted() -> None:
        if not is_interrupted:
            is_interrupted.append(1)
            signal.raise_signal(signal.SIGUSR1)
        end()

    agent.progress.stop = be_interrupted
    with pytest.raises(Stop):
        rpc.shutdown()
    assert agent.leaving.stage is Stage.CLOSING
    rpc.shutdown()
    assert agent.leaving.stage is Stage.CLOSED
    assert not [one.name for one in threading.enumerate() if one.name.startswith("fastdist-rpc")]


@pytest.mark.one_in(8)
def test_a_second_shutdown_closes_what_an_interrupted_one_has_left(group: Group) -> None:
    group[1].start(leave)
    group[0].run(raise_in_closing)
    group[1].result()


def rpc_async_and_wait(*call: Any) -> Any:
    return rpc.rpc_async(*call).wait()


def shut_down_in_a_handler(method: str) -> None:
    """Shut down RPC in a signal handler while this thread holds a lock that other threads need."""
    signal.signal(signal.SIGUSR1, lambda *_: rpc.shutdown())
    rpc.rpc_sync("w1", abs, (-1,))
    agent: Any = get_current_agent()
    pipe = agent.worker("w1").pipe
    lock, is_interrupted = pipe._lock, []

    def interrupt(function: Callable[..., Any]) -> Callable[..., Any]:
        def interrupted(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if threading.current_thread() is threading.main_thread() and not is_interrupted:
                is_interrupted.append(1)
                with lock:
                    signal.raise_signal(signal.SIGUSR1)
            return result

        return interrupted

    owner = agent.counts if method == "call_sent" else pipe
    setattr(owner, method, interrupt(getattr(owner, method)))
    call = rpc.rpc_sync if method == "borrow_lane" else rpc_async_and_wait
    # The peer may have left before this worker noted its own end, or may report this worker's end.
    with pytest.raises((RpcNotRunningError, WorkerLostError, StaleIncarnationError)):
        call("w1", abs, (-1,))
    assert is_interrupted


def leave_and_serve_until(fifo: Path) -> None:
    """Leave the group, but answer calls until a process opens the file for writing."""
    agent: Any = get_current_agent()
    close = agent.shutdown

    def close_late() -> None:
        with fifo.open():
            close()

    agent.shutdown = close_late
    rpc.shutdown()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("method", ["call_sent", "add_pending", "borrow_lane"])
def test_a_handler_may_shut_down_wherever_it_interrupts_a_call(
    group: Group, method: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "end")
    group[1].start(leave_and_serve_until, tmp_path / "end")
    group[0].run(shut_down_in_a_handler, method)
    with (tmp_path / "end").open("w"):
        group[1].result()


def test_steps_that_close_go_on_where_they_were_interrupted() -> None:
    ran: list[int] = []

    def fail() -> None:
        ran.append(2)
        raise Stop

    closing = Closing([lambda: ran.append(1), fail, lambda: ran.append(3)])
    for _ in range(2):
        with pytest.raises(Stop):
            closing.go_on()
    closing.go_on()
    closing.go_on()
    assert ran == [1, 2, 2, 3]


def test_a_call_that_is_forgotten_does_not_count_whenever_that_is() -> None:
    counts = CallCounts()
    counts.forget("before it was counted")
    counts.call_sent("call", "w1", 1)
    counts.forget("call")
    counts.call_ended("call", "w1", 1, failed=True)
    assert counts.client_active == 0 and counts.wait_for_own_calls(0.0)
