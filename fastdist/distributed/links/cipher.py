"""Seals for records of bulk connections, by the libcrypto of Python's own ssl module."""

# AES-256-GCM encrypts. Where records are authenticated alone, their bytes are the associated data
# of an empty message: of AES-256-GCM, or of ChaCha20-Poly1305. libzmq's CURVE encrypts 1.1 GB/s a
# core; AES-256-GCM 5.5, and authenticates 9.4; Poly1305 14.4 (AMD EPYC, Zen 5). aegis.py has a
# faster one. A key serves one direction of one connection, and its nonces are a
# counter, so that no nonce is used twice.
# Sources: NIST SP 800-38D; RFC 8439.

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# The algorithms that authenticate records without encrypting them.
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
    """A record that is not what its sender sealed, or a libcrypto that refuses."""


def why_not_viable() -> str | None:
    """Return the reason for which records cannot be sealed here; None if they can."""
    return None if _library() is not None else "Python's libcrypto does not offer AES-256-GCM"


class Cipher:
    """One direction of one connection.

    Without `encrypts` records are authenticated with `tags`, and go as they are.

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
        """Write the sealed data to out, unless it goes as it is; return the tag of both."""
        self._begin(head)
        self._pass(data, out)
        self._require(self._final(self._context, None, ctypes.byref(self._length)))
        control = self._library.EVP_CIPHER_CTX_ctrl
        self._require(control(self._context, _GET_TAG, TAG_BYTES, self._tag))
        return self._tag.raw

    def open(self, head: bytes, data: Bytes, tag: bytes, out: Bytes) -> None:
        """Write what was sealed as data to out.

        Raises  CipherError if head, data or tag are not those of the next record; `out` then holds
                rubbish
        """
        self._begin(head)
        self._pass(data, out)
        self._tag.raw = tag
        control = self._library.EVP_CIPHER_CTX_ctrl
        self._require(control(self._context, _SET_TAG, TAG_BYTES, self._tag))
        if self._final(self._context, None, ctypes.byref(self._length)) != 1:
            raise CipherError("a record is not what its sender sealed")

    def close(self) -> None:
        """Free the key; a second time does nothing."""
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
    """Return libcrypto as Python has loaded it; None where its functions are not to be found."""
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
