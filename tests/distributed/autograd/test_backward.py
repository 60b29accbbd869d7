"""A backward pass over three workers gives the gradients of one process."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import GraphError
from fastdist.distributed import rpc
from tests.distributed.autograd.on_worker import on_worker, outside
from tests.distributed.autograd.programs import (
    KINDS,
    call,
    close,
    first_of,
    leaf,
    make_weight,
    mix,
    mix_along,
    mix_at,
    sum_times,
    times_weight,
    weight_gradient,
    weight_has_grad,
)

pytestmark = pytest.mark.usefixtures("workers_hold_nothing")


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


@on_worker(0)
def test_gradients_that_were_one_array_elsewhere_are_added_to_apart() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        da.backward(context_id, [rpc.rpc_sync(to, sum_times, (a, b)).sum() for to in ("w1", "w2")])
        found = da.get_gradients(context_id)
    (sum_times(a, b) + sum_times(a, b)).sum().backward()
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
        context = da._current_context()
        assert (len(context._send_functions()), len(context._recv_functions())) == (2, 2)
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
    """Run a random program whose calls go to random workers, or all run here if `here` is set."""
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
        if rng.random() < 0.8:  # otherwise the result is unused
            total = total + part * factor
    return total


def grow_apart(seed: int, depth: int, a: Tensor, b: Tensor) -> Tensor:
    return grow(seed, depth, a, b, here=False)


@pytest.mark.one_in(3)
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
