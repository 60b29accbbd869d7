"""Forward mode works across workers as in one process, and leaves nothing on them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import fastdist
import fastdist.autograd.forward_ad as fw
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import GraphError
from fastdist.distributed import rpc
from fastdist.distributed.autograd.messages import handle_clean_up
from fastdist.distributed.autograd.tangent_store import (
    TangentInterceptor,
    TangentStore,
    tangent_store,
)
from fastdist.distributed.rpc.handlers import Reply
from fastdist.distributed.rpc.message.layout import TangentEntry
from fastdist.distributed.rpc.message.message import Message
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.graph.forward_grad import ForwardADLevel, adopt
from fastdist.graph.modes import modes
from fastdist.graph.tensor_tangents import levels_of, set_tangent
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.on_worker import on_worker
from tests.distributed.autograd.programs import mix, mix_along, mix_at
from tests.distributed.lives import Life, life, next_life
from tests.distributed.members import join
from tests.distributed.workers import Group

BOUND_S = 5.0


def wait_for_no_mirror() -> tuple[int, int]:
    """Wait up to 5 s until no mirror is left; return the counts of mirrors and of special modes."""
    began, waiter = time.monotonic(), threading.Event()
    while time.monotonic() - began < BOUND_S:
        if not tangent_store().number_of_mirrors() and not modes.special:
            break
        waiter.wait(0.01)
    return tangent_store().number_of_mirrors(), modes.special


# ---- what workers run for others ----------------------------------------------------------------


def values(seed: int) -> Tensor:
    return fastdist.tensor(np.random.default_rng(seed).standard_normal((3, 4)))


def dual_here(x: Tensor, t: Tensor) -> Tensor:
    """Make a dual tensor here, at the caller's level."""
    return fw.make_dual(x, t) * x


def dual_there(x: Tensor, t: Tensor, to: str) -> Tensor:
    return rpc.rpc_sync(to, dual_here, (x, t))


def close(ours: Tensor | None, theirs: Tensor | None) -> bool:
    assert ours is not None and theirs is not None
    return bool(np.allclose(ours.detach().numpy(), theirs.detach().numpy(), 1e-12, 1e-12))


