"""Frames: the contiguous pieces of a message's bytes, and the few fields that the pipe reads."""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

# The first frame of a message shows whether other frames follow. At COUNTS it contains the number
# of tensors and the number of buffers; at FIRST_PIECES, the number of frames of the first buffer.
# See message/layout.py.
COUNTS: Final = slice(36, 44)
FIRST_PIECES: Final = slice(72, 76)
_NO_COUNTS, _ONE_EACH = bytes(8), struct.pack("<II", 1, 1)


def is_alone(first: Buffer) -> bool:
    """Return whether the first frame of a message says that no further frame follows."""
    counts = first[COUNTS]
    return counts == _NO_COUNTS or (counts == _ONE_EACH and not any(first[FIRST_PIECES]))
