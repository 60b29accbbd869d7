"""Ranges are decoded as they were encoded, and all other bytes are rejected."""

from __future__ import annotations

import json
import math
import zlib

import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.profiler.ranges_as_bytes import _NUMBERS, pack_ranges, unpack_ranges
from fastdist.instrumentation.time_ranges import TimeRange

KNOWN = [
    TimeRange(
        *("a", "op", 5, 9, 1, "main", 3),
        shapes=((2, 3), ()),
        flops=7,
        stack=("b.py(3): f", "a"),
        memory_bytes=-8,
        sequence_nr=3,
        module="Net.0",
        device="cuda:1",
        device_memory_bytes=512,
        kernel_id=9,
    ),
    TimeRange("a", "rpc", 1 << 60, 1 << 61, 1 << 47, "ä", 70, True, True, (65535 << 48) + 1),
]


def test_ranges_come_as_they_went() -> None:
    assert unpack_ranges(pack_ranges(KNOWN), 1) == KNOWN
    assert unpack_ranges(pack_ranges([]), 1) == []


def test_too_many_ranges_are_halved_until_they_fit() -> None:
    many = [KNOWN[0]._replace(name=f"{n * 0x9E3779B97F4A7C15:x}") for n in range(64)]
    whole = len(pack_ranges(many))
    found = unpack_ranges(pack_ranges(many, whole // 2), 1)
    assert found == many[: len(found)] and len(found) in (16, 32)
    assert unpack_ranges(pack_ranges(many, 1), 1) == []


def test_stacks_that_come_again_are_written_once() -> None:
    stack = tuple([f"{n}.py(1): f" for n in range(100)])
    alone = len(pack_ranges([KNOWN[0]._replace(stack=stack)]))
    assert len(pack_ranges([KNOWN[0]._replace(stack=stack)] * 50)) < 2 * alone


GOOD = json.loads(zlib.decompress(pack_ranges(KNOWN[:1])))


LENGTH = len(GOOD[2][0])
NAME, SHAPES, STACK = len(_NUMBERS), LENGTH - 2, LENGTH - 1


def forged(place: int, value: object) -> bytes:
    """Return the encoding of the first range of KNOWN with one value replaced."""
    texts, stacks, (good,) = GOOD
    row = [*good[:place], value, *good[place + 1 :]]
    return zlib.compress(json.dumps([texts, stacks, [row]]).encode())


def listed(texts: object, stacks: object = ((0,),)) -> bytes:
    return zlib.compress(json.dumps([texts, stacks, GOOD[2]]).encode())


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    "packed",
    [
        None,
        "text",
        b"rubbish",
        pack_ranges(KNOWN)[:-9],
        zlib.compress(b"[]"),
        zlib.compress(b"[[],[],[[0,0,1]]]"),
        *[forged(place, "1") for place in range(LENGTH)],
        *[forged(place, 1.5) for place in range(LENGTH)],
        *[forged(place, True) for place in range(LENGTH - 2)],
        forged(NAME, 99),
        forged(SHAPES, [5]),
        forged(SHAPES, [[math.inf]]),
        forged(STACK, 99),
        listed(7),
        listed({}),
        listed([5] * 9),
        listed(GOOD[0], [["x"]]),
        listed(GOOD[0], [[99]]),
        listed(GOOD[0], 7),
        zlib.compress(b"[" * 100_000),
    ],
)
def test_what_is_no_ranges_is_refused_with_its_sender(packed: object) -> None:
    with pytest.raises(MessageError, match=r"^time ranges of worker 4 "):
        unpack_ranges(packed, 4)
