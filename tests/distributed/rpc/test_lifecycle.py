"""Joining and leaving: wrong names and sizes, shutdown, restarts."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from typing import Any

import pytest

from fastdist.concurrency import thread_pool
from fastdist.core.errors import RpcError, RpcNotRunningError, ShutdownIncomplete
from fastdist.distributed import rpc
from fastdist.distributed.rpc import agent as agents
from fastdist.distributed.store import connection, wait_log
from fastdist.distributed.store.requests import Answer, Op, Request
from fastdist.distributed.store.state import StoreState
from tests.device_kinds import KINDS, kind_here, told
from tests.distributed.members import init
from tests.distributed.workers import Group, run_group
from tests.standstill import Standstill


def who() -> str:
    return rpc.get_worker_info().name


def hold(seconds: float = 30.0) -> str:
    threading.Event().wait(seconds)
    return "held"


def ping_until_it_answers(worker: str) -> str:
    deadline = time.monotonic() + 10
    while True:
        try:
            return rpc.rpc_async(worker, who, timeout=5).wait()
        except RpcError:
            assert time.monotonic() < deadline


# ---- beginnings ---------------------------------------------------------------------------------


def try_init(name: str, world_size: int, timeout_s: float = 30.0) -> str:
    options = rpc.TensorPipeRpcBackendOptions(init_timeout=timeout_s)
    connection._GRACE_S = 30.0  # so that a stopped process still gets the store's answer
    try:
        rpc.init_rpc(name, world_size=world_size, rpc_backend_options=options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    rpc.shutdown()
    return "ok"


def init_under_one_name() -> str:
    return try_init("same", 2)


@pytest.mark.one_in(3)
@pytest.mark.seed("T16", "T40")
def test_two_workers_of_one_name_are_told_both() -> None:
    for answer in run_group(init_under_one_name, 2):
        assert answer.startswith("RpcError: RPC worker name same is not unique: ranks 0 and 1")


def init_with_wrong_world() -> str:
    rank = int(os.environ["RANK"])
    os.environ["WORLD_SIZE"] = str(2 + rank)
    return try_init(f"w{rank}", 2 + rank)


@pytest.mark.one_in(8)
def test_two_workers_that_disagree_on_the_world_size_are_told_both() -> None:
    for answer in run_group(init_with_wrong_world, 2):
        assert answer != "ok" and "world size" in answer.replace("_", " "), answer


def init_alone() -> str:
    if os.environ["RANK"] == "1":
        return "never came"
    began = time.monotonic()
    with Standstill() as stood:
        answer = try_init("w0", 2, timeout_s=1.0)
    waited_s = time.monotonic() - began
    assert waited_s > 0.9 and waited_s - stood.seconds < 5
    return answer


@pytest.mark.one_in(8)
def test_a_missing_worker_is_named_at_the_init_timeout() -> None:
    answer, _ = run_group(init_alone, 2)
    assert answer.startswith("StoreTimeoutError") and "1 of 2 ranks did not join" in answer


def begin_to_wait_after_rank_1() -> None:
    """Make rank 0 join the others in its store only after rank 1 waits in that store."""
    submit, somebody_waits = StoreState.submit, threading.Event()

    def submit_and_tell(state: StoreState, request: Request, now: float) -> list[Answer]:
        answers = submit(state, request, now)
        if request.op is Op.JOIN:
            somebody_waits.set()
        return answers

    StoreState.submit = submit_and_tell  # type: ignore[method-assign]
    agents.add_hooks(lambda worker_id: require(somebody_waits.wait(30)), lambda: None)


def require(condition: bool) -> None:
    assert condition


def init_until_rank_0_gives_up() -> str:
    rank = int(os.environ["RANK"])
    os.environ["WORLD_SIZE"] = "3"
    # Rank 1 waits in one long request, because rank 0 could not answer it between two requests.
    wait_log._FIRST_S = 30.0  # type: ignore[misc]
    if rank == 0:
        begin_to_wait_after_rank_1()
    return try_init(f"w{rank}", 3, timeout_s=30.0 if rank else 1.0)


@pytest.mark.one_in(8)
def test_all_hear_who_is_missing_when_the_first_gives_up() -> None:
    answers = run_group(init_until_rank_0_gives_up, 2)
    for answer in answers:
        assert answer.startswith("StoreTimeoutError"), answer
        assert re.search(r"1 of 3 ranks did not join within [\d.]+ s: 2;", answer), answer
    assert "was closed by its host" in answers[1], answers[1]


def init_twice() -> None:
    before = sys.getswitchinterval()
    init()
    assert sys.getswitchinterval() == pytest.approx(5e-4)
    with pytest.raises(RpcError, match="RPC is already initialized"):
        init()
    rpc.shutdown()
    assert sys.getswitchinterval() == before
    init()
    assert rpc.rpc_sync("w0", who) == "w0"
    rpc.shutdown()
    assert [t.name for t in threading.enumerate() if t.name.startswith("fastdist-rpc")] == []


@pytest.mark.one_in(8)
def test_a_worker_can_leave_and_join_again() -> None:
    run_group(init_twice, 2)


# ---- ends ---------------------------------------------------------------------------------------


def chain(depth: int) -> int:
    hold(0.05)
    if depth:
        other = f"w{1 - rpc.get_worker_info().id}"
        followers.append(rpc.rpc_async(other, chain, (depth - 1,)))
    return depth


followers: list[Any] = []


def shut_down_while_a_chain_runs() -> int:
    init()
    if os.environ["RANK"] == "0":
        followers.append(rpc.rpc_async("w1", chain, (6,)))
    rpc.shutdown()
    assert all(future.done() and future.exception() is None for future in followers)
    assert [t.name for t in threading.enumerate() if t.name.startswith("fastdist")] == []
    return len(followers)


@pytest.mark.one_in(3)
@pytest.mark.seed("T30", "T32")
def test_a_graceful_shutdown_waits_for_nested_and_follow_up_calls() -> None:
    assert sum(run_group(shut_down_while_a_chain_runs, 2)) == 7


def shut_down_without_w1() -> str:
    began = time.monotonic()
    with Standstill() as stood, pytest.raises(ShutdownIncomplete) as raised:
        rpc.shutdown(timeout=0.7)
    assert time.monotonic() - began - stood.seconds < 3
    assert not rpc._is_current_rpc_agent_set()
    return str(raised.value)


def leave_at_once() -> None:
    rpc.shutdown(graceful=False)


@pytest.mark.one_in(8)
def test_a_shutdown_that_nobody_joins_names_who_is_missing() -> None:
    group = Group(__file__, 2)
    try:
        group.run_all(init)
        assert "missing: w1" in group[0].run(shut_down_without_w1)
        group[1].run(leave_at_once)
        assert group.end() == [0, 0]
    finally:
        group.kill()


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.mark.one_in(3)
@pytest.mark.seed("T29")
def test_a_shutdown_logs_nothing_of_peers_that_close() -> None:
    assert run_group(shut_down_and_listen, 3) == [[], [], []]


def shut_down_and_listen() -> list[str]:
    records = Records()
    logging.getLogger().addHandler(records)
    init()
    for worker in ("w0", "w1", "w2"):
        assert rpc.rpc_sync(worker, who) == worker
    rpc.shutdown()
    return records.lines


def send_after_the_end() -> None:
    init()
    agent: Any = rpc._get_current_rpc_agent()
    info = rpc.get_worker_info("w1")
    rpc.shutdown()
    with pytest.raises(RpcNotRunningError, match="has not been initialized"):
        rpc.rpc_sync("w1", who)
    text = r"^Node [01] tried to send\(\) a message .* but RPC is no longer running on this node\."
    with pytest.raises(RpcNotRunningError, match=text):
        agent.call(info, who, (), {}, 1.0)
    with pytest.raises(RpcNotRunningError, match=text):
        agent.call_async(info, who, (), {}, 1.0)


@pytest.mark.seed("T34")
def test_a_call_after_the_end_says_so() -> None:
    run_group(send_after_the_end, 2)


def end_without_shutdown() -> None:
    init()
    rpc.rpc_sync("w0", who)


@pytest.mark.one_in(8)
def test_a_process_may_end_without_shutdown() -> None:
    run_group(end_without_shutdown, 2)


def count_idle_seconds() -> float:
    init()
    for worker in ("w0", "w1"):
        rpc.rpc_sync(worker, who)
        rpc.rpc_async(worker, who).wait()
    hold(0.3)
    before = time.process_time()
    hold(3.0)
    used = time.process_time() - before
    rpc.shutdown()
    return used / 3.0


@pytest.mark.one_in(8)
def test_idle_workers_use_no_processor() -> None:
    assert sum(run_group(count_idle_seconds, 2)) < 0.05


# ---- groups without a world size ----------------------------------------------------------------


def join_dynamically() -> list[str]:
    rank = int(os.environ["RANK"])
    store = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    options = rpc.TensorPipeRpcBackendOptions(init_method=store)
    rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options)
    seen = []
    if rank == 0:
        deadline = time.monotonic() + 20
        while len(seen) < 3:
            assert time.monotonic() < deadline
            seen = [info.name for info in rpc._get_current_rpc_agent().get_worker_infos()]
        for name in seen:
            assert ping_until_it_answers(name) == name
            rpc.rpc_sync(name, set_may_leave)
    assert may_leave.wait(30)
    rpc.shutdown()
    return seen


may_leave = threading.Event()


def set_may_leave() -> None:
    may_leave.set()


@pytest.mark.one_in(3)
@pytest.mark.seed("T18", "T31")
def test_workers_without_a_world_size_find_each_other() -> None:
    assert run_group(join_dynamically, 3)[0] == ["w0", "w1", "w2"]


def call_from_the_first_moment() -> list[str]:
    """Receive a request while init_rpc has not returned yet."""
    seen: list[bool] = []
    start = thread_pool.ThreadPool.start

    def look_and_start(pool: thread_pool.ThreadPool) -> None:
        seen.append(rpc._is_current_rpc_agent_set())
        start(pool)

    thread_pool.ThreadPool.start = look_and_start  # type: ignore[method-assign]
    init()
    rpc.shutdown()
    assert seen == [True]
    return []


@pytest.mark.one_in(8)
def test_a_worker_can_make_calls_before_the_first_request_comes() -> None:
    run_group(call_from_the_first_moment, 1)


def join_leave_and_join_again() -> list[str]:
    """Leave a dynamic group and rejoin under the same name and rank, while w0 stays."""
    rank = int(os.environ["RANK"])
    store = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    for life in range(3 if rank else 1):
        # Groups are numbered in the store; reset the counter so that the worker rejoins the same
        # group.
        rpc.init._init_counter = 0  # type: ignore[attr-defined]
        options = rpc.TensorPipeRpcBackendOptions(init_method=store)
        rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options)
        if rank:
            assert rpc.rpc_sync("w0", call_back, (life,)) == "w1"
            rpc.shutdown()
    if rank == 0:
        assert all_lives.wait(30)
        rpc.shutdown()
    return []


all_lives = threading.Event()


def call_back(life: int) -> str:
    answer = rpc.rpc_sync("w1", who, timeout=10)
    if life == 2:
        all_lives.set()
    return answer


@pytest.mark.one_in(8)
def test_a_worker_can_leave_a_dynamic_group_and_come_back() -> None:
    run_group(join_leave_and_join_again, 2)


# ---- devices ------------------------------------------------------------------------------------


def same(value: Any) -> Any:
    return value


def device_of(value: Any) -> str:
    return str(value.device)


def tensors_of_devices_travel() -> None:
    import fastdist

    kind = kind_here()
    init(device_maps={"w1": {f"{kind}:0": f"{kind}:1"}} if os.environ["RANK"] == "0" else None)
    if os.environ["RANK"] == "0":
        x = fastdist.tensor([1.0, 2.0], device=f"{kind}:0")
        assert rpc.rpc_sync("w1", device_of, (x,)) == f"{kind}:1"
        back = rpc.rpc_sync("w1", same, ([x, x],))
        assert [str(t.device) for t in back] == [f"{kind}:0", f"{kind}:0"]
        assert back[0].tolist() == [1.0, 2.0]
        text = "^TensorPipe RPC backend only supports CPU tensors by default, please move"
        with pytest.raises(RuntimeError, match=text):
            rpc.rpc_sync("w1", same, (fastdist.tensor([1.0], device=f"{kind}:1"),))
        with pytest.raises(RuntimeError, match=text):
            rpc.rpc_sync("w1", make_on_device)
    rpc.shutdown()


def make_on_device() -> Any:
    import fastdist

    return fastdist.tensor([1.0], device=f"{kind_here()}:0")


@pytest.mark.seed("T35")
@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_devices_travel_where_the_map_says_and_nowhere_else(kind: str) -> None:
    run_group(tensors_of_devices_travel, 2, environment=told(kind))
