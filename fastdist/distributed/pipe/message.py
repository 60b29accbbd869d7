"""A message, and the bytes it becomes: a header, tables, a body, and buffers for tensors."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Protocol

from fastdist.core.errors import MessageError

from .limits import DEFAULT, Limits
from .lone_tensor import read_lone
from .message_layout import (
    AUTOGRAD,
    AUTOGRAD_BLOCK,
    BODY_APART,
    BUFFER,
    DEVICE_PAIR,
    EMPTY,
    FRAME_BYTES,
    HEADER,
    IN_ARENA,
    INLINE_BYTES,
    NAMED,
    NO_CALL,
    NO_INDEX,
    PARAMETER,
    PICKLE,
    REQUIRES_GRAD,
    TANGENT,
    TENSORS,
    VERSION,
    AutogradBlock,
    Buffer,
    TangentEntry,
    TensorEntry,
)
from .message_tables import Tables, pack_entry, read_tables
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
    "peek",
]


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

    @property
    def effective_type(self) -> int:
        """The type of what is inside the wrapping, if there is one."""
        return self.inner_type or self.type

    def encode(self, lender: Lender | None = None, *, limits: Limits = DEFAULT) -> list[Buffer]:
        """Return the frames to send; large buffers stay outside of them if lender takes them.

        Raises  MessageError beyond the receiver's limits: better here, with a name, than as a
                dropped connection
        """
        metadata = encode_metadata(self.metadata, limits.nesting) if self.metadata else b""
        flags = self.flags | (AUTOGRAD if self.autograd is not None else 0)
        body, buffers, inline_bytes = self.body, self.buffers, INLINE_BYTES
        if len(body) + len(buffers) * INLINE_BYTES > limits.frame_bytes // 4:
            inline_bytes, apart = _share_frame(len(body), list(map(len, buffers)), limits)
            if apart:
                flags |= BODY_APART
                body, buffers = b"", [*buffers, body]
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
            len(buffers),
            len(body),
            self.lane,
            self.inner_type,
            len(self.tangents),
            len(metadata),
        )
        if self.is_bare and not self.tensors and not buffers:
            return [header + body]
        self._require_within(limits, len(metadata))
        tables = self._encode_tables(metadata)
        try:
            head, inline, frames = self._place_buffers(buffers, inline_bytes, lender, limits)
            first = b"".join([header, *head, *tables, body, *inline])
            if len(first) > limits.frame_bytes:
                raise MessageError(
                    f"tables of {len(first) - len(body)} bytes; a frame takes "
                    f"{limits.frame_bytes}: send fewer tensors at once"
                )
        except BaseException:
            if lender is not None:
                lender.end(self.message_id)
            raise
        return [first, *frames]

    def _require_within(self, limits: Limits, metadata_bytes: int) -> None:
        if len(self.tensors) > limits.tensors:
            raise MessageError(
                f"{len(self.tensors)} tensors; a message to this worker carries at most "
                f"{limits.tensors}"
            )
        total = self.size_bytes()
        if total > limits.message_bytes:
            raise MessageError(
                f"a message of {total} bytes; the worker takes at most {limits.message_bytes}: "
                "send it in parts, or raise the limit message_bytes= there"
            )
        header_bytes = HEADER.size + metadata_bytes
        if self.autograd is not None:
            header_bytes += AUTOGRAD_BLOCK.size + len(self.autograd.device_map) * DEVICE_PAIR.size
        if header_bytes > limits.header_bytes:
            raise MessageError(
                f"a header of {header_bytes} bytes, most of it metadata; the worker takes at most "
                f"{limits.header_bytes}: send tensors instead"
            )

    def _place_buffers(
        self, buffers: Sequence[Buffer], inline_bytes: int, lender: Lender | None, limits: Limits
    ) -> tuple[list[Buffer], list[Buffer], list[Buffer]]:
        """Return the buffer table, what goes in frame 0, and the further frames."""
        head: list[Buffer] = []
        inline: list[Buffer] = []
        frames: list[Buffer] = []
        for buffer in buffers:
            size = len(buffer)
            if size <= inline_bytes:
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
                pieces = _cut(buffer, limits.frame_bytes)
                head.append(BUFFER.pack(size, len(pieces)))
                frames += pieces
        return head, inline, frames

    def _encode_tables(self, metadata: bytes) -> list[Buffer]:
        """Return the tables behind that of the buffers, and the metadata."""
        head: list[Buffer] = [*map(pack_entry, self.tensors)]
        head += [TANGENT.pack(*tangent) for tangent in self.tangents]
        if self.autograd is not None:
            context_id, message_id, device_map = self.autograd
            head.append(AUTOGRAD_BLOCK.pack(context_id, message_id, len(device_map)))
            head += [DEVICE_PAIR.pack(*pair) for pair in device_map]
        head.append(metadata)
        return head

    def size_bytes(self) -> int:
        """Return the bytes of body and buffers."""
        return len(self.body) + sum(map(len, self.buffers))


def encode_plain(
    type: int,
    message_id: int,
    source: int,
    incarnation: int,
    body: bytes,
    encoding: int,
    timeout_ms: int = 0,
    limits: Limits = DEFAULT,
) -> list[Buffer]:
    """Return the frames of a message that carries nothing but a body: the usual small call."""
    size = len(body)
    if size > limits.plain_bytes:
        large = Message(
            type, message_id, source=source, incarnation=incarnation, body=body, encoding=encoding
        )
        large.timeout_ms = timeout_ms
        return large.encode(limits=limits)
    return [
        HEADER.pack(
            VERSION, encoding, type, 0, incarnation, message_id, source, timeout_ms,
            0, 0, size, 0, 0, 0, 0,
        )
        + body
    ]  # fmt: skip


def decode(frames: Sequence[Buffer], limits: Limits = DEFAULT) -> Message:
    """Return the message of frames that came in.

    Raises  MessageError for anything that encode does not write, or beyond the limits
    """
    if not frames or len(frames[0]) < HEADER.size:
        raise MessageError(
            f"a first frame of {len(frames[0])} bytes; a header has {HEADER.size}"
            if frames
            else "a message without frames"
        )
    first = frames[0]
    if len(first) > limits.frame_bytes:
        raise MessageError(f"a frame of {len(first)} bytes; the limit is {limits.frame_bytes}")
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
    if tensors or buffers or flags or not message.is_bare:
        numbers = (tensors, buffers, body_bytes, tangents, metadata_bytes)
        try:
            _read_tables(message, frames, limits, *numbers)
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


def peek(frames: Sequence[Buffer]) -> tuple[int, int]:
    """Return type and id of a message without taking what it carries, lent memory above all.

    Raises  MessageError for what has no header
    """
    if not frames or len(frames[0]) < HEADER.size:
        raise MessageError("a message without a header")
    version, _, kind, _, _, message_id, *_ = HEADER.unpack_from(frames[0])
    if version != VERSION:
        raise MessageError(f"wire version {version}; this worker speaks {VERSION}")
    return kind, message_id


def _read_tables(
    message: Message,
    frames: Sequence[Buffer],
    limits: Limits,
    tensors: int,
    buffers: int,
    body_bytes: int,
    tangents: int,
    metadata_bytes: int,
) -> None:
    if message.is_bare and not message.flags and tensors == buffers == len(frames) == 1:
        _read_lone_tensor(message, frames[0], body_bytes)
        return
    apart = message.flags & BODY_APART
    if message.flags & ~(AUTOGRAD | BODY_APART) or (apart and (body_bytes or not buffers)):
        raise MessageError(f"flags {message.flags:#x} with {buffers} buffers")
    entries, sizes, at = read_tables(frames[0], tensors, buffers, limits)
    message.tensors = [*entries]
    if apart and any(entry.buffer == buffers - 1 for entry in entries):
        raise MessageError("a tensor in the body's buffer")
    reader = Tables(frames, at, limits)
    message.tangents = reader.tangents(tangents, tensors) if tangents else ()
    message.autograd = reader.autograd() if message.flags & AUTOGRAD else None
    message.metadata = reader.metadata(metadata_bytes) if metadata_bytes else None
    message.body = reader.take(body_bytes)
    arrived = reader.buffers(sizes)
    reader.require_end()
    if apart:
        message.body = arrived.pop()
    message.buffers = arrived


def _read_lone_tensor(message: Message, first: Buffer, body_bytes: int) -> None:
    entry, message.body, buffer = read_lone(first, body_bytes)
    message.tensors = (entry,)
    message.buffers = (buffer,)
    message.tangents = ()
    message.autograd = message.metadata = None


def _share_frame(body_bytes: int, sizes: Sequence[int], limits: Limits) -> tuple[int, bool]:
    """Return how large a buffer may be to go into frame 0, and whether the body must not."""
    room = limits.frame_bytes // 2
    apart = body_bytes > room
    left, inline_bytes = (room if apart else room - body_bytes), INLINE_BYTES
    if apart:
        sizes = [*sizes, body_bytes]
    while inline_bytes and sum(size for size in sizes if size <= inline_bytes) > left:
        inline_bytes //= 2
    return inline_bytes, apart


def _cut(buffer: Buffer, frame_bytes: int) -> list[Buffer]:
    if len(buffer) <= frame_bytes:
        return [buffer]
    view = memoryview(buffer)
    return [view[at : at + frame_bytes] for at in range(0, len(view), frame_bytes)]
