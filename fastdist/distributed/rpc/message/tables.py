"""Packs the tables that follow a message's header, and reads them with checks against the bytes.

Most calls have one small tensor. `lone_table` and `read_lone` pack and read their tables faster.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from fastdist.core.device import CPU
from fastdist.core.errors import MessageError
from fastdist.distributed.arena.borrower import borrow
from fastdist.distributed.arena.layout import ARENA_BLOCK
from fastdist.distributed.pipe.frames import Buffer
from fastdist.tensor.tensor import Tensor

from ..gpu_transport.cuda_ipc import borrow_piece
from .layout import (
    AUTOGRAD_BLOCK,
    BUFFER,
    DEVICE_PAIR,
    HEADER,
    IN_ARENA,
    INLINE_BYTES,
    MAX_DIMENSIONS,
    ON_DEVICE,
    TANGENT,
    TENSOR,
    AutogradBlock,
    TangentEntry,
    TensorEntry,
    sizes_and_strides,
)
from .limits import Limits
from .metadata import Value, decode_metadata
from .tensors import whole_entry

_CACHED_BYTES: Final = 1024


@functools.lru_cache(1024)
def pack_entry(entry: TensorEntry) -> bytes:
    """Return one entry of the tensor table."""
    ndim = len(entry.sizes)
    head = TENSOR.pack(*entry[:6], ndim)
    return head + sizes_and_strides(ndim).pack(*entry.sizes, *entry.strides) if ndim else head


def pack_tables(
    entries: Sequence[TensorEntry], tangents: Sequence[TangentEntry], autograd: AutogradBlock | None
) -> list[bytes]:
    """Return the bytes of the tables that follow the buffer table."""
    tables = [*map(pack_entry, entries)]
    if tangents:
        tables += [TANGENT.pack(*tangent) for tangent in tangents]
    if autograd is not None:
        context_id, message_id, device_map = autograd
        tables.append(AUTOGRAD_BLOCK.pack(context_id, message_id, len(device_map)))
        tables += [DEVICE_PAIR.pack(*pair) for pair in device_map]
    return tables


def read_entry(first: Buffer, at: int, buffer_sizes: Sequence[int]) -> tuple[TensorEntry, int]:
    """Return a tensor's entry, and the entry's end; the tensor must begin inside its buffer."""
    buffer, offset, dtype, device_type, device_index, flags, ndim = TENSOR.unpack_from(first, at)
    if ndim > MAX_DIMENSIONS:
        raise MessageError(f"a tensor of {ndim} dimensions; the limit is {MAX_DIMENSIONS}")
    numbers = sizes_and_strides(ndim).unpack_from(first, at + TENSOR.size)
    sizes, strides = numbers[:ndim], numbers[ndim:]
    entry = TensorEntry(buffer, offset, dtype, device_type, device_index, flags, sizes, strides)
    if buffer >= len(buffer_sizes):
        raise MessageError(f"a tensor in buffer {buffer} of {len(buffer_sizes)}")
    if (numbers and min(numbers) < 0) or offset > buffer_sizes[buffer]:
        raise MessageError(f"a tensor outside its buffer: {entry}")
    return entry, at + TENSOR.size + 16 * ndim


def read_tables(
    first: Buffer, tensors: int, buffers: int, limits: Limits
) -> tuple[Sequence[TensorEntry], Sequence[tuple[int, int]], int]:
    """Return the tensor table, (bytes, frames) of each buffer, and the end offset of the tables.

    Raises  MessageError, or struct.error, for tables that do not match the received bytes
    """
    if tensors > limits.tensors:
        raise MessageError(f"{tensors} tensors announced; the limit is {limits.tensors}")
    room = len(first) - HEADER.size
    if buffers * BUFFER.size + tensors * TENSOR.size > room:
        raise MessageError(f"tables of {buffers} and {tensors} entries announced in {room} bytes")
    at = HEADER.size + buffers * BUFFER.size
    for _ in range(tensors):
        at += TENSOR.size
        if at > len(first):
            raise MessageError(f"a table is longer than the {len(first)} bytes that came")
        at += 16 * first[at - 1]  # the last byte of an entry is its number of dimensions
    table = bytes(first[HEADER.size : at])
    read = _read_tables if len(table) <= _CACHED_BYTES else _read_tables.__wrapped__
    entries, sizes, total = read(table, tensors, buffers)
    if total > limits.message_bytes:
        raise MessageError(
            f"buffers of {total} bytes announced; the limit of this worker is "
            f"{limits.message_bytes}"
        )
    return entries, sizes, at


# The results are cached: tables contain no data, so the same few tables occur again and again.
@functools.lru_cache(1024)
def _read_tables(
    table: bytes, tensors: int, buffers: int
) -> tuple[tuple[TensorEntry, ...], tuple[tuple[int, int], ...], int]:
    at = buffers * BUFFER.size
    sizes: tuple[tuple[int, int], ...] = tuple(BUFFER.iter_unpack(table[:at]))
    lengths = [size for size, _ in sizes]
    entries = []
    for _ in range(tensors):
        entry, at = read_entry(table, at, lengths)
        entries.append(entry)
    return tuple(entries), sizes, sum(lengths)


class Tables:
    """Reads what follows the tensor table; checks each number against the received bytes."""

    def __init__(
        self, frames: Sequence[Buffer], at: int, limits: Limits, sender: object | None = None
    ) -> None:
        self._limits = limits
        self._sender = sender
        self._header_bytes = HEADER.size
        self._frames = frames
        self._first = frames[0]
        self._at = at
        self._frames_used = 1

    def take(self, size: int) -> Buffer:
        """Return the next `size` bytes of the first frame."""
        left = len(self._first) - self._at
        if size > left:
            raise MessageError(f"{size} bytes announced, {left} are left in the first frame")
        piece = self._first[self._at : self._at + size]
        self._at += size
        return piece

    def tangents(self, count: int, tensors: int) -> tuple[TangentEntry, ...]:
        """Return the tangent table; both tensors of each pair must be in the message."""
        table = self.take(count * TANGENT.size)
        entries = tuple([TangentEntry(*numbers) for numbers in TANGENT.iter_unpack(table)])
        for entry in entries:
            if entry.tensor >= tensors or entry.tangent >= tensors:
                raise MessageError(f"{entry} in a message of {tensors} tensors")
        return entries

    def autograd(self) -> AutogradBlock:
        """Return the autograd block."""
        context_id, message_id, pairs = AUTOGRAD_BLOCK.unpack(self.take(AUTOGRAD_BLOCK.size))
        size = pairs * DEVICE_PAIR.size
        self._count_header(AUTOGRAD_BLOCK.size + size)
        # Nearly all device maps are empty.
        device_map = tuple(DEVICE_PAIR.iter_unpack(self.take(size))) if size else ()
        return AutogradBlock(context_id, message_id, device_map)

    def metadata(self, size: int) -> dict[str, Value]:
        """Return the metadata."""
        self._count_header(size)
        return decode_metadata(bytes(self.take(size)), self._limits.nesting)

    def buffers(self, sizes: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Return the buffers. Each is writable, and only this message uses it."""
        return [
            self._join(size, frames) if frames else bytearray(self.take(size))
            for size, frames in sizes
        ]

    def require_end(self) -> None:
        """Raise MessageError for bytes that the header did not announce."""
        if self._at != len(self._first) or self._frames_used != len(self._frames):
            raise MessageError(
                f"{len(self._first) - self._at} bytes and "
                f"{len(self._frames) - self._frames_used} frames too many"
            )

    def _join(self, size: int, frames: int) -> Buffer:
        if frames >= ON_DEVICE:
            take = borrow if frames == IN_ARENA else borrow_piece
            return take(self.take(ARENA_BLOCK.size), size, self._sender)
        end = self._frames_used + frames
        pieces = self._frames[self._frames_used : end]
        came = sum(len(piece) for piece in pieces)
        if pieces and max(map(len, pieces)) > self._limits.frame_bytes:
            raise MessageError(f"a frame of more than {self._limits.frame_bytes} bytes")
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

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > self._limits.header_bytes:
            raise MessageError(
                f"a header of {self._header_bytes} bytes or more; the limit is "
                f"{self._limits.header_bytes}"
            )


