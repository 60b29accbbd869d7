"""Programs: lists of assignments to arrays, written in the scalar language."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.errors import ScalarSyntaxError
from .scalar import Body, Node, parse, substitute


class Line(NamedTuple):
    """One assignment of a program; `body` has only the names that the assignment uses."""

    target: str
    body: Body


class Program:
    """A list of assignments to arrays of one shape, which are computed element by element. Each
    line of its text is one assignment, such as `m = m + new * (g - m)`.

    A line uses the results of the lines above it.

    Note    create a program with read_program, which returns one object per text. Code that derives
            an object from a program stores this object in `readings`
    """

    __slots__ = ("arrays", "lines", "numbers", "readings", "written")

    def __init__(self, text: str, arrays: tuple[str, ...], numbers: tuple[str, ...]) -> None:
        self.arrays, self.numbers = arrays, numbers
        self.lines: list[Line] = []
        self.readings: dict[Any, Any] = {}
        known = [*arrays, *numbers]
        for text_of_line in filter(None, map(str.strip, text.splitlines())):
            target, _, expression = map(str.strip, text_of_line.partition("="))
            if target not in arrays:
                known_arrays = ", ".join(arrays)
                raise ScalarSyntaxError(
                    f"{text_of_line!r} does not assign to an array; write NAME = ..., where NAME "
                    f"is one of {known_arrays}"
                )
            used = parse(expression, known).used
            body = parse(expression, [name for name in known if name in used])
            self.lines.append(Line(target, body))
        targets = {line.target for line in self.lines}
        self.written = tuple([name for name in arrays if name in targets])

    def results(self) -> dict[str, Node]:
        """Return the final value of each assigned array, as a function of the initial values of all
        arrays.
        """
        now: dict[str, Node] = {}
        for line in self.lines:
            now[line.target] = substitute(line.body.tree, now)
        return {name: now[name] for name in self.written}


@functools.cache
def read_program(text: str, arrays: Sequence[str], numbers: Sequence[str]) -> Program:
    """Return the program with this text and these names. Equal arguments return the same object.

    Raises  ScalarSyntaxError for a line that is not an assignment, or that has an invalid body
    """
    return Program(text, tuple(arrays), tuple(numbers))
