"""The claim: a group is static or dynamic for all of its members, whoever comes first."""

from __future__ import annotations

import os

import pytest

from fastdist.core.errors import RpcError, StoreTimeoutError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.joining import join_dynamic, join_static
from fastdist.distributed.rpc.membership import Record
from fastdist.distributed.store import HashStore
from tests.distributed.workers import run_group

MIXED = (
    "RPC group mixes statically and dynamically initialized members which is not supported. "
    "The group is {group}, this worker would be {worker}: give all of them the same world_size, "
    "or none of them any"
)


def member(rank: int, world_size: int) -> Record:
    return Record(f"w{rank}", rank, world_size, 100 + rank, {"uv": "somewhere"}, {}, "none")


@pytest.mark.seed("T27")
def test_who_comes_without_a_world_size_is_refused_by_a_group_that_has_one() -> None:
    store = HashStore()
    join_static(store, member(0, 1), 5.0)
    with pytest.raises(RpcError) as refused:
        join_dynamic(store, member(1, 0))
    assert str(refused.value) == MIXED.format(group="static", worker="dynamic")


@pytest.mark.seed("T27")
def test_who_comes_with_a_world_size_is_refused_by_a_group_that_has_none() -> None:
    store = HashStore()
    join_dynamic(store, member(0, 0))
    with pytest.raises(RpcError) as refused:
        join_static(store, member(1, 2), 5.0)
    assert str(refused.value) == MIXED.format(group="dynamic", worker="static")


@pytest.mark.seed("T27")
def test_who_was_refused_for_its_kind_is_no_member() -> None:
    store = HashStore()
    group = join_dynamic(store, member(0, 0))
    with pytest.raises(RpcError):
        join_static(store, member(1, 2), 5.0)
    assert [record.name for record in group.all()] == ["w0"]


def init_with_a_world_size_at_rank_0_alone() -> str:
    rank = int(os.environ["RANK"])
    if rank == 1:
        del os.environ["WORLD_SIZE"]
    meeting = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    options = rpc.TensorPipeRpcBackendOptions(init_method=meeting, init_timeout=5.0)
    size = {} if rank else {"world_size": 2}
    try:
        rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options, **size)
    except (RpcError, StoreTimeoutError) as refused:
        return str(refused)
    rpc.shutdown(graceful=False)
    return "joined"


@pytest.mark.seed("T27")
def test_of_two_processes_of_both_kinds_the_later_is_refused() -> None:
    """The earlier waits for a second static member in vain, or is a dynamic group of one."""
    told = run_group(init_with_a_world_size_at_rank_0_alone, 2)
    refused = [text.startswith(MIXED.partition(" The group")[0]) for text in told]
    assert sorted(refused) == [False, True], told
