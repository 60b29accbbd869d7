"""How a message is laid out in bytes: its constants, its structs, and the entries of its tables."""

from __future__ import annotations

import functools
import struct
from typing import Final, NamedTuple, TypeAlias

# Note [Message layout]
# All numbers are little endian. Frame 0 is
#   - header: 64 bytes, HEADER;
#   - buffer table: size in bytes, number of frames it takes (0: it follows the body in this frame;
#     IN_ARENA: a descriptor follows the body instead, see distributed/arena; ON_DEVICE: so does
#     one of a GPU's memory, see gpu_transport/cuda_ipc.py);
#   - tensor table: buffer, byte offset, dtype, device type, device index, flags, ndim, and as
#     64-bit numbers the sizes and the strides, which count elements;
#   - tangent table: tensor, level id, tangent tensor;
#   - autograd, if AUTOGRAD is set: context id, message id, the device map of the sender;
#   - metadata: names and small values;
#   - the body, of `encoding`; with BODY_APART, being long, it is the last of the buffers instead;
#   - the inline buffers, one after the other;
# and every further frame is a buffer or a piece of one; no frame is longer than 16 MiB. Two tensors
# that share memory name the same buffer. Everything that comes in is a stranger's claim until
# checked: no number is used to allocate or to index before it has been held against the bytes that
# came.

VERSION: Final = 1
# Encodings of the body: None; a pickle; the message's tensors alone, or as many of them as a u16
# says (0xFFFF: one, not in a tuple). With NAMED, the name of a function goes before, in u16 bytes.
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
# Instead of a number of frames.
IN_ARENA: Final = 0xFFFFFFFF
ON_DEVICE: Final = 0xFFFFFFFE
# The message id of messages that neither are a call nor answer one: greetings and notices.
NO_CALL: Final = (1 << 64) - 1

HEADER: Final = struct.Struct("<BBHIQQII4xIIQHHII")
BUFFER: Final = struct.Struct("<QI")
TENSOR: Final = struct.Struct("<IQBBHBB")
TANGENT: Final = struct.Struct("<IQI")
AUTOGRAD_BLOCK: Final = struct.Struct("<QQI")
DEVICE_PAIR: Final = struct.Struct("<BHBH")


class TensorEntry(NamedTuple):
    """Where one tensor lies in the message's buffers, and on which device it shall live."""

    buffer: int
    offset: int
    dtype: int
    device_type: int
    device_index: int
    flags: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class TangentEntry(NamedTuple):
    """One tensor of the message is the tangent of another at a forward-mode level."""

    tensor: int
    level_id: int
    tangent: int


DevicePairs: TypeAlias = tuple[tuple[int, int, int, int], ...]


class AutogradBlock(NamedTuple):
    """The context of distributed autograd of a message, and what joins its send and its recv.

    `device_map` is pairs (type, index, type, index): from the sender's devices to the receiver's.
    """

    context_id: int
    message_id: int
    device_map: DevicePairs = ()


@functools.lru_cache(MAX_DIMENSIONS + 1)
def sizes_and_strides(ndim: int) -> struct.Struct:
    """Return how the sizes and strides of ndim axes are packed."""
    return struct.Struct(f"<{2 * ndim}q")
