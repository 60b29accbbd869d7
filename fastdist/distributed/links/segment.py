"""The shared memory of a group's members on one machine: its layout, and how it is mapped."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fastdist.system import sealed_memory
from fastdist.system.fence import why_no_fence

from . import futex

Bytes = NDArray[np.uint8]

# Note [Layout of a segment]
# A segment has one head per member of the machine, then small slots, rings and the board:
#   head     64-bit words, such as counters, each kind on a separate cache line; two texts of calls,
#            the text of a failure, the text of a difference between machines, and two tables of
#            sizes. Only the member writes to its head, except that a member that wakes it changes
#            SLEEPS and FUTEX.
#   small    two slots per member, for contributions of at most SMALL_BYTES to a meeting
#   rings    RING_BLOCKS blocks per member, for contributions to a sum
#   board    results, and large contributions; all members read it, and each part has one writer
# The collectives of a group are numbered; a turn is the number of a collective. Slower members may
# still read data of turn t while others write data of turn t + 1. So such data has two places, one
# for even and one for odd turns. When a member reaches turn t + 2, all members have left turn t.
# The file is sparse: pages are allocated when they are written. A member trusts no offset from
# the segment: it computes the offsets of data itself, and checks the sizes that others wrote.

# Indices of the words of a head; words on one cache line are written together.
STAGE: Final = 0  # the number of meeting points that the member has reached
IN: Final = 8  # the number of blocks of sums that the member has written to its ring
OUT: Final = 16  # the number of blocks of sums that the member has reduced
SLEEPS: Final = 24  # 1 while the member sleeps or is about to sleep, else 0
FUTEX: Final = 32  # the word on which the member sleeps; a member that wakes it changes the word
FAILURE: Final = 40  # the kind of failure (alarm.py) if the member has failed or left, else 0
FAILURE_BYTES: Final = 41  # the length of the text that describes the failure
GONE: Final = 42  # 1 when the member has left and the others have read all its messages
# Only a leader writes these words. GO is the last turn in which all machines have met. GO_DIFFERS
# is the last turn in which their calls differed, and GO_BYTES the length of the error's text.
GO: Final = 48
GO_DIFFERS: Final = 49
GO_BYTES: Final = 50
# The length of a call's text, and the length of the part of the text that must be equal on all
# members. These words are for even turns; the word after each word is for odd turns.
CALL_BYTES: Final = 56
SHARED_BYTES: Final = 58

_WORDS_BYTES: Final = 512
CALL_ROOM: Final = 1024
FAILURE_ROOM: Final = 1536
GO_ROOM: Final = 4096
_CALLS_AT: Final = _WORDS_BYTES
_FAILURE_AT: Final = _CALLS_AT + 2 * CALL_ROOM
_GO_AT: Final = _FAILURE_AT + FAILURE_ROOM
_TABLES_AT: Final = _GO_AT + GO_ROOM

SMALL_BYTES: Final = 32 << 10
RING_BLOCKS: Final = 3
BLOCK_BYTES: Final = 512 << 10
BOARD_BYTES: Final = 256 << 20
_LEAST_BOARD_BYTES: Final = 1 << 20
_SHARE_OF_MEMORY: Final = 16


class SegmentError(Exception):
    """Members of one machine cannot share memory; they use sockets instead."""


def why_not_viable() -> str | None:
    """Return the reason why members cannot share a segment here; None if they can."""
    lacks = why_no_fence() or sealed_memory.why_not_viable() or futex.why_not_viable()
    if lacks is None and not os.path.isdir("/proc/self/fd"):
        lacks = "there is no /proc by which one process opens the memory of another"
    return lacks


def board_bytes() -> int:
    """Return the largest size of a new segment's board."""
    memory = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    return min(BOARD_BYTES, max(_LEAST_BOARD_BYTES, memory // _SHARE_OF_MEMORY))


class Segment:
    """A mapping of the memory that `count` members on one machine share, in a group of `size`.

    Thread  any; the description of each word says who writes it
    """

    def __init__(self, mapping: mmap.mmap, count: int, size: int, board_bytes: int) -> None:
        self._mapping = mapping
        self.count = count
        self.head_bytes = head_bytes(size)
        self._small_at = count * self.head_bytes
        self._rings_at = self._small_at + count * 2 * SMALL_BYTES
        self._board_at = self._rings_at + count * RING_BLOCKS * BLOCK_BYTES
        self.board_bytes = board_bytes
        self.words = memoryview(mapping).cast("Q")
        # np.frombuffer keeps the mapping open as long as there are views; np.ndarray would not.
        self._bytes: Bytes = np.frombuffer(mapping, np.uint8)
        self._tables: list[list[NDArray[np.uint64]]] = [
            [
                np.frombuffer(mapping, np.uint64, 2 * size, at + _TABLES_AT + parity * 16 * size)
                for parity in (0, 1)
            ]
            for at in range(0, count * self.head_bytes, self.head_bytes)
        ]
        self._address = int(self._bytes.ctypes.data)

    def first_word(self, member: int) -> int:
        """Return the index of a member's first word."""
        return member * self.head_bytes // 8

    def futex_address(self, member: int) -> int:
        """Return the address of the word on which a member sleeps."""
        return self._address + member * self.head_bytes + FUTEX * 8

    def call_text(self, member: int, parity: int, length: int) -> bytes:
        """Return the first `length` bytes of the text of a member's call."""
        at = member * self.head_bytes + _CALLS_AT + parity * CALL_ROOM
        return self._mapping[at : at + min(length, CALL_ROOM)]

    def write_call(self, member: int, parity: int, text: bytes) -> None:
        """Write the text of a member's call, of at most CALL_ROOM bytes."""
        at = member * self.head_bytes + _CALLS_AT + parity * CALL_ROOM
        self._mapping[at : at + len(text)] = text

    def failure_text(self, member: int) -> bytes:
        """Return the text of a member's failure."""
        at = member * self.head_bytes + _FAILURE_AT
        length = self.words[self.first_word(member) + FAILURE_BYTES]
        return self._mapping[at : at + min(length, FAILURE_ROOM)]

    def write_failure(self, member: int, text: bytes) -> None:
        """Write the text of a member's failure, truncated to the available space."""
        text = text[:FAILURE_ROOM]
        at = member * self.head_bytes + _FAILURE_AT
        self._mapping[at : at + len(text)] = text
        self.words[self.first_word(member) + FAILURE_BYTES] = len(text)

    def go_text(self, member: int) -> bytes:
        """Return the text in which a leader describes how the calls of the machines differ."""
        at = member * self.head_bytes + _GO_AT
        length = self.words[self.first_word(member) + GO_BYTES]
        return self._mapping[at : at + min(length, GO_ROOM)]

    def write_go(self, member: int, text: bytes) -> None:
        """Write a leader's text on how the calls of the machines differ, truncated to the available
        space.
        """
        text = text[:GO_ROOM]
        at = member * self.head_bytes + _GO_AT
        self._mapping[at : at + len(text)] = text
        self.words[self.first_word(member) + GO_BYTES] = len(text)

    def table(self, member: int, parity: int) -> NDArray[np.uint64]:
        """Return a member's table: how many bytes it sends to each member of the group, then how
        many bytes it expects from each member.
        """
        return self._tables[member][parity]

    def small(self, member: int, parity: int) -> Bytes:
        """Return the small slot of a member for even (`parity` 0) or odd turns."""
        at = self._small_at + (2 * member + parity) * SMALL_BYTES
        return self._bytes[at : at + SMALL_BYTES]

    def block(self, member: int, number: int) -> Bytes:
        """Return a block of a member's ring."""
        at = self._rings_at + (member * RING_BLOCKS + number % RING_BLOCKS) * BLOCK_BYTES
        return self._bytes[at : at + BLOCK_BYTES]

    def ring(self, member: int) -> Bytes:
        """Return the complete ring of a member; the leader's ring also holds data from other
        machines.
        """
        at = self._rings_at + member * RING_BLOCKS * BLOCK_BYTES
        return self._bytes[at : at + RING_BLOCKS * BLOCK_BYTES]

    def board(self, start: int, stop: int) -> Bytes:
        """Return a part of the board."""
        if not 0 <= start <= stop <= self.board_bytes:
            raise ValueError(f"bytes {start} to {stop} of a board of {self.board_bytes}")
        return self._bytes[self._board_at + start : self._board_at + stop]

    def close(self) -> None:
        """Release the memory; it is unmapped when the last view of it is deleted."""
        self.words.release()
        self._tables = []
        self._bytes = np.empty(0, np.uint8)
        # If a caller still has a result, the mapping stays until that view is deleted.
        with suppress(BufferError):
            self._mapping.close()


def head_bytes(size: int) -> int:
    """Return the size of one member's head in bytes, in a group of `size` members."""
    return -(-(_TABLES_AT + 32 * size) // mmap.PAGESIZE) * mmap.PAGESIZE


def segment_bytes(count: int, size: int, board: int) -> int:
    """Return the size of a complete segment in bytes."""
    each = head_bytes(size) + 2 * SMALL_BYTES + RING_BLOCKS * BLOCK_BYTES
    return count * each + board


def create(count: int, size: int, board: int) -> tuple[int, mmap.mmap]:
    """Return the descriptor and the mapping of a new segment; the caller must close the descriptor.

    Raises  SegmentError if it cannot be created
    """
    length = segment_bytes(count, size, board)
    try:
        descriptor = sealed_memory.create("fastdist-links", length)
        try:
            return descriptor, sealed_memory.map_shared(descriptor, length, "segment")
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise SegmentError(f"no shared memory of {length >> 20} MiB: {error}") from error


def open_other(pid: int, descriptor: int, count: int, size: int, board: int) -> mmap.mmap:
    """Return a mapping of the segment that process `pid` has open as file `descriptor`.

    Raises  SegmentError unless that file is a segment of the expected size
    """
    if not (pid > 0 and 0 <= descriptor < 1 << 31 and 0 < board <= BOARD_BYTES):
        raise SegmentError(f"descriptor {descriptor} of process {pid} cannot be a segment")
    path = f"/proc/{pid}/fd/{descriptor}"
    try:
        mine = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise SegmentError(f"the memory of process {pid} cannot be opened: {error}") from error
    try:
        return sealed_memory.map_of(mine, segment_bytes(count, size, board), "segment")
    except OSError as error:
        raise SegmentError(f"{path} cannot be mapped: {error}") from error
    finally:
        os.close(mine)


def private(size: int) -> mmap.mmap:
    """Return memory for a member that shares its machine with no other member."""
    return mmap.mmap(-1, segment_bytes(1, size, board_bytes()))
