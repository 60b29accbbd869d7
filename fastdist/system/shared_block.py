"""Memory that processes share: an unnamed file that each process maps."""

# Note [Shared blocks]
# A block is a memfd. It has no name in a directory, so no file can remain: the system frees the
# block when the last process releases it or ends. The size of a block is sealed, because a process
# that reads beyond the end of a shrunken file is killed. multiprocessing passes the descriptor of a
# block on: a new process inherits the descriptor, and for queues and pipes Python's resource sharer
# sends it to the reader. A process maps a block only once, even if it receives the block again.

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterable
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np

from ..core.errors import SharedMemoryError
from . import sealed_memory

# The size of a cache line in bytes. Each tensor begins on a new cache line.
_LINE: Final = 64

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class SharedBlock(mmap.mmap):
    """Bytes that other processes may have mapped too. See Note [Shared blocks].

    Note    owns its descriptor, and lives as long as the arrays that use its memory
    """

    descriptor: int
    _parts: WeakValueDictionary[tuple[int, int], Bytes]

    def __new__(cls, descriptor: int, size: int) -> SharedBlock:
        # Before Python 3.13 a mapping keeps a duplicate of the descriptor. Its number is not
        # available, so the block keeps `descriptor` too.
        options: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        block = super().__new__(cls, descriptor, size, **options)
        block.descriptor = descriptor
        block._parts = WeakValueDictionary()
        return block

    def part(self, start: int, size: int) -> Bytes:
        """Return an array of a part of the bytes. If an array of the same part exists, return that
        array.
        """
        found = self._parts.get((start, size))
        if found is None:
            found = self._parts[start, size] = np.ndarray((size,), np.uint8, self, start)
        return found

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


_blocks: Final[WeakValueDictionary[tuple[int, int], SharedBlock]] = WeakValueDictionary()


def make_parts(sizes: Iterable[int]) -> list[Bytes]:
    """Return zeroed arrays of these sizes in one new block, which needs a single descriptor.

    Raises  SharedMemoryError if the system does not support such memory, or has no memory left
    """
    starts, end = [], 0
    sizes = list(sizes)
    for size in sizes:
        starts.append(end)
        end += -(-size // _LINE) * _LINE
    block = _make_block(max(end, 1))
    return [block.part(start, size) for start, size in zip(starts, sizes, strict=True)]


def block_of(array: Any) -> SharedBlock | None:
    """Return the block that holds an array; None for memory of this process alone."""
    return _block_and_part(array)[0]


class Passage:
    """Wraps an array of a block for pickling. Plain pickle copies the array; multiprocessing shares
    the block with the other process.
    """

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._array.__reduce_ex__(protocol)


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Return the address of an array's first element."""
    return int(array.__array_interface__["data"][0])


def _block_and_part(array: Any) -> tuple[SharedBlock | None, Any]:
    part = base = array
    while base is not None and base.__class__ is not SharedBlock:
        part, base = base, getattr(base, "base", None)
    return base, part


def _make_block(size: int) -> SharedBlock:
    if (lacks := sealed_memory.why_not_viable()) is not None:
        raise SharedMemoryError(
            f"share_memory: {lacks} that processes could share; send copies, or use Linux"
        )
    try:
        return _mapped(sealed_memory.create("fastdist-shared", size))
    except OSError as error:
        raise SharedMemoryError(f"share_memory: no memory of {size} bytes: {error}") from error


def _mapped(descriptor: int) -> SharedBlock:
    """Return the block that a descriptor refers to, and take over the descriptor."""
    try:
        found = os.fstat(descriptor)
        key = (found.st_dev, found.st_ino)
        known = _blocks.get(key)
        block = SharedBlock(descriptor, found.st_size) if known is None else known
    except BaseException:
        os.close(descriptor)
        raise
    if known is not None:
        os.close(descriptor)
        return known
    _teach_multiprocessing()
    _blocks[key] = block
    return block


def _teach_multiprocessing() -> None:
    """Register blocks with multiprocessing. Plain pickle still refuses blocks, as it refuses any
    mmap.
    """
    # Imported here, because most processes share nothing.
    from multiprocessing.reduction import ForkingPickler

    ForkingPickler.register(SharedBlock, _reduce_block)
    ForkingPickler.register(Passage, _reduce_passage)


def _reduce_passage(passage: Passage) -> tuple[Any, ...]:
    array = passage._array
    block, part = _block_and_part(array)
    assert block is not None
    start = address_of(part) - address_of(np.ndarray((0,), np.uint8, block))
    offset = address_of(array) - address_of(part) if array.size else 0
    layout = (array.shape, array.dtype, array.strides, array.flags.writeable)
    return _arrive, (block, start, part.nbytes, offset, *layout)


def _arrive(
    block: SharedBlock,
    start: int,
    size: int,
    offset: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    strides: tuple[int, ...],
    is_writeable: bool,
) -> np.ndarray[Any, Any]:
    part = block.part(start, size)
    array: np.ndarray[Any, Any] = np.ndarray(shape, dtype, part, offset, strides)
    array.flags.writeable = is_writeable
    return array


def _reduce_block(block: SharedBlock) -> tuple[Any, ...]:
    from multiprocessing.reduction import DupFd

    return _receive, (DupFd(block.descriptor),)


def _receive(handed_on: Any) -> SharedBlock:
    try:
        descriptor = handed_on.detach()
    except (OSError, EOFError) as error:
        raise SharedMemoryError(
            "a tensor of shared memory cannot be received: the process that sent it has ended "
            f"({type(error).__name__}: {error}); let it live until its tensors are received, or "
            "send clone()s, which are copies"
        ) from error
    os.set_inheritable(descriptor, False)
    return _mapped(descriptor)
