"""The ciphers of records: which ones a member has, and which one a group uses."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import numpy as np

from .aegis import Aegis
from .cipher import GCM, KEY_BYTES, POLY1305, Bytes, Cipher, CipherError

AEGIS: Final = "aegis-128l"
# All members that can seal records have this algorithm.
_EVERYWHERE: Final = GCM
# The number and size of an algorithm's trials, which take 1 ms for all algorithms. The first trials
# are slow, and smaller ones could not be distinguished.
_TRIALS: Final = 6
_TRIAL_BYTES: Final = 256 << 10


class Seals(Protocol):
    """A cipher that seals or opens records in one direction of a connection: see `Cipher`."""

    encrypts: bool
    tag_bytes: int

    def seal(self, head: bytes, data: Bytes, out: Bytes) -> bytes:
        """Write encrypted data to out, unless records are only authenticated; return the tag."""

    def open(self, head: bytes, data: Bytes, tag: bytes, out: Bytes) -> None:
        """Write the decrypted data to out."""

    def close(self) -> None:
        """Clear the key."""


def new_cipher(algorithm: str, key: bytes, *, encrypts: bool, seals: bool) -> Seals:
    """Return a cipher with an algorithm, which either seals or opens.

    Raises  CipherError if the libraries of this process do not have the algorithm
    """
    if algorithm == AEGIS:
        return Aegis(key, encrypts=encrypts)
    return Cipher(key, encrypts=encrypts, seals=seals, tags=algorithm)


@functools.cache
def fastest_first(*, encrypts: bool) -> str:
    """Return comma-separated names of the algorithms here, for encryption or only
    authentication.
    """
    took = {}
    for algorithm in (AEGIS, GCM) if encrypts else (AEGIS, POLY1305, GCM):
        data = np.zeros(_TRIAL_BYTES, np.uint8)
        out = np.empty_like(data) if encrypts else data
        try:
            cipher = new_cipher(algorithm, bytes(KEY_BYTES), encrypts=encrypts, seals=True)
        except CipherError:
            continue  # an older libsodium, or a FIPS libcrypto without ChaCha20
        trials = []
        for _ in range(_TRIALS):
            began = time.perf_counter()
            cipher.seal(b"", data, out)
            trials.append(time.perf_counter() - began)
        cipher.close()
        took[algorithm] = min(trials)
    return ",".join(sorted(took, key=took.__getitem__))


def agreed(orders: Iterable[str]) -> str:
    """Return the algorithm of a group, from the result of `fastest_first` on each member.

    It is an algorithm of all members. The choice minimises the worst position in any member's
    order, and between equals uses the first member's order.
    """
    each: Sequence[list[str]] = [order.split(",") for order in orders]
    common = [one for one in each[0] if one and all(one in order for order in each)]
    return min(common, key=lambda one: max(order.index(one) for order in each), default=_EVERYWHERE)
