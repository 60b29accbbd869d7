"""AEGIS-128L: the draft's test vectors, and accepted and rejected records.

These tests need the libsodium of pyzmq's wheels, or another libsodium of version 1.0.19 or later.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from fastdist.distributed.links import aegis
from fastdist.distributed.links.aegis import Aegis
from fastdist.distributed.links.cipher import KEY_BYTES, CipherError

HEAD = b"head of a record"


def pair(*, encrypts: bool) -> tuple[Aegis, Aegis]:
    key = os.urandom(KEY_BYTES)
    return Aegis(key, encrypts=encrypts), Aegis(key, encrypts=encrypts)


def test_the_numbers_are_those_of_the_draft() -> None:
    """The draft's first vector for AEGIS-128L, with an empty head and a 16-byte key."""
    sealing = Aegis(bytes.fromhex("1001" + "00" * 30), encrypts=True)
    sealing._number = int.from_bytes(bytes.fromhex("100002" + "00" * 13), "little")
    out = np.empty(16, np.uint8)
    tag = sealing.seal(b"", np.zeros(16, np.uint8), out)
    assert out.tobytes().hex() == "c1c0e58bd913006feba00f4b3cc3594e"
    assert tag.hex() == "25835bfbb21632176cf03840687cb968cace4617af1bd0f7d064c639a5c79ee4"


@pytest.mark.parametrize("encrypts", [True, False])
@pytest.mark.parametrize("size", [0, 1, 1000])
@pytest.mark.parametrize("head", [b"", HEAD, HEAD * 10])
def test_records_are_opened_in_their_order(encrypts: bool, size: int, head: bytes) -> None:
    sealing, opening = pair(encrypts=encrypts)
    tags = set()
    for number in range(3):
        data = np.full(size, number, np.uint8)
        sealed = np.empty(size, np.uint8) if encrypts else data
        tag = sealing.seal(head, data, sealed)
        tags.add(tag)
        assert len(tag) == Aegis.tag_bytes
        if size != 1:  # a single encrypted byte may equal its plaintext
            assert (sealed.tobytes() == data.tobytes()) == (not encrypts or not size)
        out = np.full(size, 9, np.uint8)
        opening.open(head, sealed, tag, out)
        assert (out == number).all()
    assert len(tags) == 3
    for one in (sealing, opening):
        one.close()
        one.close()
        with pytest.raises(CipherError, match="closed"):
            one.seal(head, data, data)


@pytest.mark.parametrize("encrypts", [True, False])
@pytest.mark.parametrize("change", ["data", "tag", "short tag", "head", "order", "key"])
def test_a_record_that_is_changed_or_repeated_is_refused(encrypts: bool, change: str) -> None:
    sealing, opening = pair(encrypts=encrypts)
    data = np.arange(100, dtype=np.uint8)
    sealed, out = data.copy(), np.zeros(100, np.uint8)
    tag, head = sealing.seal(HEAD, data, sealed), HEAD
    if change == "data":
        sealed[50] ^= 1
    elif change == "tag":
        tag = bytes([*tag[:-1], tag[-1] ^ 1])
    elif change == "short tag":
        tag = tag[:16]
    elif change == "head":
        head = HEAD[::-1]
    elif change == "order":
        opening.open(HEAD, sealed, tag, np.empty(100, np.uint8))
    else:
        opening = Aegis(os.urandom(KEY_BYTES), encrypts=encrypts)
    with pytest.raises(CipherError, match="not what its sender sealed"):
        opening.open(head, sealed, tag, out)
    assert not out.any()


def test_what_encrypts_and_what_only_authenticates_open_nothing_of_each_other() -> None:
    key, data = os.urandom(KEY_BYTES), np.ones(100, np.uint8)
    sealed = np.empty_like(data)
    tag = Aegis(key, encrypts=True).seal(HEAD, data, sealed)
    with pytest.raises(CipherError, match="not what its sender sealed"):
        Aegis(key, encrypts=False).open(HEAD, sealed, tag, data)


def test_a_key_of_another_size_is_refused() -> None:
    with pytest.raises(CipherError, match="a key of 31 bytes"):
        Aegis(bytes(31), encrypts=True)


def test_a_libsodium_without_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aegis, "_library", lambda: None)
    assert not aegis.is_viable()
    with pytest.raises(CipherError, match="does not offer AEGIS-128L"):
        Aegis(bytes(KEY_BYTES), encrypts=True)


def test_a_module_that_is_not_there_or_lacks_it_has_no_libsodium(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for linked in ((), ("no_such_module",), ("numpy._core._multiarray_umath",)):
        monkeypatch.setattr(aegis, "_LINKED", linked)
        assert aegis._library.__wrapped__() is None
