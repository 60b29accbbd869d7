"""The ciphers of records: which algorithms a member has, and which one a group uses."""

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
# The number of an algorithm's trials, and the size of each in bytes. All trials together take 1 ms.
# There are several, because the first ones are slow. In smaller trials, the times of the algorithms
# could not be told apart.
_TRIALS: Final = 6
_TRIAL_BYTES: Final = 256 << 10


class Seals(Protocol):
    """A cipher that seals or opens records in one direction of a connection: see `Cipher`."""

    encrypts: bool
    tag_bytes: int

    def seal(self, head: bytes, data: Bytes, out: Bytes) -> bytes:
        """Write encrypted data to `out`, unless records are only authenticated; return the tag."""

    def open(self, head: bytes, data: Bytes, tag: bytes, out: Bytes) -> None:
        """Write the decrypted data to `out`."""

    def close(self) -> None:
        """Clear the key."""


def new_cipher(algorithm: str, key: bytes, *, encrypts: bool, seals: bool) -> Seals:
    """Return a cipher that uses the algorithm. It either seals records or opens them.

    Raises  CipherError if the libraries of this process do not have the algorithm
    """
    if algorithm == AEGIS:
        return Aegis(key, encrypts=encrypts)
    return Cipher(key, encrypts=encrypts, seals=seals, tags=algorithm)


@functools.cache
def fastest_first(*, encrypts: bool) -> str:
    """Return the names of this process's algorithms, separated by commas and ordered by speed. With
    `encrypts` these can encrypt; otherwise they only authenticate.
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
    """Return the algorithm of a group. `orders` has the results of `fastest_first` on all members.

    The algorithm is one that all members have. Its worst position in any member's order is as good
    as possible. If several algorithms are equally good, the first member's order decides.
    """
    each: Sequence[list[str]] = [order.split(",") for order in orders]
    common = [one for one in each[0] if one and all(one in order for order in each)]
    return min(common, key=lambda one: max(order.index(one) for order in each), default=_EVERYWHERE)
