"""Reads PyTorch's zip archives: finds the records, and validates them."""

# Note [What a file can do to its reader] The reader trusts no number in the file. The
# table and every record must be within the file, and the records together must not be larger
# than the file. So the reader never allocates more memory for records than the size of the file.
# Records are checked against their checksums as they are read. With mmap, the records of tensors
# are not checked, because a check would read all of their bytes.

from __future__ import annotations

import mmap
import struct
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.folded_frames import private_cause
from ..core.short_repr import short_repr
from ..system.page_size import Bytes, allocate_base_pages
from .checksum import Checksum
from .zip_format import (
    CENTRAL,
    CENTRAL_MAGIC,
    ENCRYPTED,
    END,
    END64,
    END64_LOCATOR,
    END64_LOCATOR_MAGIC,
    END64_MAGIC,
    END_MAGIC,
    LARGE,
    LOCAL,
    LOCAL_MAGIC,
    MANY,
    ZIP64_TAG,
)

# An archive may end with a comment of at most this many bytes.
_MOST_COMMENT: Final = 0xFFFF
_PIECE_BYTES: Final = 16 << 20


class ArchiveError(RuntimeError):
    """The file is damaged, or is not a PyTorch archive."""


class Entry(NamedTuple):
    """One record: the start of its header, its size and checksum, and whether it is neither
    compressed nor encrypted.
    """

    start: int
    size: int
    checksum: int
    is_plain: bool


