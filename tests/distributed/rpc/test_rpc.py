"""Calls between workers, as users write them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.core.errors import RemoteError, RpcError, RpcTimeoutError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.calls.outgoing import serving
from fastdist.futures import Future, wait_all
from tests.distributed.members import members
from tests.distributed.workers import Group, open_gate, wait_at, wait_for_arrivals
from tests.standstill import Standstill

MINUTE_S = 60.0


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 3, rpc_timeout=MINUTE_S, init_timeout=30) as group:
        yield group


def add(a: Any, b: Any, *, c: Any = 0) -> Any:
    return a + b + c


def who() -> str:
    return rpc.get_worker_info().name


def raise_key_error() -> None:
    raise KeyError("missing")


def pid_and_thread() -> tuple[int, str]:
    return os.getpid(), threading.current_thread().name


def tensor(*values: float) -> Any:
    return fastdist.tensor(list(values))


# ---- each function below runs in worker 0 -------------------------------------------------------


def calls() -> None:
    assert rpc.rpc_sync("w1", add, (1, 2)) == 3
    assert rpc.rpc_sync("w1", add, args=(1,), kwargs={"b": 2, "c": 3}) == 6
    assert rpc.rpc_sync(2, who) == "w2"
    assert rpc.rpc_sync(rpc.get_worker_info("w2"), who) == "w2"
    assert rpc.rpc_async("w2", who).wait() == "w2"
    assert rpc.rpc_sync("w1", type(None)) is None


def calls_to_oneself() -> None:
    pid, thread = rpc.rpc_sync("w0", pid_and_thread)
    assert pid == os.getpid() and thread.startswith("fastdist-rpc-pool")
    assert rpc.rpc_async("w0", who).wait() == "w0"


def tensors_travel() -> None:
    total = rpc.rpc_sync("w1", add, (tensor(1, 2), tensor(10, 20)))
    assert total.tolist() == [11, 22]
    big = fastdist.tensor(np.arange(3_000_000.0))
    twice = rpc.rpc_async("w1", add, (big, big)).wait()
    assert twice.numpy()[-1] == 2 * 2_999_999.0
    twice.numpy()[0] = 1.0  # the caller owns the result's memory and can write to it


def infos() -> None:
    assert rpc.get_worker_info() == rpc.WorkerInfo("w0", 0)
    assert rpc.get_worker_info("w1").id == 1
    agent = rpc._get_current_rpc_agent()
    assert [info.name for info in agent.get_worker_infos()] == ["w0", "w1", "w2"]
    for name in ("nope", 17):
        with pytest.raises(RpcError, match=r"^name:w0,rank:0 could not find destination .* w0, w1"):
            rpc.get_worker_info(name)
    with pytest.raises(RpcError, match="could not find destination url for name nope"):
        agent.workers.url_of("nope")
    assert agent.get_network_source_info().src_rank == 0


def errors_cross() -> None:
    for call in (rpc.rpc_sync, lambda *a: rpc.rpc_async(*a).wait()):
        with pytest.raises(KeyError) as raised:
            call("w1", raise_key_error)
        assert raised.value.args == ("missing",)
        (note,) = raised.value.__notes__
        assert note.startswith("On worker 'w1':") and "raise_key_error" in note


class NeedsTwo(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")
        self.sum = a + b


class HoldsLock(Exception):
    def __init__(self) -> None:
        super().__init__("cannot pickle me")
        self.lock = threading.Lock()


def raise_needs_two() -> None:
    raise NeedsTwo(1, 2)


def raise_holds_lock() -> None:
    raise HoldsLock


def raise_system_exit() -> None:
    raise SystemExit(3)


def return_lock() -> Any:
    return threading.Lock()


def an_error_whose_class_takes_two_arguments_arrives_as_itself() -> None:
    for call in (rpc.rpc_sync, lambda *args: rpc.remote(*args).to_here()):
        with pytest.raises(NeedsTwo, match=r"^1 and 2") as raised:
            call("w1", raise_needs_two)
        assert raised.value.sum == 3
        assert any("Traceback" in note for note in raised.value.__notes__)


def odd_errors_become_text() -> None:
    for function, text in (
        (raise_holds_lock, "cannot pickle me"),
        (raise_system_exit, "would end its caller.*SystemExit"),
    ):
        with pytest.raises(RemoteError, match=text) as raised:
            rpc.rpc_sync("w1", function)
        assert any("Traceback" in note for note in raised.value.__notes__)
    with pytest.raises(RpcError, match=r"^cannot send the result \(lock\) to another") as refused:
        rpc.rpc_sync("w1", return_lock)
    assert "On worker 'w1'" in refused.value.__notes__[0]
    assert rpc.rpc_sync("w1", who) == "w1"


def relay_error() -> None:
    rpc.rpc_sync("w2", raise_key_error)


def an_error_tells_its_origin_once() -> None:
    with pytest.raises(KeyError) as raised:
        rpc.rpc_sync("w1", relay_error)
    assert [note.splitlines()[0] for note in raised.value.__notes__] == ["On worker 'w2':"]


def bad_arguments() -> None:
    for arguments, kind in (
        (("w1", 3), TypeError),
        (([], who), ValueError),
        (("w1", lambda: 1), RpcError),
        (("w1", add, (threading.Lock(), 1)), RpcError),
    ):
        for call in (rpc.rpc_sync, rpc.rpc_async, rpc.remote):
            with pytest.raises(kind):
                call(*arguments)


def sleeper(seconds: float) -> str:
    threading.Event().wait(seconds)
    return "slept"


def timeouts() -> None:
    for call in (rpc.rpc_sync, lambda *a, timeout: rpc.rpc_async(*a, timeout=timeout).wait()):
        with Standstill() as stood:
            began = time.monotonic()
            with pytest.raises(RpcTimeoutError) as raised:
                call("w1", wait_at, ("timeouts",), timeout=0.1)
            took_s = time.monotonic() - began
        assert 0.099 <= took_s < 0.3 + stood.seconds
        assert str(raised.value).startswith(
            "RPC ran for more than set timeout (100 ms) and will now be marked with an error"
        )
        assert "wait_at on worker 'w1'" in str(raised.value)
    # The lane and the pending table still work for later calls; late answers are dropped.
    assert [rpc.rpc_sync("w1", add, (i, 1)) for i in range(20)] == list(range(1, 21))
    rpc.rpc_sync("w1", open_gate, ("timeouts",))
    deadline = time.monotonic() + 10
    while int(rpc.rpc_sync("w1", rpc._get_debug_info)["agent.server_active_calls"]) > 1:
        assert time.monotonic() < deadline
    agent = rpc._get_current_rpc_agent()
    assert rpc.rpc_async("w1", who).wait() == "w1"
    assert len(agent.progress.timeouts) == 0
    assert agent.counts.client_active == 0


def zero_never_expires() -> None:
    rpc._set_rpc_timeout(0.1)
    try:
        assert rpc.get_rpc_timeout() == 0.1
        assert rpc.rpc_sync("w1", sleeper, (0.2,), timeout=0) == "slept"
        assert rpc.rpc_async("w1", sleeper, (0.2,), timeout=0).wait() == "slept"
        with pytest.raises(RpcTimeoutError):
            rpc.rpc_sync("w1", wait_at, ("zero",))
    finally:
        rpc._set_rpc_timeout(MINUTE_S)
        rpc.rpc_sync("w1", open_gate, ("zero",))


def deadline_here() -> float:
    assert serving.deadline is not None
    return serving.deadline


def deadlines_here_and_in_w2() -> tuple[float, float, float]:
    """Return the deadlines of this call and of a nested call, and how long the nested call took."""
    began = time.monotonic()
    there = rpc.rpc_sync("w2", deadline_here)
    return deadline_here(), there, time.monotonic() - began


def wait_for_w2_until_the_time_is_over() -> float:
    # Simulate a caller's timeout that is almost over; a real timeout might expire before this runs.
    with Standstill() as stood:
        serving.deadline = time.monotonic() + 0.1
        with pytest.raises(RpcTimeoutError):
            rpc.rpc_sync("w2", wait_at, ("nested",))
        late_s = time.monotonic() - serving.deadline
    return late_s - stood.seconds


def a_nested_call_inherits_the_deadline() -> None:
    began = time.monotonic()
    outer, nested, took_s = rpc.rpc_sync("w1", deadlines_here_and_in_w2, timeout=30)
    # A deadline is sent as the number of milliseconds left.
    assert began + 30 <= outer <= time.monotonic() + 30
    assert outer - 0.001 <= nested <= outer + took_s + 0.001
    assert rpc.rpc_sync("w1", wait_for_w2_until_the_time_is_over) < 0.2
    rpc.rpc_sync("w2", open_gate, ("nested",))


def ping_pong(depth: int) -> int:
    if depth == 0:
        return 0
    other = "w0" if rpc.get_worker_info().name == "w1" else "w1"
    return 1 + rpc.rpc_sync(other, ping_pong, (depth - 1,))


def nested_calls() -> None:
    # The calls nest deeper than the number of lanes to one peer and the initial limit of work.
    assert ping_pong(14) == 14


def callback_thread() -> None:
    future = rpc.rpc_async("w1", wait_at, ("callback",))
    told = future.then(lambda done: threading.current_thread().name)
    rpc.rpc_sync("w1", open_gate, ("callback",))
    name = told.wait()
    assert name.startswith("fastdist-rpc-pool"), name
    value = rpc.rpc_async("w1", add, (1, 1)).then(
        lambda done: rpc.rpc_sync("w2", add, (done.value(), 1))
    )
    assert value.wait() == 3


@rpc.functions.async_execution
def add_later(to: str, a: Any, b: Any, c: Any) -> Future[Any]:
    return rpc.rpc_async(to, add, (a, b)).then(lambda done: done.wait() + c)


@rpc.functions.async_execution
def not_async() -> int:
    return 1


class Holder:
    @staticmethod
    @rpc.functions.async_execution
    def static_add(to: str, a: Any, b: Any) -> Future[Any]:
        return rpc.rpc_async(to, add, (a, b))

    @classmethod
    @rpc.functions.async_execution
    def class_add(cls, to: str, a: Any, b: Any) -> Future[Any]:
        future: Future[Any] = Future()
        rpc.rpc_async(to, add, (a, b)).add_done_callback(
            lambda done: future.set_result(done.value())
        )
        return future


def async_functions() -> None:
    assert rpc.rpc_sync("w1", add_later, ("w2", 1, 2, 3)) == 6
    assert rpc.rpc_async("w1", Holder.static_add, ("w2", 1, 2)).wait() == 3
    assert rpc.rpc_sync("w1", Holder.class_add, ("w2", 1, 2)) == 3
    words = (
        r"^Functions decorated with @rpc\.async_function must return a torch\.futures\.Future "
        "object, but got int"
    )
    with pytest.raises(RuntimeError, match=words):
        rpc.rpc_sync("w1", not_async)
    with pytest.raises(TypeError) as raised:
        rpc.rpc_sync("w1", add_later, ("w2", 1, "x", 3))
    assert "On worker 'w2'" in "".join(raised.value.__notes__)


def many_threads() -> None:
    wrong: list[object] = []

    def caller(base: int) -> None:
        for i in range(60):
            if rpc.rpc_sync(f"w{1 + i % 2}", add, (base, i)) != base + i:
                wrong.append((base, i))
            if rpc.rpc_async(f"w{1 + i % 2}", add, (base, i)).wait() != base + i:
                wrong.append((base, i))

    threads = [threading.Thread(target=caller, args=(1000 * k,)) for k in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MINUTE_S)
    assert not wrong
    futures = [rpc.rpc_async("w1", add, (i, 1)) for i in range(2000)]
    assert wait_all(futures) == list(range(1, 2001))


def wait_all_block() -> None:
    with rpc._wait_all():
        futures = [rpc.rpc_async("w1", sleeper, (0.02,)) for _ in range(5)]
    assert all(future.done() for future in futures)


def metrics() -> None:
    agent = rpc._get_current_rpc_agent()
    future = rpc.rpc_async("w1", wait_at, ("metrics",))
    assert rpc._get_debug_info()["agent.client_active_calls"] == "1"
    rpc.rpc_sync("w1", wait_for_arrivals, ("metrics", 1))
    there = rpc.rpc_sync("w1", rpc._get_debug_info)
    assert int(there["agent.server_active_calls"]) >= 2
    assert int(there["agent.thread_pool_size"]) >= 2
    rpc.rpc_sync("w1", open_gate, ("metrics",))
    future.wait()
    info = agent.get_metrics()
    assert set(info) >= {
        *("agent.thread_pool_size", "agent.num_idle_threads", "agent.client_active_calls"),
        *("agent.server_active_calls", "agent.server_active_async_calls"),
    }
    assert "agent.gil_average_wait_time_us" not in info
    rpc.enable_gil_profiling(True)
    rpc.rpc_sync("w0", who)
    assert float(agent.get_metrics()["agent.gil_average_wait_time_us"]) >= 0
    rpc.enable_gil_profiling(False)
    rpc.rpc_sync("w2", who)
    before = agent.counts.network_data()["w2"]
    rpc.rpc_sync("w2", who)
    with pytest.raises(KeyError):
        rpc.rpc_sync("w2", raise_key_error)
    after = agent.counts.network_data()["w2"]
    assert after.num_calls == before.num_calls + 2
    assert after.total_errors == before.total_errors + 1
    assert after.total_sent_bytes > before.total_sent_bytes
    assert after.total_recv_bytes > before.total_recv_bytes


def use_a_fork() -> None:
    child = os.fork()
    if child == 0:
        try:
            rpc.rpc_sync("w1", who)
        except RuntimeError as error:
            os._exit(7 if "a fork of" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert rpc.rpc_sync("w1", who) == "w1"


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "body",
    [
        calls,
        calls_to_oneself,
        tensors_travel,
        errors_cross,
        an_error_whose_class_takes_two_arguments_arrives_as_itself,
        odd_errors_become_text,
        an_error_tells_its_origin_once,
        bad_arguments,
        a_nested_call_inherits_the_deadline,
        nested_calls,
        wait_all_block,
        use_a_fork,
        pytest.param(infos, marks=pytest.mark.seed("T11", "T17")),
        pytest.param(timeouts, marks=pytest.mark.seed("T13", "T19", "T21")),
        pytest.param(zero_never_expires, marks=pytest.mark.seed("T20")),
        pytest.param(callback_thread, marks=pytest.mark.seed("T33")),
        pytest.param(async_functions, marks=pytest.mark.seed("T36")),
        pytest.param(many_threads, marks=pytest.mark.seed("T14")),
        pytest.param(metrics, marks=pytest.mark.seed("T12", "T22", "T23", "T28")),
    ],
    ids=lambda body: body.__name__,
)
def test_rpc(group: Group, body: Any) -> None:
    group[0].run(body)
