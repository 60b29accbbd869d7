"""The layout of an arena's file, and how the owner creates and another process opens the file."""

from __future__ import annotations

import mmap
import os
import struct
from typing import Any, Final, TypeAlias

import numpy as np

from fastdist.system import sealed_memory
from fastdist.system.fence import why_no_fence

# Note [Layout of an arena]
# The file begins with a table of rows. A row has 64 bytes: one cache line, and eight words of 64
# bits. Row 0 has the arena's id. Each other row is a slot, for one block that is lent:
#   LENT    generation of the block; 0 when its owner has taken it back. Written by the owner.
#   TAKEN   2 g when the borrower has taken the block of generation g, 2 g + 1 when the borrower has
#           released it. Written by the borrower.
#   START, END  the block's range. Written by the owner; read by others once the owner is dead.
# Blocks follow the table, each on separate pages. The file is sparse: pages are allocated on use.
# Generations only increase. Each word is written by a single store, so it is never read half
# written.

# The descriptor by which a message names a block: arena, slot, generation, offset.
ARENA_BLOCK: Final = struct.Struct("<QIQQ")
PAGE: Final = mmap.PAGESIZE
NUM_SLOTS: Final = 1 << 16
ROW_WORDS: Final = 8
TABLE_BYTES: Final = NUM_SLOTS * ROW_WORDS * 8
LENT: Final = 0
TAKEN: Final = 1
START: Final = 2
END: Final = 3

_NAME: Final = "fastdist-arena"
_SHARE_OF_MEMORY: Final = 4
_LEAST_SIZE: Final = 64 << 20

Words: TypeAlias = memoryview
Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]


class ArenaError(Exception):
    """Memory cannot be shared. Users never get this error: tensors are then sent in messages."""


def round_up(size: int) -> int:
    """Return size, rounded up to whole pages."""
    return -(-size // PAGE) * PAGE


def why_not_viable() -> str | None:
    """Return why processes of this machine cannot share arenas; None if they can."""
    if (lacks := why_no_fence()) is not None:
        return lacks
    if (lacks := sealed_memory.why_not_viable()) is not None:
        return lacks
    if not os.path.isdir("/proc/self/fd"):
        return "there is no /proc by which one process opens the memory of another"
    return None


def arena_size() -> int:
    """Return the largest size of an arena: a quarter of the available memory, at least 64 MiB."""
    memory = os.sysconf("SC_PHYS_PAGES") * PAGE
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            memory = min(memory, int(file.read()))
    except (OSError, ValueError):
        pass  # this system does not have this limit
    return TABLE_BYTES + round_up(max(_LEAST_SIZE, memory // _SHARE_OF_MEMORY))


def create(size: int) -> tuple[int, mmap.mmap, int]:
    """Return the descriptor, the mapping and the id of a new arena.

    Raises  ArenaError
    """
    try:
        fd = sealed_memory.create(_NAME, size)
        try:
            mapping = sealed_memory.map_shared(fd, size, "arena")
        except BaseException:
            os.close(fd)
            raise
    except OSError as error:
        raise ArenaError(f"no shared memory of {size >> 20} MiB: {error}") from error
    arena_id = int.from_bytes(os.urandom(8), "little") >> 1 | 1
    words(mapping)[0] = arena_id
    return fd, mapping, arena_id


def open_arena(pid: int, fd: int, size: int, arena_id: int) -> mmap.mmap:
    """Return a mapping of the arena that another process has open as descriptor fd.

    Raises  ArenaError unless the arena is exactly as announced
    """
    if not (0 <= fd < 1 << 31 and TABLE_BYTES < size < 1 << 46):
        raise ArenaError(f"{size} bytes at descriptor {fd} cannot be an arena")
    path = f"/proc/{pid}/fd/{fd}"
    try:
        # Flags for any kind of file: do not block, and do not make a terminal the controlling one.
        mine = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise ArenaError(f"the memory of process {pid} cannot be opened: {error}") from error
    try:
        mapping = sealed_memory.map_of(mine, size, "arena")
    except OSError as error:
        raise ArenaError(f"{path} of another process cannot be mapped: {error}") from error
    finally:
        os.close(mine)
    if words(mapping)[0] != arena_id:
        raise ArenaError(
            f"process {pid} of this machine is a different one: the sender is in another container"
        )
    return mapping


def words(mapping: mmap.mmap) -> Words:
    """Return the table of slots."""
    return memoryview(mapping)[:TABLE_BYTES].cast("Q")


def bytes_at(mapping: mmap.mmap, offset: int, size: int) -> Bytes:
    """Return a range of the arena, which stays mapped as long as any view of it exists."""
    return np.ndarray(size, np.uint8, mapping, offset)


def give_pages_back(mapping: mmap.mmap, start: int, end: int) -> None:
    """Free pages for all processes; they read as zeros from now on.

    Raises  OSError
    """
    mapping.madvise(mmap.MADV_REMOVE, start, end - start)
