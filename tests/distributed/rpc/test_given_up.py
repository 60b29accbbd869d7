"""A worker that was frozen for too long wakes: it is notified, and does nothing more."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fastdist
from fastdist.concurrency.future import Future
from fastdist.core.errors import GivenUpError, RpcTimeoutError, WorkerLostError
from fastdist.distributed import autograd, rpc
from fastdist.distributed.rpc.message.message import Message
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.workers import worker
from tests.distributed.members import leave_without
from tests.distributed.workers import Group, WorkerFailed, open_gate, wait_at
from tests.standstill import Standstill

FROZEN_S = 3.0
HEARS_WITHIN_S = 6.0
GATES = ("one gate", "another")
_WORD = "worker 'w1' (rank 1) was declared lost by worker 'w"


def options(transport: str) -> rpc.TensorPipeRpcBackendOptions:
    return rpc.TensorPipeRpcBackendOptions(_transports=[transport], frozen_s=FROZEN_S)


def init(transport: str) -> None:
    rpc.init_rpc(f"w{os.environ['RANK']}", rpc_backend_options=options(transport))


def init_patient_sleeper(transport: str) -> None:
    """Join; w1, which will be frozen, declares other workers lost only after a minute."""
    chosen = options(transport)
    rank = int(os.environ["RANK"])
    chosen.frozen_s = 60.0 if rank == 1 else FROZEN_S
    rpc.init_rpc(f"w{rank}", rpc_backend_options=chosen)


def init_dynamic(transport: str, path: str) -> None:
    rank = int(os.environ["RANK"])
    os.environ.pop("WORLD_SIZE", None)
    chosen = options(transport)
    chosen.init_method = f"file://{path}"
    rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=chosen)


def who() -> str:
    return rpc.get_worker_info().name


def leave() -> None:
    rpc.shutdown()


def leave_at_once() -> None:
    rpc.shutdown(graceful=False)


# ---- what w0 does ----------------------------------------------------------------------------


counted: list[int] = []


def count(number: int) -> int:
    counted.append(number)
    return number


def num_counted() -> int:
    return len(counted)


def lose(worker: str) -> int:
    """Wait until a worker is lost, and return how many of its calls had arrived by then."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            rpc.rpc_sync(worker, who, timeout=1)
        except WorkerLostError:
            return num_counted()
        except RpcTimeoutError:
            pass
    raise AssertionError(f"{worker} was never lost")


# ---- what w1 does ----------------------------------------------------------------------------