class Archive:
    """The records of an open file, from its current position to its end.

    Raises  ArchiveError, from the constructor and all methods
    Thread  not thread-safe, because reading moves the file's position
    """

    def __init__(self, file: Any, called: str, mapped: mmap.mmap | None = None) -> None:
        self._file = file
        self._called = called
        self._mapped = mapped
        self._origin = file.tell()
        self._size: int = file.seek(0, 2) - self._origin
        self._entries = self._read_table()
        folders = {name.partition("/")[0] for name in self._entries}
        if len(folders) != 1 or any("/" not in name for name in self._entries):
            raise self._broken(
                "its records are not in one folder: it is another kind of zip archive"
            )
        self._folder = folders.pop()

    def __contains__(self, record: str) -> bool:
        return f"{self._folder}/{record}" in self._entries

    @property
    def nbytes(self) -> int:
        """The number of bytes from the start of the archive to the end of the file."""
        return self._size

    def text(self, record: str, most: int = 64) -> str:
        """Return the text of a record, which must have at most `most` bytes."""
        entry = self._entry(record)
        if entry.size > most:
            raise self._broken(f"its record {short_repr(record)} holds {entry.size} bytes")
        return self.read(record).tobytes().decode("ascii", "replace")

    def size(self, record: str) -> int:
        """Return the size of a record in bytes."""
        return self._entry(record).size

    def checksum(self, record: str) -> int:
        """Return the stored checksum of a record."""
        return self._entry(record).checksum

    def read(self, record: str) -> Bytes:
        """Return a copy of a record's bytes. If the file is mapped, return a view instead for the
        record of a storage: its bytes are read on access.
        """
        entry = self._entry(record)
        start = self._data_start(record, entry)
        if self._mapped is not None and record.startswith("data/"):
            return np.ndarray((entry.size,), np.uint8, self._mapped, start)
        data = allocate_base_pages(entry.size)
        view = data.data
        self._file.seek(self._origin + start)
        done = 0
        with Checksum(entry.size) as sum_up:
            while done < entry.size:
                part = view[done : done + _PIECE_BYTES]
                count = self._read_into(part)
                sum_up.add(part[:count])
                done += count
        checksum = sum_up.value
        if checksum != entry.checksum:
            raise self._broken(
                f"the checksum of its record {short_repr(record)} is {checksum:#010x} and "
                "should be "
                f"{entry.checksum:#010x}: some bits have changed since it was written"
            )
        return data

    def _entry(self, record: str) -> Entry:
        entry = self._entries.get(f"{self._folder}/{record}")
        if entry is None:
            raise self._broken(f"it has no record {short_repr(record)}")
        if not entry.is_plain:
            raise self._broken(
                f"its record {short_repr(record)} is compressed or encrypted; unpack it, and "
                "zip it without"
            )
        return entry

    def _data_start(self, record: str, entry: Entry) -> int:
        header = self._bytes(entry.start, LOCAL.size)
        magic, _, _, method, _, _, _, _, _, name_length, extra_length = LOCAL.unpack(header)
        if magic != LOCAL_MAGIC or method:
            raise self._broken(f"there is no record where {short_repr(record)} should begin")
        start: int = entry.start + LOCAL.size + name_length + extra_length
        if start + entry.size > self._size:
            raise self._broken(f"its record {short_repr(record)} ends behind the end of the file")
        return start

    def _read_into(self, view: memoryview) -> int:
        read_into = getattr(self._file, "readinto", None)
        if read_into is not None:
            count: int = read_into(view)
        else:
            found = self._file.read(len(view))
            count = len(found)
            view[:count] = found
        if not count:
            raise self._broken("it ends in the middle of a record")
        return count

    def _bytes(self, start: int, size: int) -> bytes:
        if start < 0 or start + size > self._size:
            raise self._broken("it ends before its table of records does")
        self._file.seek(self._origin + start)
        found: bytes = self._file.read(size)
        if len(found) != size:
            raise self._broken("it ends before its table of records does")
        return found

    def _read_table(self) -> dict[str, Entry]:
        count, size, start = self._find_table()
        if count * CENTRAL.size > size:
            raise self._broken(f"{count} records do not fit into a table of {size} bytes")
        table = self._bytes(start, size)
        entries: dict[str, Entry] = {}
        at = 0
        try:
            for _ in range(count):
                at = self._read_entry(table, at, entries)
        except (struct.error, UnicodeDecodeError) as error:
            raise self._broken("its table of records is damaged") from private_cause(error)
        if (
            sum(one.size for one in entries.values() if one.is_plain) > self._size
            or len(entries) != count
        ):
            raise self._broken("its records overlap, or one is named twice")
        if not entries:
            raise self._broken("it is an empty zip archive")
        return entries

    def _find_table(self) -> tuple[int, int, int]:
        """Return the number of records, and the size and offset of the table."""
        tail_size = min(self._size, END.size + _MOST_COMMENT)
        tail = self._bytes(self._size - tail_size, tail_size)
        at = tail.rfind(END_MAGIC)
        if at < 0 or at + END.size > len(tail):
            raise self._broken("failed finding central directory: its end is missing")
        _, _, _, _, count, size, start, _ = END.unpack_from(tail, at)
        locator = at - END64_LOCATOR.size
        if locator >= 0 and tail.startswith(END64_LOCATOR_MAGIC, locator):
            place = END64_LOCATOR.unpack_from(tail, locator)[2]
            found = END64.unpack(self._bytes(place, END64.size))
            if found[0] != END64_MAGIC:
                raise self._broken("failed finding central directory: it is not where it should be")
            count, size, start = found[7:]
        elif count == MANY or LARGE in (size, start):
            raise self._broken("failed finding central directory: its long form is missing")
        return count, size, start

    def _read_entry(self, table: bytes, at: int, entries: dict[str, Entry]) -> int:
        fields = CENTRAL.unpack_from(table, at)
        magic, _, _, flags, method, _, _, checksum, packed, size = fields[:10]
        name_length, extra_length, comment_length = fields[10:13]
        start = fields[16]
        at += CENTRAL.size
        name = table[at : at + name_length].decode()
        extra = table[at + name_length : at + name_length + extra_length]
        if magic != CENTRAL_MAGIC or len(extra) != extra_length:
            raise self._broken("its table of records is damaged")
        if LARGE in (size, packed, start):
            size, packed, start = _long_numbers(extra, size, packed, start)
        is_plain = not method and not flags & ENCRYPTED and packed == size
        entries[name] = Entry(start, size, checksum, is_plain)
        end: int = at + name_length + extra_length + comment_length
        return end

    def _broken(self, why: str) -> ArchiveError:
        return ArchiveError(
            f"PytorchStreamReader failed reading zip archive: {why}; {self._called} was cut off, "
            "changed on its way, or is not a file of save()"
        )


def _long_numbers(extra: bytes, size: int, packed: int, start: int) -> list[int]:
    """Return the last three arguments; those equal to LARGE are read from the zip64 extra field."""
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, at)
        at += 4
        if tag == ZIP64_TAG:
            found = []
            for number in (size, packed, start):
                if number == LARGE:
                    (number,) = struct.unpack_from("<Q", extra, at)
                    at += 8
                found.append(number)
            return found
        at += length
    return [size, packed, start]
