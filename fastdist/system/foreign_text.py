"""Text that another process wrote, on its way to a log or a terminal: it cannot pose as ours."""

# A line end in a name, or in the text of an error, could otherwise write whole lines of our log; an
# escape sequence changes what a terminal shows, or what was shown before.

from __future__ import annotations

from typing import Final

# The default length of the result, before its letters are escaped.
MOST_LETTERS: Final = 2000
_MOST_LETTERS_OF_LINES: Final = 200_000


def one_line(text: object, most: int = MOST_LETTERS) -> str:
    """Return the text of any object as one line that shows what is in it, cut in the middle.

    Characters that do not print are escaped as in repr: line ends, control characters, marks that
    turn the direction of writing, halves of surrogate pairs.

    Example:
        >>> one_line("lost\\n2026-01-01 ERROR all is \\x1b[31mred")
        'lost\\\\n2026-01-01 ERROR all is \\\\x1b[31mred'
    """
    return _escaped(_cut(_text(text), most))


def many_lines(text: object, most: int = _MOST_LETTERS_OF_LINES) -> str:
    """Return a text of many lines, a traceback say, with all but its line ends escaped.

    Every line but the first is indented: none of them begins as a line of our log does.
    """
    return printable(text, most).replace("\n", "\n    ")


def printable(text: object, most: int = _MOST_LETTERS_OF_LINES) -> str:
    """Return a text with all escaped that does not print, but for its line ends and tabs.

    For the texts of errors, whose lines belong together; a log wants `one_line` or `many_lines`.
    """
    lines = _cut(_text(text), most).split("\n")
    return "\n".join("\t".join(map(_escaped, line.split("\t"))) for line in lines)


def _text(text: object) -> str:
    if isinstance(text, str):
        return text
    if isinstance(text, bytes):
        return text.decode(errors="backslashreplace")
    try:
        return str(text)
    except Exception as error:  # the class may be anybody's
        return f"(its text is not available: {type(error).__name__})"


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... {len(text) - 2 * half} more ... {text[-half:]}"


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