class Sleeper:
    """All kinds of waits in the frozen worker, and their outcomes."""

    def __init__(self) -> None:
        self.ended: list[tuple[float, BaseException]] = []
        self.threads: list[threading.Thread] = []

    def begin(self, *calls: Callable[[], object]) -> None:
        for call in calls:
            self.threads.append(threading.Thread(target=self._wait_for, args=(call,)))
            self.threads[-1].start()

    def _wait_for(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            self.ended.append((time.monotonic(), error))


sleeper = Sleeper()


def begin_to_wait() -> None:
    never = GATES[:1]
    rref = rpc.remote("w0", wait_at, never)
    future: Future[Any] = rpc.rpc_async("w0", wait_at, never, timeout=0)
    sleeper.begin(
        lambda: rpc.rpc_sync("w0", wait_at, never, timeout=0),
        future.wait,
        lambda: rref.to_here(timeout=0),
        count_for_ever,
        pass_back,
    )
    rpc.rpc_sync("w0", who)


def count_for_ever() -> None:
    for number in range(10**9):
        rpc.rpc_sync("w0", count, (number,), timeout=0)


def pass_back() -> None:
    x = fastdist.ones(3, requires_grad=True)
    with autograd.context() as context_id:
        y = rpc.rpc_sync("w0", fastdist.mul, (x, x))
        wait = rpc.rpc_async("w0", wait_at, GATES[1:], timeout=0)
        wait.wait()
        autograd.backward(context_id, [y.sum()])


def hear() -> list[tuple[float, str, str]]:
    for thread in sleeper.threads:
        thread.join(20)
        assert not thread.is_alive()
    return [(when, type(error).__name__, str(error)) for when, error in sleeper.ended]


def call_after_all() -> None:
    for call in (
        lambda: rpc.rpc_sync("w0", who),
        lambda: rpc.rpc_async("w0", who).wait(),
        lambda: rpc.remote("w0", who).to_here(),
        lambda: rpc.rpc_sync("w1", who),
        lambda: rpc.rpc_sync("w2", who),
    ):
        with Standstill() as stood:
            began = time.monotonic()
            with pytest.raises(GivenUpError, match="was declared lost by worker 'w"):
                call()
            took_s = time.monotonic() - began
        assert took_s - stood.seconds < 0.5
    assert rpc._get_debug_info()["agent.client_active_calls"] == "0"


def shutdown_raises() -> None:
    with pytest.raises(GivenUpError, match="was declared lost by worker 'w"):
        rpc.shutdown()


def freeze(group: Group, at: int = 1) -> float:
    """Freeze a worker until w0 has lost it, and return the time at which it woke."""
    group[at].kill(signal.SIGSTOP)
    group[0].run(lose, f"w{at}")
    return group[at].kill(signal.SIGCONT)


@pytest.fixture
def start() -> Iterator[Callable[[int], Group]]:
    groups: list[Group] = []

    def start(size: int) -> Group:
        groups.append(Group(__file__, size))
        return groups[-1]

    yield start
    for group in groups:
        group.kill()


def require_heard(ended: list[tuple[float, str, str]], woke: float) -> None:
    assert len(ended) == 5
    for when, kind, text in ended:
        assert kind == "GivenUpError" and text.startswith(_WORD), (kind, text)
        assert "no sign of life" in text
        assert when - woke < HEARS_WITHIN_S


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("transport", ["ipc", "uv"])
def test_who_wakes_hears_that_it_was_given_up_and_ends_with_that(
    start: Callable[[int], Group], transport: str
) -> None:
    group = start(3)
    group.run_all(init, transport)
    group[1].run(begin_to_wait)
    woke = freeze(group)
    came = group[0].run(num_counted)
    require_heard(group[1].run(hear), woke)
    group[1].run(call_after_all)
    assert group[0].run(num_counted) == came
    group[1].run(shutdown_raises)
    assert group[1].end() == 0
    # The others leave without the sleeper, after the sleeper's calls have ended there.
    for gate in GATES:
        group[0].run(open_gate, gate)
    group[0].start(leave_without, "w1")
    group[2].run(leave_without, "w1")
    group[0].result()


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("frozen", [0, 1])
def test_who_only_serves_ends_with_an_error(start: Callable[[int], Group], frozen: int) -> None:
    group = start(2)
    group.run_all(init, "ipc")
    other = 1 - frozen
    group[other].run(call_it, frozen)
    group[frozen].start(leave)
    group[frozen].kill(signal.SIGSTOP)
    group[other].run(lose, f"w{frozen}")
    woke = group[frozen].kill(signal.SIGCONT)
    with pytest.raises(WorkerFailed, match=r"GivenUpError: worker .* was declared lost by worker"):
        group[frozen].result()
    assert time.monotonic() - woke < HEARS_WITHIN_S
    group[other].run(leave_at_once)


def hear_on_lanes_of_calls_alone() -> None:
    """Make lane 0 ignore rejections, since a blocked call's lane may be read before lane 0."""
    take_notice = worker.Worker._take_notice

    def take_others(peer: worker.Worker, word: Message) -> None:
        if word.type != MessageType.EXCEPTION:
            take_notice(peer, word)

    worker.Worker._take_notice = take_others  # type: ignore[method-assign]


@pytest.mark.one_in(8)
def test_who_hears_it_by_the_lane_of_a_call_is_out_when_the_call_ends(
    start: Callable[[int], Group],
) -> None:
    group = start(2)
    # With lane 0 ignored, w1 could declare w0 lost before the lane of its call is read.
    group.run_all(init_patient_sleeper, "uv")
    group[1].run(hear_on_lanes_of_calls_alone)
    group[1].run(begin_to_wait_alone)
    freeze(group)
    assert [kind for _, kind, _ in group[1].run(hear)] == ["GivenUpError"]
    group[1].run(shutdown_raises)
    assert group[1].end() == 0
    group[0].run(open_gate, GATES[0])
    group[0].run(leave_without, "w1")


def call_it(rank: int) -> str:
    return rpc.rpc_sync(f"w{rank}", who)


@pytest.mark.one_in(8)
def test_who_is_out_of_a_dynamic_group_leaves_its_place_to_its_successor(
    start: Callable[[int], Group], tmp_path: Path
) -> None:
    group = start(2)
    path = str(tmp_path / "store")
    for rank in (0, 1):
        group[rank].run(init_dynamic, "uv", path)
    group[1].run(begin_to_wait_alone)
    woke = freeze(group)
    ended = group[1].run(hear)
    assert [kind for _, kind, _ in ended] == ["GivenUpError"] and ended[0][0] - woke < 6
    group[0].run(lose, "w1")  # the store still lists w1
    group[1].run(shutdown_raises)
    assert group[1].end() == 0
    group.workers[1] = group.another(1)
    group[1].run(init_dynamic, "uv", path)
    assert group[0].run(call_it, 1) == "w1" and group[1].run(call_it, 0) == "w0"
    group[0].run(open_gate, GATES[0])
    group[1].run(leave)
    group[0].run(leave)


def begin_to_wait_alone() -> None:
    sleeper.begin(lambda: rpc.rpc_sync("w0", wait_at, GATES[:1], timeout=0))
    rpc.rpc_sync("w0", who)


def init_with_restarts() -> None:
    chosen = options("uv")
    chosen.restarts = True
    rpc.init_rpc(f"w{os.environ['RANK']}", rpc_backend_options=chosen)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("is_static", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("is_early", [True, False], ids=["early", "late"])
def test_who_comes_in_the_place_of_a_frozen_one_has_it_once_that_was_given_up(
    start: Callable[[int], Group], tmp_path: Path, is_static: bool, is_early: bool
) -> None:
    group = start(3)
    join: tuple[Any, ...] = (init_with_restarts,)
    if not is_static:
        join = (init_dynamic, "uv", str(tmp_path / "store"))
    group.run_all(*join)
    frozen = group[1]
    frozen.run(begin_to_wait_alone)
    frozen.kill(signal.SIGSTOP)
    again = group.workers[1] = group.another(1)
    if is_early:
        again.start(*join)
    group[0].run(lose, "w1")
    if not is_early:
        again.start(*join)
    again.result()
    assert group[0].run(call_it, 1) == group[2].run(call_it, 1) == "w1"
    assert again.run(call_it, 0) == "w0"
    woke = frozen.kill(signal.SIGCONT)
    ((when, kind, text),) = frozen.run(hear)
    assert kind == "GivenUpError" and text.startswith(_WORD) and when - woke < HEARS_WITHIN_S
    frozen.run(shutdown_raises)
    assert frozen.end() == 0
    # The others notified the woken worker that it was given up. They learn nothing of its waking.
    assert group[0].run(call_it, 1) == group[2].run(call_it, 1) == "w1"
    group[0].run(open_gate, GATES[0])
    group.run_all(leave)
