"""Thousands of corrupted messages, made from a seed, and a bound on the memory to read them."""

from __future__ import annotations

import random
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager

# Numbers at which checks of sizes, counts and offsets are likely to fail.
EDGES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


class Mutator:
    """Corrupts data differently in each call; a seed determines the sequence of corruptions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def break_bytes(self, whole: bytes) -> bytes:
        """Return the bytes with one to three errors."""
        broken = bytearray(whole)
        for _ in range(self.random.randint(1, 3)):
            self.random.choice(
                (self._flip, self._number, self._number, self._cut, self._grow, self._repeat)
            )(broken)
        return bytes(broken)

    def break_frames(self, frames: list[bytes]) -> list[bytes]:
        """Return the frames with one of them corrupted, missing, repeated or out of order."""
        broken = list(frames)
        at = self.random.randrange(len(broken))
        kind = self.random.random()
        if kind < 0.85:
            broken[at] = self.break_bytes(broken[at])
        elif kind < 0.9:
            del broken[at]
        elif kind < 0.95:
            broken.insert(at, self.random.choice(broken))
        else:
            self.random.shuffle(broken)
        return broken

    def _place(self, broken: bytearray) -> int:
        # Half of the errors go into the first 96 bytes, since errors in headers have the largest
        # effect.
        end = min(len(broken), 96) if self.random.random() < 0.5 else len(broken)
        return self.random.randrange(end) if end else 0

    def _flip(self, broken: bytearray) -> None:
        if broken:
            broken[self._place(broken)] ^= 1 << self.random.randrange(8)

    def _number(self, broken: bytearray) -> None:
        code, bits = self.random.choice((("B", 8), ("<H", 16), ("<I", 32), ("<Q", 64)))
        value = self.random.choice((self.random.choice(EDGES), self.random.getrandbits(bits)))
        packed = struct.pack(code, value & (1 << bits) - 1)
        at = self._place(broken)
        broken[at : at + len(packed)] = packed

    def _cut(self, broken: bytearray) -> None:
        at = self._place(broken)
        del broken[at : at + self.random.choice((1, 2, 4, 8, len(broken)))]

    def _grow(self, broken: bytearray) -> None:
        at = self._place(broken)
        broken[at:at] = self.random.randbytes(self.random.choice((1, 2, 4, 8, 64)))

    def _repeat(self, broken: bytearray) -> None:
        at = self._place(broken)
        piece = broken[at : at + self.random.choice((1, 4, 8, 32))]
        broken[at:at] = piece * self.random.choice((1, 2, 50))


@contextmanager
def bounded_memory(more_bytes: int = 256 << 20) -> Iterator[None]:
    """Allow this process at most `more_bytes` of additional address space.

    Code that allocates an unchecked size then fails with MemoryError.
    """
    with open("/proc/self/statm", encoding="ascii") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + more_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
