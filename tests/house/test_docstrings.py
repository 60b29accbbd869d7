"""No docstring contains a stray quote, and all list errors in one form.

Joining or splitting lines can leave a quote behind.
"""

from __future__ import annotations

import inspect
import re

from tests.house.test_sizes import parsed

_CODE = re.compile(r"``.*?``|`[^`]*`", re.DOTALL)
# A quote between spaces, or as the first or last character of a line.
_ALONE = re.compile(r'(?<!\S)"(?!\S)')


def has_stray_quote(docstring: str) -> bool:
    words = _CODE.sub("", docstring)
    return words.count('"') % 2 == 1 or _ALONE.search(words) is not None


def test_a_joiner_s_quotes_are_found() -> None:
    assert has_stray_quote('Return what is "\n"asked for.')
    assert has_stray_quote('Return "what is asked for.')
    assert not has_stray_quote('Return "what" is `"` asked for.')


def test_no_docstring_has_a_stray_quote() -> None:
    found = [
        f"{name}: {what}"
        for name, file in parsed().items()
        for what, docstring in file.docstrings
        if has_stray_quote(docstring)
    ]
    assert found == []


_SECTION = re.compile(r"^Raises:", re.MULTILINE)


def test_errors_are_listed_in_one_form() -> None:
    found = [
        f"{name}: {what}"
        for name, file in parsed().items()
        for what, docstring in file.docstrings
        if _SECTION.search(inspect.cleandoc(docstring))
    ]
    assert found == []
