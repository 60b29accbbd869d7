"""A message, and the bytes it becomes: a header, tables, a body, and buffers for tensors."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, Protocol

from fastdist.core.errors import MessageError

from .message_layout import (
    ARENA_BLOCK,
    AUTOGRAD,
    AUTOGRAD_BLOCK,
    BUFFER,
    DEVICE_PAIR,
    EMPTY,
    FRAME_BYTES,
    HEADER,
    IN_ARENA,
    INLINE_BYTES,
    MAX_BYTES,
    MAX_TENSORS,
    NAMED,
    NO_CALL,
    NO_INDEX,
    PARAMETER,
    PICKLE,
    REQUIRES_GRAD,
    TANGENT,
    TENSOR,
    TENSORS,
    VERSION,
    AutogradBlock,
    Buffer,
    TangentEntry,
    TensorEntry,
    sizes_and_strides,
)
from .message_tables import Tables, borrow, read_entry
from .metadata import Value, encode_metadata

__all__ = [
    "EMPTY",
    "FRAME_BYTES",
    "INLINE_BYTES",
    "NAMED",
    "NO_CALL",
    "NO_INDEX",
    "PARAMETER",
    "PICKLE",
    "REQUIRES_GRAD",
    "TENSORS",
    "VERSION",
    "AutogradBlock",
    "Buffer",
    "Message",
    "TangentEntry",
    "TensorEntry",
    "decode",
    "encode_plain",
]

# The wire takes 64 MiB in one frame; the body has no frame of its own to be cut into.
_MAX_BODY: Final = 4 * FRAME_BYTES - 4096


class Lender(Protocol):
    """What lends memory to the receiver of a message: channels/arena_lender.py."""

    least_bytes: int

    def lend(self, data: Buffer, message_id: int) -> bytes | None:
        """Return a descriptor of a block with a copy of data; None if it must go otherwise."""

    def end(self, message_id: int) -> None:
        """Take back what was lent for a message."""


class Message:
    """One request, answer or notice, with everything but its tensors in plain numbers and bytes.

    Units   timeout_ms is what is left for the call; 0 means it has no deadline
    Note    `is_bare` says that there is nothing beside a body and tensors
    """

    __slots__ = (
        "autograd",
        "body",
        "buffers",
        "encoding",
        "flags",
        "incarnation",
        "inner_type",
        "is_bare",
        "lane",
        "lent_bytes",
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
        message_id: int = NO_CALL,
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
        self.flags = 0
        # How much of it is not in its frames.
        self.lent_bytes = 0
        self.metadata = metadata
        self.tangents = tangents
        self.autograd = autograd
        self.is_bare = not (inner_type or metadata or tangents or autograd)

    def encode(self, lender: Lender | None = None) -> list[Buffer]:
        """Return the frames to send; large buffers stay outside of them if lender takes them.

        Raises  MessageError beyond the limits of this file: better here, with a name, than as a
                dropped connection
        """
        metadata = encode_metadata(self.metadata) if self.metadata else b""
        flags = self.flags | (AUTOGRAD if self.autograd is not None else 0)
        header = HEADER.pack(
            VERSION,
            self.encoding,
            self.type,
            flags,
            self.incarnation,
            self.message_id,
            self.source,
            self.timeout_ms,
            len(self.tensors),
            len(self.buffers),
            len(self.body),
            self.lane,
            self.inner_type,
            len(self.tangents),
            len(metadata),
        )
        if self.is_bare and not self.tensors and not self.buffers:
            _require_frame_fits(len(self.body))
            return [header + self.body]
        try:
            return self._encode_tables(header, metadata, lender)
        except BaseException:
            if lender is not None:
                lender.end(self.message_id)
            raise

    def _encode_tables(self, header: bytes, metadata: bytes, lender: Lender | None) -> list[Buffer]:
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
                head.append(BUFFER.pack(size, 0))
                inline.append(buffer)
            elif (
                lender is not None
                and size >= lender.least_bytes
                and (block := lender.lend(buffer, self.message_id)) is not None
            ):
                head.append(BUFFER.pack(size, IN_ARENA))
                inline.append(block)
                self.lent_bytes += size
            else:
                head.append(BUFFER.pack(size, -(-size // FRAME_BYTES)))
                frames += _cut(buffer)
        for entry in self.tensors:
            ndim = len(entry.sizes)
            head.append(TENSOR.pack(*entry[:6], ndim))
            if ndim:
                head.append(sizes_and_strides(ndim).pack(*entry.sizes, *entry.strides))
        head += [TANGENT.pack(*tangent) for tangent in self.tangents]
        if self.autograd is not None:
            context_id, message_id, device_map = self.autograd
            head.append(AUTOGRAD_BLOCK.pack(context_id, message_id, len(device_map)))
            head += [DEVICE_PAIR.pack(*pair) for pair in device_map]
        first = b"".join([*head, metadata, self.body, *inline])
        _require_frame_fits(len(first))
        if total > MAX_BYTES:
            raise MessageError(f"a message of {total} bytes; the limit is {MAX_BYTES}")
        return [first, *frames]

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
    size = len(body)
    if size > _MAX_BODY:
        _require_frame_fits(size)
    return [
        HEADER.pack(
            VERSION, encoding, type, 0, incarnation, message_id, source, timeout_ms,
            0, 0, size, 0, 0, 0, 0,
        )
        + body
    ]  # fmt: skip


def decode(frames: Sequence[Buffer]) -> Message:
    """Return the message of frames that came in.

    Raises  MessageError for anything that encode does not write
    """
    if not frames or len(frames[0]) < HEADER.size:
        raise MessageError(
            f"a first frame of {len(frames[0])} bytes; a header has {HEADER.size}"
            if frames
            else "a message without frames"
        )
    first = frames[0]
    message: Message = object.__new__(Message)
    (
        version, message.encoding, message.type, flags, message.incarnation, message.message_id,
        message.source, message.timeout_ms, tensors, buffers, body_bytes, message.lane,
        message.inner_type, tangents, metadata_bytes,
    ) = HEADER.unpack_from(first)  # fmt: skip
    if version != VERSION:
        raise MessageError(f"wire version {version}; this worker speaks {VERSION}")
    message.flags = flags
    message.lent_bytes = 0
    message.is_bare = not (tangents or metadata_bytes or flags & AUTOGRAD or message.inner_type)
    if tensors or buffers or not message.is_bare:
        try:
            _read_tables(message, frames, tensors, buffers, body_bytes, tangents, metadata_bytes)
        except struct.error as error:
            raise MessageError(
                f"a table is longer than the {len(first)} bytes that came"
            ) from error
        return message
    if body_bytes != len(first) - HEADER.size or len(frames) != 1:
        raise MessageError(
            f"a body of {body_bytes} bytes announced, {len(first) - HEADER.size} bytes in "
            f"{len(frames)} frames came"
        )
    message.body = first[HEADER.size :]
    message.tensors = message.buffers = message.tangents = ()
    message.autograd = message.metadata = None
    return message


def _read_tables(
    message: Message,
    frames: Sequence[Buffer],
    tensors: int,
    buffers: int,
    body_bytes: int,
    tangents: int,
    metadata_bytes: int,
) -> None:
    if message.is_bare and tensors == buffers == len(frames) == 1:
        _read_lone_tensor(message, frames[0], body_bytes)
        return
    reader = Tables(frames, HEADER.size)
    sizes = reader.buffer_sizes(buffers)
    message.tensors = reader.tensors(tensors, [size for size, _ in sizes])
    message.tangents = reader.tangents(tangents, tensors)
    message.autograd = reader.autograd() if message.flags & AUTOGRAD else None
    message.metadata = reader.metadata(metadata_bytes)
    message.body = reader.take(body_bytes)
    message.buffers = reader.buffers(sizes)
    reader.require_end()


def _read_lone_tensor(message: Message, first: Buffer, body_bytes: int) -> None:
    """Read what follows the header where it is one small tensor: what most calls carry."""
    buffer: Buffer
    size, pieces = BUFFER.unpack_from(first, HEADER.size)
    entry, at = read_entry(first, HEADER.size + BUFFER.size, (size,))
    end = at + body_bytes
    if not pieces and end + size == len(first):
        buffer = bytearray(first[end:])
    elif pieces == IN_ARENA and end + ARENA_BLOCK.size == len(first):
        buffer = borrow(first[end:], size)
    else:
        raise MessageError(
            f"a body of {body_bytes} bytes and a buffer of {size} bytes in {pieces} frames "
            f"announced, {len(first) - at} bytes came"
        )
    message.tensors = (entry,)
    message.body = first[at:end]
    message.buffers = (buffer,)
    message.tangents = ()
    message.autograd = message.metadata = None


def _cut(buffer: Buffer) -> list[Buffer]:
    if len(buffer) <= FRAME_BYTES:
        return [buffer]
    view = memoryview(buffer)
    return [view[at : at + FRAME_BYTES] for at in range(0, len(view), FRAME_BYTES)]


def _require_frame_fits(size: int) -> None:
    if size > _MAX_BODY:
        raise MessageError(
            f"arguments of {size} bytes without their tensors; "
            f"at most {_MAX_BODY} fit: send large data as tensors"
        )
