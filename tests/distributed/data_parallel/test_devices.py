"""Data-parallel training on devices that work late: gradients are read once they are computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.devices.backend import backend_of
from fastdist.devices.sim import SimBackend
from tests.distributed.data_parallel.models import (
    DDP,
    Mlp,
    batch,
    close,
    grads_of_whole,
    mean_square,
    seeded,
)
from tests.distributed.process_group.thread_members import run_members


@pytest.fixture(params=["eager", "lazy", "late"])
def sim(request: pytest.FixtureRequest) -> Iterator[SimBackend]:
    """Two devices that work immediately, only when waited for, or with delays."""
    backend = cast(SimBackend, backend_of("sim"))
    backend.behaviour.lazy = request.param == "lazy"
    if request.param == "late":
        with backend.behaviour.delays(seed=5, longest_s=0.0005):
            yield backend
    else:
        yield backend
    backend.behaviour.lazy = False


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("sim")
@pytest.mark.parametrize("as_views", [False, True])
def test_gradients_are_those_of_one_process(as_views: bool) -> None:
    def member(rank: int) -> list[Any]:
        dist.group.WORLD._config.device_backend_map["sim"] = "threads"
        model = DDP(
            seeded(Mlp).to(f"sim:{rank}"),
            device_ids=[f"sim:{rank}"],
            bucket_cap_mb=1e-4,
            gradient_as_bucket_view=as_views,
        )
        for _ in range(3):
            model.zero_grad()
            mean_square(model(batch(rank))).backward()
        return [one.grad.cpu().tolist() for one in model.parameters()]

    one, two = run_members(2, member)
    assert one == two
    close(one, grads_of_whole(Mlp, 2, mean_square))


@pytest.mark.usefixtures("sim")
def test_collectives_read_what_is_queued_and_their_results_can_be_used_at_once() -> None:
    def member(rank: int) -> list[float]:
        dist.group.WORLD._config.device_backend_map["sim"] = "threads"
        x = fd.full((64,), rank + 1.0, device=f"sim:{rank}")
        found = []
        for _ in range(5):
            y = x * 2 + 1
            work: Any = dist.all_reduce(y, async_op=True)
            work.wait()
            z = y * 1
            ops = [
                dist.P2POp(dist.isend, z + rank, 1 - rank),
                dist.P2POp(dist.irecv, y, 1 - rank),
            ]
            for one in dist.batch_isend_irecv(ops):
                one.wait()
            found.append((y + z).sum().item() / 64)
        return found

    assert run_members(2, member) == [[17.0] * 5, [16.0] * 5]
