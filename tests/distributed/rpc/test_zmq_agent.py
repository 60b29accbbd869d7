"""Properties of an agent: ids, times, counters, errors, and its end."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import fastdist
from fastdist.core.errors import (
    RpcError,
    RpcNotRunningError,
    RpcTimeoutError,
    ShutdownIncomplete,
)
from fastdist.distributed import rpc
from fastdist.distributed.rpc.workers.directory import StoreDirectory
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.rpc.workers.worker import Worker
from fastdist.distributed.rpc.zmq_agent import ZmqAgent
from fastdist.distributed.store import FileStore, PrefixStore
from fastdist.futures import Future, wait_all
from tests.distributed.members import join, members
from tests.distributed.workers import Group, run_group

THREADS = 4


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 2, num_worker_threads=THREADS) as group:
        yield group


def who() -> str:
    return rpc.get_worker_info().name


def size_of(x: Any) -> int:
    return int(x.numel())


def ones(count: int) -> Any:
    return fastdist.ones(count)


_gate = threading.Event()


def open_gate() -> None:
    _gate.set()


def close_gate() -> None:
    _gate.clear()


def wait_at_gate() -> str:
    assert _gate.wait(20)
    return "passed"


def fail_on_purpose() -> None:
    raise ArithmeticError("on purpose")


# ---- each function below runs in worker 0 -------------------------------------------------------


def ids_are_counted() -> None:
    agent: Any = rpc._get_current_rpc_agent()
    ids: list[int] = []
    number = agent.client.number

    def note(call: Any) -> None:
        number(call)
        ids.append(call.message.message_id)

    agent.client.number = note
    try:
        for _ in range(3):
            rpc.rpc_sync("w1", who)
            rpc.rpc_async("w1", who).wait()
    finally:
        agent.client.number = number
    assert ids == [*range(ids[0], ids[0] + 6)]


def unset_is_the_default() -> None:
    rpc.rpc_sync("w1", close_gate)
    before = rpc.get_rpc_timeout()
    rpc._set_rpc_timeout(0.0509)
    try:
        for call in (rpc.rpc_sync, lambda *a, timeout: rpc.rpc_async(*a, timeout=timeout).wait()):
            with pytest.raises(
                RpcTimeoutError, match=r"^RPC ran for more than set timeout \(50 ms"
            ):
                call("w1", wait_at_gate, (), timeout=-1)
            # The caller keeps nothing for an answer that may never arrive. It notifies the peer
            # that the call was given up, and the peer answers this notification a moment later.
            agent: Any = rpc._get_current_rpc_agent()
            soon = time.monotonic() + 5.0
            while agent.workers.reach(1).pipe.num_pending():
                assert time.monotonic() < soon
                threading.Event().wait(0.001)
            assert len(agent.progress.timeouts) == 0
    finally:
        rpc._set_rpc_timeout(before)
        rpc.rpc_sync("w1", open_gate)


def bytes_are_counted_by_destination() -> None:
    agent: Any = rpc._get_current_rpc_agent()
    rpc.rpc_sync("w0", who), rpc.rpc_sync("w1", who)
    before = agent.counts.network_data()
    assert rpc.rpc_sync("w1", size_of, (fastdist.ones(25_000),)) == 25_000
    assert rpc.rpc_async("w1", ones, (50_000,)).wait().shape == (50_000,)
    after = agent.counts.network_data()
    sent = after["w1"].total_sent_bytes - before["w1"].total_sent_bytes
    received = after["w1"].total_recv_bytes - before["w1"].total_recv_bytes
    assert 100_000 < sent < 101_000 and 200_000 < received < 201_000
    assert after["w1"].num_calls == before["w1"].num_calls + 2
    assert after["w1"].total_errors == before["w1"].total_errors
    assert after["w0"] == before["w0"]


@rpc.functions.async_execution
def answer_at_gate() -> Future[str]:
    _answers.append(Future())
    return _answers[-1]


_answers: list[Future[str]] = []


def give_answers() -> None:
    while _answers:
        _answers.pop().set_result("later")


def functions_that_answer_later_hold_no_thread() -> None:
    count = 10 * THREADS
    futures = [rpc.rpc_async("w1", answer_at_gate) for _ in range(count)]
    # Although all calls have started and none has ended, further calls still find a free thread.
    while int(rpc.rpc_sync("w1", server_calls)) < count:
        pass
    assert int(rpc.rpc_sync("w1", pool_size)) < count
    assert rpc._get_debug_info()["agent.client_active_calls"] == str(count)
    rpc.rpc_sync("w1", give_answers)
    assert [future.wait() for future in futures] == ["later"] * count
    assert rpc.rpc_sync("w1", server_calls) == "0"


def server_calls() -> str:
    info: dict[str, str] = rpc._get_current_rpc_agent().get_metrics()
    return info["agent.server_active_async_calls"]


def pool_size() -> str:
    info: dict[str, str] = rpc._get_current_rpc_agent().get_metrics()
    return info["agent.thread_pool_size"]


def raise_at_gate() -> None:
    wait_at_gate()
    raise KeyError("missing")


def thread_name(done: Future[Any]) -> str:
    return threading.current_thread().name


def callbacks_run_in_the_pool_however_a_call_ends() -> None:
    close_gate(), rpc.rpc_sync("w1", close_gate)
    are_attached = threading.Event()
    agent: Any = rpc._get_current_rpc_agent()
    # Block the thread that expires calls until the callbacks are attached. A callback that is
    # attached to an ended call would run in this thread.
    agent.client.progress.post(are_attached.wait, 20)
    ends = [
        rpc.rpc_async("w1", wait_at_gate),
        rpc.rpc_async("w0", wait_at_gate),
        rpc.rpc_async("w1", raise_at_gate),
        rpc.rpc_async("w1", wait_at_gate, timeout=0.05),
    ]
    names: list[Future[str]] = [end.then(thread_name) for end in ends]
    are_attached.set()
    late = names[-1].wait(20)
    open_gate(), rpc.rpc_sync("w1", open_gate)
    for name in [*wait_all(names), late]:
        assert name.startswith("fastdist-rpc-pool"), name


def what_is_done_meanwhile_is_done_when_requests_have_left() -> None:
    agent: Any = rpc._get_current_rpc_agent()
    there = agent.worker("w1")

    def open_it() -> None:
        rpc.rpc_sync("w1", open_gate)

    for lane in (mock.DEFAULT, None):  # a separate lane, or the shared one
        rpc.rpc_sync("w1", close_gate)
        with mock.patch.object(
            there.pipe, "borrow_lane", wraps=there.pipe.borrow_lane
        ) as borrow_lane:
            borrow_lane.side_effect = [lane, lane, mock.DEFAULT]
            calls = [(there.info, wait_at_gate, ()), (there.info, fail_on_purpose, ())]
            passed, failed = agent.call_each(calls, open_it)
            assert passed.value() == "passed"
            with pytest.raises(ArithmeticError, match="on purpose"):
                failed.value()


def calls_that_an_interrupt_leaves_behind_hold_no_lane() -> None:
    agent: Any = rpc._get_current_rpc_agent()
    there = agent.worker("w1")
    rpc.rpc_sync("w1", close_gate)
    calls = [(there.info, wait_at_gate, ())] * 2
    with pytest.raises(KeyboardInterrupt):
        agent.call_each(calls, raise_interrupt)
    rpc.rpc_sync("w1", open_gate)
    assert there.pipe._lanes_out == 0


def raise_interrupt() -> None:
    raise KeyboardInterrupt


def misses_say_who_asked_for_whom() -> None:
    me = f"name:w{os.environ['RANK']},rank:{os.environ['RANK']}"
    with pytest.raises(RpcError, match=f"^{me} could not find destination name nope"):
        rpc.get_worker_info("nope")
    with pytest.raises(RpcError, match=f"^{me} could not find destination id 17"):
        rpc.get_worker_info(17)
    with pytest.raises(RpcError, match=f"^{me} could not find destination name nope"):
        rpc.rpc_sync("nope", who)


def kinds_that_are_none_are_refused_here() -> None:
    agent: Any = rpc._get_current_rpc_agent()
    with pytest.raises(ValueError, match="is not a valid MessageType"):
        agent.send(agent.workers.reach(1), 0x1FF)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(ids_are_counted, marks=pytest.mark.seed("T18")),
        pytest.param(unset_is_the_default, marks=pytest.mark.seed("T13", "T19", "T20")),
        pytest.param(bytes_are_counted_by_destination, marks=pytest.mark.seed("T12")),
        pytest.param(
            functions_that_answer_later_hold_no_thread, marks=pytest.mark.seed("T28", "T36")
        ),
        pytest.param(callbacks_run_in_the_pool_however_a_call_ends, marks=pytest.mark.seed("T33")),
        kinds_that_are_none_are_refused_here,
        pytest.param(misses_say_who_asked_for_whom, marks=pytest.mark.seed("T17")),
        what_is_done_meanwhile_is_done_when_requests_have_left,
        calls_that_an_interrupt_leaves_behind_hold_no_lane,
    ],
    ids=lambda body: body.__name__,
)
def test_agent(group: Group, body: Any) -> None:
    group[0].run(body)


# ---- its beginning and its end ------------------------------------------------------------------


def look_into_the_store() -> tuple[list[str], list[str], int]:
    join({"num_worker_threads": THREADS})
    agent: Any = rpc._get_current_rpc_agent()
    first_call = SimpleNamespace(message=SimpleNamespace())
    agent.client.number(first_call)
    names, addrs = PrefixStore("names", agent.store), PrefixStore("addrs", agent.store)
    found = [names.get(str(rank)).decode() for rank in range(4)]
    of_their_own = agent.me.addresses
    addresses = [json.loads(addrs.get(name)) for name in found]
    assert addresses[agent.me.rank] == of_their_own
    rpc.shutdown()
    return found, [entry["uv"] for entry in addresses], first_call.message.message_id


@pytest.mark.one_in(3)
@pytest.mark.seed("T16", "T18")
def test_members_find_each_other_through_prefixes_of_one_store() -> None:
    answers = run_group(look_into_the_store, 4)
    for rank, (names, addresses, first_id) in enumerate(answers):
        assert names == ["w0", "w1", "w2", "w3"]
        assert addresses == answers[0][1] and len(set(addresses)) == 4
        assert first_id == rank << 48


def init_with(file: str, **options: Any) -> None:
    options = {"init_method": f"file://{file}", **options}
    rpc.init_rpc(
        f"w{os.environ['RANK']}",
        rank=int(os.environ["RANK"]),
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(**options),
        world_size=int(os.environ["WORLD_SIZE"]),
    )


def shut_down(timeout_s: float) -> str:
    try:
        rpc.shutdown(timeout=timeout_s)
    except ShutdownIncomplete as error:
        return str(error)
    return "all came"


@pytest.mark.one_in(3)
@pytest.mark.seed("T16")
def test_the_store_tells_who_came_to_a_shutdown_where_its_leader_cannot(tmp_path: Path) -> None:
    file = str(tmp_path / "store")
    group = Group(__file__, 4)
    try:
        group.run_all(init_with, file)
        group[0].kill(signal.SIGSTOP)
        for rank in (1, 2):
            group[rank].start(shut_down, 1.0)
        for rank in (1, 2):
            said = group[rank].result()
            assert "missing: w0 (which leads the barrier, and does not answer), w3" in said
    finally:
        group.kill()
    # Read the store as a fifth process, after the workers have ended. The last of four processes
    # that close the store would remove its file.
    store = FileStore(file, 5)
    shutdown = StoreDirectory(PrefixStore("rpc_prefix_0", store), 10.0, b"shutdown")
    with store:
        members = shutdown.find([1, 2])
        assert [one and one.name for one in members] == ["w1", "w2"]
        assert shutdown.missing() == ([0, 3], 0)


def send_after_the_end() -> None:
    join({"num_worker_threads": THREADS})
    agent: Any = rpc._get_current_rpc_agent()
    info = rpc.get_worker_info("w1")
    rpc.shutdown()
    text = (
        rf"^Node {os.environ['RANK']} tried to send\(\) a message of type PYTHON_CALL but RPC is "
        r"no longer running on this node\."
    )
    for call in (agent.call, agent.call_async):
        with pytest.raises(RpcNotRunningError, match=text):
            call(info, who, (), {}, 1.0)
    text = text.replace("PYTHON_CALL", "CLEANUP_AUTOGRAD_CONTEXT_REQ")
    with pytest.raises(RpcNotRunningError, match=text):
        agent.send(1, rpc.MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ)


@pytest.mark.one_in(3)
@pytest.mark.seed("T34")
def test_a_message_after_the_end_is_refused_by_its_type() -> None:
    run_group(send_after_the_end, 2)


def end_with_a_call_under_way() -> None:
    join({"num_worker_threads": THREADS})
    agent: Any = rpc._get_current_rpc_agent()
    order: list[str] = []

    def note(what: str, owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            finally:
                order.append(what)

        setattr(owner, name, noted)

    future = rpc.rpc_async("w0", wait_at_gate)
    ended = future.then(lambda done: (threading.current_thread().name, repr(done.exception())))
    ended.add_done_callback(lambda done: order.append("callback"))
    note("timeouts", agent.progress.timeouts, "close")
    note("pipe", Worker, "close")
    note("progress", agent.client.progress, "stop")
    note("pool", agent.pool, "stop")
    note("listener", agent._listener, "close")
    # The function ends after the pipes are closed. The pool waits for this function, and then runs
    # the remaining work.
    ended.add_done_callback(lambda done: open_gate())
    rpc.shutdown(graceful=False)
    assert order.index("callback") < order.index("pool")
    order.remove("callback")
    assert order == ["timeouts", "pipe", "progress", "pool", "listener"]
    thread, error = ended.value()
    assert thread.startswith("fastdist-rpc-pool") and "has shut down RPC" in error
    assert [t.name for t in threading.enumerate() if t.name.startswith("fastdist-rpc")] == []


@pytest.mark.seed("T32")
def test_a_shutdown_ends_timeouts_then_pipes_then_io_then_the_pool() -> None:
    run_group(end_with_a_call_under_way, 1)


@pytest.mark.one_in(8)
def test_a_worker_without_a_network_is_where_others_of_its_machine_find_it() -> None:
    me = Record("w3", 3, 4, 100, {"ipc": "ipc:///run/w3"}, {}, "none")
    agent: Any = SimpleNamespace(me=me)
    info = ZmqAgent.get_network_source_info(agent)
    assert (info.src_rank, info.src_machine_addr) == (3, b"ipc:///run/w3")
