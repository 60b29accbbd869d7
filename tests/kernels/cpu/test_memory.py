"""Large arrays start at a cache line; their memory is reused after they are freed, not before."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.kernels.cpu import memory
from fastdist.kernels.cpu.kept_blocks import Keeper
from tests.kernels.cpu.processes import run_script

FLOAT = np.dtype(np.float32)
BLOCK = memory.BLOCKS_FROM // 4


def address_of(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def filled(count: int, number: float) -> np.ndarray:
    array: np.ndarray = memory.empty((count,), FLOAT)
    array[...] = number
    return array


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def keeper_of(most_bytes: int) -> Keeper:
    return Keeper(most_bytes, memory.BLOCKS_FROM, memory.LINE_BYTES)


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    gc.collect()  # otherwise blocks of earlier tests could be freed during a test
    memory.empty((BLOCK,), FLOAT)
    memory.empty_cache()
    yield
    memory.empty_cache()


def test_small_arrays_are_numpys_own() -> None:
    assert memory.maker_of((64, 60), FLOAT) is np.empty


@pytest.mark.parametrize("shape", [(1 << 14,), (100, 1000), (BLOCK,), (3, BLOCK)])
def test_large_arrays_begin_at_a_line_and_own_their_memory(shape: tuple[int, ...]) -> None:
    array = memory.empty(shape, FLOAT)
    seen = address_of(array) % 64, array.base, array.flags.owndata, array.flags.c_contiguous
    assert seen == (0, None, True, True)


@pytest.mark.parametrize("count", [1 << 14, 100_000, BLOCK])
def test_results_gradients_and_copies_begin_at_a_line(count: int) -> None:
    x = fastdist.tensor(np.ones(count, np.float32), requires_grad=True)
    y = x.exp()
    y.backward(fastdist.ones_like(y))
    assert x.grad is not None
    assert [one.data_ptr() % 64 for one in (x, y, x.grad, y.detach().softmax(0))] == [0] * 4


def test_a_block_serves_again_as_it_was_left() -> None:
    first = filled(BLOCK, 7)
    before = address_of(first)
    del first
    again = memory.empty((BLOCK,), FLOAT)
    assert (address_of(again), again[0], again[-1]) == (before, 7, 7)


def test_a_block_serves_for_what_is_little_smaller_alone() -> None:
    first = filled(2 * BLOCK, 7)
    before = address_of(first)
    del first
    half, most = memory.empty((BLOCK,), FLOAT), memory.empty((2 * BLOCK - 1000,), FLOAT)
    assert address_of(half) != before == address_of(most)


@pytest.mark.parametrize(
    "hold",
    [
        lambda tensor: tensor.numpy()[5:],
        lambda tensor: tensor.view(-1, 2)[3],
        np.from_dlpack,
        lambda tensor: memoryview(tensor.numpy()),
        lambda tensor: tensor.untyped_storage(),
    ],
)
def test_a_block_is_not_given_back_while_anything_sees_it(hold: Any) -> None:
    tensor = fastdist.full((BLOCK,), 3.0)
    before, held = tensor.data_ptr(), hold(tensor)
    del tensor
    gc.collect()
    other = filled(BLOCK, 4)
    assert address_of(other) != before
    del held, other
    gc.collect()
    again = [memory.empty((BLOCK,), FLOAT) for _ in range(2)]
    assert before in map(address_of, again)


def test_a_block_that_is_resized_keeps_its_numbers() -> None:
    array = filled(BLOCK, 2)
    array.resize(2 * BLOCK, refcheck=False)
    assert (array[:BLOCK] == 2).all() and not array[BLOCK:].any()
    array.resize(10, refcheck=False)
    assert (array == 2).all()


def test_keeper_keeps_no_more_than_it_may_and_what_came_last() -> None:
    keeper = keeper_of(2 * memory.BLOCKS_FROM + (1 << 16))
    make = memory.made_by(keeper)
    blocks = [make((BLOCK,), FLOAT) for _ in range(3)]
    places = [address_of(one) for one in blocks]
    blocks.reverse()
    while blocks:
        blocks.pop()
    assert 2 * memory.BLOCKS_FROM <= keeper.kept_bytes() <= 2 * memory.BLOCKS_FROM + (1 << 16)
    again = [make((BLOCK,), FLOAT) for _ in range(2)]
    assert [address_of(one) for one in again] == [places[2], places[1]]
    del again
    keeper.drop()
    assert keeper.kept_bytes() == 0


def test_keeper_keeps_nothing_larger_than_it_may() -> None:
    keeper = keeper_of(memory.BLOCKS_FROM + (1 << 16))
    make = memory.made_by(keeper)
    make((BLOCK,), FLOAT)
    make((2 * BLOCK,), FLOAT)
    assert memory.BLOCKS_FROM <= keeper.kept_bytes() < 2 * memory.BLOCKS_FROM
    keeper.drop()


def test_keeper_has_room_for_many_blocks() -> None:
    keeper = keeper_of(1 << 30)
    make = memory.made_by(keeper)
    blocks = [make((BLOCK,), FLOAT) for _ in range(40)]
    blocks.clear()
    assert 32 * memory.BLOCKS_FROM <= keeper.kept_bytes() < 33 * memory.BLOCKS_FROM
    keeper.drop()


def test_what_is_kept_goes_before_memory_is_said_to_be_short() -> None:
    keeper = keeper_of(1 << 30)
    make = memory.made_by(keeper)
    make((BLOCK,), FLOAT)
    with pytest.raises(MemoryError):
        make((1 << 45,), FLOAT)
    assert keeper.kept_bytes() == 0


def test_empty_cache_gives_back_what_is_kept() -> None:
    # The array exceeds what glibc caches, so freed memory goes back to the system, which clears it.
    filled(10 * BLOCK, 7)
    fastdist.cpu.empty_cache()
    assert not memory.empty((10 * BLOCK,), FLOAT).any()


def test_empty_cache_gives_back_what_lies_between_arrays_in_a_heap() -> None:
    mebibyte = 1 << 18
    freed = [filled(mebibyte, 7) for _ in range(100)]
    last = filled(mebibyte, 8)
    freed.clear()
    before = resident_bytes()
    fastdist.cpu.empty_cache()
    assert before - resident_bytes() > 50 << 20
    assert (last == 8).all()


@pytest.mark.one_in(3)
def test_a_large_block_is_of_huge_pages_though_a_heap_has_small_ones_for_it() -> None:
    # The test first checks on its own memory whether huge pages are available.
    script = f"""{FIRST}
