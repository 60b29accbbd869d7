"""Locked host memory for device tensors is bounded, and a lost peer's share is returned."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import fastdist
from fastdist.devices import backend_of
from fastdist.distributed import rpc
from tests.device_kinds import KINDS, kind_here, told
from tests.distributed.members import init
from tests.distributed.workers import Group

MB = 1 << 20


def join() -> int:
    kind = kind_here()
    return init(
        rpc_timeout=60,
        frozen_s=60,  # else the stopped worker would be lost before the send queue is full
        device_maps={} if is_last() else {"w1": {f"{kind}:0": f"{kind}:1"}},
    )


def is_last() -> bool:
    return os.environ["RANK"] == "1"


@pytest.fixture(params=KINDS)
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    # Disable the arena channel, since copies to an arena would leave the ring immediately.
    group = Group(__file__, 2, {**told(request.param), "FASTDIST_CHANNELS": "basic,cuda_basic"})
    try:
        group.run_all(join)
        yield group
    finally:
        group.kill()


def sum_of(*tensors: fastdist.Tensor) -> float:
    return sum(float(tensor.sum()) for tensor in tensors)


def usage() -> tuple[int, int]:
    ring: Any = backend_of(kind_here())
    return ring.host_ring.usage()


def usage_when_all_is_back() -> tuple[int, int]:
    """Return the usage after waiting up to 20 seconds for all blocks to be returned.

    The sender releases a block a little after the answer has arrived.
    """
    deadline, never = time.monotonic() + 20, threading.Event()
    while usage()[0] and time.monotonic() < deadline:
        never.wait(0.01)
    return usage()


def send_many(count: int) -> None:
    ring: Any = backend_of(kind_here())
    ring.host_ring.most_bytes, ring.host_ring.patience_s = 4 * MB, 0.01
    x = fastdist.ones(MB // 4, device=f"{kind_here()}:0")
    assert all(rpc.rpc_sync("w1", sum_of, (x, x)) == MB / 2 for _ in range(count))


@pytest.mark.one_in(4)
def test_blocks_go_round_and_all_come_back(group: Group) -> None:
    group[0].run(send_many, 8)
    lent, there = group[0].run(usage_when_all_is_back)
    assert lent == 0 and 0 < there <= 4 * MB
    assert "of locked memory" in group[0].run(debug_info)
    assert group[1].run(usage_when_all_is_back)[0] == 0
    group.run_all(rpc.shutdown)
    assert group.end() == [0, 0]


def debug_info() -> str:
    return rpc._get_debug_info()[f"agent.cuda_basic.{kind_here()}"]


_left: list[Any] = []
_sender: list[threading.Thread] = []


def send_until_nothing_leaves() -> int:
    """Send to a stopped worker until a call waits for room; return how many bytes are lent then."""
    x = fastdist.ones(MB // 4, device=f"{kind_here()}:0")
    moved = threading.Event()

    def send() -> None:
        # w1 does not answer, so a call that is done has failed.
        while not (_left and _left[-1].done()):
            _left.append(rpc.rpc_async("w1", sum_of, (x,)))
            moved.set()

    _sender.append(threading.Thread(target=send))
    _sender[0].start()
    while moved.wait(2.0):
        moved.clear()
    return usage()[0]


def wait_until_all_have_come_back() -> int:
    for future in _left:
        with pytest.raises(RuntimeError):
            future.wait()
    _sender[0].join(20)
    assert _left and not _sender[0].is_alive()
    # The calls fail first; messages still queued in the lane are dropped a little later.
    lent, _ = usage_when_all_is_back()
    rpc.shutdown(graceful=False)
    return lent


@pytest.mark.one_in(7, each=True)
def test_what_was_lent_for_a_peer_comes_back_when_it_is_lost(group: Group) -> None:
    group[0].run(send_many, 1)
    group[1].kill(signal.SIGSTOP)
    assert group[0].run(send_until_nothing_leaves) >= MB
    group[1].kill(signal.SIGKILL)
    assert group[0].run(wait_until_all_have_come_back) == 0
    assert group[0].end() == 0
