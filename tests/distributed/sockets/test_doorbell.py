"""The bell: any thread may ring it, a ring is received once, and a closed bell no longer rings."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from fastdist.distributed.sockets import Doorbell
from tests.standstill import Standstill


@pytest.fixture(params=["eventfd", "pipe"])
def bell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doorbell]:
    if request.param == "pipe":
        monkeypatch.delattr(os, "eventfd", raising=False)
    bell = Doorbell()
    yield bell
    bell.close()


def test_a_ring_wakes_who_waits(bell: Doorbell) -> None:
    ringer = threading.Thread(target=bell.ring)
    ringer.start()
    assert bell.wait(time.monotonic() + 10)
    ringer.join()


def test_rings_add_up_to_one_until_cleared(bell: Doorbell) -> None:
    for _ in range(3):
        bell.ring()
    bell.clear()
    assert not bell.wait(0)
    bell.clear()
    bell.ring()
    assert bell.wait(0)


def test_a_bell_that_nobody_clears_stays_rung(bell: Doorbell) -> None:
    bell.ring()
    assert bell.wait(0) and bell.wait(0)


def test_no_number_of_rings_blocks_or_is_lost(bell: Doorbell) -> None:
    for _ in range(70_000):
        bell.ring()
    bell.clear()
    assert not bell.wait(0)


def test_waiting_ends_at_the_deadline_and_not_before(bell: Doorbell) -> None:
    with Standstill() as stood:
        started = time.monotonic()
        assert not bell.wait(started + 0.05)
    waited_s = time.monotonic() - started
    assert waited_s >= 0.05 and waited_s - stood.seconds < 2


def test_a_late_ring_does_not_write_into_somebody_elses_descriptor(bell: Doorbell) -> None:
    freed = bell.fileno()
    bell.close()
    # The kernel assigns the lowest free descriptor first, and libzmq may have freed lower ones.
    pipes = [os.pipe()]
    while freed not in pipes[-1]:
        pipes.append(os.pipe())
    reader, _ = pipes[-1]
    bell.ring()
    bell.clear()
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    assert bell.fileno() == -1
    for end in (end for pipe in pipes for end in pipe):
        os.close(end)
