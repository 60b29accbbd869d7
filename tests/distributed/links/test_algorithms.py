"""The members of a group agree on a cipher algorithm."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.distributed.links import aegis, algorithms
from fastdist.distributed.links.aegis import Aegis
from fastdist.distributed.links.algorithms import AEGIS, agreed, fastest_first, new_cipher
from fastdist.distributed.links.cipher import GCM, KEY_BYTES, POLY1305, Cipher, CipherError


@pytest.mark.parametrize(
    ("orders", "one"),
    [
        (["a,b,c", "a,c,b"], "a"),
        (["a,b,c", "c,b,a"], "b"),
        (["a,b", "b,a"], "a"),
        (["b,a", "a,b"], "b"),
        (["a,b", "b"], "b"),
        (["a,x", "x"], "x"),
        (["a", "b"], GCM),
        (["", ""], GCM),
        (["a", ""], GCM),
    ],
)
def test_all_have_what_they_agree_on_and_none_has_its_slowest(orders: list[str], one: str) -> None:
    assert agreed(orders) == one
    assert agreed(iter(orders)) == one


@pytest.mark.parametrize("encrypts", [True, False])
def test_what_is_here_is_tried_and_seals(encrypts: bool) -> None:
    names = fastest_first(encrypts=encrypts).split(",")
    known = {GCM} | ({AEGIS} if aegis.is_viable() else set()) | (set() if encrypts else {POLY1305})
    assert set(names) == known
    assert len(names) == len(known)
    key, data = bytes(KEY_BYTES), np.arange(100, dtype=np.uint8)
    for name in names:
        sealing = new_cipher(name, key, encrypts=encrypts, seals=True)
        opening = new_cipher(name, key, encrypts=encrypts, seals=False)
        assert isinstance(sealing, Aegis if name == AEGIS else Cipher)
        sealed = np.empty_like(data) if encrypts else data
        tag = sealing.seal(b"head", data, sealed)
        assert len(tag) == sealing.tag_bytes
        out = np.zeros_like(data)
        opening.open(b"head", sealed, tag, out)
        assert (out == data).all()


def test_what_is_slow_comes_last_and_what_is_missing_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]

    class Slow:
        def __init__(self, algorithm: str) -> None:
            self._s = {AEGIS: 3.0, GCM: 2.0}[algorithm]

        def seal(self, *_: object) -> None:
            clock[0] += self._s

        def close(self) -> None:
            pass

    def made(algorithm: str, key: bytes, **_: bool) -> Slow:
        if algorithm == POLY1305:
            raise CipherError("not here")
        return Slow(algorithm)

    monkeypatch.setattr(algorithms, "new_cipher", made)
    monkeypatch.setattr(algorithms.time, "perf_counter", lambda: clock[0])
    for encrypts in (True, False):
        assert fastest_first.__wrapped__(encrypts=encrypts) == f"{GCM},{AEGIS}"
