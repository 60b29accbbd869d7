"""Checksums of large records, computed in parallel with reading or writing them."""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final

# For larger records, one piece is checksummed in a thread while the next is read or written.
_WORTH_A_THREAD: Final = 32 << 20


class Checksum:
    """The CRC-32 of consecutive pieces; `value` is complete when the `with` block has ended.

    Thread  not thread-safe. Another thread checksums the pieces of a large record, so the pieces
            must not change before the `with` block ends
    """

    def __init__(self, size: int) -> None:
        self.value = 0
        self._pool = ThreadPoolExecutor(1, "fastdist-checksum") if size > _WORTH_A_THREAD else None

    def add(self, piece: Any) -> None:
        """Add the next piece."""
        if self._pool is None:
            self._take(piece)
        else:
            self._pool.submit(self._take, piece)

    def _take(self, piece: Any) -> None:
        self.value = zlib.crc32(piece, self.value)

    def __enter__(self) -> Checksum:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=error is not None)
