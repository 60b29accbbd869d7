"""Process groups between processes: over links, next to RPC, and with a killed member."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist import nn
from fastdist.core.errors import CollectiveLostError
from fastdist.distributed import autograd as dist_autograd
from fastdist.distributed import rpc
from tests.distributed.workers import Group, run_group


def add(a: Any, b: int) -> Any:
    return a + b


def both(first: str, last: str) -> list[Any]:
    """Use a process group and RPC in one job, started and ended in the given order."""
    rank = int(os.environ["RANK"])
    if first == "rpc":
        rpc.init_rpc(f"w{rank}")
    dist.init_process_group("gloo")
    if first == "group":
        rpc.init_rpc(f"w{rank}")
    x = fd.full((2,), rank + 1.0)
    dist.all_reduce(x)
    found = [x.tolist(), rpc.rpc_sync(f"w{1 - rank}", add, args=(x, rank)).tolist()]
    if last == "group":
        rpc.shutdown()
        group = dist.new_group([0, 1])
        dist.all_reduce(x, group=group)
        dist.destroy_process_group()
    else:
        dist.destroy_process_group()
        x += rpc.rpc_sync(f"w{1 - rank}", add, args=(x, 0))
        rpc.shutdown()
    return [*found, x.tolist(), dist.is_initialized()]


@pytest.mark.parametrize(("first", "last"), [("rpc", "group"), ("group", "rpc")])
def test_groups_and_rpc_share_one_store(first: str, last: str) -> None:
    one, two = run_group(both, 2, first, last)
    assert one == [[3.0, 3.0], [3.0, 3.0], [6.0, 6.0], False]
    assert two == [[3.0, 3.0], [4.0, 4.0], [6.0, 6.0], False]


def train() -> list[Any]:
    """Train data-parallel for some steps; return the weights, and an object of each rank."""
    dist.init_process_group()
    fd.manual_seed(dist.get_rank())
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1e-4)
    optimizer = fd.optim.SGD(parallel.parameters(), 0.1)
    x = fd.randn(8, 4)
    for _ in range(5):
        optimizer.zero_grad()
        parallel(x).square().mean().backward()
        optimizer.step()
    objects: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(objects, {"rank": dist.get_rank()})
    dist.barrier()
    dist.destroy_process_group()
    return [[one.tolist() for one in model.parameters()], objects]


@pytest.mark.one_in(3)
def test_data_parallel_training_between_processes() -> None:
    one, two, three = run_group(train, 3)
    assert one == two == three
    assert one[1] == [{"rank": rank} for rank in range(3)]


def scaled(x: Any, factor: float) -> Any:
    return x * factor


def train_over_rpc(to_grad: bool) -> list[Any]:
    """Run distributed passes through a DDP model, and return the reduced gradients."""
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}")
    dist.init_process_group()
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    found = []
    for _ in range(2):
        with dist_autograd.context() as context_id:
            x = rpc.rpc_sync(f"w{1 - rank}", scaled, args=(fd.full((1, 2), rank + 1.0), 2.0))
            y = rpc.rpc_sync(f"w{1 - rank}", scaled, args=(model(x), 3.0))
            dist_autograd.backward(context_id, [y.sum()], accumulate_to_grad=to_grad)
            grads = dist_autograd.get_gradients(context_id)
            weight = model.module.weight
            found.append((weight.grad if to_grad else grads[weight]).tolist())
            assert to_grad or weight.grad is None
        model.zero_grad()
    dist.barrier()
    rpc.shutdown()
    dist.destroy_process_group()
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("to_grad", [False, True])
def test_gradients_of_a_pass_over_rpc_are_reduced(to_grad: bool) -> None:
    # The gradients are 3 * 2 * 1 on rank 0 and 3 * 2 * 2 on rank 1. Their mean is 9.
    assert run_group(train_over_rpc, 2, to_grad) == [[[[9.0, 9.0]]] * 2] * 2


def miss() -> list[str]:
    """Let ranks 1 and 2 skip a monitored barrier, and return the errors of the others."""
    dist.init_process_group()
    dist.monitored_barrier()
    text = ""
    if dist.get_rank() in (0, 3):
        with pytest.raises(RuntimeError) as found:
            dist.monitored_barrier(timeout=timedelta(seconds=0.3), wait_all_ranks=True)
        text = str(found.value)
    # The group still works.
    x = fd.ones(1)
    dist.all_reduce(x)
    dist.destroy_process_group()
    return [text, str(x.item())]


@pytest.mark.one_in(3)
def test_a_monitored_barrier_names_the_missing_and_the_group_goes_on() -> None:
    (first, total), *_, (last, _) = run_group(miss, 4)
    assert "Ranks 1, 2 failed to pass monitoredBarrier in 300 ms; called at test_jobs" in first
    assert total == "4.0"
    assert "waiting for send/recv from rank 0" in last and "It reported: Ranks 1, 2 failed" in last


def begin() -> int:
    dist.init_process_group()
    dist.barrier()
    return os.getpid()


def lose() -> str:
    x = fd.ones(4)
    with pytest.raises(CollectiveLostError) as found:
        dist.all_reduce(x)
    assert x.tolist() == [1.0] * 4
    dist.destroy_process_group()
    return str(found.value)


@pytest.mark.one_in(3)
def test_a_killed_member_is_named_on_all_others() -> None:
    group = Group(__file__, 3)
    try:
        group.run_all(begin)
        for rank in (0, 2):
            group[rank].start(lose)
        group[1].kill(signal.SIGKILL)
        for rank in (0, 2):
            assert "rank 1" in group[rank].result()
    finally:
        group.kill()
