"""Valid sealed records are opened, and all others are rejected."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.distributed.links import cipher
from fastdist.distributed.links.cipher import KEY_BYTES, TAG_BYTES, Cipher, CipherError

HEAD = b"head of a record"


def pair(*, encrypts: bool, key: bytes = bytes(KEY_BYTES)) -> tuple[Cipher, Cipher]:
    return (
        Cipher(key, encrypts=encrypts, seals=True),
        Cipher(key, encrypts=encrypts, seals=False),
    )


def test_the_numbers_are_those_of_the_standard() -> None:
    """A vector by the authors of GCM (McGrew and Viega, case 14), with an empty head."""
    sealing, _ = pair(encrypts=True)
    out = np.empty(16, np.uint8)
    tag = sealing.seal(b"", np.zeros(16, np.uint8), out)
    assert out.tobytes().hex() == "cea7403d4d606b6e074ec5d3baf39d18"
    assert tag.hex() == "d0d1c8a799996bf0265b98b5d48ab919"


@pytest.mark.parametrize("encrypts", [True, False])
@pytest.mark.parametrize("size", [0, 1, 1000])
def test_records_are_opened_in_their_order(encrypts: bool, size: int) -> None:
    sealing, opening = pair(encrypts=encrypts, key=bytes(range(KEY_BYTES)))
    for number in range(3):
        data = np.full(size, number, np.uint8)
        sealed = np.empty(size, np.uint8) if encrypts else data
        tag = sealing.seal(HEAD, data, sealed)
        assert len(tag) == TAG_BYTES
        assert (sealed.tobytes() == data.tobytes()) == (not encrypts or not size)
        out = np.zeros(size, np.uint8)
        opening.open(HEAD, sealed, tag, out)
        assert (out == number).all()
    for one in (sealing, opening):
        one.close()
        one.close()


@pytest.mark.parametrize("encrypts", [True, False])
@pytest.mark.parametrize("change", ["data", "tag", "head", "order", "key"])
def test_a_record_that_is_changed_or_repeated_is_refused(encrypts: bool, change: str) -> None:
    sealing, opening = pair(encrypts=encrypts)
    data = np.arange(100, dtype=np.uint8)
    sealed = data.copy()
    tag, head = sealing.seal(HEAD, data, sealed), HEAD
    if change == "data":
        sealed[50] ^= 1
    elif change == "tag":
        tag = bytes([tag[0] ^ 1, *tag[1:]])
    elif change == "head":
        head = HEAD[::-1]
    elif change == "order":
        opening.open(HEAD, sealed, tag, np.empty(100, np.uint8))
    else:
        opening = Cipher(b"1" * KEY_BYTES, encrypts=encrypts, seals=False)
    with pytest.raises(CipherError, match="not what its sender sealed"):
        opening.open(head, sealed, tag, np.empty(100, np.uint8))


def test_a_python_without_libcrypto_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cipher.why_not_viable() is None
    monkeypatch.setattr(cipher, "_library", lambda: None)
    assert "AES-256-GCM" in str(cipher.why_not_viable())
    with pytest.raises(CipherError, match="AES-256-GCM"):
        Cipher(bytes(KEY_BYTES), encrypts=True, seals=True)


def test_a_key_of_another_size_is_refused() -> None:
    with pytest.raises(CipherError, match="a key of 31 bytes"):
        Cipher(bytes(31), encrypts=True, seals=True)
