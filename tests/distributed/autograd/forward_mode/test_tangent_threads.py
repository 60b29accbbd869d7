"""A level that has ended cannot return on this worker until its tombstone expires."""

from __future__ import annotations

import pytest

from fastdist.distributed.autograd import shard
from fastdist.distributed.autograd.tangent_store import TangentStore
from fastdist.graph.forward_grad import ForwardADLevel
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.lives import life
from tests.disturbances.interleaving import Step, each_interleaving

FIRST, SECOND, OTHER = 5 << 48 | 1, 5 << 48 | 2, 6 << 48 | 1


def mirror(global_id: int) -> ForwardADLevel | None:
    return ForwardADLevel.try_get_by_global_id(global_id)


@pytest.mark.parametrize("ends_first", [False, True])
def test_a_level_that_ends_while_a_message_names_it_is_not_mirrored(
    agent: FakeAgent, ends_first: bool
) -> None:
    def prepare() -> tuple[Step, Step]:
        store = TangentStore()
        steps = (lambda: store.register((FIRST,), life(5)), lambda: store.end(FIRST))
        return steps[::-1] if ends_first else steps

    for _ in each_interleaving(prepare, "autograd/tangent_store.py"):
        assert mirror(FIRST) is None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("ends", [False, True])
def test_levels_may_come_and_end_while_those_of_a_lost_worker_end(
    agent: FakeAgent, ends: bool
) -> None:
    stores: list[TangentStore] = []

    def prepare() -> tuple[Step, Step]:
        store = TangentStore()
        stores[:] = [store]
        store.register((FIRST, SECOND), life(5))
        other = (
            (lambda: store.end(OTHER))
            if ends
            else (lambda: store.register((OTHER,), life(OTHER >> 48)))
        )
        return lambda: store.worker_lost(life(5)), other  # type: ignore[arg-type]

    for _ in each_interleaving(prepare, "autograd/tangent_store.py"):
        assert mirror(FIRST) is mirror(SECOND) is None
        stores[0].register((OTHER,), life(OTHER >> 48))
        assert (mirror(OTHER) is None) == ends
        stores[0].end(OTHER)


def test_a_level_that_ended_is_remembered_for_a_while(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TangentStore()
    store.end(FIRST), store.end(SECOND), store.end(7)
    store.register((FIRST, SECOND), life(5))
    assert mirror(FIRST) is mirror(SECOND) is None
    monkeypatch.setattr(shard, "TOMBSTONE_S", -1.0)
    store = TangentStore()
    store.end(FIRST), store.end(SECOND)
    store.register((FIRST, SECOND), life(5))
    # The end of the second level has removed the first one's tombstone.
    assert mirror(FIRST) is not None and mirror(SECOND) is None
    store.end(FIRST)
    assert mirror(FIRST) is None