def jvp(function: Callable[[Tensor], Tensor], x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    with fw.dual_level():
        value, tangent = fw.unpack_dual(function(fw.make_dual(x, t)))
        assert tangent is not None
        return value, tangent


def mirrors() -> int:
    return tangent_store().number_of_mirrors()


# ---- tests --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sync", "async", "remote"])
@on_worker(0)
def test_a_dual_argument_gives_a_dual_result(kind: str) -> None:
    x, t, b = values(1), values(2), values(3)

    def call(dual: Tensor) -> Any:
        if kind == "sync":
            return rpc.rpc_sync("w1", mix, (dual, b))
        if kind == "async":
            return rpc.rpc_async("w1", mix, (dual, b)).wait()
        return rpc.remote("w1", mix, (dual, b)).to_here()

    value, tangent = jvp(call, x, t)
    expected = jvp(lambda dual: mix(dual, b), x, t)
    assert close(value, expected[0]) and close(tangent, expected[1])


@pytest.mark.parametrize("way", [("w1", "w2"), ("w1", "w0"), ("w1", "w2", "w0", "w1")])
@on_worker(0)
def test_tangents_go_along_nested_calls(way: tuple[str, ...]) -> None:
    x, t, b = values(1), values(2), values(3)
    _, tangent = jvp(lambda dual: mix_at(dual, b, *way), x, t)
    _, expected = jvp(lambda dual: mix_along(dual, b, len(way)), x, t)
    assert close(tangent, expected)


@pytest.mark.parametrize("way", [("w1",), ("w1", "w2")])
@on_worker(0)
def test_a_function_sees_its_callers_level(way: tuple[str, ...]) -> None:
    x, t = values(1), values(2)
    with fw.dual_level():
        if len(way) == 1:
            y = rpc.rpc_sync(way[0], dual_here, (x, t))
        else:
            y = rpc.rpc_sync(way[0], dual_there, (x, t, way[1]))
        assert close(fw.unpack_dual(y).tangent, t * x)


@on_worker(0)
def test_without_a_level_a_function_cannot_make_duals() -> None:
    with pytest.raises(RuntimeError, match=r"^Trying to create a dual Tensor for forward AD"):
        rpc.rpc_sync("w1", dual_here, (values(1), values(2)))


def second_derivative(function: Callable[[Tensor], Tensor], x: Tensor, t: Tensor) -> Tensor:
    return jvp(lambda outer: jvp(function, outer, t)[1], x, t)[1]


@on_worker(0)
def test_levels_nest_across_workers() -> None:
    x, t, b = values(1), values(2), values(3)
    found = second_derivative(lambda dual: rpc.rpc_sync("w1", mix, (dual, b)), x, t)
    assert close(found, second_derivative(lambda dual: mix(dual, b), x, t))


def inner_jvp(x: Tensor, t: Tensor, b: Tensor) -> Tensor:
    """Open a level on this worker around a call to another worker."""
    return jvp(lambda dual: rpc.rpc_sync("w2", mix, (dual, b)), x, t)[1]


@on_worker(0)
def test_levels_of_different_workers_nest() -> None:
    x, t, b = values(1), values(2), values(3)
    found = jvp(lambda outer: rpc.rpc_sync("w1", inner_jvp, (outer, t, b)), x, t)[1]
    assert close(found, second_derivative(lambda dual: mix(dual, b), x, t))


@on_worker(0)
def test_an_inner_level_may_travel_before_the_outer_one() -> None:
    x, t, b = values(1), values(2), values(3)

    def found(call: Callable[[Tensor], Tensor]) -> Tensor:
        with fw.dual_level(), fw.dual_level():
            inner = call(fw.make_dual(x, t, level=1))
            both = call(fw.make_dual(inner, t, level=0))
            tangent = fw.unpack_dual(both, level=1).tangent
            assert tangent is not None
            return fw.unpack_dual(tangent, level=0).tangent  # type: ignore[return-value]

    here = found(lambda dual: mix(dual, b))
    assert close(found(lambda dual: rpc.rpc_sync("w1", mix, (dual, b))), here)


@on_worker(0)
def test_leaving_a_level_ends_its_mirrors_everywhere() -> None:
    for to in ("w1", "w2"):  # mirrors of earlier tests may not have ended there yet
        rpc.rpc_sync(to, wait_for_no_mirror)
    with fw.dual_level():
        rpc.rpc_sync("w1", dual_there, (values(1), values(2), "w2"))
        assert [rpc.rpc_sync(to, mirrors) for to in ("w1", "w2")] == [1, 1]
    assert [rpc.rpc_sync(to, wait_for_no_mirror) for to in ("w1", "w2")] == [(0, 0)] * 2


@on_worker(0)
def test_levels_of_parallel_threads_do_not_meet() -> None:
    # All threads of a process share its levels, so all four threads use level 0.
    x, t, b = values(1), values(2), values(3)
    expected = jvp(lambda dual: mix(dual, b), x, t)[1]
    results: list[bool] = []

    def work() -> None:
        for _ in range(10):
            y = rpc.rpc_sync("w1", mix, (fw.make_dual(x, t, level=0), b))
            results.append(close(fw.unpack_dual(y, level=0).tangent, expected))

    with fw.dual_level():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert results == [True] * 40


def hessian_vector_product(model: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    x, v, b = values(1).requires_grad_(), values(2), values(3)
    with fw.dual_level(), da.context() as context_id:
        da.backward(context_id, [model(fw.make_dual(x, v), b).sum()])
        tangent = fw.unpack_dual(da.get_gradients(context_id)[x]).tangent
        assert tangent is not None
        return tangent


@on_worker(0)
def test_gradients_take_tangents_along() -> None:
    """A Hessian-vector product over three workers equals two backward passes in one process."""
    found = hessian_vector_product(lambda a, b: mix_at(a, b, "w1", "w2"))
    x, v, b = values(1).requires_grad_(), values(2), values(3)
    loss = mix_along(x, b, 2).sum()
    (g,) = fastdist.autograd.grad([loss], [x], create_graph=True)
    (expected,) = fastdist.autograd.grad([(g * v).sum()], [x])
    assert close(found, expected)


def enter_and_call(to: str) -> None:
    fw.enter_dual_level()
    rpc.rpc_sync(to, dual_there, (values(1), values(2), "w2"))


@pytest.mark.one_in(4)
def test_levels_of_an_owner_that_dies_end() -> None:
    group = Group(__file__, 3, {"FASTDIST_JOB_SECRET": "5e" * 32})
    try:
        group.run_all(join, {"rpc_timeout": 30, "init_timeout": 30})
        group[0].run(enter_and_call, "w1")
        assert [group[rank].run(mirrors) for rank in (1, 2)] == [1, 1]
        group[0].kill()
        assert [group[rank].run(wait_for_no_mirror) for rank in (1, 2)] == [(0, 0)] * 2
    finally:
        group.kill()


# ---- the store alone ----------------------------------------------------------------------------

THEIRS = 7 << 48


@pytest.fixture
def store(agent: FakeAgent) -> Iterator[TangentStore]:
    store = TangentStore()
    yield store
    store.stop()
    assert modes.special == 0


def test_a_level_gets_its_global_id_when_it_first_travels(store: TangentStore) -> None:
    with fw.dual_level(), fw.dual_level() as inner:
        level = ForwardADLevel.get_by_idx(inner)
        assert level.global_id is None
        assert store.chain_of(level) == (3 << 48, 3 << 48 | 1) == store.chain_of(level)


def test_mirrors_are_made_in_the_order_of_the_levels(store: TangentStore) -> None:
    store.register((THEIRS + 5, THEIRS + 2), life(THEIRS >> 48))
    outer, inner = (ForwardADLevel.get_or_create_mirror(THEIRS + i) for i in (5, 2))
    assert outer < inner and store.chain_of(inner) == (THEIRS + 5, THEIRS + 2)


def test_a_level_opened_for_a_caller_is_inside_of_the_callers_for_every_thread(
    store: TangentStore,
) -> None:
    """Messages from other threads, such as notices of ended levels, also name the level."""
    store.register((THEIRS + 5, THEIRS + 2), life(THEIRS >> 48))
    found = []
    with adopt(ForwardADLevel.try_get_by_global_id(THEIRS + 2)), fw.dual_level() as idx:
        level = ForwardADLevel.get_by_idx(idx)
        other = threading.Thread(target=lambda: found.append(store.chain_of(level)))
        other.start()
        other.join()
        found.append(store.chain_of(level))
    assert found == [(THEIRS + 5, THEIRS + 2, 3 << 48)] * 2


def test_a_level_that_is_over_does_not_come_back(store: TangentStore) -> None:
    store.register((THEIRS,), life(THEIRS >> 48))
    store.end(THEIRS)
    store.register((THEIRS,), life(THEIRS >> 48))
    assert store.number_of_mirrors() == 0


def test_a_level_of_a_lost_worker_gets_no_mirror(store: TangentStore) -> None:
    # A message of the lost worker may be read after the worker's levels have ended here.
    life(THEIRS >> 48).is_dead = True
    store.worker_lost(life(THEIRS >> 48))  # type: ignore[arg-type]
    store.register((THEIRS,), life(THEIRS >> 48))
    assert store.number_of_mirrors() == 0


def test_the_late_end_of_a_life_ends_no_level_of_the_next(store: TangentStore) -> None:
    former = life(THEIRS >> 48)
    store.register((THEIRS,), life(THEIRS >> 48))
    later = next_life(former.id)
    store.register((THEIRS + 1,), life(THEIRS >> 48))
    store.worker_lost(former)  # type: ignore[arg-type]
    assert store.held() == {later: [THEIRS + 1]}


def test_a_level_of_a_former_life_that_a_third_worker_brings_gets_no_mirror(
    store: TangentStore,
) -> None:
    former = life(THEIRS >> 48).record.incarnation
    later = next_life(THEIRS >> 48)
    store.register((THEIRS, THEIRS + 1), life(2), (former, later.record.incarnation))
    assert store.held() == {later: [THEIRS + 1]}


def test_a_level_that_a_lost_worker_brings_late_gets_no_mirror(store: TangentStore) -> None:
    # Worker 2 is lost, and the owner was already queried about the levels that came from worker 2.
    life(2).is_dead = True
    store.register((THEIRS,), life(2), (life(THEIRS >> 48).record.incarnation,))
    assert store.number_of_mirrors() == 0


def test_a_third_worker_is_told_whose_levels_it_hears_of(agent: FakeAgent) -> None:
    owner = life(THEIRS >> 48)
    with mirrored(THEIRS, owner):
        to_third, to_owner = (Message(0, peer=peer) for peer in (life(2), owner))
        for message in (to_third, to_owner):
            TangentInterceptor().request_out(message)
    assert to_third.metadata["tangents.levels"] == [THEIRS]
    assert to_third.metadata["tangents.owners"] == [owner.record.incarnation]
    assert "tangents.owners" not in to_owner.metadata


@contextmanager
def mirrored(global_id: int, owner: Life) -> Iterator[None]:
    """Run the block like a function that `owner` called inside one of the owner's levels."""
    tangent_store().register((global_id,), owner)  # type: ignore[arg-type]
    with adopt(ForwardADLevel.try_get_by_global_id(global_id)):
        yield
    tangent_store().end(global_id)


def test_a_level_of_our_own_that_is_over_gets_no_mirror(store: TangentStore) -> None:
    store.register((3 << 48 | 9,), life(5))
    assert store.number_of_mirrors() == 0


def test_nobody_hears_of_a_level_that_is_over(store: TangentStore, agent: FakeAgent) -> None:
    store.end(THEIRS)
    assert store.tell((THEIRS, THEIRS + 1), life(2)) == (THEIRS + 1,)
    store.end(THEIRS)
    assert agent.sent == []


def test_a_level_that_stays_open_gets_a_new_id_in_the_next_group(store: TangentStore) -> None:
    with fw.dual_level() as idx:
        level = ForwardADLevel.get_by_idx(idx)
        (before,) = store.chain_of(level)
        store.stop()
        # In an earlier group, another worker may have had rank 3. That worker's ids must not refer
        # to this level.
        assert ForwardADLevel.try_get_by_global_id(before) is None
        (after,) = store.chain_of(level)
        assert after != before and ForwardADLevel.try_get_by_global_id(after) is level


def test_a_tangent_whose_level_ends_as_it_arrives_is_dropped(
    store: TangentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_then_set(tensor: Tensor, tangent: Tensor, level: ForwardADLevel) -> None:
        tangent_store().end(THEIRS)
        set_tangent(tensor, tangent, level)

    monkeypatch.setattr(sys.modules[TangentStore.__module__], "set_tangent", end_then_set)
    x, t = values(1), values(2)
    message = Message(
        MessageType.PYTHON_CALL,
        peer=life(7),
        tensors=[x, t],
        metadata={"tangents.levels": (THEIRS,)},
    )
    message.tangents = [TangentEntry(0, THEIRS, 1)]
    TangentInterceptor().request_in(message)
    assert levels_of((x,)) == ()


def test_a_tangent_that_does_not_fit_is_an_error_while_its_level_is_open(
    store: TangentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise GraphError("it does not fit")

    monkeypatch.setattr(sys.modules[TangentStore.__module__], "set_tangent", refuse)
    message = Message(
        MessageType.PYTHON_CALL,
        peer=life(7),
        tensors=[values(1), values(2)],
        metadata={"tangents.levels": (THEIRS,)},
    )
    message.tangents = [TangentEntry(0, THEIRS, 1)]
    with pytest.raises(GraphError, match="it does not fit"):
        TangentInterceptor().request_in(message)
    tangent_store().end(THEIRS)


def test_the_end_of_a_level_is_told_to_whom_the_level_was(
    store: TangentStore, agent: FakeAgent
) -> None:
    store.tell((THEIRS,), life(1))
    store.tell((THEIRS, THEIRS + 1), life(2))
    agent.raises_for = {1}
    store.end(THEIRS)
    store.end(THEIRS)
    agent.notice_sender.send_gathered()
    ((worker_id, _, words, retries),) = agent.sent
    assert (worker_id, words, retries) == (2, {"levels": [THEIRS]}, 20)


def test_who_lost_the_worker_that_brought_a_level_asks_its_owner_whether_it_is_over(
    agent: FakeAgent,
) -> None:
    agent.unanswered = True
    open_there, over_there = 5 << 48, 5 << 48 | 1
    store = tangent_store()
    store.register((open_there,), life(5))
    store.register((over_there,), life(5))
    store.worker_lost(life(1))  # type: ignore[arg-type]
    held = {"levels": [open_there, over_there], "held": True}
    assert agent.sent == [(5, MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ, held, 5)]
    agent.futures[0].set_result(Reply([], {"over": (over_there,)}))
    assert store.held() == {life(5): [open_there]}


@pytest.mark.one_in(4)
def test_an_owner_tells_which_levels_are_over_and_later_when_the_others_are(
    agent: FakeAgent,
) -> None:
    with fw.dual_level():
        level = ForwardADLevel.current()
        assert level is not None
        open_here = level.get_or_assign_global_id(tangent_store().next_id)
        words = {"levels": (open_here, open_here + 1), "held": True}
        asked = Message(MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ, peer=life(1), metadata=words)
        reply = handle_clean_up(asked)
        assert reply is not None and reply.metadata == {"over": [open_here + 1]}
    agent.notice_sender.send_gathered()
    kind = MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ
    assert [sent[:3] for sent in agent.sent] == [(1, kind, {"levels": [open_here]})]
