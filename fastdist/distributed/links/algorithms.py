"""The algorithms that seal records: which a member has, and which all members agree on."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import numpy as np

from .aegis import Aegis
from .cipher import GCM, KEY_BYTES, POLY1305, Bytes, Cipher, CipherError

AEGIS: Final = "aegis-128l"
# All members that seal records have it.
_EVERYWHERE: Final = GCM
# How often, and with how much data, each algorithm is tried for its time: 1 ms for all of them. The
# first trials are slow, and smaller ones are too close to each other.
_TRIALS: Final = 6
_TRIAL_BYTES: Final = 256 << 10


class Seals(Protocol):
    """A cipher that seals, or opens, records of one direction of a connection: see `Cipher`."""

    encrypts: bool
    tag_bytes: int

    def seal(self, head: bytes, data: Bytes, out: Bytes) -> bytes:
        """Write the sealed data to out, unless it goes as it is; return the tag of both."""

    def open(self, head: bytes, data: Bytes, tag: bytes, out: Bytes) -> None:
        """Write what was sealed as data to out."""

    def close(self) -> None:
        """Free the key."""


def new_cipher(algorithm: str, key: bytes, *, encrypts: bool, seals: bool) -> Seals:
    """Return the cipher that seals, or opens, with an algorithm.

    Raises  CipherError where the libraries of this process do not have it
    """
    if algorithm == AEGIS:
        return Aegis(key, encrypts=encrypts)
    return Cipher(key, encrypts=encrypts, seals=seals, tags=algorithm)


@functools.cache
def fastest_first(*, encrypts: bool) -> str:
    """Return the names of the algorithms that encrypt here, or only authenticate, with commas."""
    took = {}
    for algorithm in (AEGIS, GCM) if encrypts else (AEGIS, POLY1305, GCM):
        data = np.zeros(_TRIAL_BYTES, np.uint8)
        out = np.empty_like(data) if encrypts else data
        try:
            cipher = new_cipher(algorithm, bytes(KEY_BYTES), encrypts=encrypts, seals=True)
        except CipherError:
            continue  # an older libsodium; a libcrypto for FIPS has no ChaCha20
        trials = []
        for _ in range(_TRIALS):
            began = time.perf_counter()
            cipher.seal(b"", data, out)
            trials.append(time.perf_counter() - began)
        cipher.close()
        took[algorithm] = min(trials)
    return ",".join(sorted(took, key=took.__getitem__))


def agreed(orders: Iterable[str]) -> str:
    """Return the algorithm of a group, from what `fastest_first` returned to each member.

    All members have it, and it is nowhere slower than it must be; the first member decides between
    equals.
    """
    each: Sequence[list[str]] = [order.split(",") for order in orders]
    common = [one for one in each[0] if one and all(one in order for order in each)]
    return min(common, key=lambda one: max(order.index(one) for order in each), default=_EVERYWHERE)
