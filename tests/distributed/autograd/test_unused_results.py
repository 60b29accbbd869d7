"""Unused results have no gradients, and do not block a pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import GraphError, RpcError, RpcTimeoutError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.agent import get_current_agent
from fastdist.distributed.rpc.message.ids import id_text
from tests.distributed.autograd.on_worker import on_worker, outside
from tests.distributed.autograd.programs import (
    close,
    first_of,
    leaf,
    mix_along,
    mix_at,
)
from tests.distributed.workers import open_gate, wait_at, wait_for_arrivals

pytestmark = pytest.mark.usefixtures("workers_hold_nothing")


@contextmanager
def asking_after(timeout_s: float) -> Iterator[None]:
    """Set the RPC timeout in the block; a root waits for this time before it queries workers."""
    rpc._set_rpc_timeout(timeout_s)
    try:
        yield
    finally:
        rpc._set_rpc_timeout(30)


@pytest.mark.seed("E13", "E14")
@on_worker(0)
def test_a_result_that_nobody_uses_is_named_within_two_timeouts() -> None:
    a = leaf(1)
    with da.context() as context_id:
        rpc.rpc_sync("w1", first_of, (a,))
        used = rpc.rpc_sync("w2", first_of, (a,))
        (unused,) = (
            message_id for message_id in outside(rpc.rpc_sync, "w1", send_ids, (context_id,))
        )
        expected = rf"stalled: no gradient.*worker 'w1' \(message ids {id_text(unused)}\)"
        with asking_after(0.3), pytest.raises(GraphError, match=expected):
            da.backward(context_id, [used.sum()], mode="fast")


def send_ids(context_id: int) -> list[int]:
    return list(da._retrieve_context(context_id)._send_functions())


@pytest.mark.seed("E13")
@on_worker(0)
def test_a_result_that_nobody_uses_far_away_is_named_too() -> None:
    a, expected = leaf(1), r"stalled.*worker 'w2' \(message ids 2:\d+\)"
    with da.context() as context_id:
        used = rpc.rpc_sync("w1", call_and_forget, (a,))
        with asking_after(0.3), pytest.raises(GraphError, match=expected):
            da.backward(context_id, [used.sum()], mode="fast")


def call_and_forget(a: Tensor) -> Tensor:
    rpc.rpc_sync("w2", first_of, (a,))
    return a * 2


def call_and_forget_all(a: Tensor) -> None:
    rpc.rpc_sync("w2", call_and_forget_back, (a * 2,))


def call_and_forget_back(a: Tensor) -> Tensor:
    return rpc.rpc_sync("w0", first_of, (a * 3,))


@on_worker(0)
def test_results_that_nobody_uses_have_no_gradients() -> None:
    a, b, c = leaf(1), leaf(2), leaf(3)
    with da.context() as context_id:
        for to in ("w0", "w1", "w2"):
            rpc.rpc_sync(to, first_of, (b,))
            rpc.rpc_sync(to, type, (c,))  # returns nothing differentiable
            rpc.rpc_sync(to, call_and_forget_all, (c,))
        used = rpc.rpc_sync("w1", call_and_forget, (a,))
        # Only a call without a differentiable result uses this result.
        rpc.rpc_sync("w1", type, (rpc.rpc_sync("w1", first_of, (c,)) * 2,))
        da.backward(context_id, [used.sum()])
        found = da.get_gradients(context_id)
        assert list(map(id, found)) == [id(a)] and (found[a].numpy() == 2).all()


@on_worker(0)
def test_a_second_pass_may_use_other_results_than_the_first() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        y, z = rpc.rpc_sync("w1", first_of, (a,)), mix_at(a, b, "w1", "w2")
        da.backward(context_id, [y.sum()], retain_graph=True)
        assert (da.get_gradients(context_id)[a].numpy() == 2).all()
        assert b not in da.get_gradients(context_id)
        da.backward(context_id, [z.sum()])
        found = da.get_gradients(context_id)
    (a * 2).sum().backward()
    mix_along(a, b, 2).sum().backward()
    assert close(found[a], a.grad) and close(found[b], b.grad)


@on_worker(0)
def test_an_answer_without_a_gradient_does_not_slow_a_pass_down() -> None:
    a, took_s = leaf(1), []
    for _ in range(8):
        with da.context() as context_id:
            used = rpc.rpc_sync("w2", first_of, (a,))
            assert rpc.rpc_sync("w1", metric, (used,)) == used.sum().item()
            began = time.monotonic()
            da.backward(context_id, [used.sum()])
            took_s.append(time.monotonic() - began)
            assert da.get_gradients(context_id)[a].sum().item() == 2.0 * a.numel()
    # The machine may be busy during some runs, but not during all.
    assert min(took_s) < 0.15


def metric(x: Tensor) -> float:
    return float(x.sum().item())


@on_worker(0)
def test_a_pass_of_one_process_says_that_it_does_not_reach_the_others() -> None:
    a = leaf(1)
    with da.context() as context_id:
        y = rpc.rpc_sync("w1", first_of, (a,)).sum()
        expected = (
            r"^RecvRpcBackward: this graph continues on worker 1, .*distributed.autograd.back"
        )
        with pytest.raises(GraphError, match=expected):
            y.backward(retain_graph=True)
        with pytest.raises(GraphError, match=expected):
            y.backward(create_graph=True)
        da.backward(context_id, [y])
        assert da.get_gradients(context_id)[a].sum().item() == 2.0 * a.numel()


def fail_in_queue(a: Tensor) -> None:
    """Let a call time out while it waits for a thread at its callee."""
    threads = get_current_agent().options.num_worker_threads  # type: ignore[attr-defined]
    gate = f"queued in {da.current_context_id()}"
    held = [outside(rpc.rpc_async, "w1", be_held, (gate,)) for _ in range(threads)]
    wait_for_arrivals(gate, threads)
    with pytest.raises(RpcTimeoutError):
        rpc.rpc_sync("w1", first_of, (a,), timeout=0.05)
    _afterwards.append(lambda: [open_gate(gate), *[one.wait() for one in held]])


def be_held(gate: str) -> str:
    """Block a thread of the pool: a thread that waits for a call would serve other calls."""
    opened = threading.Event()
    waits = rpc.rpc_async("w0", wait_at, (gate,))
    waits.when_done(lambda done: opened.set())  # this callback does not run in the pool
    opened.wait(60)
    return str(waits.value())


def fail_before_the_answer(a: Tensor) -> None:
    """Let a call time out before its result arrives."""
    context_id = da.current_context_id()
    gate = f"late in {context_id}"
    late = rpc.rpc_async("w1", double_late, (a, gate), timeout=20)
    # Wait until the call runs: the callee would not start a call whose timeout has passed.
    outside(rpc.rpc_sync, "w1", wait_for_arrivals, (gate, 1))
    let_time_pass(25)
    with pytest.raises(RpcTimeoutError):
        late.wait()
    outside(rpc.rpc_sync, "w1", open_gate, (gate,))
    while not outside(rpc.rpc_sync, "w1", send_ids, (context_id,)):
        pass


def let_time_pass(seconds: float) -> None:
    """Expire all calls of this worker that have at most `seconds` left."""
    timeouts = get_current_agent().client.progress.timeouts  # type: ignore[attr-defined]
    for call in timeouts.expire(time.monotonic() + seconds):
        call.expire()


def double_late(a: Tensor, gate: str) -> Tensor:
    wait_at(gate)
    return a * 2


def fail_to_leave(a: Tensor) -> None:
    """Make a call that is never sent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(get_current_agent().client, "write", refuse)  # type: ignore[attr-defined]
        failed = rpc.rpc_async("w1", first_of, (a,))
    with pytest.raises(RpcError, match="not today"):
        failed.wait()


def refuse(call: object, frames: object) -> None:
    raise RpcError("not today")


_afterwards: list[Callable[[], object]] = []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("fails", ["fail_in_queue", "fail_before_the_answer", "fail_to_leave"])
@on_worker(0)
def test_a_call_that_came_to_nothing_does_not_stop_a_pass(fails: str) -> None:
    a, b = leaf(1), leaf(2)
    try:
        with da.context() as context_id:
            used = rpc.rpc_sync("w2", first_of, (a,))
            globals()[fails](b)
            da.backward(context_id, [used.sum()])
            found = da.get_gradients(context_id)
            assert list(map(id, found)) == [id(a)] and (found[a].numpy() == 2).all()
    finally:
        while _afterwards:
            _afterwards.pop()()
