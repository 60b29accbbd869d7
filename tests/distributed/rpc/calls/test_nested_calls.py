"""Calls inside calls, back and forth, do not use up the threads that run them."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from queue import SimpleQueue
from typing import Any

import pytest

import fastdist as fd
from fastdist.concurrency import thread_pool
from fastdist.concurrency.future import collect_all
from fastdist.core.errors import RpcTimeoutError
from fastdist.distributed import autograd as da
from fastdist.distributed import rpc
from fastdist.distributed.rpc.agent import get_current_agent
from fastdist.distributed.rpc.workers import worker
from tests.distributed.members import init
from tests.distributed.workers import open_gate, run_group, wait_at, wait_for_arrivals

TWO_THREADS = {"num_worker_threads": 2, "rpc_timeout": 30}


def me() -> str:
    return rpc.get_worker_info().name


def other() -> str:
    return "w1" if me() == "w0" else "w0"


def hop(left: int) -> int:
    """Call back and forth `left` times; return the number of calls."""
    return 0 if left == 0 else 1 + rpc.rpc_sync(other(), hop, (left - 1,))


def hop_async(left: int) -> int:
    if left == 0:
        return 0
    (one,) = collect_all([rpc.rpc_async(other(), hop_async, (left - 1,))]).wait()
    return 1 + int(one.wait())


class Hopper:
    def hop(self, there: Any, left: int) -> int:
        return 0 if left == 0 else 1 + there.rpc_sync().hop(rpc.RRef(self), left - 1)


def hop_by_reference(left: int) -> int:
    return 0 if left == 0 else 1 + rpc.remote(other(), hop_by_reference, (left - 1,)).to_here()


def hop_by_method(left: int) -> int:
    return Hopper().hop(rpc.remote(other(), Hopper), left)


def double(x: fd.Tensor) -> fd.Tensor:
    return x * 2


def hop_in_a_pass(left: int) -> int:
    """Run a pass over both workers in the innermost of `left` nested calls."""
    if left > 0:
        return 1 + rpc.rpc_sync(other(), hop_in_a_pass, (left - 1,))
    x = fd.ones(2, requires_grad=True)
    with da.context() as context_id:
        da.backward(context_id, [rpc.rpc_sync(other(), double, (x,)).sum()])
        assert da.get_gradients(context_id)[x].tolist() == [2.0, 2.0]
    return 0


def call_back_and_forth() -> None:
    init(**TWO_THREADS)
    for how in (hop, hop_async, hop_by_reference, hop_by_method, hop_in_a_pass):
        chains = [rpc.rpc_async(other(), how, (8,)) for _ in range(4)]
        assert [chain.wait() for chain in chains] == [8] * 4, how.__name__
    if me() == "w0":
        many = [rpc.rpc_async("w1", hop, (2,)) for _ in range(40)]
        assert [one.wait() for one in many] == [2] * 40
    rpc.shutdown()


@pytest.mark.one_in(3)
def test_calls_that_call_back_however_deep_and_many_need_no_more_threads_than_there_are() -> None:
    run_group(call_back_and_forth, 2)


class Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.line = ""
        self.is_told = threading.Event()
        logging.getLogger("fastdist").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.line = record.getMessage()
        self.is_told.set()


heard: list[Heard] = []
STUCK = "all 2 threads of worker 'w1' wait for their own calls, and "


both_run = threading.Barrier(2)


def hop_once_both_run(left: int) -> int:
    both_run.wait(20)
    return hop(left)


def listen() -> None:
    heard.append(Heard())


def line() -> str:
    assert heard[0].is_told.wait(20)
    return heard[0].line


def call_w1() -> int:
    """Call the worker whose threads all wait, with a timeout longer than the caller has left."""
    return int(rpc.rpc_sync("w1", abs, (-1,), timeout=300.0))


def fail_behind() -> str:
    """Call w0, which waits for w1, whose threads all wait; return the error."""
    with pytest.raises(RpcTimeoutError) as failed:
        rpc.rpc_sync("w0", call_w1, timeout=1.0)
    return str(failed.value)


def use_up_all_threads() -> None:
    thread_pool.MAX_LOANS = 0  # type: ignore[misc]
    worker.BEAT_S = 0.1  # type: ignore[misc]
    num_threads = 2 if os.environ["RANK"] == "1" else 8
    if init(num_worker_threads=num_threads, rpc_timeout=30) == 0:
        rpc.rpc_sync("w1", listen)
        chains = [rpc.rpc_async("w1", hop_once_both_run, (2,), timeout=2.0) for _ in range(2)]
        until = time.monotonic() + 20.0
        while not get_current_agent().worker("w1").stuck.is_recent:
            assert time.monotonic() < until
            rpc.rpc_sync("w2", abs, (-1,))
        behind = rpc.rpc_sync("w2", fail_behind)
        assert f"{STUCK}none is left for calls of others" in behind, behind
        assert "call_w1 on worker 'w0'" in behind or "abs on worker 'w1'" in behind
        # One of the two calls may still end in time, once the other call has ended.
        errors = [chain.exception() for chain in chains if chain.wait_until_done()]
        failed = [error for error in errors if error is not None]
        for error in failed:
            assert isinstance(error, RpcTimeoutError)
            assert f"{STUCK}none is left for calls of others" in str(error)
        assert failed
        assert rpc.rpc_sync("w1", line).startswith(f"{STUCK}calls of others wait for a thread")
    rpc.shutdown()


@pytest.mark.one_in(3)
def test_where_all_threads_wait_the_error_says_so_and_what_to_do() -> None:
    run_group(use_up_all_threads, 3)


def call_in_a_call() -> str:
    with pytest.raises(RpcTimeoutError) as failed:
        rpc.rpc_sync(other(), wait_at, ("nested",))
    return str(failed.value)


late: SimpleQueue[str] = SimpleQueue()


def note_late() -> None:
    late.put(call_in_a_call())
    # Wait: both calls time out together, and a caller that wakes late would accept an answer.
    wait_at("the caller has timed out")


def late_text() -> str:
    wait_for_arrivals("nested", 1)
    told = rpc.rpc_sync("w1", read_late)
    open_gate("nested")
    return str(told)


def read_late() -> str:
    return late.get(timeout=20)


def time_out_inside() -> None:
    if init(rpc_timeout=60) == 0:
        with pytest.raises(RpcTimeoutError, match=r"^RPC ran for more than set timeout \(200 ms\)"):
            rpc.rpc_sync("w1", note_late, timeout=0.2)
        rpc.rpc_sync("w1", open_gate, ("the caller has timed out",))
        left = r"RPC ran for more than set timeout \((1\d\d|200) ms\) .*: wait_at on worker 'w0'"
        whose = r"the call in which worker 'w1' made it had no more time left \(its own timeout is "
        assert re.match(f"{left}.*; {whose}60000 ms", late_text())
    rpc.shutdown()


@pytest.mark.one_in(4)
def test_a_call_that_ends_with_the_one_around_it_says_whose_time_is_over() -> None:
    run_group(time_out_inside, 2)
