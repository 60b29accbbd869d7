"""SHA-256 and functions made with it, without OpenSSL.

`hashlib` loads OpenSSL's library. It would take 3.4 MB of resident memory in every worker, for a
few digests at start. CPython has another SHA-256 implementation, which the standard module `random`
also uses to avoid OpenSSL.
"""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 12):
    try:
        from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:  # a Python built without _sha2
        from hashlib import sha256
else:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from hashlib import sha256

__all__ = ["hmac_sha256", "sha256"]

_BLOCK_BYTES = 64
# Tables for bytes.translate that combine each byte of a key with a constant by XOR.
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    """Return the HMAC-SHA-256 of a message, 32 bytes that only owners of the key can compute.

    Source  RFC 2104, FIPS 180-4
    """
    if len(key) > _BLOCK_BYTES:
        key = _digest(key)
    padded = key.ljust(_BLOCK_BYTES, b"\0")
    return _digest(padded.translate(_OUTER) + _digest(padded.translate(_INNER) + message))


def _digest(data: bytes) -> bytes:
    made: Any = sha256(data)
    return bytes(made.digest())
