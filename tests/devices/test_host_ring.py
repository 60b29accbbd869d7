"""Memory for copies is bounded and is reused automatically, but only after the copy is done."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from fastdist.core.errors import KernelError
from fastdist.devices.host_ring import HostRing

KB = 1024


class Point:
    """An event that passes when the test sets `passed`."""

    def __init__(self) -> None:
        self.passed = False
        self.waited_for = 0

    def query(self) -> bool:
        return self.passed

    def wait_quietly(self) -> bool:
        self.waited_for += 1
        self.passed = True
        return True


@pytest.fixture
def made() -> list[int]:
    return []


@pytest.fixture
def ring(made: list[int]) -> HostRing:
    def lock_pages(size_bytes: int) -> np.ndarray:
        made.append(size_bytes)
        return np.zeros(size_bytes, np.uint8)

    ring = HostRing(lock_pages, 64 * KB)
    ring.patience_s = 0.01
    return ring


def test_a_block_comes_back_with_the_last_view_of_it_and_serves_again(
    ring: HostRing, made: list[int]
) -> None:
    loan, memory = ring.lend(5000)
    view = memoryview(memory[8:16].view(np.float64))
    address = memory.__array_interface__["data"][0]
    assert (memory.nbytes, loan.is_locked, ring.usage()) == (5000, True, (8 * KB, 8 * KB))
    del loan, memory
    assert ring.usage() == (8 * KB, 8 * KB)
    del view
    assert ring.usage() == (0, 8 * KB)
    _, again = ring.lend(8000)
    assert again.__array_interface__["data"][0] == address and made == [8 * KB]


def test_a_block_does_not_serve_before_its_copies_have_passed(ring: HostRing) -> None:
    point, kept = Point(), np.zeros(1)
    loan, memory = ring.lend(64 * KB)
    loan.hold(point, [kept])
    del loan, memory
    assert ring.usage() == (64 * KB, 64 * KB)
    point.passed = True
    assert ring.usage() == (0, 64 * KB)


def test_who_needs_a_block_that_is_late_waits_for_the_device(ring: HostRing) -> None:
    point = Point()
    loan, memory = ring.lend(64 * KB)
    loan.hold(point)
    address = memory.__array_interface__["data"][0]
    del loan, memory
    _, again = ring.lend(64 * KB)
    assert point.waited_for == 1 and again.__array_interface__["data"][0] == address


def test_what_somebody_has_waited_for_is_not_asked_for_again(ring: HostRing) -> None:
    loan, memory = ring.lend(4 * KB)
    loan.hold(Point())
    loan.has_arrived()
    del loan, memory
    assert ring.usage() == (0, 4 * KB)


def test_who_finds_all_lent_waits_for_one_to_come_back(ring: HostRing) -> None:
    ring.patience_s = 20.0
    lent = [ring.lend(32 * KB) for _ in range(2)]
    hand_on = threading.Timer(0.05, lent.clear)
    hand_on.start()
    loan, _ = ring.lend(32 * KB)
    hand_on.join()
    assert loan.is_locked and ring.usage() == (32 * KB, 64 * KB)


def test_who_has_waited_in_vain_gets_memory_that_is_not_locked(
    ring: HostRing, made: list[int]
) -> None:
    lent = [ring.lend(32 * KB) for _ in range(2)]
    loan, memory = ring.lend(20 * KB)
    assert not loan.is_locked and memory.nbytes == 20 * KB
    del loan, memory
    assert ring.usage() == (64 * KB, 64 * KB) and made == [32 * KB] * 2 and len(lent) == 2


def test_what_is_larger_than_all_blocks_is_not_locked_and_waits_for_none(ring: HostRing) -> None:
    ring.patience_s = 20.0
    loan, memory = ring.lend(65 * KB)
    assert not loan.is_locked and memory.nbytes == 65 * KB and ring.usage() == (0, 0)


def test_free_blocks_make_room_for_one_of_another_size(ring: HostRing, made: list[int]) -> None:
    for _ in range(2):
        ring.lend(16 * KB)
    loan, _ = ring.lend(64 * KB)
    assert loan.is_locked and made == [16 * KB, 64 * KB] and ring.usage() == (64 * KB, 64 * KB)


def test_where_no_more_pages_can_be_locked_it_is_done_without() -> None:
    def refuse(size_bytes: int) -> np.ndarray:
        raise KernelError("cuda: no pages")

    ring = HostRing(refuse)
    loan, memory = ring.lend(10)
    assert not loan.is_locked and memory.nbytes == 10 and ring.usage() == (0, 0)


def test_threads_that_lend_at_once_share_what_there_is(ring: HostRing, made: list[int]) -> None:
    ring.patience_s = 20.0
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(100):
            loan, memory = ring.lend(16 * KB)
            memory[:] = number
            if not loan.is_locked or (memory != number).any():
                wrong.append(number)
            # Return the block now: a thread that holds one block must not wait for another.
            del loan, memory

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not wrong and len(made) <= 4 and ring.usage()[0] == 0
