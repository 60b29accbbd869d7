"""Each thread's bytes are counted as its arrays are allocated and freed."""

from __future__ import annotations

import threading

import numpy as np

from fastdist.instrumentation.memory_meter import Balance, MemoryMeter


def test_an_array_counts_once_until_its_end() -> None:
    meter = MemoryMeter()
    array = np.ones(4)
    meter.count(array)
    meter.count(array)
    during = meter.balance()
    del array
    assert (during, meter.balance()) == ((32, 0), (0, 0))


def test_an_end_counts_in_the_thread_in_which_it_comes() -> None:
    meter = MemoryMeter()
    told: list[Balance] = []
    arrays = [np.ones(4)]
    meter.count(arrays[0])

    def end() -> None:
        arrays.clear()
        told.append(meter.balance())

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert (told, meter.balance()) == ([(-32, 0)], (32, 0))


def test_ends_of_what_is_forgotten_do_not_count() -> None:
    meter = MemoryMeter()
    array = np.ones(4)
    meter.count(array)
    meter.switch(False)
    del array
    assert meter.balance() == (32, 0)


class Block:
    pass


def test_blocks_of_devices_count_apart() -> None:
    meter = MemoryMeter()
    block, array = Block(), np.ones(4)
    meter.count_block(block, 512)
    meter.count(array)
    during = meter.balance()
    del block
    assert (during, meter.balance()) == ((32, 512), (32, 0))
