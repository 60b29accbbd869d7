"""A block of shared memory has a fixed size and no name; it is freed with its last process."""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import resource
from multiprocessing import resource_sharer
from multiprocessing.reduction import DupFd

import numpy as np
import pytest

from fastdist.core.errors import FastdistError, SharedMemoryError
from fastdist.system.shared_block import SharedBlock, _receive, block_of, make_parts


def descriptors() -> list[str]:
    """Return the open descriptors of shared blocks in this process."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return [link for link in found if "fastdist-shared" in link]


def test_a_block_has_no_name_and_keeps_its_size() -> None:
    (part,) = make_parts([100])
    block = block_of(part)
    assert block is not None
    link = os.readlink(f"/proc/self/fd/{block.descriptor}")
    assert link == "/memfd:fastdist-shared (deleted)"
    seals = fcntl.fcntl(block.descriptor, fcntl.F_GET_SEALS)
    assert seals == fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    with pytest.raises(PermissionError):
        os.ftruncate(block.descriptor, mmap.PAGESIZE * 2)
    assert not os.get_inheritable(block.descriptor)


def test_parts_of_one_call_lie_apart_in_one_block() -> None:
    before = len(descriptors())
    parts = make_parts([3, 0, 64, 65])
    assert len({block_of(part) for part in parts}) == 1
    assert [part.nbytes for part in parts] == [3, 0, 64, 65]
    for number, part in enumerate(parts):
        part[:] = number
    assert [set(part.tolist()) for part in parts] == [{0}, set(), {2}, {3}]
    assert len(descriptors()) - before <= 2


def test_a_block_goes_with_the_last_array_in_it() -> None:
    parts = make_parts([8, 8])
    view = parts[1][2:]
    del parts
    view[:] = 7
    assert view.tolist() == [7] * 6 and descriptors()
    del view
    assert not descriptors()


def test_a_block_that_comes_again_is_the_one_that_is_there() -> None:
    (part,) = make_parts([8])
    block = block_of(part)
    assert block is not None
    before = len(descriptors())
    handed_on = DupFd(block.descriptor)  # type: ignore[no-untyped-call]
    try:
        assert _receive(pickle.loads(pickle.dumps(handed_on))) is block
    finally:
        resource_sharer.stop(timeout=10)
    assert len(descriptors()) == before


def test_memory_of_this_process_is_in_no_block() -> None:
    assert block_of(np.zeros(3)) is None
    assert block_of(np.frombuffer(b"abc", np.uint8)[1:]) is None


def test_a_system_without_such_memory_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(SharedMemoryError, match=r"has no memory without a name \(memfd_create\)"):
        make_parts([1])
    assert issubclass(SharedMemoryError, FastdistError) and issubclass(
        SharedMemoryError, RuntimeError
    )


def test_where_no_descriptor_is_left_the_error_says_so_and_none_is_lost() -> None:
    before = descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_descriptor = os.dup(0)
    os.close(next_descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_descriptor, hard))
    try:
        with pytest.raises(SharedMemoryError, match=r"no memory of 64 bytes: .*Too many open"):
            make_parts([64])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert descriptors() == before


def test_a_block_that_cannot_be_mapped_leaves_no_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no room")

    before = descriptors()
    monkeypatch.setattr(SharedBlock, "__new__", refuse)
    with pytest.raises(SharedMemoryError, match="no memory of 64 bytes: no room"):
        make_parts([64])
    assert descriptors() == before
