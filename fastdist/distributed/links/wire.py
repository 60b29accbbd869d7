"""The head of each message between members: its bytes, and the checks of its fields."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from fastdist.core.errors import MessageError
from fastdist.distributed.pipe.frames import Buffer

# Kinds of messages.
MEET: Final = 1  # a machine takes part in a collective: its calls, and small contributions
DATA: Final = 2  # a piece of an array for a member of a collective
FAILED: Final = 3  # the sender has failed: `step` is the kind, the body the text
BYE: Final = 4  # the sender has left the group, or with a `step` all groups; no message follows
BYE_SEEN: Final = 5  # the answer: all earlier messages have been read
SEND: Final = 6  # a complete small message of send()
ANNOUNCE: Final = 7  # the announcement of a large message of send(), which waits for CLEAR
CLEAR: Final = 8  # the receiver has memory for an announced message
REFUSE: Final = 9  # the receiver expected another message: the body is the text
WITHDRAW: Final = 10  # the sender has stopped waiting
PART: Final = 11  # a piece of an announced message
BULK: Final = 12  # a leader listens for the previous one: token, key, port; then its host
WHERE: Final = 13  # the sender waits for the receiver, and requests its main thread's stack
STACK: Final = 14  # the answer: the stack of its main thread, as text
KINDS: Final = range(MEET, STACK + 1)

# The size of pieces of arrays; smaller ones overlap better, larger ones need fewer calls.
PIECE_BYTES: Final = 1 << 20

# Magic, kind, group, sender, step, padding, the mark that frames follow (a value that
# pipe/frames.py does not take for a single frame), turn, offset, total, tag.
_HEAD: Final = struct.Struct("<4sB3xQQII4x8sQQQq")
_MAGIC: Final = b"fdL1"
_FRAMES_FOLLOW: Final = b"\xff" * 8
_MOST_BYTES: Final = 1 << 46


class Head(NamedTuple):
    """The fields in the first frame of a message."""

    kind: int
    group: int
    # The group rank of the sender.
    sender: int
    # The number of the collective, or of the message from send() to this member.
    turn: int
    step: int = 0
    # The offset of the body in an array of `total` bytes.
    offset: int = 0
    total: int = 0
    tag: int = 0

    def encode(self) -> bytes:
        """Return the first frame's bytes."""
        return _HEAD.pack(
            _MAGIC,
            self.kind,
            self.group,
            0,
            self.sender,
            self.step,
            _FRAMES_FOLLOW,
            self.turn,
            self.offset,
            self.total,
            self.tag,
        )


def decode(frame: Buffer, body_bytes: int) -> Head:
    """Return the head in a frame of a message whose body has body_bytes bytes.

    Raises  MessageError if no member of this version would send it
    """
    if len(frame) != _HEAD.size:
        raise MessageError(f"a head of {len(frame)} bytes; expected {_HEAD.size}")
    magic, kind, group, _, sender, step, _, turn, offset, total, tag = _HEAD.unpack(frame)
    if magic != _MAGIC or kind not in KINDS:
        raise MessageError(f"a message of kind {kind} and version {magic!r}")
    if (
        total > _MOST_BYTES
        or offset > total
        or (kind in (DATA, PART) and body_bytes > total - offset)
    ):
        raise MessageError(f"{body_bytes} bytes at {offset} of an array of {total}")
    return Head(kind, group, sender, turn, step, offset, total, tag)
