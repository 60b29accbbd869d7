"""Large tensors between workers of one machine: contents, ownership, and release of the memory."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.core.errors import RpcTimeoutError, WorkerLostError
from fastdist.distributed import rpc
from fastdist.distributed.rpc import arena_offers
from fastdist.distributed.rpc.agent import get_current_agent
from fastdist.nn import Parameter
from fastdist.system import sealed_memory
from tests.distributed.workers import DEADLINE_S, Group, open_gate, wait_at

LARGE = 1 << 17  # elements: half a megabyte of float32
kept: list[Any] = []


def init_with(channels: list[str] | None) -> None:
    options = rpc.TensorPipeRpcBackendOptions(_channels=channels)
    rpc.init_rpc(f"w{os.environ['RANK']}", rpc_backend_options=options)


def init() -> None:
    init_with(None)


def leave() -> None:
    rpc.shutdown()


def leave_at_once() -> None:
    rpc.shutdown(graceful=False)


def end(group: Group) -> None:
    group.run_all(leave)
    assert group.end() == [0] * len(group.workers)


def end_without_w1(group: Group) -> None:
    for rank in (2, 0):
        group[rank].run(leave_at_once)
        assert group[rank].end() == 0


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group(__file__, 3)
    try:
        yield group
    finally:
        group.kill()


def same(value: Any) -> Any:
    return value


def describe(tensors: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (type(t).__name__, t.requires_grad, tuple(t.shape), t.detach().numpy().sum())
        for t in tensors
    ]


def add_in_place(tensor: Any, number: float) -> Any:
    tensor += number
    return tensor


def keep(tensor: Any) -> None:
    kept.append(tensor)


def keep_one_of(tensors: list[Any]) -> None:
    kept.append(tensors[1])


def kept_numbers() -> list[float]:
    return [float(tensor.numpy()[0]) for tensor in kept]


def kept_is_sound() -> bool:
    return all(bool((tensor.numpy() == tensor.numpy().flat[0]).all()) for tensor in kept)


def forget() -> None:
    kept.clear()


def send_on(to: str, number: float) -> float:
    return float(rpc.rpc_sync(to, add_in_place, (kept[0], number)).numpy()[0])


def arena_of(peer: str = "") -> str:
    return rpc._get_debug_info()["agent.arena" + (f".{peer}" if peer else "")]


def lent_blocks() -> int:
    found = re.match(r"(\d+) blocks", arena_of())
    return int(found[1]) if found else 0


def arenas() -> int:
    return sealed_memory.mapped().count("arena")


def numbers(value: float, count: int = LARGE) -> Any:
    return fastdist.full((count,), value, dtype=fastdist.float32)


def use_arena(peer: str) -> None:
    """Call with large tensors until the tensors travel through the arena."""
    deadline = time.monotonic() + DEADLINE_S
    rpc.rpc_sync(peer, same, (numbers(1.0),))
    while arena_of(peer) != "large tensors by arena":
        rpc.rpc_sync(peer, same, (numbers(1.0),))
        assert time.monotonic() < deadline, arena_of(peer)


def wait_until_lent(blocks: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while lent_blocks() != blocks:
        assert time.monotonic() < deadline, arena_of()


def wait_until_nothing_is_lent() -> None:
    wait_until_lent(0)


def small_tensors_make_no_arena() -> None:
    for _ in range(3):
        rpc.rpc_sync("w1", same, (numbers(1.0, 1000),))
    assert arenas() == 0 and arena_of() == "none yet"
    use_arena("w1")
    assert arenas() > 0


def tensors_arrive_as_they_were() -> None:
    use_arena("w1")
    whole = fastdist.arange(4 * LARGE).to(fastdist.float64).reshape(4, LARGE)
    sent = [
        numbers(2.0).requires_grad_(),
        Parameter(numbers(3.0)),
        Parameter(numbers(3.0), requires_grad=False),
        fastdist.zeros(0, 5),
        fastdist.tensor(5),
        whole,
        whole[1:3],
        whole.T,
        whole[:, ::2],
    ]
    assert rpc.rpc_sync("w1", describe, (sent,)) == describe(sent)
    came = rpc.rpc_sync("w1", same, (sent,))
    assert describe(came) == describe(sent)
    for one, other in zip(came, sent, strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())
    came[5][1, 0] = -5.0
    assert came[6][0, 0] == -5.0 and came[7][0, 1] == -5.0, "views of one storage came apart"
    assert whole[1, 0] == LARGE


def a_block_is_its_receivers_alone() -> None:
    use_arena("w1")
    mine = numbers(1.0)
    for _ in range(20):
        assert bool((rpc.rpc_sync("w1", add_in_place, (mine, 2.0)).numpy() == 3.0).all())
    assert bool((mine.numpy() == 1.0).all())
    rpc.rpc_sync("w1", keep, (mine,))
    futures = []
    for turn in range(30):
        futures.append(rpc.rpc_async("w1", add_in_place, (mine, float(turn))))
        mine += 1.0  # changed right after the call, which has sent a copy of the tensor
    for turn, future in enumerate(futures):
        assert bool((future.wait().numpy() == 1.0 + 2 * turn).all())
    assert rpc.rpc_sync("w1", kept_numbers) == [1.0] and rpc.rpc_sync("w1", kept_is_sound)
    assert rpc.rpc_sync("w1", send_on, ("w2", 41.0)) == 42.0
    assert rpc.rpc_sync("w1", kept_numbers) == [1.0]
    rpc.rpc_sync("w1", forget)
    del futures, future
    wait_until_nothing_is_lent()
    assert rpc.rpc_sync("w1", lent_blocks) == 0


def what_is_kept_holds_its_block_alone() -> None:
    use_arena("w1")
    for turn in range(5):
        rpc.rpc_sync("w1", keep_one_of, ([numbers(turn + i / 4) for i in range(4)],))
    wait_until_lent(5)
    assert rpc.rpc_sync("w1", kept_numbers) == [turn + 0.25 for turn in range(5)]
    for _ in range(20):
        rpc.rpc_sync("w1", same, (numbers(9.0),))
    assert rpc.rpc_sync("w1", kept_is_sound)
    rpc.rpc_sync("w1", forget)
    wait_until_nothing_is_lent()


def a_full_arena_sends_in_messages() -> None:
    arena_offers.arena_size = lambda: (4 << 20) + (2 << 20)  # type: ignore[attr-defined]
    use_arena("w1")
    wait_until_nothing_is_lent()
    for turn in range(8):
        rpc.rpc_sync("w1", keep, (numbers(float(turn)),))
    wait_until_lent(4)
    assert rpc.rpc_sync("w1", kept_numbers) == [float(turn) for turn in range(8)]
    rpc.rpc_sync("w1", forget)
    wait_until_nothing_is_lent()


def threads_send_at_once() -> None:
    use_arena("w1")
    wrong: list[float] = []

    def work(seed: int) -> None:
        for turn in range(40):
            value = float(seed * 100 + turn)
            came = rpc.rpc_sync("w1", add_in_place, (numbers(value), 0.5)).numpy()
            wrong.extend(came[came != value + 0.5].tolist())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert wrong == []
    wait_until_nothing_is_lent()


def give_back_late(tensor: Any) -> Any:
    wait_at("gate")
    return tensor


def calls_that_time_out_leave_nothing_lent() -> None:
    use_arena("w1")
    for _ in range(3):
        with pytest.raises(RpcTimeoutError):
            rpc.rpc_sync("w1", give_back_late, (numbers(1.0),), timeout=0.05)
        with pytest.raises(RpcTimeoutError):
            rpc.rpc_async("w1", give_back_late, (numbers(1.0),), timeout=0.05).wait()
    rpc.rpc_sync("w1", open_gate, ("gate",))
    wait_until_nothing_is_lent()


def bytes_are_counted_wherever_they_lie() -> None:
    use_arena("w1")
    counts = get_current_agent().counts  # type: ignore[attr-defined]
    before = counts.network_data()["w1"]
    rpc.rpc_sync("w1", same, (numbers(1.0),))
    after = counts.network_data()["w1"]
    assert after.total_sent_bytes - before.total_sent_bytes >= 4 * LARGE
    assert after.total_recv_bytes - before.total_recv_bytes >= 4 * LARGE


@pytest.fixture(scope="module")
def running() -> Iterator[Group]:
    group = Group(__file__, 3)
    try:
        group.run_all(init)
        yield group
        end(group)
    finally:
        group.kill()


@pytest.mark.parametrize(
    "body",
    [
        tensors_arrive_as_they_were,
        a_block_is_its_receivers_alone,
        what_is_kept_holds_its_block_alone,
        threads_send_at_once,
        calls_that_time_out_leave_nothing_lent,
        bytes_are_counted_wherever_they_lie,
    ],
    ids=lambda body: body.__name__,
)
def test_large_tensors(running: Group, body: Any) -> None:
    running[0].run(body)


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize(
    "body",
    [small_tensors_make_no_arena, a_full_arena_sends_in_messages],
    ids=lambda body: body.__name__,
)
def test_a_new_group(group: Group, body: Any) -> None:
    group.run_all(init)
    group[0].run(body)
    end(group)


def refused() -> None:
    for _ in range(20):
        came = rpc.rpc_sync("w1", same, (numbers(4.0),))
        assert bool((came.numpy() == 4.0).all())


@pytest.mark.one_in(8)
def test_a_worker_that_does_not_want_it_gets_tensors_in_messages(group: Group) -> None:
    for worker, channels in zip(group.workers, (None, ["basic"], None), strict=True):
        worker.start(init_with, channels)
    for worker in group.workers:
        worker.result()
    group[0].run(refused)
    assert "'w1' says: it is configured to use other channels" in group[0].run(arena_of, "w1")
    assert group[1].run(arena_of) == "none: not among the channels"
    group[0].run(use_arena, "w2")
    end(group)


@pytest.mark.one_in(8)
def test_the_environment_turns_it_off() -> None:
    group = Group(__file__, 2, {"FASTDIST_CHANNELS": "basic"})
    try:
        group.run_all(init)
        group[0].run(refused)
        assert "not among the channels" in group[0].run(arena_of, "w1")
        assert group[0].run(arenas) == 0
        end(group)
    finally:
        group.kill()


def shout(peer: str) -> str:
    """Call with large tensors until the peer dies."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            rpc.rpc_sync(peer, same, (numbers(7.0),))
        except WorkerLostError as error:
            return str(error)
    return ""


