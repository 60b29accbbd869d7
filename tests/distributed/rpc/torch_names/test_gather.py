"""Workers exchange objects, or synchronize, in one call each, or learn which worker is missing."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from fastdist.autograd import profiler
from fastdist.core.errors import RpcError, RpcTimeoutError, WorkerLostError
from fastdist.distributed import rpc
from fastdist.distributed.rpc import api
from fastdist.distributed.rpc.torch_names import gather
from tests.distributed.members import init, leave_without
from tests.distributed.workers import DEADLINE_S, Group, run_group


def gather_thrice() -> list[dict[str, Any]]:
    rank = init(strict=True)
    found = [api._all_gather(rank * 10), api._all_gather([rank])]
    if rank != 1:
        found.append(api._all_gather(rank, {"w0", "w2"}, timeout=30))
    api._barrier(["w0", "w1", "w2"])
    api._wait_all_workers(timeout=30)
    assert not gather._gatherings
    rpc.shutdown()
    return found


@pytest.mark.one_in(8)
def test_each_worker_gets_the_objects_of_all() -> None:
    first, second, third = run_group(gather_thrice, 3)
    assert first == third and second == first[:2]
    assert first == [
        {"w0": 0, "w1": 10, "w2": 20},
        {"w0": [0], "w1": [1], "w2": [2]},
        {"w0": 0, "w2": 2},
    ]


def profiled() -> list[str]:
    init()
    with profiler.profile() as p:
        api._all_gather(1)
        api._barrier({"w0", "w1"})
    rpc.shutdown()
    assert p.function_events is not None
    return [event.name for event in p.function_events]


@pytest.mark.seed("U17")
def test_gathering_does_not_appear_in_a_profile() -> None:
    assert run_group(profiled, 2) == [[], []]


def wait_for_the_first() -> None:
    """Wait until an object has arrived at this leader."""
    deadline, never = time.monotonic() + DEADLINE_S / 2, threading.Event()
    while not gather._gatherings:
        assert time.monotonic() < deadline
        never.wait(0.005)


def one_does_not_come() -> None:
    rank = init()
    if rank == 0:
        wait_for_the_first()  # otherwise the leader, rank 0, might be late too
    if rank < 2:
        words = r"^Followers \['w2'\] timed out in _all_gather after 0\.50 seconds"
        with pytest.raises(RpcTimeoutError, match=words):
            api._all_gather(rank, timeout=DEADLINE_S if rank else 0.5)
    if rank == 0:
        with pytest.raises(RpcError, match=r"worker 'w0' is not among those that gather: \['w1'\]"):
            api._all_gather(rank, {"w1"})
        with pytest.raises(RpcError, match="could not find destination name nobody"):
            api._all_gather(rank, {"w0", "nobody"})
    rpc.shutdown()


@pytest.mark.one_in(8)
def test_who_does_not_come_is_named() -> None:
    run_group(one_does_not_come, 3)


def test_who_comes_when_the_time_was_over_hears_who_was_missing_and_waits_for_nobody() -> None:
    names = ("w0", "w1")
    first = gather._take_part("1 of a test", "w0", 1, names).future
    try:
        gather._give_up("1 of a test", 0.5)
        with pytest.raises(RpcTimeoutError, match=r"Followers \['w1'\]"):
            first.wait()
        with pytest.raises(RpcTimeoutError, match=r"Followers \['w1'\]"):
            gather._take_part("1 of a test", "w1", 2, names)
    finally:
        gather._stopped()


def gather_without_the_lost() -> list[str]:
    told = []
    for _ in range(2):  # before the second call, the loss is known already
        with pytest.raises(WorkerLostError) as caught:
            api._all_gather(None)
        told.append(str(caught.value))
    return told


@pytest.mark.one_in(8)
def test_who_is_lost_is_not_waited_for() -> None:
    group = Group(__file__, 3)
    try:
        group.run_all(init)
        for rank in (0, 1):
            group[rank].start(gather_without_the_lost)
        group[2].kill()
        for rank in (0, 1):
            assert all("'w2'" in text for text in group[rank].result())
        for rank in (0, 1):
            group[rank].start(leave_without, "w2")
        for rank in (0, 1):
            group[rank].result()
    finally:
        group.kill()
