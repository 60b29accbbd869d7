"""An agent's metrics match what happens, and a worker that leaves ends its own calls."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastdist.core.errors import RpcError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.metrics import CallCounts
from fastdist.distributed.store import PrefixStore
from fastdist.futures import Future
from tests.distributed.members import members
from tests.distributed.workers import (
    Group,
    open_gate,
    run_group,
    wait_at,
    wait_for_arrivals,
)

THREADS = 8
FIVE = (
    *("agent.thread_pool_size", "agent.num_idle_threads", "agent.client_active_calls"),
    *("agent.server_active_calls", "agent.server_active_async_calls"),
)


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 2, num_worker_threads=THREADS) as group:
        yield group


def who() -> str:
    return rpc.get_worker_info().name


def metrics() -> dict[str, str]:
    found: dict[str, str] = rpc._get_current_rpc_agent().get_metrics()
    return found


def until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    deadline, pause = time.monotonic() + 20, threading.Event()
    while not holds():
        assert time.monotonic() < deadline
        pause.wait(0.001)


# ---- each function below runs in worker 0 -------------------------------------------------------


def source_of_network() -> tuple[int, bytes]:
    info = rpc._get_current_rpc_agent().get_network_source_info()
    return info.src_rank, info.src_machine_addr


def a_network_source_is_a_rank_and_where_it_listens() -> None:
    sources = [rpc.rpc_sync(worker, source_of_network) for worker in ("w0", "w1")]
    assert [rank for rank, _ in sources] == [0, 1]
    for _, address in sources:
        found = re.fullmatch(r"(?:tcp://)?([\d.]+):(\d+)", address.decode())
        assert found is not None, address
        socket.create_connection((found[1], int(found[2])), 10).close()
    assert sources[0][1] != sources[1][1]


def spin_until_open(gate: threading.Event) -> None:
    while not gate.is_set():
        pass


_spinning = threading.Event()


def begin_to_spin() -> None:
    rpc.enable_gil_profiling(True)
    _spinning.clear()
    threading.Thread(target=spin_until_open, args=(_spinning,)).start()


def end_spinning() -> None:
    _spinning.set()
    rpc.enable_gil_profiling(False)


def waits_for_the_interpreter_are_measured_on_request() -> None:
    name = "agent.gil_average_wait_time_us"
    assert name not in rpc.rpc_sync("w1", metrics)
    rpc.rpc_sync("w1", begin_to_spin)
    try:
        # A computing thread releases the GIL after half a millisecond.
        until(lambda: float(rpc.rpc_sync("w1", metrics)[name]) > 0)
    finally:
        rpc.rpc_sync("w1", end_spinning)
    assert name not in rpc.rpc_sync("w1", metrics)


def busy_threads(found: dict[str, str]) -> int:
    return int(found["agent.thread_pool_size"]) - int(found["agent.num_idle_threads"])


def threads_that_wait_are_told_from_those_that_work() -> None:
    futures = [rpc.rpc_async("w1", wait_at, ("threads",)) for _ in range(3)]
    rpc.rpc_sync("w1", wait_for_arrivals, ("threads", 3))
    # The busy threads are those of the three calls, and the thread that reads the metrics.
    until(lambda: busy_threads(rpc.rpc_sync("w1", metrics)) == 4)
    rpc.rpc_sync("w1", open_gate, ("threads",))
    assert [future.wait() for future in futures] == ["threads"] * 3
    until(lambda: busy_threads(rpc.rpc_sync("w1", metrics)) == 1)
    found = rpc.rpc_sync("w1", metrics)
    assert set(FIVE) == set(found) and all(type(value) is str for value in found.values())
    assert int(found["agent.num_idle_threads"]) >= 1


@rpc.functions.async_execution
def answer_later() -> Future[str]:
    _answers.append(Future())
    return _answers[-1]


_answers: list[Future[str]] = []


def give_answers() -> None:
    while _answers:
        _answers.pop().set_result("later")


def calls_of_each_kind_are_counted_while_they_are_under_way() -> None:
    def counts(worker: str) -> list[int]:
        return [int(rpc.rpc_sync(worker, metrics)[name]) for name in FIVE[2:]]

    # The reading call counts too: at w0 as one sent and one received, at w1 as one received.
    until(lambda: (counts("w0"), counts("w1")) == ([1, 1, 0], [0, 1, 0]))
    held = [rpc.rpc_async("w1", wait_at, ("kinds",)) for _ in range(2)]
    later = [rpc.rpc_async("w1", answer_later) for _ in range(3)]
    until(lambda: (counts("w0"), counts("w1")) == ([6, 1, 0], [0, 6, 3]))
    rpc.rpc_sync("w1", open_gate, ("kinds",))
    assert [future.wait() for future in held] == ["kinds"] * 2
    until(lambda: (counts("w0"), counts("w1")) == ([4, 1, 0], [0, 4, 3]))
    rpc.rpc_sync("w1", give_answers)
    assert [future.wait() for future in later] == ["later"] * 3
    until(lambda: (counts("w0"), counts("w1")) == ([1, 1, 0], [0, 1, 0]))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            a_network_source_is_a_rank_and_where_it_listens, marks=pytest.mark.seed("T11")
        ),
        pytest.param(
            waits_for_the_interpreter_are_measured_on_request, marks=pytest.mark.seed("T22")
        ),
        pytest.param(
            threads_that_wait_are_told_from_those_that_work, marks=pytest.mark.seed("T23")
        ),
        pytest.param(
            calls_of_each_kind_are_counted_while_they_are_under_way,
            marks=pytest.mark.seed("T28"),
        ),
    ],
    ids=lambda body: body.__name__,
)
def test_metrics(group: Group, body: Any) -> None:
    group[0].run(body)


def names_of_entries() -> list[str]:
    rpc.enable_gil_profiling(True)
    names = [*rpc.get_metrics(), *rpc.get_debug_info()]
    rpc.enable_gil_profiling(False)
    return names


def test_the_page_explains_all_entries(group: Group) -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "metrics.md").read_text()
    explained = set(re.findall(r"`((?:agent\.|num_)[\w.]+)`", text))
    parts = {name.rpartition(".")[0] for name in explained if name.endswith((".NAME", ".DEVICE"))}
    found = group[0].run(names_of_entries)
    assert len(found) > 20
    others = {name for name in found if name.rpartition(".")[0] not in parts}
    assert others - explained == set()


# ---- waits --------------------------------------------------------------------------------------


@pytest.mark.seed("T28")
def test_own_calls_can_be_waited_for() -> None:
    counts = CallCounts()
    counts.call_sent(0, "w1", 1), counts.request_came()
    assert not counts.wait_for_own_calls(0.01)
    waited: list[bool] = []
    waiter = threading.Thread(target=lambda: waited.append(counts.wait_for_own_calls(20)))
    waiter.start()
    counts.call_sent(1, "w2", 1), counts.call_ended(0, "w1", 1, failed=False)
    assert not counts.wait_for_own_calls(0.01) and waited == []
    counts.call_ended(1, "w2", 1, failed=True)
    waiter.join(20)
    # The call that another worker made here is still running.
    assert waited == [True] and not counts.wait_until_idle(0.01)
    waiter = threading.Thread(target=lambda: waited.append(counts.wait_until_idle(20)))
    waiter.start()
    counts.request_answered()
    waiter.join(20)
    assert waited == [True, True]


def join_dynamically() -> None:
    store = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    rank = int(os.environ["RANK"])
    options = rpc.TensorPipeRpcBackendOptions(init_method=store)
    rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options)


def call_and_leave() -> str:
    held = rpc.rpc_async("w0", wait_at, ("leaving",))
    rpc.shutdown()
    assert held.done()
    return held.wait()


def has_left(worker: str) -> bool:
    """Return whether a worker has left, or leaves within half a second."""
    agent, pause = rpc._get_current_rpc_agent(), threading.Event()
    deadline = time.monotonic() + 0.5
    while (
        (found := agent.workers.find(worker)) and not found.is_dead and time.monotonic() < deadline
    ):
        pause.wait(0.01)
    return found is None or bool(found.is_dead)


def look_for_w1() -> None:
    agent = rpc._get_current_rpc_agent()
    until(lambda: has_left("w1"))
    names, addrs = PrefixStore("names", agent.store), PrefixStore("addrs", agent.store)
    assert names.check(["0"]) and not names.check(["1"])
    assert addrs.check(["w0"]) and not addrs.check(["w1"])
    with pytest.raises(RpcError, match=r"could not find destination name w1; the group has: w0$"):
        rpc.get_worker_info("w1")
    assert [info.name for info in agent.get_worker_infos()] == ["w0"]


@pytest.mark.one_in(3)
@pytest.mark.seed("T26", "T31")
def test_who_leaves_a_dynamic_group_waits_for_its_calls_and_frees_its_name() -> None:
    group = Group(__file__, 2)
    try:
        group.run_all(join_dynamically)
        group[1].start(call_and_leave)
        group[0].run(wait_for_arrivals, "leaving", 1)
        assert not group[0].run(has_left, "w1")
        group[0].run(open_gate, "leaving")
        assert group[1].result() == "leaving"
        group[0].run(look_for_w1)
        group[0].run(rpc.shutdown)
        assert group.end() == [0, 0]
    finally:
        group.kill()


# ---- faults -------------------------------------------------------------------------------------


def fail_twice() -> None:
    options = rpc.faulty_agent.FaultyTensorPipeRpcBackendOptions(
        messages_to_fail=["PYTHON_CALL"], num_fail_sends=2
    )
    rpc.init_rpc(
        f"w{os.environ['RANK']}",
        backend=rpc.BackendType.FAULTY_TENSORPIPE,
        rpc_backend_options=options,
    )
    other = f"w{1 - int(os.environ['RANK'])}"
    for _ in range(2):
        with pytest.raises(RpcError, match=r"^Send attempt of PYTHON_CALL to worker .* on purpose"):
            rpc.rpc_sync(other, who)
    assert rpc.rpc_sync(other, who) == other
    # Another kind of message never fails here; failures to other workers are counted separately.
    assert rpc.remote(other, who).to_here() == other
    with pytest.raises(RpcError, match="on purpose"):
        rpc.rpc_sync(who(), who)
    rpc.shutdown()


@pytest.mark.one_in(3)
@pytest.mark.seed("T38")
def test_a_message_that_is_to_fail_n_times_goes_out_after_them() -> None:
    run_group(fail_twice, 2)
