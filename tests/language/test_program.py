"""Programs: assignments of the scalar language to arrays."""

from __future__ import annotations

import pytest

from fastdist.core.errors import ScalarSyntaxError
from fastdist.language.program import read_program
from fastdist.language.scalar import parse

ARRAYS, NUMBERS = ("p", "g", "m"), ("rate", "keep")


def test_read_program_makes_each_once() -> None:
    assert read_program("p = g", ARRAYS, NUMBERS) is read_program("p = g", ARRAYS, NUMBERS)


def test_lines_know_the_names_that_they_use_alone() -> None:
    program = read_program("m = m * keep + g\n\n p = p - rate * m", ARRAYS, NUMBERS)
    assert [line.target for line in program.lines] == ["m", "p"]
    assert program.lines[1].body is parse("p - rate * m", ("p", "m", "rate"))
    assert program.written == ("p", "m")


def test_results_are_of_what_was_there_before() -> None:
    program = read_program("m = m * keep + g\np = p - rate * m\nm = -m", ARRAYS, NUMBERS)
    names = (*ARRAYS, *NUMBERS)
    assert program.results() == {
        "p": parse("p - rate * (m * keep + g)", names).tree,
        "m": parse("-(m * keep + g)", names).tree,
    }


@pytest.mark.parametrize("line", ["rate = p", "q = p", "p + g", "p == g"])
def test_a_line_that_assigns_to_no_array_is_refused(line: str) -> None:
    with pytest.raises(
        ScalarSyntaxError, match=r"does not assign to an array|unknown name|scalar body"
    ):
        read_program(line, ARRAYS, NUMBERS)


def test_a_wrong_body_is_refused_with_its_column() -> None:
    with pytest.raises(ScalarSyntaxError, match="'q' at column 5"):
        read_program("p = p + q", ARRAYS, NUMBERS)
