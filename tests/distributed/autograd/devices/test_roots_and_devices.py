"""A pass starts at any root, and runs on any device of any worker."""

from __future__ import annotations

import threading

import pytest

import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.distributed import rpc
from tests.device_kinds import KINDS, use
from tests.distributed.autograd.on_worker import on_worker
from tests.distributed.autograd.programs import (
    _seen,
    _weight,
    close,
    identity,
    leaf,
    make_weight,
    mix,
    weight_has_grad,
    what_was_seen,
)

pytestmark = pytest.mark.usefixtures("workers_hold_nothing")


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
def test_roots_come_in_a_list_after_the_id_of_their_context() -> None:
    with da.context() as context_id:
        loss = leaf(1).sum()
        for given in ((context_id, loss), (context_id, 3), ("a name", [loss]), (True, [loss])):
            with pytest.raises(
                TypeError, match=r"(?s)^backward\(\): incompatible .*roots\): expected the id"
            ):
                da.backward(*given)


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


def through_device(x: Tensor, kind: str) -> Tensor:
    """Multiply by 24 on the way CPU -> device -> CPU, and record which threads run the backward."""
    _seen.clear()
    on_cpu = x * 2
    on_device = on_cpu.to(f"{use(kind)}:0") * 3
    back = on_device.to("cpu") * 4
    for tensor in (back, on_device, on_cpu):
        tensor.register_hook(note_thread)
    return back


@pytest.mark.seed("E2", "E3", "E4")
@pytest.mark.parametrize("kind", KINDS)
@on_worker(0)
def test_devices_of_other_workers_hand_back_to_the_pool(kind: str) -> None:
    x = leaf(1)
    with da.context() as context_id:
        da.backward(context_id, [rpc.rpc_sync("w1", through_device, (x, kind)).sum()])
        assert (da.get_gradients(context_id)[x].numpy() == 24).all()
    before, device, after = rpc.rpc_sync("w1", what_was_seen)
    assert before.startswith("fastdist-rpc-pool") and after.startswith("fastdist-rpc-pool")
    assert device == f"fastdist-engine-{kind}:0"
    names = rpc.rpc_sync("w1", thread_names)
    assert names.count("fastdist-cpu-continuations") == 1


def thread_names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


@pytest.mark.one_in(2)
@pytest.mark.seed("E2", "E3", "E41")
@pytest.mark.parametrize("kind", KINDS)
@on_worker(0)
def test_passes_through_devices_of_three_workers_run_side_by_side(kind: str) -> None:
    def work(results: list[bool]) -> None:
        x = leaf(1)
        for _ in range(5):
            with da.context() as context_id:
                y = through_device(rpc.rpc_sync("w1", through_device, (x, kind)), kind)
                da.backward(context_id, [rpc.rpc_sync("w2", through_device, (y, kind)).sum()])
                got = da.get_gradients(context_id)[x]
                results.append(bool((got.numpy() == 24**3).all()))

    results: list[bool] = []
    threads = [threading.Thread(target=work, args=(results,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [True] * 20
