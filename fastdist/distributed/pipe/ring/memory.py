"""A ring in memory that two processes map: one process writes messages, the other reads them."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from fastdist.core.errors import MessageError
from fastdist.system.fence import fence, full_fence

from ..frames import Buffer

# The bytes of memory for one direction. A larger message is sent in pieces, and each piece needs a
# wake-up of the other end. Tensors of 192 KB or more do not use a ring. Smaller tensors fit, even
# after earlier messages that are still unread.
CAPACITY: Final = 1 << 18
_MASK: Final = CAPACITY - 1
_HEADS: Final = 4096
RING_BYTES: Final = _HEADS + 2 * CAPACITY

# Words of 8 bytes, each on a separate cache line. Two are counters that only grow: the bytes
# written, which only the writer changes, and the bytes read, which only the reader changes.
_WORDS_BYTES: Final = 256
_WRITTEN: Final = 0
_READ: Final = 8
_READER_SLEEPS: Final = 16
_WRITER_WAITS: Final = 24

# Before each frame: its size in bytes, and whether another frame of the message follows.
_HEADER: Final = Struct("<QQ")
_STEP: Final = _HEADER.size
_PADDING: Final = bytes(_STEP)
# A header with this number instead of the flag says that the rest of the memory has no data.
_NOTHING: Final = 2
# If the ring is empty and the writer's position is beyond this offset, the writer starts again at
# the beginning. So small messages use a few pages, which stay in the processor's caches, and other
# pages are never touched.
_FAR: Final = 1 << 14
# The most frames of a message, which has a head, tensors, and pieces of tensors.
_MOST_FRAMES: Final = 1 << 18

# Note [What the other end may write]
# The process at the other end maps the same memory, and may run any program that has become a
# member. It may write any number anywhere, at any moment. So each end has its own position in
# private memory, and writes it to the ring only for the other end. An end loads the other end's
# position once per call, checks it, and works with the copy. Private positions are multiples of
# _STEP, so a header never extends over the end of a direction. Data is copied before it is
# examined. A number that a correct writer never writes raises MessageError, and the ring ends.


class RingWriter:
    """The writing end; it calls `ring` to wake a reader that sleeps.

    Thread  one at a time
    Note    data counts as written when the counter is advanced: an interrupted write has no effect
    """

    __slots__ = ("_at", "_memory", "_pieces", "_ring", "_start", "_words")

    def __init__(self, memory: mmap.mmap, way: int, ring: Callable[[], None]) -> None:
        self._memory = memory
        self._words = _words_of(memory, way)
        # See Note [What the other end may write].
        self._at = 0
        self._start = _HEADS + way * CAPACITY
        self._ring = ring
        # The pieces that are still to be written, of messages that did not fit.
        self._pieces: deque[memoryview] = deque()

    def write(self, frames: Sequence[Buffer]) -> bool:
        """Write a complete message; return False if it does not fit now.

        Note    this also returns False if the positions are inconsistent; `go_on` then raises
        """
        words, memory = self._words, self._memory
        at, read = self._at, words[_READ]
        is_one = len(frames) == 1
        if is_one:  # the usual case, in which this function makes as few calls as possible
            size = (len(frames[0]) + 2 * _STEP - 1) & -_STEP
        else:
            size = sum(map(_padded, map(len, frames)))
        if self._pieces or size > CAPACITY - (at - read) or read > at or words[_WRITTEN] != at:
            return False
        start = at & _MASK
        if at == read and start >= _FAR and size <= start:
            _HEADER.pack_into(memory, self._start + start, CAPACITY - start - _STEP, _NOTHING)
            at, start = at + CAPACITY - start, 0
        if is_one and start + size <= CAPACITY:
            first, frame = self._start + start, frames[0]
            _HEADER.pack_into(memory, first, len(frame), 0)
            memory[first + _STEP : first + _STEP + len(frame)] = frame
            at += size
        else:
            at = self._write_frames(at, frames)
        self._publish(at)
        return True

    def begin(self, frames: Sequence[Buffer]) -> None:
        """Queue a message for `go_on`, behind messages that are queued already."""
        follow = len(frames)
        for frame in frames:
            follow -= 1
            header, padding = _HEADER.pack(len(frame), follow > 0), _PADDING[: -len(frame) % _STEP]
            self._pieces += map(memoryview, filter(len, (header, frame, padding)))

    def go_on(self) -> bool:
        """Write as much of the queued messages as fits; return whether all of it is written."""
        words, pieces, at = self._words, self._pieces, self._at
        room = CAPACITY - (at - words[_READ])
        if not 0 <= room <= CAPACITY:
            raise MessageError("a ring whose reader has read more than was written")
        if words[_WRITTEN] != at:
            raise MessageError("a ring whose reader has moved what was written")
        while pieces and room:
            piece = pieces.popleft()
            part, rest = piece[:room], piece[room:]
            self._put(at, part)
            at, room = at + len(part), room - len(part)
            if rest:
                pieces.appendleft(rest)
        self._publish(at)
        return not pieces

    def is_busy(self) -> bool:
        """Return whether pieces of queued messages are not written yet."""
        return bool(self._pieces)

    def has_room(self) -> bool:
        """Return whether there is any free space."""
        return self._at - self._words[_READ] < CAPACITY

    def waits(self) -> bool:
        """Request that the reader ring the bell when there is space; return False if there is some
        now.
        """
        self._words[_WRITER_WAITS] = 1
        full_fence()
        if self.has_room():
            self._words[_WRITER_WAITS] = 0
            return False
        return True

    def release(self) -> None:
        """Release the memory; nothing can be written after that."""
        self._pieces.clear()
        self._words.release()

    def _write_frames(self, at: int, frames: Sequence[Buffer]) -> int:
        follow = len(frames)
        for frame in frames:
            follow -= 1
            size = len(frame)
            _HEADER.pack_into(self._memory, self._start + (at & _MASK), size, follow > 0)
            self._put(at + _STEP, frame)
            at += _padded(size)
        return at

    def _publish(self, at: int) -> None:
        words = self._words
        with fence:
            pass
        words[_WRITTEN] = at
        self._at = at
        with fence:
            pass
        if words[_READER_SLEEPS]:
            # The flag is cleared before the bell rings. So a reader that goes to sleep again in
            # between, and sets the flag again, is woken too.
            words[_READER_SLEEPS] = 0
            self._ring()

    def _put(self, at: int, data: Buffer) -> None:
        start = at & _MASK
        end = start + len(data)
        first = self._start
        if end <= CAPACITY:
            self._memory[first + start : first + end] = data
            return
        cut = CAPACITY - start
        view = memoryview(data)
        self._memory[first + start : first + CAPACITY] = view[:cut]
        self._memory[first : first + end - CAPACITY] = view[cut:]


class RingReader:
    """The reading end; it calls `ring` to wake a writer that waits for space.

    `max_frame_bytes` is the largest accepted frame size.

    Thread  one at a time
    """

    __slots__ = (
        "_at",
        "_came",
        "_max_frame_bytes",
        "_memory",
        "_ring",
        "_start",
        "_view",
        "_words",
    )

    def __init__(
        self, memory: mmap.mmap, way: int, max_frame_bytes: int, ring: Callable[[], None]
    ) -> None:
        self._memory, self._view = memory, memoryview(memory)
        self._words = _words_of(memory, way)
        # See Note [What the other end may write].
        self._at = 0
        self._start = _HEADS + way * CAPACITY
        self._max_frame_bytes = max_frame_bytes
        self._ring = ring
        # The received part of a message that arrives in pieces.
        self._came: _Message | None = None

    def has_some(self) -> bool:
        """Return whether there is unread data."""
        return self._words[_WRITTEN] != self._at

    def read(self) -> list[Buffer] | None:
        """Return the next message, or None if no further message has arrived completely.

        Raises  MessageError for data that a correct writer never writes; the ring is unusable then
        """
        words, at = self._words, self._at
        there = words[_WRITTEN] - at
        if not there:
            return None
        with fence:
            pass
        if not 0 < there <= CAPACITY:
            raise MessageError(f"a ring of {CAPACITY} bytes with {there} unread ones")
        if words[_READ] != at:
            raise MessageError("a ring whose writer has moved what was read")
        if self._came is None and there >= _STEP:
            start = at & _MASK
            size, follows = _HEADER.unpack_from(self._memory, self._start + start)
            if follows == _NOTHING and _FAR <= start == CAPACITY - _STEP - size:
                # A correct writer publishes such a gap together with the message after it.
                if there <= _STEP + size:
                    raise MessageError("a ring with an empty stretch and nothing behind it")
                words[_READ] = self._at = at + _STEP + size
                return self.read()
            padded = (size + 2 * _STEP - 1) & -_STEP
            if not follows and padded <= there:
                first = self._start + start + _STEP
                if start + _STEP + size <= CAPACITY:
                    frame = self._memory[first : first + size]
                else:
                    frame = self._get(at + _STEP, size)
                self._has_read(at + padded)
                return [frame]
        return self._read_in_pieces(at, at + there)

    def sleeps(self) -> bool:
        """Request that the writer ring the bell for new data; return False if there is some now."""
        words = self._words
        words[_READER_SLEEPS] = 1
        with fence:
            pass
        if words[_WRITTEN] == self._at:
            return True
        words[_READER_SLEEPS] = 0
        return False

    def wakes(self) -> None:
        """Withdraw the request to ring the bell."""
        self._words[_READER_SLEEPS] = 0

    def release(self) -> None:
        """Release the memory; nothing can be read after that."""
        self._came = None
        self._words.release()
        self._view.release()

    def _read_in_pieces(self, at: int, end: int) -> list[Buffer] | None:
        message = self._came = self._came or _Message()
        while not message.is_whole and at < end:
            if not message.left:
                if end - at < _STEP:
                    raise MessageError(f"a ring with {end - at} bytes of a header of {_STEP}")
                size, follows = _HEADER.unpack_from(self._memory, self._start + (at & _MASK))
                if size > self._max_frame_bytes or follows > 1:
                    raise MessageError(
                        f"a frame of {size} bytes arrived by a ring, which takes "
                        f"{self._max_frame_bytes} at most"
                    )
                if len(message.frames) == _MOST_FRAMES:
                    raise MessageError(f"a message of more than {_MOST_FRAMES} frames by a ring")
                message.begin(size, is_last=not follows)
                at += _STEP
            elif count := min(end - at, message.left):
                # A range that wraps around the end of the memory is read in two parts.
                start = at & _MASK
                count = min(count, CAPACITY - start)
                message.take(self._view[self._start + start : self._start + start + count])
                at += count
        self._has_read(at)
        if not message.is_whole:
            return None
        self._came = None
        return message.frames

    def _has_read(self, at: int) -> None:
        words = self._words
        words[_READ] = self._at = at
        with fence:
            pass
        if words[_WRITER_WAITS]:
            words[_WRITER_WAITS] = 0
            self._ring()

    def _get(self, at: int, size: int) -> bytes:
        start = at & _MASK
        end = start + size
        first = self._start
        if end <= CAPACITY:
            return self._memory[first + start : first + end]
        return (
            self._memory[first + start : first + CAPACITY]
            + self._memory[first : first + end - CAPACITY]
        )


class _Message:
    """The received part of a message.

    Its memory grows with the data that has arrived, whatever size a header announces.
    """

    def __init__(self) -> None:
        self.frames: list[Buffer] = []
        # The bytes of the current frame that have not been taken, including the padding.
        self.left = 0
        self.is_whole = False
        self._frame = bytearray()
        self._size = 0
        self._is_last = False

    def begin(self, size: int, *, is_last: bool) -> None:
        """Store the header of the next frame."""
        self._frame, self._size, self._is_last = bytearray(), size, is_last
        self.left = _padded(size) - _STEP
        if not self.left:
            self._end_frame()

    def take(self, part: memoryview) -> None:
        """Copy the next part of a frame; `part` is not accessed after this call."""
        self._frame += part[: self._size - len(self._frame)]
        self.left -= len(part)
        if not self.left:
            self._end_frame()

    def _end_frame(self) -> None:
        self.frames.append(memoryview(self._frame))
        self.is_whole = self._is_last


def _words_of(memory: mmap.mmap, way: int) -> memoryview:
    first = way * _WORDS_BYTES
    return memoryview(memory)[first : first + _WORDS_BYTES].cast("Q")


def _padded(size: int) -> int:
    """Return the size of a frame with its header, rounded up to a multiple of _STEP."""
    return (size + 2 * _STEP - 1) & -_STEP
