"""The byte layout of a message: its constants, its structs, and the entries of its tables."""

from __future__ import annotations

import functools
import struct
from typing import Final, NamedTuple, TypeAlias

# Note [Message layout]
# All numbers are little endian. Frame 0 is
#   - header: 64 bytes, HEADER;
#   - buffer table: size in bytes, and number of frames (0: the buffer follows the body in this
#     frame; IN_ARENA: a descriptor follows the body instead, see distributed/arena; ON_DEVICE:
#     likewise for memory of a GPU, see gpu_transport/cuda_ipc.py);
#   - tensor table: buffer, byte offset, dtype, device type, device index, flags, ndim, sizes, and
#     strides in elements; sizes and strides are 64-bit numbers;
#   - tangent table: tensor, level id, tangent tensor;
#   - autograd, if AUTOGRAD is set: context id, message id, the device map of the sender;
#   - metadata: names and small values;
#   - the body, in the encoding `encoding`. If BODY_APART is set, because the body is long, the body
#     is the last buffer instead;
#   - the inline buffers, one after the other.
# Every further frame is a buffer or a piece of a buffer, and has at most 16 MiB. Two tensors that
# share memory name the same buffer. No received number is trusted: each is checked against the
# bytes that arrived before it is used to allocate or to index.

VERSION: Final = 1
# Encodings of the body: None; a pickle; or the message's tensors alone, with their number as a u16
# (0xFFFF: one tensor, not in a tuple). With NAMED, the length and name of a function precede it.
EMPTY: Final = 0
PICKLE: Final = 1
TENSORS: Final = 2
NAMED: Final = 0x80
# Bits of Message.flags.
AUTOGRAD: Final = 1
BODY_APART: Final = 2
# Bits of TensorEntry.flags.
REQUIRES_GRAD: Final = 1
PARAMETER: Final = 2

MAX_TENSORS: Final = 65_536
MAX_DIMENSIONS: Final = 64
MAX_BYTES: Final = 16 << 30
MAX_HEADER_BYTES: Final = 1 << 20
INLINE_BYTES: Final = 16 << 10
FRAME_BYTES: Final = 16 << 20
NO_INDEX: Final = 0xFFFF
# Values that stand in the buffer table instead of a number of frames.
IN_ARENA: Final = 0xFFFFFFFF
ON_DEVICE: Final = 0xFFFFFFFE
# The message id of messages that are neither a call nor an answer to one: greetings and notices.
NO_CALL: Final = (1 << 64) - 1

HEADER: Final = struct.Struct("<BBHIQQII4xIIQHHII")
BUFFER: Final = struct.Struct("<QI")
TENSOR: Final = struct.Struct("<IQBBHBB")
TANGENT: Final = struct.Struct("<IQI")
AUTOGRAD_BLOCK: Final = struct.Struct("<QQI")
DEVICE_PAIR: Final = struct.Struct("<BHBH")


class TensorEntry(NamedTuple):
    """The position of one tensor in the message's buffers, and its device at the receiver."""

    buffer: int
    offset: int
    dtype: int
    device_type: int
    device_index: int
    flags: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class TangentEntry(NamedTuple):
    """A pair of tensors in the message: one is the tangent of the other at a forward-mode level."""

    tensor: int
    level_id: int
    tangent: int


DevicePairs: TypeAlias = tuple[tuple[int, int, int, int], ...]


class AutogradBlock(NamedTuple):
    """The distributed autograd context of a message, and the id that pairs its send and receive.

    `device_map` has entries (type, index, type, index): the sender's device, the receiver's device.
    """

    context_id: int
    message_id: int
    device_map: DevicePairs = ()


@functools.lru_cache(MAX_DIMENSIONS + 1)
def sizes_and_strides(ndim: int) -> struct.Struct:
    """Return the struct for the sizes and strides of ndim axes."""
    return struct.Struct(f"<{2 * ndim}q")
