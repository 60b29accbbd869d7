"""Mutants of CUDA sources and of the scalar bodies in declarations, for tests.mutate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.mutants import Break

# Comments, strings and preprocessor lines, in which nothing is changed.
_SKIPPED: Final = re.compile(
    rb"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\])+'|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
_OPERATORS: Final[dict[str, tuple[str, ...]]] = {
    " < ": (" <= ", " >= "),
    " <= ": (" < ", " > "),
    " > ": (" >= ", " <= "),
    " >= ": (" > ", " < "),
    " == ": (" != ",),
    " != ": (" == ",),
    " && ": (" || ",),
    " || ": (" && ",),
    " + ": (" - ",),
    " - ": (" + ",),
    " * ": (" + ",),
    " / ": (" * ",),
    " % ": (" * ",),
    " += ": (" -= ",),
    " << ": (" >> ",),
    " >> ": (" << ",),
    " & ": (" | ",),
}
_KINDS: Final = {"<": "compare", ">": "compare", "=": "compare", "!": "compare", "|": "and/or"}
_TOKENS: Final = re.compile(
    rb"(?P<operator> (?:<=|>=|==|!=|&&|\|\||\+=|<<|>>|[-<>+*/%&]) )"
    rb"|(?<![\w.])(?P<number>\d+)(?![\w.])"
    rb"|(?P<barrier>\b__syncthreads\(\);)"
)
_FUNCTION: Final = re.compile(
    rb"^(?:[A-Za-z_][^\n;=(]*?\b)?(?!__launch_bounds__)([A-Za-z]\w+)\([^;]*$", re.MULTILINE
)


def breaks_of_cuda(source: bytes) -> list[Break]:
    """List the mutants of a CUDA source: operators, integers and barriers."""
    code = _SKIPPED.sub(lambda found: re.sub(rb"[^\n]", b"\x00", found[0]), source)
    heads = [(found.start(), found[1].decode()) for found in _FUNCTION.finditer(code)]
    made = []
    for found in _TOKENS.finditer(code):
        line = code.count(b"\n", 0, found.start()) + 1
        within = next((name for start, name in reversed(heads) if start <= found.start()), "")
        for kind, text in _others(found):
            made.append(Break(kind, found.start(), found.end(), text, within, line, line))
    return made


def _others(found: re.Match[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each replacement of a token."""
    text = found[0].decode()
    if found["operator"]:
        for other in _OPERATORS[text]:
            yield _KINDS.get(text.strip()[:1], "arithmetic"), other
    elif found["number"]:
        yield "constant", str(int(text) + 1)
        yield "constant", f"({int(text) - 1})"
    else:
        yield "unlock", ";"
