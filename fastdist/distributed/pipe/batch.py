"""Joins small messages into one frame, because a send costs more than packing a small message."""

# A send releases the interpreter lock, wakes the transport's thread, and then competes for the lock
# with threads that compute. That takes 10 to 50 us, several times as long as packing the message.
# So senders join messages that wait for one connection. A single message never waits for others.

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from fastdist.core.errors import MessageError

from .frames import Buffer

# The first byte of a batch. The first byte of a single message is the version of its format.
BATCH: Final = 0xB1
MAX_MESSAGES: Final = 64
MAX_BYTES: Final = 64 << 10

_HEAD: Final = struct.Struct("<BxxxI")
_LENGTH: Final = struct.Struct("<I")
_FIRST_BYTE: Final = bytes([BATCH])


def can_join(frames: Sequence[Buffer]) -> bool:
    """Return whether a message may be part of a batch: it is small and has one frame."""
    return len(frames) == 1 and len(frames[0]) <= MAX_BYTES // 4


def join(messages: Sequence[Sequence[Buffer]]) -> Sequence[Buffer]:
    """Return one message that contains all `messages`. If there are several, `can_join` must be
    true of each.
    """
    if len(messages) == 1:
        return messages[0]
    pieces: list[Buffer] = [_HEAD.pack(BATCH, len(messages))]
    for (frame,) in messages:
        pieces.append(_LENGTH.pack(len(frame)))
        pieces.append(frame)
    return [b"".join(pieces)]


def take_batch(waiting: Sequence[Sequence[Buffer]]) -> int:
    """Return how many messages from the start of `waiting` fit in one batch; at least 1."""
    size = count = 0
    for frames in waiting:
        if count == MAX_MESSAGES or not can_join(frames):
            break
        size += len(frames[0])
        if size > MAX_BYTES:
            break
        count += 1
    return max(count, 1)


def is_batch(frames: Sequence[Buffer]) -> bool:
    """Return whether received frames begin like a batch; `split` checks the rest."""
    return frames[0][:1] == _FIRST_BYTE


def split(frames: list[Buffer]) -> Iterator[list[Buffer]]:
    """Yield the messages in received frames; if the frames are not a batch, they are one message.

    Raises  MessageError for a batch whose number or lengths of messages do not match its size
    """
    first = frames[0]
    if not first or first[0] != BATCH:
        yield frames
        return
    if len(first) < _HEAD.size or len(frames) != 1:
        raise MessageError("a batch without messages")
    _, count = _HEAD.unpack_from(first)
    if not 0 < count <= MAX_MESSAGES:
        raise MessageError(f"a batch of {count} messages; one holds 1 to {MAX_MESSAGES}")
    at = _HEAD.size
    for _ in range(count):
        if at + 4 > len(first):
            raise MessageError("a batch that ends before its last message")
        (length,) = _LENGTH.unpack_from(first, at)
        at += 4
        if length > len(first) - at:
            raise MessageError(
                f"a message of {length} bytes in a batch with {len(first) - at} left"
            )
        yield [first[at : at + length]]
        at += length
    if at != len(first):
        raise MessageError(f"a batch with {len(first) - at} bytes too many")
