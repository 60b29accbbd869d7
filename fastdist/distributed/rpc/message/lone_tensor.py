"""Messages with one small tensor, which most calls are: the short way out and in."""

from __future__ import annotations

import functools
from typing import Final

from fastdist.core.device import CPU
from fastdist.core.errors import MessageError
from fastdist.distributed.arena.borrower import borrow
from fastdist.distributed.arena.layout import ARENA_BLOCK
from fastdist.distributed.pipe.frames import Buffer
from fastdist.tensor.tensor import Tensor

from .layout import BUFFER, HEADER, IN_ARENA, INLINE_BYTES, TENSOR, TensorEntry
from .tables import pack_entry, read_entry
from .tensors import whole_entry

# What follows the header, a buffer's entry and a tensor's, is the same for all tensors of a shape:
# it is made once and read once. Where the number of dimensions stands, at the end of it:
_NDIM_AT: Final = HEADER.size + BUFFER.size + TENSOR.size - 1


def lone_table(tensor: Tensor) -> bytes | None:
    """Return the table of a message with this tensor alone, whose bytes go into its first frame.

    None for a tensor that is large, or needs more than its bytes to be copied
    """
    layout = tensor.facts
    if not layout.contiguous or layout.device is not CPU:
        return None
    size = layout.numel * layout.dtype.itemsize
    return None if size > INLINE_BYTES else _table(whole_entry(tensor, 0), size)


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
