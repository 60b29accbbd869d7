"""The backend "fake": one process that makes the calls of a member of a large job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fastdist as fd
from fastdist import distributed as dist


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    dist.init_process_group("fake", store=dist.HashStore(), rank=2, world_size=4)
    yield
    dist.destroy_process_group()


def test_collectives_have_the_shapes_of_a_large_job() -> None:
    assert dist.get_world_size() == 4 and dist.get_backend() == "fake"
    x = fd.ones(2)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.barrier()
    outs = [fd.zeros(2) for _ in range(4)]
    dist.all_gather(outs, x)
    part = fd.zeros(1)
    dist.reduce_scatter_tensor(part, fd.arange(4.0))
    dist.all_to_all_single(out := fd.zeros(4), fd.arange(4.0))
    dist.scatter(part.clone(), src=0)
    dist.gather(x, dst=0)
    assert [one.tolist() for one in (x, *outs)] == [[1.0, 1.0]] * 5
    assert part.tolist() == [2.0] and out.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_messages_are_sent_to_nobody_and_meshes_have_their_groups() -> None:
    x = fd.ones(2)
    dist.send(x, 0)
    assert dist.recv(x, 3) == 3 and dist.recv(x) == 3 and x.tolist() == [1.0, 1.0]
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert mesh.get_coordinate() == (1, 0) and mesh["tp"].size() == 2
    assert dist.get_process_group_ranks(mesh.get_group("dp")) == [0, 2]
