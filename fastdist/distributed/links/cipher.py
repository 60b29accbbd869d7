"""Ciphers for records of bulk connections, from the libcrypto of Python's ssl module."""

# AES-256-GCM encrypts. If records are only authenticated, they are the associated data of an
# empty message of AES-256-GCM or ChaCha20-Poly1305. Per core, libzmq's CURVE encrypts 1.1 GB/s,
# AES-256-GCM encrypts 5.5 GB/s and authenticates 9.4 GB/s, and Poly1305 authenticates 14.4 GB/s
# (AMD EPYC, Zen 5). aegis.py has a faster algorithm. A key is used for one direction of one
# connection. The nonce of a record is a counter, so no nonce is used twice with one key.
# Sources: NIST SP 800-38D; RFC 8439.

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# The names of the algorithms that can authenticate records without encryption; GCM also encrypts.
GCM: Final = "aes-256-gcm"
POLY1305: Final = "chacha20-poly1305"

KEY_BYTES: Final = 32
TAG_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_GET_TAG: Final = 0x10
_SET_TAG: Final = 0x11
_FUNCTIONS: Final = (
    "EVP_aes_256_gcm",
    "EVP_chacha20_poly1305",
    "EVP_CIPHER_CTX_new",
    "EVP_CIPHER_CTX_free",
    "EVP_CIPHER_CTX_ctrl",
    "EVP_EncryptInit_ex",
    "EVP_EncryptUpdate",
    "EVP_EncryptFinal_ex",
    "EVP_DecryptInit_ex",
    "EVP_DecryptUpdate",
    "EVP_DecryptFinal_ex",
)
_POINTERS: Final = ("EVP_aes_256_gcm", "EVP_chacha20_poly1305", "EVP_CIPHER_CTX_new")

Bytes = NDArray[np.uint8]


class CipherError(Exception):
    """A record was changed on its way, or a library refused a key or a record."""


def why_not_viable() -> str | None:
    """Return the reason why records cannot be sealed here; None if they can."""
    return None if _library() is not None else "Python's libcrypto does not offer AES-256-GCM"


class Cipher:
    """A cipher for one direction of one connection.

    Without `encrypts`, records are not encrypted, only authenticated, by the algorithm `tags`.

    Thread  one at a time; releases the interpreter lock
    """

    tag_bytes = TAG_BYTES

    def __init__(self, key: bytes, *, encrypts: bool, seals: bool, tags: str = GCM) -> None:
        library = _library()
        if library is None or len(key) != KEY_BYTES:
            raise CipherError(why_not_viable() or f"a key of {len(key)} bytes")
        self.encrypts = encrypts
        self._library = library
        direction = "Encrypt" if seals else "Decrypt"
        self._init = getattr(library, f"EVP_{direction}Init_ex")
        self._update = getattr(library, f"EVP_{direction}Update")
        self._final = getattr(library, f"EVP_{direction}Final_ex")
        self._number = 0
        self._length = ctypes.c_int()
        self._tag = ctypes.create_string_buffer(TAG_BYTES)
        self._context = ctypes.c_void_p(library.EVP_CIPHER_CTX_new())
        kind = library.EVP_aes_256_gcm if encrypts or tags == GCM else library.EVP_chacha20_poly1305
        self._require(self._init(self._context, ctypes.c_void_p(kind()), None, key, None))

    def seal(self, head: bytes, data: Bytes, out: Bytes) -> bytes:
        """Write encrypted data to `out`, unless records are only authenticated; return the tag."""
        self._begin(head)
        self._pass(data, out)
        self._require(self._final(self._context, None, ctypes.byref(self._length)))
        control = self._library.EVP_CIPHER_CTX_ctrl
        self._require(control(self._context, _GET_TAG, TAG_BYTES, self._tag))
        return self._tag.raw

    def open(self, head: bytes, data: Bytes, tag: bytes, out: Bytes) -> None:
        """Write the decrypted data of the next record to `out`.

        Raises  CipherError if `head`, `data` or `tag` does not belong to the next record; the
                contents of `out` are then invalid
        """
        self._begin(head)
        self._pass(data, out)
        self._tag.raw = tag
        control = self._library.EVP_CIPHER_CTX_ctrl
        self._require(control(self._context, _SET_TAG, TAG_BYTES, self._tag))
        if self._final(self._context, None, ctypes.byref(self._length)) != 1:
            raise CipherError("a record is not what its sender sealed")

    def close(self) -> None:
        """Free the key; a second call has no effect."""
        context, self._context = self._context, ctypes.c_void_p()
        if context:
            self._library.EVP_CIPHER_CTX_free(context)

    def _begin(self, head: bytes) -> None:
        nonce = self._number.to_bytes(_NONCE_BYTES, "little")
        self._number += 1
        self._require(self._init(self._context, None, None, None, nonce))
        length = ctypes.byref(self._length)
        self._require(self._update(self._context, None, length, head, len(head)))

    def _pass(self, data: Bytes, out: Bytes) -> None:
        if not data.nbytes:
            return
        target = ctypes.c_void_p(out.ctypes.data) if self.encrypts else None
        source = ctypes.c_void_p(data.ctypes.data)
        length = ctypes.byref(self._length)
        self._require(self._update(self._context, target, length, source, data.nbytes))
        if not self.encrypts and out is not data:
            out[...] = data

    def _require(self, result: int) -> None:
        if result != 1:
            raise CipherError("libcrypto refused a record")


@functools.cache
def _library() -> Any:
    """Return the libcrypto that Python has loaded; None if it does not have the functions."""
    for module in ("_ssl", "_hashlib"):
        try:
            path = importlib.import_module(module).__file__
            library = ctypes.CDLL(path) if path else None
            for name in _FUNCTIONS if library is not None else ():
                function = getattr(library, name)
                function.restype = ctypes.c_void_p if name in _POINTERS else ctypes.c_int
        except (ImportError, OSError, AttributeError):
            continue
        if library is not None:
            return library
    return None
