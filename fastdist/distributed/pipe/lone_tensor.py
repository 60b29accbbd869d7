"""Messages with one small tensor, which most calls are: the short way out and in."""

from __future__ import annotations

import functools
from typing import Any, Final

from fastdist.core.errors import MessageError

from .message_layout import (
    ARENA_BLOCK,
    BUFFER,
    HEADER,
    IN_ARENA,
    TENSOR,
    VERSION,
    Buffer,
    TensorEntry,
)
from .message_tables import borrow, pack_entry, read_entry

# What follows the header, a buffer's entry and a tensor's, is the same for all tensors of a shape:
# it is made once and read once. Where the number of dimensions stands, at the end of it:
_NDIM_AT: Final = HEADER.size + BUFFER.size + TENSOR.size - 1


def encode_lone(
    type: int,
    message_id: int,
    source: int,
    incarnation: int,
    body: bytes,
    encoding: int,
    timeout_ms: int,
    entry: TensorEntry,
    size_bytes: int,
    data: Any,
) -> list[Buffer]:
    """Return the frames of a message with one tensor that takes size_bytes in the first frame."""
    header = HEADER.pack(
        VERSION, encoding, type, 0, incarnation, message_id, source, timeout_ms,
        1, 1, len(body), 0, 0, 0, 0,
    )  # fmt: skip
    return [b"".join((header, _table(entry, size_bytes), body, data))]


def read_lone(first: Buffer, body_bytes: int) -> tuple[TensorEntry, Buffer, Buffer]:
    """Return the entry of the only tensor, the body, and the tensor's memory.

    Raises  MessageError, or struct.error, for what does not fit the bytes that came
    """
    if len(first) <= _NDIM_AT:
        raise MessageError(f"a table is longer than the {len(first)} bytes that came")
    at = _NDIM_AT + 1 + 16 * first[_NDIM_AT]
    size, pieces, entry = _read_table(bytes(first[HEADER.size : at]))
    end = at + body_bytes
    if not pieces and end + size == len(first):
        return entry, first[at:end], bytearray(first[end:])
    if pieces == IN_ARENA and end + ARENA_BLOCK.size == len(first):
        return entry, first[at:end], borrow(first[end:], size)
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