# In a message with one small tensor, one entry of the buffer table and one of the tensor table
# follow the header. Both have the same bytes for all tensors of one shape, so packing and reading
# these bytes is cached. The tensor's entry has the number of dimensions in a byte at this offset:
_NDIM_AT: Final = HEADER.size + BUFFER.size + TENSOR.size - 1


def lone_table(tensor: Tensor) -> bytes | None:
    """Return the tables of a message with this tensor alone, whose data is in the first frame.

    Return None for a tensor that is large, not contiguous or not on the CPU.
    """
    layout = tensor._layout
    if not layout.contiguous or layout.device is not CPU:
        return None
    size = layout.numel * layout.dtype.itemsize
    return None if size > INLINE_BYTES else _table(whole_entry(tensor, 0), size)


def read_lone(
    first: Buffer, body_bytes: int, sender: object | None = None
) -> tuple[TensorEntry, Buffer, Buffer]:
    """Return the entry of a message's only tensor, the body, and the tensor's memory.

    Raises  MessageError, or struct.error, for a table that does not match the received bytes
    """
    if len(first) <= _NDIM_AT:
        raise MessageError(f"a table is longer than the {len(first)} bytes that came")
    at = _NDIM_AT + 1 + 16 * first[_NDIM_AT]
    size, pieces, entry = _read_table(bytes(first[HEADER.size : at]))
    end = at + body_bytes
    if not pieces and end + size == len(first):
        return entry, first[at:end], bytearray(first[end:])
    if pieces == IN_ARENA and end + ARENA_BLOCK.size == len(first):
        return entry, first[at:end], borrow(first[end:], size, sender)
    if pieces == ON_DEVICE and end + ARENA_BLOCK.size == len(first):
        return entry, first[at:end], borrow_piece(first[end:], size, sender)
    raise MessageError(
        f"a body of {body_bytes} bytes and a buffer of {size} bytes in {pieces} frames "
        f"announced, {len(first) - at} bytes came"
    )


@functools.lru_cache(1024)
def _table(entry: TensorEntry, size_bytes: int) -> bytes:
    return BUFFER.pack(size_bytes, 0) + pack_entry(entry)


@functools.lru_cache(1024)
def _read_table(table: bytes) -> tuple[int, int, TensorEntry]:
    size, pieces = BUFFER.unpack_from(table)
    entry, _ = read_entry(table, BUFFER.size, (size,))
    return size, pieces, entry
