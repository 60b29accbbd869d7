"""Escapes text from other processes before it is logged or printed."""

# Without these functions, a line end in a name or in an error message could forge lines of the log,
# and an escape sequence could change the display of a terminal.

from __future__ import annotations

from typing import Final

# The default for the maximum length of a line, which is cut before characters are escaped.
MOST_LETTERS: Final = 2000
_MOST_LETTERS_OF_LINES: Final = 200_000


def one_line(text: object, most: int = MOST_LETTERS) -> str:
    """Return the text of any object as one printable line, shortened in the middle.

    Characters that are not printable are escaped as in repr: line ends, control characters,
    bidirectional marks, and surrogates.

    Example:
        >>> one_line("lost\\n2026-01-01 ERROR all is \\x1b[31mred")
        'lost\\\\n2026-01-01 ERROR all is \\\\x1b[31mred'
    """
    return _escaped(_cut(_text(text), most))


def many_lines(text: object, most: int = _MOST_LETTERS_OF_LINES) -> str:
    """Return a text of several lines, such as a traceback. All unprintable characters are escaped,
    except line ends and tabs.

    Every line but the first is indented, so that it cannot look like the start of a log entry.
    """
    return printable(text, most).replace("\n", "\n    ")


def printable(text: object, most: int = _MOST_LETTERS_OF_LINES) -> str:
    """Return a text with all unprintable characters escaped, except line ends and tabs.

    The result is for error messages; logs need `one_line` or `many_lines`.
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
    except Exception as error:  # the object's __str__ may be user code
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
