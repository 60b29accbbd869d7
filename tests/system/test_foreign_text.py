"""Foreign text becomes one log line, with visible control characters and a bounded length."""

from __future__ import annotations

import random
import sys

import pytest

from fastdist.system.foreign_text import many_lines, one_line, printable

FORGED = "lost\n2026-01-01 00:00:00 ERROR all is well\r\x1b[2K\x1b[31mred\x07\0"


def test_line_ends_and_escape_sequences_are_shown_not_obeyed() -> None:
    told = one_line(FORGED)
    assert told.isprintable() and "\\n2026" in told and "\\x1b[2K" in told and "\\x00" in told


LETTERS = "\n\r\v\f\x1c\x85\u2028\u2029\u202e\u200b\ud800"


@pytest.mark.parametrize("letter", LETTERS)
def test_whatever_ends_a_line_or_turns_it_round_is_escaped(letter: str) -> None:
    assert letter not in one_line(f"before{letter}after")
    told = many_lines(f"before{letter}after")
    assert letter == "\n" or letter not in told
    told.encode()


def test_letters_of_all_languages_stay_as_they_are() -> None:
    text = "Zürich, 東京, Ελλάδα, 'w1' (rank 3): C:\\temp"
    assert one_line(text) == many_lines(text) == printable(text) == text


def test_a_long_text_is_cut_in_the_middle() -> None:
    told = one_line("a" * 5000 + "b" * 5000, 100)
    assert told == "a" * 50 + " ... 9900 more ... " + "b" * 50
    assert len(one_line("\n" * 10_000)) < 5000


def test_lines_stay_lines_and_none_begins_as_one_of_ours() -> None:
    told = many_lines("Traceback\n  File\x1b[0m\nERROR forged")
    assert told.split("\n") == ["Traceback", "      File\\x1b[0m", "    ERROR forged"]
    assert printable("a\tb\nc\x07") == "a\tb\nc\\x07"


def test_any_object_has_a_text() -> None:
    class Broken:
        def __str__(self) -> str:
            raise ValueError

    assert one_line(ValueError("a\nb")) == "a\\nb"
    assert one_line(b"a\nb\xff") == "a\\nb\\xff"
    assert one_line(None) == "None"
    assert one_line(Broken()) == "(its text is not available: ValueError)"


def test_random_text_of_any_letters_is_one_line_that_can_be_written_anywhere() -> None:
    rng = random.Random(5)
    for _ in range(500):
        text = "".join(chr(rng.randrange(sys.maxunicode + 1)) for _ in range(rng.randrange(40)))
        told = one_line(text)
        assert told.isprintable() and len(told.splitlines()) <= 1
        told.encode()
