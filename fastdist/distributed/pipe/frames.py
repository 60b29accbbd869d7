"""Frames: the pieces of bytes in which a message travels, and all that the pipe reads of them."""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

# Whoever packs messages says in the first frame whether others follow: by how many tensors and how
# many buffers there are, and by how many frames the first buffer takes. See message/layout.py.
COUNTS: Final = slice(36, 44)
FIRST_PIECES: Final = slice(72, 76)
_NO_COUNTS, _ONE_EACH = bytes(8), struct.pack("<II", 1, 1)


def is_alone(first: Buffer) -> bool:
    """Return whether the first frame of a message says that no other follows it."""
    counts = first[COUNTS]
    return counts == _NO_COUNTS or (counts == _ONE_EACH and not any(first[FIRST_PIECES]))
