"""Ids created by successive workers of one rank do not collide."""

from __future__ import annotations

import os
from typing import Any

import pytest

from fastdist.distributed import autograd, rpc
from fastdist.distributed.autograd.container import get_instance
from fastdist.distributed.autograd.tangent_store import tangent_store
from tests.distributed.workers import run_group


def ids_of_one_life(world_size: int | None) -> list[int]:
    store = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    options = rpc.TensorPipeRpcBackendOptions(init_method=store)
    rpc.init_rpc("w0", rank=0, world_size=world_size, rpc_backend_options=options)
    value: Any = rpc.RRef("a value")
    with autograd.context() as context_id:
        found = [value._id, context_id, get_instance().new_autograd_message_id()]
    found.append(tangent_store().next_id())
    assert max(found) <= autograd._get_max_id() == (1 << 48) - 1
    del value
    rpc.shutdown()
    return found


def ids_of_lives(world_size: int | None) -> list[list[int]]:
    return [ids_of_one_life(world_size) for _ in range(2)]


@pytest.mark.one_in(8)
def test_ids_of_who_has_a_rank_later_are_not_those_of_who_had_it() -> None:
    # The earlier worker's values and messages may still exist, and must not be confused with those
    # of the later worker.
    (lives,) = run_group(ids_of_lives, 1, None)
    before, after = lives
    assert all(abs(a - b) > 1000 for a, b in zip(before, after))


@pytest.mark.one_in(8)
def test_ids_of_a_group_of_a_fixed_size_begin_with_the_first_number() -> None:
    (lives,) = run_group(ids_of_lives, 1, 1)
    assert [life[:3] for life in lives] == [[1, 0, 0]] * 2
