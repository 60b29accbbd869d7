"""The head of each message between members: its bytes, and the checks of its fields."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from fastdist.core.errors import MessageError
from fastdist.distributed.pipe.frames import Buffer

# Kinds of messages.
MEET: Final = 1  # from leader to leader: the calls, and small contributions, of machines
DATA: Final = 2  # a piece of an array for a member of a collective
FAILED: Final = 3  # the group has failed: `step` is the kind of failure, the body describes it
BYE: Final = 4  # the sender has left the group, or all groups if `step` is 1; no message follows
BYE_SEEN: Final = 5  # the answer to BYE: all messages before the BYE have been read
SEND: Final = 6  # a complete small message of send()
ANNOUNCE: Final = 7  # a large message of send() is ready; the sender waits for CLEAR
CLEAR: Final = 8  # the receiver has memory for an announced message
REFUSE: Final = 9  # the receiver did not expect the announced message: the text of the error
WITHDRAW: Final = 10  # the sender of ANNOUNCE no longer waits for CLEAR
PART: Final = 11  # a piece of an announced message
BULK: Final = 12  # the previous leader may connect to the sender: token, port and key; host
WHERE: Final = 13  # the sender waits for the receiver: a request for STACK
STACK: Final = 14  # the answer to WHERE: the stack of the main thread, as text
KINDS: Final = range(MEET, STACK + 1)

# The size of pieces of arrays. The steps of a transfer overlap better if pieces are smaller; larger
# pieces need fewer calls.
PIECE_BYTES: Final = 1 << 20

# Magic, kind, group, 0, sender, step, padding, a mark, turn, offset, total, tag. The mark is a
# value by which pipe/frames.py recognises that further frames follow this one.
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
    # The number of the collective; for send(), the number of the message to this receiver.
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
    """Return the head in a frame of a message whose body has `body_bytes` bytes.

    Raises  MessageError if no member of this version would send such a head
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
