"""A message between two workers: its content, and its conversion to frames and back."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from fastdist.core.device import Device
from fastdist.core.errors import MessageError
from fastdist.distributed.arena.lender import Lender
from fastdist.distributed.pipe.frames import Buffer
from fastdist.tensor.tensor import Tensor

from ..gpu_transport.cuda_ipc import CameOnDevice, LentPiece
from . import gate
from .body import deserialize, deserialize_call, serialize, serialize_call
from .layout import (
    AUTOGRAD,
    AUTOGRAD_BLOCK,
    BODY_APART,
    BUFFER,
    DEVICE_PAIR,
    EMPTY,
    HEADER,
    IN_ARENA,
    INLINE_BYTES,
    NO_CALL,
    ON_DEVICE,
    VERSION,
    AutogradBlock,
    TangentEntry,
    TensorEntry,
)
from .limits import DEFAULT, Limits
from .metadata import Value, encode_metadata
from .tables import Tables, lone_table, pack_tables, read_lone, read_tables
from .tensors import Departure, DeviceMap, make_leaves, pack_tensors, unpack_leaves, unpack_tensors
from .types import RESPONSE, USER_WORK


class _Packing(threading.local):
    """The message that this thread packs. Each packed RRef gives the receiver a new reference."""

    message: Message | None = None


# Note [Packing]
# When an RRef is packed, the RRef's owner counts one more reference; the receiver gets that
# reference when it reads the message. So if a message is not sent, or is not received, the effects
# of packing the message are undone. A request that holds references is always read on arrival, even
# if its caller has given it up. A receiver that cannot read the request reports that. A caller that
# does not need an answer any more does not read the answer, and reports this (references/forks.py).
packing = _Packing()


@dataclass(slots=True, eq=False, repr=False)
class Message:
    """One request, answer or notice, outgoing or received.

    A message has a header, metadata, and a value in `body`. The Tensors of the value are in
    `tensors`. In a received message, `open` creates the Tensors from `entries` and `buffers`.

    Units   timeout_ms is the time left for the call; 0 means no deadline
    """

    type: int
    message_id: int = NO_CALL
    # The life at the other end, as a Worker (a class in a layer above this file); None before the
    # life is known. `source` is the rank that the sender claims: the wire format has only ranks.
    peer: Any = None
    source: int = 0
    incarnation: int = 0
    body: Buffer = b""
    encoding: int = EMPTY
    tensors: list[Tensor] = field(default_factory=list)
    entries: Sequence[TensorEntry] = ()
    buffers: Sequence[Buffer] = ()
    timeout_ms: int = 0
    lane: int = 0
    inner_type: int = 0
    metadata: dict[str, Value] = field(default_factory=dict)
    tangents: Sequence[TangentEntry] = ()
    autograd: AutogradBlock | None = None
    # Outgoing: the target device of each tensor, if the call's device map does not determine it.
    goals: Sequence[Device] = ()
    # Received: whether each tensor required grad at the sender. Empty for an outgoing message.
    requires_grad: Sequence[bool] = ()
    # How many bytes of the message are in shared memory, outside of the frames.
    lent_bytes: int = 0
    is_read: bool = False
    # An error that `value` raises after it has read the value, instead of returning the value.
    refusal: Exception | None = None
    # Outgoing: functions that undo the packing; and for a request, functions that run when the
    # answer shows that the request was read. See Note [Packing].
    undo_steps: Sequence[Callable[[], None]] = ()
    delivery_steps: Sequence[Callable[[], None]] = ()

    def wrap(self, type: int) -> None:
        """Change the type of the message; the first type stays as the inner type."""
        if not self.inner_type:
            self.inner_type = self.type
        self.type = type

    @property
    def effective_type(self) -> int:
        """The type that the message had before `wrap`, if it is wrapped; otherwise its type."""
        return self.inner_type or self.type

    @property
    def is_answer(self) -> bool:
        """Whether this message is the answer to a request."""
        return bool(self.type & RESPONSE)

    @property
    def is_bare(self) -> bool:
        """Whether this message has a body and tensors alone."""
        return not (self.metadata or self.tangents or self.autograd or self.inner_type)

    def size_bytes(self) -> int:
        """Return the bytes of body and buffers of a received message."""
        return len(self.body) + sum(map(len, self.buffers))

    def open(self) -> None:
        """Create the tensors of a received message, without a graph.

        Raises  MessageError for a tensor that does not fit its buffer; DeviceError for a device
                that this worker does not have
        """
        if not self.entries:
            return  # nearly all messages have no tensors
        self.tensors, self.requires_grad = unpack_tensors(self.entries, self.buffers)
        # From here on only the tensors own the memory.
        self.entries = self.buffers = ()

    def open_leaves(self) -> None:
        """Create the tensors of a received message that no interceptor processes.

        Raises  the errors of open
        """
        self.tensors = unpack_leaves(self.entries, self.buffers)
        self.entries = self.buffers = ()

    def make_leaves(self) -> None:
        """Make leaves of the tensors that required grad at the sender and have no history here."""
        if self.requires_grad:
            make_leaves(self.tensors, self.requires_grad)

    def pack(self, value: Any, name: str = "the value") -> None:
        """Set the body to a value: (function, args, kwargs) for message types that carry a call.

        Raises  RpcError if the value cannot be pickled; `name` is the value's name in the error
        """
        # Save the outer message: pickling an object may make a call, which packs another message.
        outer, packing.message = packing.message, self
        try:
            if self.type in USER_WORK:
                function, args, kwargs = value
                packed = serialize_call(function, args, kwargs, self.tensors)
            else:
                packed = serialize(value, self.tensors, name)
            self.body, self.encoding = packed
        finally:
            packing.message = outer

    def undo_packing(self) -> None:
        """Undo the effects of packing: the message was not read, and never will be."""
        steps, self.undo_steps, self.delivery_steps = self.undo_steps, (), ()
        for step in steps:
            step()

    def confirm_delivery(self) -> None:
        """Run `delivery_steps`, since the answer shows that this request was read."""
        steps, self.delivery_steps = self.delivery_steps, ()
        for step in steps:
            step()

    def value(self) -> Any:
        """Return the value in the body, after `open`; for a call: function, args and kwargs.

        Raises  the errors of body.deserialize and body.deserialize_call; the refusal, if set
        """
        read = deserialize_call if (self.inner_type or self.type) in USER_WORK else deserialize
        value = read(self.body, self.encoding, self.tensors)
        self.is_read = True
        if self.refusal is not None:
            raise self.refusal
        return value

    def encode(
        self,
        lender: Lender | None = None,
        device_map_to: Callable[[Any], DeviceMap | None] | None = None,
        *,
        limits: Limits = DEFAULT,
        departure: Departure | None = None,
    ) -> list[Buffer]:
        """Return the frames to send. Large buffers may be written to the lender's memory instead.

        `departure` has the tensors if they had to be copied from devices first.

        Raises  MessageError if the message exceeds the receiver's limits, since the receiver would
                drop the connection; DeviceError for a tensor on a device that is not in the map
        """
        body, tensors = self.body, self.tensors
        # The fast path of nearly all calls: the message is a body, or a body and one small tensor.
        if not (self.metadata or self.tangents or self.autograd or self.buffers):
            if not tensors and len(body) <= limits.plain_bytes:
                return [self._header(0, 0, 0, len(body), 0) + body]
            if len(tensors) == 1 and (table := lone_table(tensors[0])) is not None:
                data = tensors[0]._array
                if len(body) <= INLINE_BYTES and (
                    len(table) + len(body) + data.nbytes <= limits.plain_bytes
                ):
                    return [b"".join((self._header(0, 1, 1, len(body), 0), table, body, data))]
        entries, buffers = self.entries, self.buffers
        try:
            if departure is not None:
                entries, buffers = departure.finish()
            elif tensors:
                device_map = device_map_to(self.peer) if device_map_to is not None else None
                entries, buffers = pack_tensors(
                    *(tensors, device_map, lender, self.message_id), goals=self.goals
                )
            return self._with_tables(entries, buffers, lender, limits)
        except BaseException:
            if lender is not None:
                lender.end(self.message_id)
            raise

    def _header(
        self, flags: int, tensors: int, buffers: int, body_bytes: int, metadata_bytes: int
    ) -> bytes:
        return HEADER.pack(
            VERSION,
            self.encoding,
            self.type,
            flags,
            self.incarnation,
            self.message_id,
            self.source,
            self.timeout_ms,
            tensors,
            buffers,
            body_bytes,
            self.lane,
            self.inner_type,
            len(self.tangents),
            metadata_bytes,
        )

    def _with_tables(
        self,
        entries: Sequence[TensorEntry],
        buffers: Sequence[Buffer],
        lender: Lender | None,
        limits: Limits,
    ) -> list[Buffer]:
        metadata = encode_metadata(self.metadata, limits.nesting) if self.metadata else b""
        sizes = [*map(len, buffers)]
        total = len(self.body) + sum(sizes)
        self._require_within(limits, len(entries), total, len(metadata))
        flags = AUTOGRAD if self.autograd is not None else 0
        body, inline_bytes = self.body, INLINE_BYTES
        is_small = total <= INLINE_BYTES and total <= limits.frame_bytes // 4
        if not is_small and len(body) + len(buffers) * INLINE_BYTES > limits.frame_bytes // 4:
            inline_bytes, apart = _share_frame(len(body), sizes, limits)
            if apart:
                flags |= BODY_APART
                body, buffers = b"", [*buffers, body]
        header = self._header(flags, len(entries), len(buffers), len(body), len(metadata))
        head: Sequence[Buffer]
        inline: Sequence[Buffer]
        frames: Sequence[Buffer]
        if is_small:
            head = [BUFFER.pack(size, 0) for size in sizes] if sizes else ()
            inline, frames = buffers, ()
        else:
            head, inline, frames = self._place_buffers(buffers, inline_bytes, lender, limits)
        is_graphless = not (entries or self.tangents or self.autograd)
        tables = () if is_graphless else pack_tables(entries, self.tangents, self.autograd)
        first = b"".join([header, *head, *tables, metadata, body, *inline])
        if len(first) > limits.frame_bytes:
            raise MessageError(
                f"tables of {len(first) - len(body)} bytes; a frame takes "
                f"{limits.frame_bytes}: send fewer tensors at once"
            )
        return [first, *frames]

    def _require_within(
        self, limits: Limits, tensors: int, total: int, metadata_bytes: int
    ) -> None:
        if tensors > limits.tensors:
            raise MessageError(
                f"{tensors} tensors; a message to this worker carries at most {limits.tensors}"
            )
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
        """Return the buffer table, the buffers in frame 0, and the further frames."""
        head: list[Buffer] = []
        inline: list[Buffer] = []
        frames: list[Buffer] = []
        for buffer in buffers:
            size = len(buffer)
            if size <= inline_bytes:
                head.append(BUFFER.pack(size, 0))
                inline.append(buffer)
            elif buffer.__class__ is LentPiece:  # type: ignore[comparison-overlap]
                head.append(BUFFER.pack(size, ON_DEVICE))
                inline.append(buffer.descriptor)
                self.lent_bytes += size
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


def decode(
    frames: Sequence[Buffer],
    limits: Limits = DEFAULT,
    peer: Any = None,
    *,
    header_alone: bool = False,
) -> Message:
    """Return the message in frames from a peer, without creating the message's tensors.

    With `header_alone` only the header is read, so no lent memory is taken.

    Raises  MessageError for bytes that encode does not write, or that exceed the limits
    """
    first = frames[0] if frames else b""
    if len(first) < HEADER.size:
        raise MessageError(
            f"a first frame of {len(first)} bytes; a header has {HEADER.size}"
            if frames
            else "a message without frames"
        )
    message: Message = object.__new__(Message)
    (
        version, message.encoding, message.type, flags, message.incarnation, message.message_id,
        message.source, message.timeout_ms, tensors, buffers, body_bytes, message.lane,
        message.inner_type, tangents, metadata_bytes,
    ) = HEADER.unpack_from(first)  # fmt: skip
    if version != VERSION:
        raise MessageError(f"wire version {version}; this worker speaks {VERSION}")
    message.peer = peer
    message.body, message.lent_bytes, message.is_read = b"", 0, False
    message.tensors, message.metadata = [], {}
    message.tangents = message.requires_grad = message.entries = message.buffers = ()
    message.undo_steps = message.delivery_steps = message.goals = ()
    message.autograd = message.refusal = None
    if header_alone:
        return message
    if len(first) > limits.frame_bytes:
        raise MessageError(f"a frame of {len(first)} bytes; the limit is {limits.frame_bytes}")
    if tensors or buffers or tangents or metadata_bytes or flags:
        counts = (flags, tensors, buffers, body_bytes, tangents, metadata_bytes)
        try:
            _read_tables(message, frames, limits, counts)
        except struct.error as error:
            raise MessageError(
                f"a table is longer than the {len(first)} bytes that came"
            ) from error
    elif body_bytes == len(first) - HEADER.size and len(frames) == 1:
        message.body = first[HEADER.size :]
    else:
        raise MessageError(
            f"a body of {body_bytes} bytes announced, {len(first) - HEADER.size} bytes in "
            f"{len(frames)} frames came"
        )
    return message


# The flags, and the numbers of tensors, buffers, body bytes, tangents and metadata bytes.
_Counts: TypeAlias = tuple[int, int, int, int, int, int]


def _read_tables(
    message: Message, frames: Sequence[Buffer], limits: Limits, counts: _Counts
) -> None:
    flags, tensors, buffers, body_bytes, tangents, metadata_bytes = counts
    if tensors == buffers == len(frames) == 1 and not (flags or tangents or metadata_bytes):
        entry, message.body, buffer = read_lone(frames[0], body_bytes, message.peer)
        message.entries, message.buffers = (entry,), (buffer,)
        return
    apart = flags & BODY_APART
    if flags & ~(AUTOGRAD | BODY_APART) or (apart and (body_bytes or not buffers)):
        raise MessageError(f"flags {flags:#x} with {buffers} buffers")
    sizes: Sequence[tuple[int, int]]
    if tensors or buffers:
        message.entries, sizes, at = read_tables(frames[0], tensors, buffers, limits)
    else:
        sizes, at = (), HEADER.size
    if apart and any(entry.buffer == buffers - 1 for entry in message.entries):
        raise MessageError("a tensor in the body's buffer")
    reader = Tables(frames, at, limits, message.peer)
    if tangents:
        message.tangents = reader.tangents(tangents, tensors)
    if flags & AUTOGRAD:
        message.autograd = reader.autograd()
    if metadata_bytes:
        message.metadata = reader.metadata(metadata_bytes)
    if body_bytes:
        message.body = reader.take(body_bytes)
    arrived = reader.buffers(sizes) if sizes else []
    reader.require_end()
    if apart:
        message.body = arrived.pop()
        if isinstance(message.body, CameOnDevice):
            raise MessageError("a body in memory of a GPU")
        is_lent = isinstance(message.body, memoryview) and isinstance(message.body.obj, np.ndarray)
        if is_lent and gate.max_nesting() is not None:
            # The body is in the sender's arena. Strict mode checks the body and then loads it.
            # Without a copy, the sender could change the body after the check.
            message.body = bytes(message.body)
    message.buffers = arrived


def _share_frame(body_bytes: int, sizes: Sequence[int], limits: Limits) -> tuple[int, bool]:
    """Return the maximum size of a buffer in frame 0, and whether the body needs its own buffer."""
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
