"""Reads an untrusted file from front to back, and never beyond its end."""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any, Final

import numpy as np

from ..system.page_size import Bytes, allocate_base_pages

_BUFFER_BYTES: Final = 1 << 16
_LONGEST_LINE: Final = 1 << 16


class ByteStream:
    """The bytes of a file object from position `start` to position `end`.

    Raises  UnpicklingError, from all reading methods, if fewer bytes are left than requested
    Thread  not thread-safe, because reading moves the file's position
    """

    def __init__(self, file: Any, start: int, end: int) -> None:
        self.at = start
        self.end = end
        self._file = file
        self._buffer = b""
        self._buffer_start = start

    @property
    def left(self) -> int:
        """The number of bytes after the current position."""
        return self.end - self.at

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        if not 0 <= size <= self.left:
            raise UnpicklingError(f"{size} bytes should follow, and {self.left} are left")
        if size > _BUFFER_BYTES:
            found = self.data(self.at, size).tobytes()
            self.at += size
            return found
        first = self.at - self._buffer_start
        if not 0 <= first <= len(self._buffer) - size:
            self._fill()
            first = 0
        self.at += size
        return self._buffer[first : first + size]

    def readline(self) -> bytes:
        """Return the bytes up to and including the next newline."""
        for size in (256, _LONGEST_LINE):
            start, some = self.at, self.read(min(size, self.left))
            end = some.find(b"\n") + 1
            if end:
                self.at = start + end
                return some[:end]
            self.at = start
        raise UnpicklingError("a name is cut off, or far too long")

    def skip(self, size: int) -> None:
        """Skip the next `size` bytes."""
        if not 0 <= size <= self.left:
            raise UnpicklingError(f"{size} bytes should follow, and {self.left} are left")
        self.at += size

    def data(self, start: int, size: int) -> Bytes:
        """Return a copy of `size` bytes from position `start` of the file on."""
        if not (start >= 0 and 0 <= size <= self.end - start):
            raise UnpicklingError(f"{size} bytes should lie at byte {start} of {self.end}")
        data = allocate_base_pages(size)
        self._file.seek(start)
        _read_into(self._file, data.data)
        return data

    def _fill(self) -> None:
        room = bytearray(min(_BUFFER_BYTES, self.left))
        self._file.seek(self.at)
        _read_into(self._file, memoryview(room))
        self._buffer, self._buffer_start = bytes(room), self.at


def _read_into(file: Any, room: memoryview) -> None:
    """Fill a buffer with the next bytes of a file object.

    Raises  UnpicklingError if the file ends first
    """
    read_into = getattr(file, "readinto", None)
    done = 0
    while done < len(room):
        part = room[done : done + (16 << 20)]
        if read_into is not None:
            count = read_into(part)
        else:
            found = file.read(len(part))
            count = len(found)
            part[:count] = np.frombuffer(found, np.uint8).data
        if not count:
            raise UnpicklingError("the file is shorter than it was when it was opened")
        done += count
