"""Hooks, errors and waits of a pass over three workers are the same as in one process."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import ContextError
from fastdist.distributed import rpc
from tests.distributed.autograd.on_worker import on_worker, outside
from tests.distributed.autograd.programs import (
    _seen,
    _weight,
    clear_seen,
    close,
    close_gate,
    fail,
    first_of,
    leaf,
    mix_along,
    mix_at,
    nothing,
    open_gate,
    wait_at_gate,
    weight_gradient,
    what_was_seen,
    with_hook,
)

pytestmark = pytest.mark.usefixtures("workers_hold_nothing")


def note(what: str) -> None:
    _seen.append(f"{what} in {da.current_context_id()}")


def note_and_double(grad: Tensor) -> Tensor:
    note("hook")
    return grad * 2


def note_and_add_one(grads: tuple[Tensor]) -> tuple[Tensor]:
    note("pre")
    return (grads[0] + 1,)


def note_what_came(inputs: tuple[Tensor, ...], grads: tuple[Tensor]) -> None:
    note(f"post {len(inputs)} {grads[0].sum().item():.6f}")


def weight_with_hooks(x: Tensor) -> Tensor:
    _seen.clear()
    weight = _weight["w"] = leaf(5)
    weight.register_hook(note_and_double)
    accumulator = fastdist.autograd.graph.get_gradient_edge(weight).node
    accumulator.register_prehook(note_and_add_one)
    accumulator.register_hook(note_what_came)
    return x * weight


@pytest.mark.seed("E18")
@on_worker(0)
def test_hooks_of_a_remote_leaf_run_in_order_and_may_change_the_gradient() -> None:
    x = leaf(1)
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", weight_with_hooks, (x,))
        da.backward(context_id, [z.sum()])
        expected = x.detach() * 2 + 1
        assert close(outside(rpc.rpc_sync, "w1", weight_gradient, (context_id,)), expected)
    expected = f"post 0 {expected.sum().item():.6f}"
    seen = [f"{what} in {context_id}" for what in ("hook", "pre", expected)]
    assert rpc.rpc_sync("w1", what_was_seen) == seen


@pytest.mark.seed("E24", "E28", "E33", "E34")
@pytest.mark.parametrize("way", [(), ("w1",), ("w1", "w2")])
@on_worker(0)
def test_an_error_in_a_backward_says_on_which_node_and_leaves_no_pass(way: tuple[str, ...]) -> None:
    a = leaf(1)
    node = int(way[-1][1]) if way else 0
    with da.context() as context_id:
        function, args = with_hook, (a * 1, fail)
        for to in reversed(way):
            args, function = (to, function, args), rpc.rpc_sync
        z = function(*args)
        expected = f"^Error on Node {node}: Simulate error on backward pass"
        with pytest.raises(RuntimeError, match=expected):
            da.backward(context_id, [z.sum()])
        assert da._get_debug_info()["num_current_backward_passes"] == 0
        assert da.get_gradients(context_id) == {}


@pytest.mark.seed("E35", "E38")
@on_worker(0)
def test_a_context_can_run_another_pass_after_one_that_failed() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        z = mix_at(a, b, "w1", "w2")
        hook = z.register_hook(fail)
        with pytest.raises(RuntimeError, match=r"^Error on Node 0"):
            da.backward(context_id, [z.sum()], retain_graph=True)
        hook.remove()
        da.backward(context_id, [z.sum()])
        found = da.get_gradients(context_id)
    mix_along(a, b, 2).sum().backward()
    assert close(found[a], a.grad) and close(found[b], b.grad)


@pytest.mark.seed("E39", "E38")
@on_worker(0)
def test_of_two_workers_that_fail_one_error_comes() -> None:
    a = leaf(1)
    with da.context() as context_id:
        y, z = (rpc.rpc_sync(to, with_hook, (a, fail)) for to in ("w1", "w2"))
        with pytest.raises(RuntimeError, match=r"^Error on Node [12]: Simulate error"):
            da.backward(context_id, [(y + z).sum()])


def passes_of(worker: str) -> int:
    return outside(rpc.rpc_sync, worker, da._get_debug_info)["num_current_backward_passes"]


@pytest.mark.seed("E35", "E38")
@pytest.mark.parametrize("mode", ["auto", "fast"])
@on_worker(0)
def test_a_worker_that_waits_in_vain_hears_that_the_pass_failed(mode: str) -> None:
    rpc.rpc_sync("w2", close_gate)
    a = leaf(1)
    with da.context() as context_id:
        y, z = (rpc.rpc_sync("w1", first_of, (a,)) for _ in range(2))
        failing = rpc.rpc_sync("w2", with_hook, (z, wait_and_fail))
        with ThreadPoolExecutor(1) as pool:
            failed = pool.submit(expect_failure, context_id, y + failing, mode)
            while passes_of("w1") == 0:
                assert not failed.done()
            # w1 has received one of its two gradients; the other gradient will never arrive.
            outside(rpc.rpc_sync, "w2", open_gate)
            failed.result(20)
        deadline = time.monotonic() + 5
        while passes_of("w1"):
            assert time.monotonic() < deadline


def send_twice_and_fail_in_between(x: Tensor) -> Tensor:
    """Call w2 twice. The backward sends the second call's gradient, then fails at the first's."""
    failing = with_hook(rpc.rpc_sync("w2", large_result), fail)
    return (rpc.rpc_sync("w2", large_result) + failing) * x


def large_result() -> Tensor:
    # The result is large enough that its gradient is sent before the next Node runs.
    return fastdist.ones(20_000, requires_grad=True) * 2


@on_worker(0)
def test_a_failure_after_the_end_of_the_roots_own_part_ends_the_pass_everywhere() -> None:
    with da.context() as context_id:
        # No gradient returns to the root, so its part ends once it has sent its gradient to w1.
        y = rpc.rpc_sync("w1", send_twice_and_fail_in_between, (fastdist.ones(1),))
        expect_failure(context_id, y, "fast", node=1)
        deadline = time.monotonic() + 5
        while passes_of("w2"):
            assert time.monotonic() < deadline


def wait_and_fail(grad: Tensor) -> None:
    wait_at_gate(grad)
    fail(grad)


def expect_failure(context_id: int, z: Tensor, mode: str, node: int = 2) -> None:
    with pytest.raises(RuntimeError, match=f"^Error on Node {node}: Simulate error"):
        da.backward(context_id, [z.sum()], mode=mode)


@pytest.mark.seed("E22")
@on_worker(0)
def test_a_context_runs_one_pass_at_a_time() -> None:
    rpc.rpc_sync("w1", close_gate)
    a = leaf(1)
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", with_hook, (a, wait_at_gate))
        first = threading.Thread(target=da.backward, args=(context_id, [z.sum()]))
        first.start()
        while da._get_debug_info()["num_current_backward_passes"] == 0:
            outside(rpc.rpc_sync, "w1", nothing)
        with pytest.raises(
            ContextError,
            match=r"^Cannot set GraphTask multiple times for the same autograd context",
        ):
            da.backward(context_id, [a.sum() * 1])
        outside(rpc.rpc_sync, "w1", open_gate)
        first.join(20)
        assert not first.is_alive() and (da.get_gradients(context_id)[a].numpy() == 2).all()


@pytest.mark.seed("E43")
@on_worker(0)
def test_other_threads_run_while_backward_waits() -> None:
    rpc.rpc_sync("w1", close_gate)
    a, counted = leaf(1), [0]

    def count() -> None:
        while counted[0] < 1000:
            counted[0] += 1
        rpc.rpc_sync("w1", open_gate)

    with da.context() as context_id:
        z = rpc.rpc_sync("w1", with_hook, (a, wait_at_gate)).sum()
        counter = threading.Thread(target=count)
        counter.start()
        # The pass ends only because the counter thread runs meanwhile and opens the gate.
        da.backward(context_id, [z])
        counter.join(20)
    assert counted[0] == 1000


@pytest.mark.seed("E26")
@on_worker(0)
def test_final_callbacks_run_on_the_worker_that_queued_them() -> None:
    rpc.rpc_sync("w1", clear_seen)
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", with_hook, (leaf(1), queue_note))
        da.backward(context_id, [z.sum()])
    assert rpc.rpc_sync("w1", what_was_seen) == ["hook", "callback"]


def queue_note(grad: Tensor) -> None:
    from fastdist.engine.engine import queue_callback

    queue_callback(lambda: _seen.append("callback"))
    _seen.append("hook")