@pytest.mark.one_in(8)
def test_what_a_killed_receiver_had_is_free_again(group: Group) -> None:
    group.run_all(init)
    group[0].run(use_arena, "w1")
    group[0].run(use_arena, "w2")
    group[0].run(lend_for_good, "w1")
    assert group[0].run(lent_blocks) >= 3
    group[0].start(shout, "w1")
    group[1].kill()
    assert "'w1'" in group[0].result()
    group[0].run(wait_until_nothing_is_lent)
    group[0].run(use_arena, "w2")
    end_without_w1(group)


def lend_for_good(peer: str) -> None:
    for turn in range(3):
        rpc.rpc_sync(peer, keep, (numbers(float(turn)),))


@pytest.mark.one_in(8)
def test_what_was_got_from_a_killed_worker_stays(group: Group) -> None:
    group.run_all(init)
    group[1].run(use_arena, "w0")
    group[1].run(lend_for_good, "w0")
    group[0].start(shout, "w1")
    group[1].kill()
    assert "'w1'" in group[0].result()
    assert group[0].run(kept_numbers) == [0.0, 1.0, 2.0]
    assert group[0].run(kept_is_sound)
    group[0].run(forget)
    group[0].run(use_arena, "w2")
    end_without_w1(group)


@pytest.mark.one_in(8)
def test_what_was_got_from_a_worker_that_left_stays(group: Group) -> None:
    group.run_all(init)
    group[0].run(use_arena, "w1")
    group[0].run(lend_for_good, "w1")
    group.run_all(leave)
    assert group[1].run(kept_is_sound) and group[1].run(kept_numbers) == [0.0, 1.0, 2.0]
    assert group[1].run(arenas) > 0
    for worker in group.workers:
        worker.run(forget)
        assert worker.run(arenas) == 0
    assert group.end() == [0, 0, 0]


@pytest.mark.one_in(8)
def test_a_worker_that_is_frozen_for_a_while_gets_whole_tensors(group: Group) -> None:
    group.run_all(init)
    group[0].run(use_arena, "w1")
    group[1].kill(signal.SIGSTOP)
    group[0].start(refused)
    assert not threading.Event().wait(1.0)
    group[1].kill(signal.SIGCONT)
    group[0].result()
    end(group)
