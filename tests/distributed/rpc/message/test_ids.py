"""Ids are printed as rank and number in one format, and parsing gives the same id."""

from __future__ import annotations

import random

import pytest

from fastdist.distributed.rpc.message.ids import (
    id_text,
    random_id_offset,
    read_id,
    with_decimal,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0:0"),
        (7, "0:7"),
        (1 << 48 | 5, "1:5"),
        (65535 << 48 | 1 << 31, "65535:2147483648"),
        (2 << 48 | 0x5C0E91B7 << 15 | 12, "2:5c0e91b7.12"),
        (2 << 48 | 0x5C0E91B7 << 15 | 32767, "2:5c0e91b7.32767"),
        (2 << 48 | 0x5C0E91B8 << 15, "2:5c0e91b8.0"),
    ],
)
def test_an_id_is_told_by_its_rank_and_its_number(number: int, text: str) -> None:
    assert id_text(number) == text and read_id(text) == number
    assert read_id(str(number)) == number
    assert with_decimal(number) == f"{number} ({text})"


def test_every_id_is_read_back() -> None:
    draw = random.Random(17)
    for _ in range(2000):
        number = draw.getrandbits(draw.randrange(1, 65))
        assert read_id(id_text(number)) == number


def test_what_is_no_id_is_told_as_it_is_and_not_read() -> None:
    assert id_text(-1) == with_decimal(-1) == "-1"
    for text in (
        "",
        "x",
        "1:",
        ":5",
        "1:x.5",
        "1:2.",
        "1.5",
        "-1",
        "0x5",
        "1:5:6",
        "1:1234567890.0",
    ):
        assert read_id(text) is None


def test_lives_of_a_rank_begin_at_random_places_and_count_from_0_there() -> None:
    firsts = {random_id_offset() for _ in range(1000)}
    assert len(firsts) > 990 and all(0 <= first < 1 << 47 for first in firsts)
    assert all(id_text(first + 5).endswith(".5") for first in firsts if first >= 1 << 32)
