"""On processors that may reorder shared memory accesses, a group uses sockets and reports why."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.core.errors import BackendNotViableError
from fastdist.distributed import autograd as dist_autograd
from fastdist.distributed import rpc
from tests.distributed.workers import Group, run_group

LARGE = (300, 300)  # large enough for the arena on other processors


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    group = Group(__file__, 3)
    try:
        yield group
    finally:
        group.kill()


def pose_as_aarch64() -> None:
    platform.machine = lambda: "aarch64"  # type: ignore[assignment]


def join() -> None:
    # Compiled code is cached by processor type, so load it before the type is faked.
    x = fastdist.tensor(np.ones(LARGE), requires_grad=True)
    total(x).backward()
    assert x.grad is not None and x.grad.sum().item() == 90_000.0
    pose_as_aarch64()
    rpc.init_rpc(f"w{os.environ['RANK']}")


def total(x: Any) -> Any:
    return x.sum()


def work() -> dict[str, str]:
    """Make calls, a remote value and a backward pass; return the debug information."""
    x = fastdist.tensor(np.ones(LARGE), requires_grad=True)
    calls = [rpc.rpc_async(to, total, (x,)) for to in ("w1", "w2")]
    assert [call.wait().item() for call in calls] == [90_000.0] * 2
    assert rpc.remote("w2", total, (x,)).to_here().item() == 90_000.0
    with dist_autograd.context() as context_id:
        dist_autograd.backward(context_id, [rpc.rpc_sync("w1", total, (x,))])
        assert dist_autograd.get_gradients(context_id)[x].sum().item() == 90_000.0
    return rpc.get_debug_info()


def leave() -> None:
    rpc.shutdown()


def test_a_group_works_over_sockets_and_the_reason_is_shown(group: Group) -> None:
    group.run_all(join)
    info = group[0].run(work)
    group.run_all(leave)
    assert info["agent.peer.w1"].startswith("connected by ipc")
    assert info["agent.arena.w1"].startswith(
        "large tensors in messages (processors of type aarch64"
    )
    for name in ("agent.transport.shm", "agent.arena", "agent.cuda_ipc"):
        assert "aarch64" in info[name] and "x86" in info[name]


def ask_for(kind: str) -> str:
    pose_as_aarch64()
    options = rpc.TensorPipeRpcBackendOptions(
        **({"_transports": ["shm"]} if kind == "shm" else {"_channels": ["arena"]})
    )
    with pytest.raises(BackendNotViableError) as refused:
        rpc.init_rpc("w0", rank=0, world_size=1, rpc_backend_options=options)
    return str(refused.value)


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("kind", ["shm", "arena"])
def test_who_asks_for_shared_memory_there_hears_why_not(kind: str) -> None:
    (told,) = run_group(ask_for, 1, kind)
    assert f"{kind}: processors of type aarch64" in told
