"""The claim: a backward pass over three workers gives what one process would."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import ContextError, GraphError, RpcTimeoutError
from fastdist.distributed import rpc
from tests.distributed.autograd.on_worker import on_worker, outside
from tests.distributed.workers import Group

KINDS = ("sync", "async", "remote")


def init() -> None:
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=30, init_timeout=30)
    rpc.init_rpc(f"w{os.environ['RANK']}", rpc_backend_options=options)


def leave() -> None:
    rpc.shutdown()


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    group = Group(__file__, 3)
    try:
        group.run_all(init)
        yield group
        group.run_all(leave)
        assert group.end() == [0, 0, 0]
    finally:
        group.kill()


@pytest.fixture(autouse=True)
def workers_hold_nothing(group: Group) -> Iterator[None]:
    yield
    assert group.run_all(wait_for_no_context) == [{**NOTHING}] * 3


NOTHING = {"num_current_backward_passes": 0, "num_autograd_contexts": 0}


def wait_for_no_context() -> dict[str, int]:
    """Return the debug information once it shows nothing, or after five seconds."""
    waiter = threading.Condition()
    with waiter:
        waiter.wait_for(lambda: da._get_debug_info() == NOTHING or waiter.wait(0.02), 0.0)
        for _ in range(250):
            if da._get_debug_info() == NOTHING:
                break
            waiter.wait(0.02)
    return da._get_debug_info()


# ---- what workers run for others ----------------------------------------------------------------


def leaf(seed: int, *shape: int) -> Tensor:
    values = np.random.default_rng(seed).standard_normal(shape or (3, 4))
    return fastdist.tensor(values, dtype=fastdist.float64, requires_grad=True)


def mix(a: Tensor, b: Tensor) -> Tensor:
    return (a * b + a.sin()) * b


def mix_at(a: Tensor, b: Tensor, *way: str) -> Tensor:
    """Mix at the end of a way of workers, and use the arguments at each."""
    if not way:
        return mix(a, b)
    return rpc.rpc_sync(way[0], mix_at, (a * b, b, *way[1:])) + a


def mix_along(a: Tensor, b: Tensor, steps: int) -> Tensor:
    """Do what mix_at does along `steps` workers, in one process."""
    return mix(a, b) if not steps else mix_along(a * b, b, steps - 1) + a


def call(kind: str, to: str, function: Callable[..., Any], *args: Any) -> Any:
    if kind == "sync":
        return rpc.rpc_sync(to, function, args)
    if kind == "async":
        return rpc.rpc_async(to, function, args).wait()
    return rpc.remote(to, function, args).to_here()


def first_of(a: Tensor, *others: Tensor) -> Tensor:
    return a * 2


def current_ids() -> tuple[int, int]:
    return da.current_context_id(), da._current_context()._context_id()


def nothing() -> None:
    pass


def identity(x: Any) -> Any:
    return x


def contexts_of(worker: str) -> int:
    return outside(rpc.rpc_sync, worker, da._get_debug_info)["num_autograd_contexts"]


def with_hook(x: Tensor, hook: Callable[[Tensor], Any]) -> Tensor:
    y = x * 2
    y.register_hook(hook)
    return y


def fail(grad: Tensor) -> None:
    raise RuntimeError("Simulate error on backward pass")


_weight: dict[str, Tensor] = {}


def make_weight(seed: int) -> None:
    _weight["w"] = leaf(seed)


def times_weight(x: Tensor) -> Tensor:
    return x * _weight["w"]


def weight_gradient(context_id: int) -> Tensor:
    return da.get_gradients(context_id)[_weight["w"]]


def weight_has_grad() -> bool:
    return _weight["w"].grad is not None


_gate = threading.Event()


def wait_at_gate(grad: Tensor) -> None:
    assert _gate.wait(20)


def open_gate() -> None:
    _gate.set()


def close_gate() -> None:
    _gate.clear()


def close(ours: Tensor, theirs: Tensor | None) -> bool:
    assert theirs is not None
    return bool(np.allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-12, atol=1e-12))


# ---- gradients equal those of one process -------------------------------------------------------


@pytest.mark.seed("E17", "E31", "E34", "U5", "C12")
@pytest.mark.parametrize("kind", KINDS)
@on_worker(0)
def test_gradients_of_a_call_are_those_of_one_process(kind: str) -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        da.backward(context_id, [call(kind, "w1", mix, a, b).sum()])
        found = da.get_gradients(context_id)
        assert a.grad is None and b.grad is None
    mix(a, b).sum().backward()
    assert close(found[a], a.grad) and close(found[b], b.grad)


@pytest.mark.seed("E31", "E34")
@pytest.mark.parametrize("way", [("w1", "w2"), ("w1", "w0"), ("w1", "w2", "w0", "w1", "w1")])
@on_worker(0)
def test_gradients_of_nested_calls_are_those_of_one_process(way: tuple[str, ...]) -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        da.backward(context_id, [mix_at(a, b, *way).sum()])
        found = da.get_gradients(context_id)
    mix_along(a, b, len(way)).sum().backward()
    assert close(found[a], a.grad) and close(found[b], b.grad)


@pytest.mark.seed("E14", "E23", "E32")
@on_worker(0)
def test_several_gradient_messages_to_one_worker_add_up() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        futures = [rpc.rpc_async(f"w{1 + i % 2}", mix, (a, b)) for i in range(8)]
        parts = [future.wait() * (i + 1) for i, future in enumerate(futures)]
        da.backward(context_id, [sum(parts[1:], parts[0]).sum()])
        found = da.get_gradients(context_id)
    (mix(a, b) * 36).sum().backward()
    assert close(found[a], a.grad) and close(found[b], b.grad)


@pytest.mark.seed("U19", "E21")
@on_worker(0)
def test_gradients_of_a_tensor_in_several_calls_add_up() -> None:
    a = leaf(1)
    with da.context() as context_id:
        loss = rpc.rpc_sync("w1", mix, (a, a)) + rpc.rpc_sync("w2", first_of, (a,)) + a
        da.backward(context_id, [loss.sum()])
        found = da.get_gradients(context_id)
    (mix(a, a) + a * 3).sum().backward()
    assert close(found[a], a.grad)


@pytest.mark.seed("E11", "E10")
@on_worker(0)
def test_gradients_of_several_roots_add_up() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", mix, (a, b))
        da.backward(context_id, [z.sum(), (z * z).sum(), a.sum()])
        found = da.get_gradients(context_id)
    z = mix(a, b)
    (z.sum() + (z * z).sum() + a.sum()).backward()
    assert close(found[a], a.grad) and close(found[b], b.grad)


@pytest.mark.seed("E17", "E31", "E41")
@on_worker(0)
def test_leaves_of_other_workers_have_their_gradients_when_backward_returns() -> None:
    rpc.rpc_sync("w2", make_weight, (7,))
    x = leaf(1)
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", rpc.rpc_sync, ("w2", times_weight, (x,)))
        da.backward(context_id, [z.sum()])
        theirs = outside(rpc.rpc_sync, "w2", weight_gradient, (context_id,))
        assert close(theirs, x)
    assert not rpc.rpc_sync("w2", weight_has_grad)


@pytest.mark.seed("E21", "E35", "E40")
@on_worker(0)
def test_retain_graph_holds_on_all_workers_and_gradients_double() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        loss = mix_at(a, b, "w1", "w2").sum()
        da.backward(context_id, [loss], retain_graph=True)
        once = da.get_gradients(context_id)[a].numpy().copy()
        da.backward(context_id, [loss], retain_graph=True)
        assert np.allclose(da.get_gradients(context_id)[a].numpy(), 2 * once, rtol=1e-12)


@pytest.mark.seed("E19", "E21")
@pytest.mark.parametrize("to", ["w0", "w1"])
@on_worker(0)
def test_large_gradients_that_were_taken_over_can_be_added_to(to: str) -> None:
    a = leaf(1, 256, 1024)
    with da.context() as context_id:
        loss = (rpc.rpc_sync(to, first_of, (a,)) * 3).sum()
        for count in range(1, 4):
            da.backward(context_id, [loss], retain_graph=True)
            assert (da.get_gradients(context_id)[a].numpy() == 6 * count).all()


@pytest.mark.seed("E12", "E40")
@on_worker(0)
def test_a_second_pass_without_retain_graph_fails() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", mix, (a, b))
        da.backward(context_id, [z.sum()])
        with pytest.raises(GraphError, match="backward through the graph a second time"):
            da.backward(context_id, [z.sum()])


@pytest.mark.seed("E36", "U4")
@on_worker(0)
def test_tensors_without_gradient_come_back_as_zeros_and_others_not_at_all() -> None:
    a, unused, plain = leaf(1), leaf(2), leaf(3).detach()
    with da.context() as context_id:
        da.backward(context_id, [rpc.rpc_sync("w1", first_of, (a, unused, plain)).sum()])
        found = da.get_gradients(context_id)
        assert set(map(id, found)) == {id(a), id(unused)}
        assert not found[unused].numpy().any() and (found[a].numpy() == 2).all()


@pytest.mark.seed("E41")
@on_worker(0)
def test_contexts_of_parallel_threads_are_independent() -> None:
    a, b = leaf(1), leaf(2)
    mix(a, b).sum().backward()
    wrong: list[object] = []

    def work(factor: float) -> None:
        for _ in range(10):
            with da.context() as context_id:
                loss = (rpc.rpc_sync("w1", mix, (a, b)) * factor).sum()
                da.backward(context_id, [loss])
                if not close(da.get_gradients(context_id)[a], a.grad * factor):
                    wrong.append(context_id)

    threads = [threading.Thread(target=work, args=(1.0 + i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def grow(seed: int, depth: int, a: Tensor, b: Tensor, *, here: bool) -> Tensor:
    """Run a random program, whose calls go to random workers unless all of it shall run here."""
    rng = random.Random(seed)
    total = (a * b).sin()
    for _ in range(rng.randint(1, 3)):
        to, kind, factor = rng.choice(("w0", "w1", "w2")), rng.choice(KINDS), rng.random()
        args = (rng.randrange(1 << 30), depth - 1, total, rng.choice((a, b)))
        if not depth:
            part = args[-1].sin()
        elif here:
            part = grow(*args, here=True)
        else:
            part = call(kind, to, grow_apart, *args)
        total = total + part * factor
    return total


def grow_apart(seed: int, depth: int, a: Tensor, b: Tensor) -> Tensor:
    return grow(seed, depth, a, b, here=False)


@pytest.mark.seed("E31", "E32", "E41", "U19")
@pytest.mark.parametrize("depth", [1, 2, 3])
@on_worker(0)
def test_random_programs_over_all_workers_give_the_gradients_of_one_process(depth: int) -> None:
    wrong: list[int] = []

    def work(first: int) -> None:
        for seed in range(first, first + 5):
            a, b = leaf(seed), leaf(seed + 1)
            with da.context() as context_id:
                da.backward(context_id, [grow(seed, depth, a, b, here=False).sum()])
                found = da.get_gradients(context_id)
            grow(seed, depth, a, b, here=True).sum().backward()
            if not (close(found[a], a.grad) and close(found[b], b.grad)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert wrong == [] and not any(thread.is_alive() for thread in threads)


# ---- what the messages leave behind -------------------------------------------------------------


@pytest.mark.seed("U12", "U3")
@pytest.mark.parametrize("kind", KINDS)
@on_worker(0)
def test_a_function_sees_its_callers_context(kind: str) -> None:
    with da.context() as context_id:
        assert call(kind, "w1", current_ids) == (context_id, context_id)
    assert rpc.rpc_sync("w1", da.current_context_id) == -1


@pytest.mark.seed("C20", "C30", "U3", "U11")
@on_worker(0)
def test_leaving_the_block_releases_the_context_on_all_workers() -> None:
    with da.context():
        mix_at(leaf(1), leaf(2), "w1", "w2")
        assert (contexts_of("w1"), contexts_of("w2")) == (1, 1)
        assert da._current_context()._known_worker_ids() == {1, 2}


@pytest.mark.seed("U7")
@on_worker(0)
def test_a_call_outside_of_contexts_makes_none() -> None:
    got = rpc.rpc_sync("w1", first_of, (leaf(1),))
    assert contexts_of("w1") == 0 and got.is_leaf and got.requires_grad


@pytest.mark.seed("U8", "U10")
@on_worker(0)
def test_a_python_function_without_tensors_is_wrapped_all_the_same() -> None:
    with da.context():
        rpc.rpc_sync("w1", nothing)
        assert contexts_of("w1") == 1 and da._current_context()._send_functions() == {}


@pytest.mark.seed("U7", "U8")
@on_worker(0)
def test_an_op_of_tensors_that_require_no_grad_is_not_wrapped() -> None:
    ones = fastdist.ones(2)
    with da.context():
        assert rpc.rpc_sync("w1", fastdist.add, (ones, ones)).tolist() == [2.0, 2.0]
        assert contexts_of("w1") == 0
        rpc.rpc_sync("w1", fastdist.add, (ones, leaf(1, 2)))
        assert contexts_of("w1") == 1


def recv_functions(*tensors: Tensor) -> tuple[list[int], list[bool], list[bool], set[int]]:
    context = da._current_context()
    functions = context._recv_functions()
    of_them = [tensor.grad_fn in functions.values() for tensor in tensors]
    sender = {function.from_worker_id for function in functions.values()}
    return sorted(functions), of_them, [t.requires_grad for t in tensors], sender


@pytest.mark.seed("U1", "U2", "U4", "U5", "U6")
@on_worker(0)
def test_sends_and_receives_match_and_leave_out_what_needs_no_grad() -> None:
    a, plain, b = leaf(1), leaf(2).detach(), leaf(3)
    with da.context():
        ids, received, require_grad, sender = rpc.rpc_sync("w1", recv_functions, (a, plain, b))
        sends = da._current_context()._send_functions()
        assert list(sends) == ids and sender == {0}
        assert received == require_grad == [True, False, True]
        (send,) = sends.values()
        assert [node.name() for node, _ in send.next_functions] == ["AccumulateGrad"] * 2


@pytest.mark.seed("U4")
@on_worker(0)
def test_tensors_sent_without_recording_have_no_history_on_the_other_side() -> None:
    a = leaf(1)
    with da.context() as context_id:
        with fastdist.no_grad():
            ids, received, require_grad, _ = rpc.rpc_sync("w1", recv_functions, (a,))
        assert (ids, received, require_grad) == ([], [False], [True])
        da.backward(context_id, [rpc.rpc_sync("w1", first_of, (a,)).sum()])


@pytest.mark.seed("U18")
@on_worker(0)
def test_the_timeout_of_a_call_holds_inside_a_context() -> None:
    rpc.rpc_sync("w1", close_gate)
    with da.context():
        with pytest.raises(RpcTimeoutError, match=r"^RPC ran for more than set timeout"):
            rpc.rpc_sync("w1", wait_at_gate, (leaf(1),), timeout=0.1)
        outside(rpc.rpc_sync, "w1", open_gate)


# ---- hooks, errors, waiting ---------------------------------------------------------------------

_seen: list[str] = []


def note_and_double(grad: Tensor) -> Tensor:
    _seen.append("hook")
    return grad * 2


def weight_with_hooks(x: Tensor) -> Tensor:
    _seen.clear()
    weight = _weight["w"] = leaf(5)
    weight.register_hook(note_and_double)
    accumulator = fastdist.autograd.graph.get_gradient_edge(weight).node
    accumulator.register_prehook(lambda grads: _seen.append("pre"))
    accumulator.register_hook(lambda inputs, grads: _seen.append(f"post {len(inputs)}"))
    return x * weight


def what_was_seen() -> list[str]:
    return _seen


@pytest.mark.seed("E18")
@on_worker(0)
def test_hooks_of_a_remote_leaf_run_in_order_and_may_change_the_gradient() -> None:
    x = leaf(1)
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", weight_with_hooks, (x,))
        da.backward(context_id, [z.sum()])
        assert close(outside(rpc.rpc_sync, "w1", weight_gradient, (context_id,)), x * 2)
    assert rpc.rpc_sync("w1", what_was_seen) == ["hook", "pre", "post 0"]


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
    a, counted, over = leaf(1), [0], threading.Event()

    def count() -> None:
        while counted[0] < 1000:
            counted[0] += 1
        rpc.rpc_sync("w1", open_gate)

    with da.context() as context_id:
        z = rpc.rpc_sync("w1", with_hook, (a, wait_at_gate)).sum()
        counter = threading.Thread(target=count)
        counter.start()
        # Ends only because the counter goes on meanwhile: it opens the gate.
        da.backward(context_id, [z])
        counter.join(20)
    assert counted[0] == 1000 and not over.is_set()


@pytest.mark.seed("E13", "E14")
@on_worker(0)
def test_a_result_that_nobody_uses_is_named_within_two_timeouts() -> None:
    a = leaf(1)
    rpc._set_rpc_timeout(0.3)
    try:
        with da.context() as context_id:
            rpc.rpc_sync("w1", first_of, (a,))
            used = rpc.rpc_sync("w2", first_of, (a,))
            (unused,) = (
                message_id for message_id in outside(rpc.rpc_sync, "w1", send_ids, (context_id,))
            )
            expected = rf"came to rest without an end.*worker 'w1' \(message ids {unused}\)"
            with pytest.raises(GraphError, match=expected):
                da.backward(context_id, [used.sum()])
    finally:
        rpc._set_rpc_timeout(30)


def send_ids(context_id: int) -> list[int]:
    return list(da._retrieve_context(context_id)._send_functions())


@pytest.mark.seed("E13")
@on_worker(0)
def test_a_result_that_nobody_uses_far_away_is_named_too() -> None:
    a = leaf(1)
    rpc._set_rpc_timeout(0.3)
    try:
        with da.context() as context_id:
            used = rpc.rpc_sync("w1", call_and_forget, (a,))
            with pytest.raises(GraphError, match=r"came to rest.*worker 'w2' \(message ids \d+\)"):
                da.backward(context_id, [used.sum()])
    finally:
        rpc._set_rpc_timeout(30)


def call_and_forget(a: Tensor) -> Tensor:
    rpc.rpc_sync("w2", first_of, (a,))
    return a * 2


@pytest.mark.seed("E26")
@on_worker(0)
def test_final_callbacks_run_on_the_worker_that_queued_them() -> None:
    rpc.rpc_sync("w1", clear_seen)
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", with_hook, (leaf(1), queue_note))
        da.backward(context_id, [z.sum()])
    assert rpc.rpc_sync("w1", what_was_seen) == ["hook", "callback"]


def clear_seen() -> None:
    _seen.clear()


def queue_note(grad: Tensor) -> None:
    from fastdist.engine.engine import queue_callback

    queue_callback(lambda: _seen.append("callback"))
    _seen.append("hook")


# ---- references, devices ------------------------------------------------------------------------


def sum_of_mix(a: Tensor, b: Tensor) -> Tensor:
    return mix(a, b).sum()


@pytest.mark.seed("E31", "E34")
@on_worker(0)
def test_a_pass_can_begin_at_a_root_that_lives_elsewhere() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        rpc.remote("w1", sum_of_mix, (a, b)).backward(context_id)
        found = da.get_gradients(context_id)
    mix(a, b).sum().backward()
    assert close(found[a], a.grad) and close(found[b], b.grad)


@on_worker(0)
def test_a_root_that_lives_elsewhere_must_be_a_tensor() -> None:
    rref = rpc.remote("w1", identity, ("text",))
    with da.context() as context_id, pytest.raises(RuntimeError, match="should contain a tensor"):
        rref.backward(context_id)


@on_worker(0)
def test_a_local_pass_of_the_owner_needs_no_context() -> None:
    rpc.rpc_sync("w1", make_weight, (7,))
    rref = rpc.remote("w1", sum_of_weight)
    rref.backward()
    assert rpc.rpc_sync("w1", weight_has_grad)
    rpc.RRef(sum_of_weight_here()).backward()
    assert _weight["w"].grad is not None


def sum_of_weight() -> Tensor:
    return _weight["w"].sum()


def sum_of_weight_here() -> Tensor:
    make_weight(7)
    return sum_of_weight()


def note_thread(grad: Tensor) -> None:
    _seen.append(threading.current_thread().name)


def through_sim(x: Tensor) -> Tensor:
    """Multiply by 24 on the way CPU -> sim:0 -> CPU, and note who runs the backward of it."""
    _seen.clear()
    on_cpu = x * 2
    on_sim = on_cpu.to("sim:0") * 3
    back = on_sim.to("cpu") * 4
    for tensor in (back, on_sim, on_cpu):
        tensor.register_hook(note_thread)
    return back


@pytest.mark.seed("E2", "E3", "E4")
@on_worker(0)
def test_devices_of_other_workers_hand_back_to_the_pool() -> None:
    x = leaf(1)
    with da.context() as context_id:
        da.backward(context_id, [rpc.rpc_sync("w1", through_sim, (x,)).sum()])
        assert (da.get_gradients(context_id)[x].numpy() == 24).all()
    before, device, after = rpc.rpc_sync("w1", what_was_seen)
    assert before.startswith("fastdist-rpc-pool") and after.startswith("fastdist-rpc-pool")
    assert device == "fastdist-engine-sim:0"
    names = rpc.rpc_sync("w1", thread_names)
    assert names.count("fastdist-cpu-continuations") == 1


def thread_names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


@pytest.mark.seed("E2", "E3", "E41")
@on_worker(0)
def test_passes_through_devices_of_three_workers_run_side_by_side() -> None:
    def work(results: list[bool]) -> None:
        x = leaf(1)
        for _ in range(5):
            with da.context() as context_id:
                y = through_sim(rpc.rpc_sync("w1", through_sim, (x,)))
                da.backward(context_id, [rpc.rpc_sync("w2", through_sim, (y,)).sum()])
                got = da.get_gradients(context_id)[x]
                results.append(bool((got.numpy() == 24**3).all()))

    results: list[bool] = []
    threads = [threading.Thread(target=work, args=(results,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [True] * 20
