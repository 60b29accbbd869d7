"""Bytes are split into lines, in whatever pieces they arrive."""

from __future__ import annotations

import random

import pytest

from fastdist.launch.output_lines import LINE_LIMIT_BYTES, Line, LineSplitter

_TEXT = "one\ntwo\r\n  5 %\r 50 %\rfünf ✓\n\n\rthree\r\r\nlast\r\r".encode()


def _split(*chunks: bytes) -> list[Line]:
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return lines + splitter.finish()


def test_lines_end_at_newlines_of_both_kinds() -> None:
    assert _split(b"one\ntwo\r\n") == [Line(b"one", False), Line(b"two", False)]


def test_a_line_that_ends_in_a_return_redraws() -> None:
    assert _split(b"5 %\r50 %\rdone\n") == [
        Line(b"5 %", True),
        Line(b"50 %", True),
        Line(b"done", False),
    ]


def test_a_return_and_a_newline_in_two_chunks_are_one_end() -> None:
    assert _split(b"one\r", b"\n")[-1] == Line(b"one", False)


@pytest.mark.parametrize("rest", [[b"\r\n"], [b"\r", b"\r", b"\n"]])
def test_several_returns_before_a_newline_are_one_end_whatever_pieces_they_come_in(
    rest: list[bytes],
) -> None:
    # A Windows text file that is written in text mode has such line ends.
    assert _split(b"one\r", *rest) == [Line(b"one", True), Line(b"one", False)]


def test_what_was_not_ended_is_not_lost() -> None:
    assert _split(b"no newline") == [Line(b"no newline", False)]
    assert _split(b"bar\r") == [Line(b"bar", True), Line(b"bar", False)]
    assert _split(b"bar\r\r") == [Line(b"bar", True), Line(b"bar", False)]


def test_pieces_do_not_matter() -> None:
    generator = random.Random(4)
    whole = [line for line in _split(_TEXT) if not line.redraws]
    for _ in range(200):
        cuts = sorted(generator.sample(range(1, len(_TEXT)), 6))
        starts, ends = [0, *cuts], [*cuts, len(_TEXT)]
        pieces = [_TEXT[start:end] for start, end in zip(starts, ends, strict=True)]
        assert [line for line in _split(*pieces) if not line.redraws] == whole


@pytest.mark.one_in(3)
def test_an_endless_line_is_cut_between_characters() -> None:
    text = ("x" + "é" * LINE_LIMIT_BYTES).encode()
    lines = _split(text)
    assert len(lines) == 3
    assert b"".join(line.text for line in lines) == text
    for line in lines:
        line.text.decode()
