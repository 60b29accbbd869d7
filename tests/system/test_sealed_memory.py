"""Anonymous memory that other processes can map, and how long it lives while it is mapped."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

import pytest

from fastdist.system import sealed_memory

SIZE = 3 * mmap.PAGESIZE


@pytest.fixture
def memory() -> Iterator[int]:
    descriptor = sealed_memory.create("memory of a test", SIZE)
    yield descriptor
    os.close(descriptor)


def num_open() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_two_mappings_share_their_bytes_and_keep_no_descriptor(memory: int) -> None:
    before = num_open()
    one = sealed_memory.map_shared(memory, SIZE, "one")
    other = sealed_memory.map_of(memory, SIZE, "test")
    assert num_open() == before and sealed_memory.mapped()[-2:] == ["one", "test"]
    one[SIZE - 5 : SIZE] = b"hello"
    assert (len(other), other[SIZE - 5 :]) == (SIZE, b"hello")
    one.close()
    assert other[SIZE - 5 :] == b"hello" and "one" not in sealed_memory.mapped()
    other.close()


def test_a_mapping_outlives_its_descriptor() -> None:
    descriptor = sealed_memory.create("memory of a test", SIZE)
    mapping = sealed_memory.map_shared(descriptor, SIZE, "test")
    os.close(descriptor)
    mapping[:4] = b"kept"
    assert mapping[:4] == b"kept"
    with pytest.raises(BufferError), memoryview(mapping):
        mapping.close()  # a memoryview still uses it
    mapping.close()


def test_a_descriptor_of_no_memory_is_an_error_and_keeps_nothing() -> None:
    before = num_open()
    with pytest.raises(OSError, match="Bad file descriptor"):
        sealed_memory.map_shared(1 << 20, SIZE, "test")
    assert num_open() == before
