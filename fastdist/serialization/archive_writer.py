"""Writes a zip archive record by record, from front to back, using only write()."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Any, Final

from .checksum import Checksum
from .zip_format import (
    ALIGNMENT,
    CENTRAL,
    CENTRAL_MAGIC,
    DESCRIPTOR_MAGIC,
    END,
    END64,
    END64_LOCATOR,
    END64_LOCATOR_MAGIC,
    END64_MAGIC,
    END_MAGIC,
    FILLER,
    FILLER_TAG,
    FLAGS,
    LARGE,
    LOCAL,
    LOCAL_MAGIC,
    MANY,
    ZIP64_TAG,
)

# Data is written and checksummed in pieces of this size, so that both can run in parallel.
_PIECE_BYTES: Final = 16 << 20


class ArchiveWriter:
    """An archive whose records are all in one folder, `name`, as PyTorch requires.

    Thread  not thread-safe
    """

    def __init__(self, write: Callable[[Any], Any], name: str) -> None:
        self._write = write
        self._name = name
        self._at = 0
        self._directory: list[bytes] = []
        self._names_hash = hashlib.blake2b(digest_size=8)
        self._data_hash = hashlib.blake2b(digest_size=8)

    def add(self, record: str, data: Any) -> None:
        """Write one record; `data` is an object with the buffer interface."""
        view = memoryview(data).cast("B") if len(data) else b""
        size, start = len(view), self._at
        name = f"{self._name}/{record}".encode()
        extra = self._filler(len(name), size)
        header = LOCAL.pack(LOCAL_MAGIC, 0, FLAGS, 0, 0, 0, 0, 0, 0, len(name), len(extra))
        self._put(header + name + extra)
        with Checksum(size) as sum_up:
            for piece in range(0, size, _PIECE_BYTES):
                part = view[piece : piece + _PIECE_BYTES]
                sum_up.add(part)
                self._put(part)
        checksum = sum_up.value
        lengths = "<4sIQQ" if size >= LARGE else "<4sIII"
        self._put(struct.pack(lengths, DESCRIPTOR_MAGIC, checksum, size, size))
        self._enter(name, checksum, size, start)

    def _put(self, data: Any) -> None:
        self._write(data)
        self._at += len(data)

    def _filler(self, name_length: int, size: int) -> bytes:
        """Return the extra field of a record's header; it pads the header to align the data."""
        extra = struct.pack("<2H2Q", ZIP64_TAG, 16, size, size) if size >= LARGE else b""
        # The extra field's own header takes four bytes; the data follows it.
        gap = -(self._at + LOCAL.size + name_length + len(extra) + 4) % ALIGNMENT
        return extra + FILLER_TAG + struct.pack("<H", gap) + FILLER * gap

    def _enter(self, name: bytes, checksum: int, size: int, start: int) -> None:
        extra = b"".join(number.to_bytes(8, "little") for number in _too_large(size, size, start))
        if extra:
            extra = struct.pack("<2H", ZIP64_TAG, len(extra)) + extra
        size_32, start_32 = min(size, LARGE), min(start, LARGE)
        lengths = (len(name), len(extra), 0, 0, 0, 0, start_32)
        entry = (CENTRAL_MAGIC, 0, 0, FLAGS, 0, 0, 0, checksum, size_32, size_32, *lengths)
        self._directory.append(CENTRAL.pack(*entry) + name + extra)
        self._names_hash.update(name + b"\0")
        self._data_hash.update(checksum.to_bytes(4, "little"))

    def finish(self) -> None:
        """Write the archive's id, which is a hash of the content, and the table of all records."""
        parts = (self._names_hash, self._data_hash)
        numbers = [int.from_bytes(part.digest(), "little") for part in parts]
        self.add(".data/serialization_id", "".join(f"{n:020d}" for n in numbers).encode())
        start = self._at
        self._put(b"".join(self._directory))
        count, size, end = len(self._directory), self._at - start, self._at
        counts = (count, count, size, start)
        self._put(END64.pack(END64_MAGIC, END64.size - 12, 0x031E, 45, 0, 0, *counts))
        self._put(END64_LOCATOR.pack(END64_LOCATOR_MAGIC, 0, end, 1))
        short = min(count, MANY)
        ends = (0, 0, short, short, min(size, LARGE), min(start, LARGE), 0)
        self._put(END.pack(END_MAGIC, *ends))


def _too_large(*numbers: int) -> list[int]:
    return [number for number in numbers if number >= LARGE]
