"""When a worker leaves, its peers can still read the answers that it sent."""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fastdist.concurrency.future import Future
from fastdist.core.errors import RpcError, RpcTimeoutError, ShutdownIncomplete
from fastdist.distributed import rpc
from fastdist.distributed.pipe.transports.zeromq import ZmqLane
from fastdist.distributed.rpc import leaving
from fastdist.distributed.rpc.workers import session, worker
from tests.distributed.members import init
from tests.distributed.workers import run_group

has_come = threading.Event()
may_leave = threading.Event()


def come() -> None:
    has_come.set()


def answer_and_leave() -> str:
    may_leave.set()
    return "the last answer"


def read_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delay the thread that waits for an answer until its peer has left, or for 0.3 s."""
    has_gone = threading.Event()
    receive, end = ZmqLane.receive, worker.Worker._step

    def receive_late(self: ZmqLane, deadline: float | None) -> list[Any]:
        has_gone.wait(0.3)
        return receive(self, deadline)

    def step(self: worker.Worker, event: session.Event, reason: str = "") -> None:
        end(self, event, reason)
        if self.is_dead:
            has_gone.set()

    monkeypatch.setattr(ZmqLane, "receive", receive_late)
    monkeypatch.setattr(worker.Worker, "_step", step)


def leave_early() -> None:
    rank = int(os.environ["RANK"])
    store = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    with pytest.MonkeyPatch.context() as monkeypatch:
        # A long timeout, so that no worker gives up waiting on a slow machine.
        timeouts = functools.partial(session.LivenessTimeouts, settle_s=30.0)
        monkeypatch.setattr(session, "LivenessTimeouts", timeouts)
        monkeypatch.setattr(leaving, "LINGER_S", 30.0)
        options = rpc.TensorPipeRpcBackendOptions(init_method=store, rpc_timeout=20)
        rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options)
        if rank == 1:
            rpc.rpc_sync("w0", come)
            assert may_leave.wait(30)
            rpc.shutdown()
            return
        assert has_come.wait(30)
        read_late(monkeypatch)
        assert rpc.rpc_sync("w1", answer_and_leave) == "the last answer"
        rpc.shutdown()


@pytest.mark.one_in(8)
def test_the_answer_of_a_worker_that_leaves_is_read_though_late() -> None:
    run_group(leave_early, 2)


# ---- a member of a group that has no barrier -----------------------------------------------------

NUM_CALLS = 24

ran: list[int] = []
all_came = threading.Event()
is_leaving = threading.Event()


def answer_when_leaving(number: int) -> int:
    ran.append(number)
    if len(ran) == NUM_CALLS:
        all_came.set()
    assert is_leaving.wait(60)
    agent: Any = rpc._get_current_rpc_agent()
    # Later stages of leaving (references, goodbyes) wait for this call.
    assert agent.leaving.stage is leaving.Stage.COMING
    return number


def wait_until(holds: Callable[[Any], bool]) -> None:
    agent, deadline = rpc._get_current_rpc_agent(), time.monotonic() + 60
    while not holds(agent):
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def is_gone(agent: Any, rank: int) -> bool:
    worker = agent.workers.find(rank)
    return worker is None or bool(worker.is_dead)


def note_the_shutdown() -> None:
    wait_until(lambda agent: agent.leaving.stage is not leaving.Stage.SERVING)
    is_leaving.set()


def call_who_leaves() -> list[int]:
    """Return the answers to calls that wait when their callee begins to leave."""
    waiting = [rpc.rpc_async("w1", answer_when_leaving, args=(i,)) for i in range(20)]
    with ThreadPoolExecutor(NUM_CALLS - 20) as threads:
        blocked = [
            threads.submit(rpc.rpc_sync, "w1", answer_when_leaving, args=(i,))
            for i in range(20, NUM_CALLS)
        ]
        return [call.wait() for call in waiting] + [call.result() for call in blocked]


def leave_with_calls_under_way() -> list[int]:
    rank = int(os.environ["RANK"])
    store = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    with pytest.MonkeyPatch.context() as monkeypatch:
        timeouts = functools.partial(session.LivenessTimeouts, settle_s=30.0)
        monkeypatch.setattr(session, "LivenessTimeouts", timeouts)
        monkeypatch.setattr(leaving, "LINGER_S", 30.0)
        options = rpc.TensorPipeRpcBackendOptions(
            init_method=store, rpc_timeout=0, num_worker_threads=NUM_CALLS + 2
        )
        rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options)
        if rank == 1:
            rpc.rpc_sync("w0", come)
            assert all_came.wait(60)
            watcher = threading.Thread(target=note_the_shutdown)
            watcher.start()
            rpc.shutdown(timeout=60)  # does not wait for the others, which do not leave yet
            watcher.join(60)
            return ran
        assert has_come.wait(60)
        answers = call_who_leaves()
        wait_until(lambda agent: is_gone(agent, 1))
        with pytest.raises(RpcError, match="w1"):
            rpc.rpc_sync("w1", come)
        assert rpc.rpc_sync("w0", os.getpid) == os.getpid()
        rpc.shutdown()
        return answers


@pytest.mark.one_in(8)
def test_a_member_that_leaves_a_dynamic_group_waits_for_nobody_and_answers_every_call() -> None:
    answers, runs = run_group(leave_with_calls_under_way, 2)
    assert sorted(runs) == answers == list(range(NUM_CALLS))


# ---- waiting for named workers -------------------------------------------------------------------

never_done: list[Any] = []


@rpc.functions.async_execution
def never() -> Any:
    never_done.append(Future())
    return never_done[-1]


def has_begun() -> bool:
    return bool(never_done)


class Owner:
    @rpc.functions.async_execution
    def never(self) -> Any:
        return never()


def leave_with_what_never_ends() -> str:
    if init() == 0:
        rpc.rpc_async("w1", never)
        rpc.remote("w1", never)
        rpc.remote("w1", Owner).rpc_async().never()
    with pytest.raises(ShutdownIncomplete) as told:
        rpc.shutdown(timeout=0.5)
    return str(told.value)


@pytest.mark.one_in(8)
def test_a_shutdown_names_the_functions_whose_futures_are_never_done_and_their_callers() -> None:
    for told in run_group(leave_with_what_never_ends, 2):
        assert "calls are still under way after 0.5 s: " in told
        for name in ("never", "Owner.never"):
            assert f"{name} (called by worker 'w0')" in told
        assert "has no value" in told


def leave_what_its_caller_has_given_up(world_size: int | None) -> list[str]:
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("fastdist.distributed.rpc.leaving").addHandler(handler)
    rank = int(os.environ["RANK"])
    store = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    options = rpc.TensorPipeRpcBackendOptions(init_method=store)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    if rank == 0:
        if world_size is None:
            ping_until_there()
        # On busy cores a call may expire before it runs at w1.
        timeout_s = 0.1
        while not rpc.rpc_sync("w1", has_begun):
            with pytest.raises(RpcTimeoutError):
                rpc.rpc_sync("w1", never, timeout=timeout_s)
            timeout_s *= 4
        rpc.rpc_sync("w1", answer_and_leave)
    assert rank == 0 or may_leave.wait(30)
    rpc.shutdown()
    return lines


def ping_until_there() -> None:
    wait_until(lambda agent: any(info.name == "w1" for info in agent.get_worker_infos()))


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("world_size", [2, None])
def test_a_shutdown_does_not_wait_for_a_future_whose_caller_has_given_up(
    world_size: int | None,
) -> None:
    lines = run_group(leave_what_its_caller_has_given_up, 2, world_size)
    assert lines[0] == []
    (line,) = lines[1]
    what = "worker 'w1' shuts down, and the Future of never (called by worker 'w0') has no value"
    assert line.startswith(what)
