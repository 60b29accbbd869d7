"""A message, and the bytes it becomes: a header, tables, a body, and buffers for tensors."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from fastdist.core.errors import MessageError

from .metadata import MAX_METADATA_BYTES, Value, decode_metadata, encode_metadata

# Note [Message layout]
# All numbers are little endian. Frame 0 is
#     header        64 bytes, _HEADER
#     buffer table  size in bytes, number of frames it takes (0: it follows the body in this frame)
#     tensor table  buffer, byte offset, dtype, device type, device index, flags, ndim, sizes,
#     strides (in elements) tangent table tensor, level id, tangent tensor autograd      if AUTOGRAD
#     is set: context id, message id, and the device map of the sender metadata      names and small
#     values body          of `encoding` the inline buffers, one after the other
# and every further frame is a buffer or a 16 MiB piece of one. Two tensors that share memory name
# the same buffer. Everything that comes in is a stranger's claim until checked: no number is used
# to allocate or to index before it has been held against the bytes that came.

VERSION: Final = 1
# Encodings of the body.
EMPTY: Final = 0
PICKLE: Final = 1
TEXT: Final = 2
# Bits of Message.flags.
AUTOGRAD: Final = 1
# Bits of TensorEntry.flags.
REQUIRES_GRAD: Final = 1
PARAMETER: Final = 2

MAX_TENSORS: Final = 65_536
MAX_DIMENSIONS: Final = 64
MAX_BYTES: Final = 16 << 30
INLINE_BYTES: Final = 16 << 10
FRAME_BYTES: Final = 16 << 20
NO_INDEX: Final = 0xFFFF

Buffer: TypeAlias = bytes | bytearray | memoryview

_HEADER: Final = struct.Struct("<BBHIQQIIIIIQHHII")
_BUFFER: Final = struct.Struct("<QI")
_TENSOR: Final = struct.Struct("<IQBBHBB")
_TANGENT: Final = struct.Struct("<IQI")
_AUTOGRAD: Final = struct.Struct("<QQI")
_DEVICE_PAIR: Final = struct.Struct("<BHBH")


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


class AutogradBlock(NamedTuple):
    """The context of distributed autograd of a message, and what joins its send and its recv.

    `device_map` is pairs (type, index, type, index): from the sender's devices to the receiver's.
    """

    context_id: int
    message_id: int
    device_map: tuple[tuple[int, int, int, int], ...] = ()


class Message:
    """One request, answer or notice, with everything but its tensors in plain numbers and bytes.

    Units   timeout_ms is what is left for the call; 0 means it has no deadline
    """

    __slots__ = (
        "autograd",
        "body",
        "buffers",
        "encoding",
        "flags",
        "function_id",
        "incarnation",
        "inner_type",
        "lane",
        "message_id",
        "metadata",
        "source",
        "tangents",
        "tensors",
        "timeout_ms",
        "type",
    )

    def __init__(
        self,
        type: int,
        message_id: int = 0,
        *,
        source: int = 0,
        incarnation: int = 0,
        body: Buffer = b"",
        encoding: int = EMPTY,
        tensors: Sequence[TensorEntry] = (),
        buffers: Sequence[Buffer] = (),
        timeout_ms: int = 0,
        lane: int = 0,
        inner_type: int = 0,
        metadata: dict[str, Value] | None = None,
        tangents: Sequence[TangentEntry] = (),
        autograd: AutogradBlock | None = None,
    ) -> None:
        self.type = type
        self.inner_type = inner_type
        self.message_id = message_id
        self.source = source
        self.incarnation = incarnation
        self.body = body
        self.encoding = encoding
        self.tensors = tensors
        self.buffers = buffers
        self.timeout_ms = timeout_ms
        self.lane = lane
        self.function_id = 0
        self.flags = 0
        self.metadata = metadata
        self.tangents = tangents
        self.autograd = autograd

    def encode(self) -> list[Buffer]:
        """Return the frames to send.

        Raises  MessageError beyond the limits of this file: better here, with a name, than as a
                dropped connection
        """
        metadata = encode_metadata(self.metadata) if self.metadata else b""
        flags = self.flags | (AUTOGRAD if self.autograd is not None else 0)
        header = _HEADER.pack(
            VERSION,
            self.encoding,
            self.type,
            flags,
            self.incarnation,
            self.message_id,
            self.source,
            self.timeout_ms,
            self.function_id,
            len(self.tensors),
            len(self.buffers),
            len(self.body),
            self.lane,
            self.inner_type,
            len(self.tangents),
            len(metadata),
        )
        if not (self.tensors or self.buffers or self.tangents or metadata or self.autograd):
            _require_frame_fits(len(self.body))
            return [header + self.body]
        return self._encode_tables(header, metadata)

    def _encode_tables(self, header: bytes, metadata: bytes) -> list[Buffer]:
        if len(self.tensors) > MAX_TENSORS:
            raise MessageError(
                f"{len(self.tensors)} tensors; a message carries at most {MAX_TENSORS}"
            )
        head: list[Buffer] = [header]
        inline: list[Buffer] = []
        frames: list[Buffer] = []
        total = len(self.body)
        for buffer in self.buffers:
            size = len(buffer)
            total += size
            if size <= INLINE_BYTES:
                head.append(_BUFFER.pack(size, 0))
                inline.append(buffer)
            else:
                head.append(_BUFFER.pack(size, -(-size // FRAME_BYTES)))
                frames += _cut(buffer)
        for entry in self.tensors:
            ndim = len(entry.sizes)
            head.append(_TENSOR.pack(*entry[:6], ndim))
            if ndim:
                head.append(_sizes_and_strides(ndim).pack(*entry.sizes, *entry.strides))
        head += [_TANGENT.pack(*tangent) for tangent in self.tangents]
        if self.autograd is not None:
            context_id, message_id, device_map = self.autograd
            head.append(_AUTOGRAD.pack(context_id, message_id, len(device_map)))
            head += [_DEVICE_PAIR.pack(*pair) for pair in device_map]
        first = b"".join([*head, metadata, self.body, *inline])
        _require_frame_fits(len(first))
        if total > MAX_BYTES:
            raise MessageError(f"a message of {total} bytes; the limit is {MAX_BYTES}")
        return [first, *frames]

    @property
    def is_plain(self) -> bool:
        """Whether the message carries nothing but its body."""
        return not (self.tensors or self.metadata or self.tangents or self.autograd)

    def size_bytes(self) -> int:
        """Return the bytes of body and buffers."""
        return len(self.body) + sum(len(buffer) for buffer in self.buffers)


def encode_plain(
    type: int,
    message_id: int,
    source: int,
    incarnation: int,
    body: bytes,
    encoding: int,
    timeout_ms: int = 0,
) -> list[Buffer]:
    """Return the frames of a message that carries nothing but a body: the usual small call."""
    _require_frame_fits(len(body))
    return [
        _HEADER.pack(
            VERSION,
            encoding,
            type,
            0,
            incarnation,
            message_id,
            source,
            timeout_ms,
            0,
            0,
            0,
            len(body),
            0,
            0,
            0,
            0,
        )
        + body
    ]


def decode(frames: Sequence[Buffer]) -> Message:
    """Return the message of frames that came in.

    Raises  MessageError for anything that encode does not write
    """
    if not frames:
        raise MessageError("a message without frames")
    try:
        return _decode(frames)
    except struct.error as error:
        raise MessageError(
            f"a table is longer than the {len(frames[0])} bytes that came"
        ) from error


def _decode(frames: Sequence[Buffer]) -> Message:
    first = frames[0]
    if len(first) < _HEADER.size:
        raise MessageError(f"a first frame of {len(first)} bytes; a header has {_HEADER.size}")
    message: Message = object.__new__(Message)
    header = _HEADER.unpack_from(first)
    version, message.encoding, message.type, flags, message.incarnation = header[:5]
    message.message_id, message.source, message.timeout_ms, message.function_id = header[5:9]
    tensors, buffers, body_bytes, message.lane, message.inner_type = header[9:14]
    tangents, metadata_bytes = header[14:]
    if version != VERSION:
        raise MessageError(f"wire version {version}; this worker speaks {VERSION}")
    message.flags = flags
    at = _HEADER.size
    only_tensors = not (tangents or metadata_bytes or flags & AUTOGRAD)
    if only_tensors and tensors == buffers == len(frames) == 1:
        _read_lone_tensor(message, first, body_bytes)
    elif tensors or buffers or not only_tensors:
        reader = _Tables(frames, at)
        sizes = reader.buffer_sizes(buffers)
        message.tensors = reader.tensors(tensors, [size for size, _ in sizes])
        message.tangents = reader.tangents(tangents, tensors)
        message.autograd = reader.autograd() if flags & AUTOGRAD else None
        message.metadata = reader.metadata(metadata_bytes)
        message.body = reader.take(body_bytes)
        message.buffers = reader.buffers(sizes)
        reader.require_end()
    elif body_bytes != len(first) - at or len(frames) != 1:
        raise MessageError(
            f"a body of {body_bytes} bytes announced, {len(first) - at} bytes in {len(frames)} "
            "frames came"
        )
    else:
        message.body = first[at:]
        message.tensors = message.buffers = message.tangents = ()
        message.autograd = message.metadata = None
    return message


def _read_lone_tensor(message: Message, first: Buffer, body_bytes: int) -> None:
    """Read what follows the header where it is one small tensor: what most calls carry."""
    size, pieces = _BUFFER.unpack_from(first, _HEADER.size)
    entry, at = _read_entry(first, _HEADER.size + _BUFFER.size, (size,))
    end = at + body_bytes
    if pieces or end + size != len(first):
        raise MessageError(
            f"a body of {body_bytes} bytes and a buffer of {size} bytes in {pieces} frames "
            f"announced, {len(first) - at} bytes came"
        )
    message.tensors = (entry,)
    message.body = first[at:end]
    message.buffers = (bytearray(first[end:]),)
    message.tangents = ()
    message.autograd = message.metadata = None


def _read_entry(first: Buffer, at: int, buffer_sizes: Sequence[int]) -> tuple[TensorEntry, int]:
    """Return one entry of the tensor table, which lies inside its buffer, and where it ends."""
    buffer, offset, dtype, device_type, device_index, flags, ndim = _TENSOR.unpack_from(first, at)
    if ndim > MAX_DIMENSIONS:
        raise MessageError(f"a tensor of {ndim} dimensions; the limit is {MAX_DIMENSIONS}")
    numbers = _sizes_and_strides(ndim).unpack_from(first, at + _TENSOR.size)
    sizes, strides = numbers[:ndim], numbers[ndim:]
    entry = TensorEntry(buffer, offset, dtype, device_type, device_index, flags, sizes, strides)
    if buffer >= len(buffer_sizes):
        raise MessageError(f"a tensor in buffer {buffer} of {len(buffer_sizes)}")
    if (numbers and min(numbers) < 0) or offset > buffer_sizes[buffer]:
        raise MessageError(f"a tensor outside its buffer: {entry}")
    return entry, at + _TENSOR.size + 16 * ndim


class _Tables:
    """Reads what follows the header, each number against what came."""

    def __init__(self, frames: Sequence[Buffer], at: int) -> None:
        self._frames = frames
        self._first = frames[0]
        self._at = at
        self._frames_used = 1

    def take(self, size: int) -> Buffer:
        """Return the next size bytes of the first frame."""
        left = len(self._first) - self._at
        if size > left:
            raise MessageError(f"{size} bytes announced, {left} are left in the first frame")
        piece = self._first[self._at : self._at + size]
        self._at += size
        return piece

    def buffer_sizes(self, count: int) -> list[tuple[int, int]]:
        """Return (bytes, frames) of each buffer."""
        self._require_room(count, _BUFFER.size)
        table = self.take(count * _BUFFER.size)
        return list(_BUFFER.iter_unpack(table))

    def tensors(self, count: int, buffer_sizes: list[int]) -> list[TensorEntry]:
        """Return the tensor table; every entry lies inside its buffer."""
        if count > MAX_TENSORS:
            raise MessageError(f"{count} tensors announced; the limit is {MAX_TENSORS}")
        self._require_room(count, _TENSOR.size)
        entries = []
        for _ in range(count):
            entry, self._at = _read_entry(self._first, self._at, buffer_sizes)
            entries.append(entry)
        return entries

    def tangents(self, count: int, tensors: int) -> list[TangentEntry]:
        """Return the tangent table; both of a pair are tensors of the message."""
        self._require_room(count, _TANGENT.size)
        table = self.take(count * _TANGENT.size)
        entries = [TangentEntry(*numbers) for numbers in _TANGENT.iter_unpack(table)]
        for entry in entries:
            if entry.tensor >= tensors or entry.tangent >= tensors:
                raise MessageError(f"{entry} in a message of {tensors} tensors")
        return entries

    def autograd(self) -> AutogradBlock:
        """Return the autograd block."""
        context_id, message_id, pairs = _AUTOGRAD.unpack(self.take(_AUTOGRAD.size))
        self._require_room(pairs, _DEVICE_PAIR.size)
        table = self.take(pairs * _DEVICE_PAIR.size)
        return AutogradBlock(context_id, message_id, tuple(_DEVICE_PAIR.iter_unpack(table)))

    def metadata(self, size: int) -> dict[str, Value] | None:
        """Return the small values."""
        if size > MAX_METADATA_BYTES:
            raise MessageError(f"metadata of {size} bytes; the limit is {MAX_METADATA_BYTES}")
        return decode_metadata(bytes(self.take(size))) if size else None

    def buffers(self, sizes: list[tuple[int, int]]) -> list[Buffer]:
        """Return the buffers, each writable and ours alone."""
        return [
            self._piece(size) if not frames else self._join(size, frames) for size, frames in sizes
        ]

    def require_end(self) -> None:
        """Complain about bytes that nobody announced."""
        if self._at != len(self._first) or self._frames_used != len(self._frames):
            raise MessageError(
                f"{len(self._first) - self._at} bytes and "
                f"{len(self._frames) - self._frames_used} frames too many"
            )

    def _piece(self, size: int) -> Buffer:
        return bytearray(self.take(size))

    def _join(self, size: int, frames: int) -> Buffer:
        end = self._frames_used + frames
        pieces = self._frames[self._frames_used : end]
        came = sum(len(piece) for piece in pieces)
        if end > len(self._frames) or came != size:
            raise MessageError(
                f"a buffer of {size} bytes in {frames} frames announced, {came} bytes came"
            )
        self._frames_used = end
        if frames == 1:
            piece = pieces[0]
            return bytearray(piece) if isinstance(piece, bytes) else piece
        whole = bytearray(size)
        at = 0
        for piece in pieces:
            whole[at : at + len(piece)] = piece
            at += len(piece)
        return whole

    def _require_room(self, count: int, size: int) -> None:
        if count * size > len(self._first) - self._at:
            raise MessageError(
                f"a table of {count} entries announced, "
                f"{len(self._first) - self._at} bytes are left"
            )


@functools.lru_cache(MAX_DIMENSIONS + 1)
def _sizes_and_strides(ndim: int) -> struct.Struct:
    return struct.Struct(f"<{2 * ndim}q")


def _cut(buffer: Buffer) -> list[Buffer]:
    if len(buffer) <= FRAME_BYTES:
        return [buffer]
    view = memoryview(buffer)
    return [view[at : at + FRAME_BYTES] for at in range(0, len(view), FRAME_BYTES)]


def _require_frame_fits(size: int) -> None:
    # The wire takes 64 MiB in one frame; the body has no frame of its own to be cut into.
    if size > 4 * FRAME_BYTES - 4096:
        raise MessageError(
            f"arguments of {size} bytes without their tensors; "
            f"at most {4 * FRAME_BYTES - 4096} fit: send large data as tensors"
        )
