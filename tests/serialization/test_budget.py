"""Loading takes time and memory linear in the file's size; other files are rejected."""

from __future__ import annotations

import pickle
import struct
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import fastdist
from fastdist.serialization.budget import Budget, brief
from fastdist.serialization.safe_unpickler import SafeUnpickler

from .forging import START, archive_of, named, number, text


def read(pickled: bytes) -> Any:
    return SafeUnpickler(pickled, lambda _: None, Budget(len(pickled))).load()


def long_number(value: int) -> bytes:
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8b" + struct.pack("<I", len(data)) + data


# A pair of pairs, nested 200 times: its 1,000 bytes stand for 2 ** 200 parts.
PAIRS = b")" + b"q\x00h\x00\x86" * 200
_PRIME = (1 << 61) - 1  # Python hashes an integer modulo this prime


@pytest.mark.parametrize(
    ("pickled", "words"),
    [
        (PAIRS + b"Q.", "a storage is not written as"),
        (PAIRS + b")R.", "is named, but may not be called"),
        (PAIRS + b")\x81.", "is not a class"),
        (PAIRS + text("a") + b"\x93.", "are not names"),
        (b"}" + PAIRS + b"b.", "nothing can be put into a value of dict"),
        (b"}" + PAIRS + b"Ns.", "too large, or too deep"),
        (named("torch", "device") + PAIRS + b"\x85R.", "a device is made of a name"),
        (named("torch", "Size") + PAIRS + b"\x85R.", "a Size is made of ints"),
        (named("torch.nn.parameter", "Parameter") + PAIRS + b"\x85R.", "a Parameter is made of"),
        (named("torch._tensor", "_rebuild_from_type_v2") + PAIRS + b"NN)tR.", "cut off"),
        (named("collections", "Counter") + PAIRS + b"\x85\x85R.", "too large, or too deep"),
    ],
)
def test_values_that_name_their_parts_twice_take_no_more_time(pickled: bytes, words: str) -> None:
    # Computing the full repr or hash of such a value, or visiting all its parts, would never end.
    with pytest.raises(pickle.UnpicklingError, match=words) as caught:
        fastdist.load(archive_of(START + pickled))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "form",
    [
        lambda keys: b"}(" + b"N".join(keys) + b"Nu.",
        lambda keys: b"\x8f(" + b"".join(keys) + b"\x90.",
        lambda keys: b"(" + b"".join(keys) + b"\x91.",
        lambda keys: named("builtins", "set") + b"](" + b"".join(keys) + b"e\x85R.",
        lambda keys: b"}(" + b"N".join(key + b"\x85" for key in keys) + b"Nu.",
        lambda keys: b"\x8f(" + b"".join(b"}" + key + b"Ns0" + key for key in keys) + b"\x90.",
    ],
)
def test_keys_of_one_hash_are_refused(form: Callable[[list[bytes]], bytes]) -> None:
    assert len({hash(_PRIME * i) for i in range(40)}) == 1
    with pytest.raises(pickle.UnpicklingError, match="keys have one hash"):
        read(form([long_number(_PRIME * i) for i in range(40)]))
    read(form([long_number(_PRIME * i) for i in range(10)]))


def test_keys_that_are_met_again_and_again_cost_nothing() -> None:
    states = {i: {0: 1, (1, "a"): 2, "x": i, 2.5: None} for i in range(3000)}
    assert read(pickle.dumps(states, 2)) == states


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("key", "words"),
    [
        (long_number(1 << (8 << 20)), "too large, or too deep"),
        (text("a" * (1 << 20)), "far more copies"),
        (b"C\xff" + bytes(255) + b"\x85", "far more copies"),
        (b"(" + b"K\x01" * 250 + b"t", "far more copies"),
        (b"(" + b"K\x01" * (1 << 17) + b"t", "too large, or too deep"),
    ],
)
def test_long_keys_are_not_hashed_a_million_times(key: bytes, words: str) -> None:
    pickled = b"(" + key + b"q\x00" + b"}(" + b"h\x00N" * 300_000 + b"ut."
    with pytest.raises(pickle.UnpicklingError, match=words):
        read(pickled)


DEVICE = named("torch", "device")
FORMS: dict[str, Callable[[int], bytes]] = {
    "lists": lambda n: b"](" + b"]" * n + b"e.",
    "tuples in tuples": lambda n: b")" + b"\x85" * n + b"0N.",
    "sets": lambda n: b"](" + b"\x8f\x94" * (n // 2) + b"e.",
    "numbers": lambda n: b"](" + b"K\x01" * (n // 2) + b"e.",
    "keys": lambda n: b"}(" + b"".join(number(i) + b"N" for i in range(n // 12)) + b"u.",
    "devices": lambda n: (
        DEVICE + b"q\x00" + text("cpu") + b"\x85q\x01](" + b"h\x00h\x01R" * (n // 5) + b"e."
    ),
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_twice_as_much_takes_twice_as_long(form: Callable[[int], bytes]) -> None:
    small, large = form(1 << 13), form(1 << 16)
    times = []
    for pickled in (small, large):
        once = []
        for _ in range(3):
            begin = time.process_time()
            with suppress(pickle.UnpicklingError):
                read(pickled)
            once.append(time.process_time() - begin)
        times.append(min(once))
    # The second file is 8 times as large. Quadratic time would be 64 times as long.
    assert times[1] < 30 * times[0] + 0.02


def test_empty_sets_are_counted_for_the_memory_that_they_take() -> None:
    with pytest.raises(pickle.UnpicklingError, match="far more copies"):
        read(b"](" + b"\x8f" * (1 << 18) + b"e.")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("piece", [b"\x8f\x94", b"}", b"(", b"]\x94", b"}NNs"])
def test_no_byte_takes_more_than_160_bytes_of_memory(piece: bytes) -> None:
    pickled = b"](" + piece * ((1 << 16) // len(piece)) + b"."
    tracemalloc.start()
    try:
        with suppress(pickle.UnpicklingError):
            read(pickled)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 200_000 + 160 * len(pickled)


def test_values_in_errors_are_short() -> None:
    deep = [1]
    assert brief((deep, "a" * 100, 1 << 4000, fastdist.float32, dict, None)) == (
        f"(a list of 1, '{'a' * 60}'..., an int of 4001 bits, torch.float32, dict, None)"
    ).replace("torch.float32", repr(fastdist.float32))
    assert brief((1,)) == "(1,)" and brief(tuple(range(9))) == "a tuple of 9"