import mmap, re

def huge_kib(address):
    inside = False
    for line in open("/proc/self/smaps"):
        begin = re.match("([0-9a-f]+)-([0-9a-f]+) ", line)
        if begin:
            inside = int(begin[1], 16) <= address < int(begin[2], 16)
        elif inside and line.startswith("AnonHugePages"):
            return int(line.split()[1])

SIZE = 40 << 20
np.empty(30 << 20, np.uint8)  # freed: from now on glibc's heap serves what is smaller
freed = [np.ones(1 << 20, np.uint8) for _ in range(56)]
kept = freed.pop()  # at the top of the heap, which glibc would give back to the system
heap = freed[0].ctypes.data, freed[-1].ctypes.data
freed.clear()
block = memory.empty((SIZE,), np.dtype(np.uint8))
block[:] = 1
own = mmap.mmap(-1, SIZE + (2 << 20), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
own.madvise(mmap.MADV_HUGEPAGE)
other = np.frombuffer(own, np.uint8)
other[:] = 1
place = block.ctypes.data
to_be_had = huge_kib(other.ctypes.data) >= SIZE >> 10
print(heap[0] < place < heap[1], huge_kib(place) >= to_be_had * SIZE >> 10, (block == 1).all())
"""
    assert run_script(script) == "True True True"


def test_an_array_is_made_while_another_is_made() -> None:
    inner: list[np.ndarray] = []
    make = memory.maker_of((1 << 14,), FLOAT)

    class Length:
        def __index__(self) -> int:
            inner.append(make((1 << 14,), FLOAT))
            return 1 << 14

    outer = make((Length(),), FLOAT)  # type: ignore[arg-type]
    assert [address_of(one) % 64 for one in (outer, inner[0])] == [0, 0]


def test_threads_never_share_a_block() -> None:
    spoilt: list[int] = []

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        for _ in range(60):
            array = filled(BLOCK + int(rng.integers(1000)), number)
            other = filled(20_000, number)
            if (array != number).any() or (other != number).any():
                spoilt.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not spoilt


FIRST = """
import numpy as np
from numpy._core.multiarray import get_handler_name
import fastdist
from fastdist.kernels.cpu import memory
import fastdist.kernels.cpu.jit.compiler

def names():
    return [get_handler_name(memory.empty((n,), np.dtype(np.float32))) for n in (1 << 14, 1 << 20)]
"""


@pytest.mark.one_in(3)
def test_glibc_that_is_told_to_keep_little_has_nothing_kept() -> None:
    told = run_script(f"{FIRST}print(*names())", MALLOC_TRIM_THRESHOLD_="131072")
    assert told == "fastdist_lines default_allocator"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("allocator", ["debug", "malloc_debug", "malloc"])
def test_an_allocator_that_python_was_asked_for_is_left_alone(allocator: str) -> None:
    told = run_script(f"{FIRST}print(*names())", PYTHONMALLOC=allocator)
    assert told == "default_allocator default_allocator"


@pytest.mark.one_in(3)
def test_numpy_serves_until_the_keeper_is_compiled_where_that_was_asked_for() -> None:
    script = f"""{FIRST}
from fastdist.kernels.cpu.jit import background
first = names()
thread = background._State.thread
if thread is not None:
    thread.join()
print(*first, *names())
"""
    told = run_script(script, FASTDIST_START="numpy")
    lines, blocks = "fastdist_lines", "fastdist_blocks"
    assert told == f"{lines} default_allocator {lines} {blocks}"


@pytest.mark.one_in(3)
def test_blocks_may_end_after_the_interpreter_and_in_a_child() -> None:
    script = f"""{FIRST}
import os, sys, types
names()
held = types.ModuleType("held")
held.arrays = [memory.empty((n,), np.dtype(np.float32)) for n in (1 << 14, 1 << 20, 1 << 24)]
held.itself = held
sys.modules["held"] = held
child = os.fork()
if child == 0:
    held.arrays.clear()
    names()
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    assert run_script(script) == "0"
