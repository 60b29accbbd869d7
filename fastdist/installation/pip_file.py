"""Adds and removes one value of `constraint` in a pip.conf, and keeps all other lines.

The parser of Python's library drops comments when it writes, so this module edits lines.
"""

from __future__ import annotations

import configparser
from typing import NamedTuple

from .environment import InstallError

# For `pip install`, the section [install] of any file overrides the section [global] of any file.
SECTION, OPTION = "install", "constraint"
_COMMENT_STARTS = ("#", ";")


def parse(text: str, path: str) -> dict[str, str]:
    """Return the values of a pip.conf by `section.option`, with options as `normal_name` writes
    them.

    Raises  InstallError if pip cannot read the file
    """
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text, path)
    except configparser.Error as error:
        reason = " ".join(str(error).split())
        raise InstallError(f"{path} is not a configuration that pip can read: {reason}") from None
    return {
        f"{section}.{normal_name(option)}": value
        for section in parser.sections()
        for option, value in parser.items(section)
    }


def normal_name(option: str) -> str:
    """Return the name of an option in the form that pip compares: in lower case, with hyphens."""
    return option.strip().lower().replace("_", "-").removeprefix("--")


def read_text(path: str) -> str:
    """Return a configuration's text, with line ends and invalid bytes; "" if there is no file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def add(text: str, value: str) -> str:
    """Return the text with one more value of `constraint` in the section [install]."""
    lines = text.splitlines(keepends=True)
    end = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    place = _find(lines)
    if place.option is not None:
        if value in _values(lines, place):
            return text
        last = place.option_lines[-1]
        indent = lines[place.option][: -len(lines[place.option].lstrip())] + " " * 4
        lines[last] = _with_end(lines[last], end)
        lines.insert(last + 1, f"{indent}{value}{end}")
    elif place.header is not None:
        lines[place.header] = _with_end(lines[place.header], end)
        lines.insert(place.header + 1, f"{OPTION} = {value}{end}")
    else:
        if lines:
            lines[-1] = _with_end(lines[-1], end)
            lines.append(end)
        lines.append(f"[{SECTION}]{end}{OPTION} = {value}{end}")
    return "".join(lines)


def remove(text: str, value: str) -> str:
    """Return the text without the value; an option or section that becomes empty is removed too."""
    lines = text.splitlines(keepends=True)
    place = _find(lines)
    if place.option is None or value not in _values(lines, place):
        return text
    for index in place.option_lines:
        if value in _words(lines[index], is_key=index == place.option):
            lines[index] = _without(lines[index], value)
    left = _values(lines, place)
    dropped = {i for i in place.option_lines if i != place.option and not lines[i].strip()}
    if not left:
        dropped.add(place.option)
    kept = [line for index, line in enumerate(lines) if index not in dropped]
    return "".join(kept if left else _without_empty_section(kept))


class _Place(NamedTuple):
    """The line numbers of the section's header, of the option, and of the option's values."""

    header: int | None
    option: int | None
    option_lines: tuple[int, ...]


def _find(lines: list[str]) -> _Place:
    """Find the section and the option, by the rules of configparser."""
    header = option = None
    option_lines: list[int] = []
    in_section = is_ours = False
    # The indentation of the current option; a line with more indentation continues that option.
    # None outside of options.
    indent: int | None = None
    for index, line in enumerate(lines):
        text = line.strip()
        if not text or text.startswith(_COMMENT_STARTS):
            continue
        depth = len(line) - len(line.lstrip())
        if indent is not None and depth > indent:
            if is_ours:
                option_lines.append(index)
        elif text.startswith("[") and "]" in text:
            in_section = text[1 : text.rindex("]")] == SECTION
            header = index if in_section else header
            indent = None
        else:
            indent = depth
            is_ours = in_section and normal_name(_key(text)) == OPTION
            if is_ours:
                option, option_lines = index, [index]
    return _Place(header, option, tuple(option_lines))


def _key(text: str) -> str:
    ends = [at for at in (text.find("="), text.find(":")) if at >= 0]
    return text[: min(ends)] if ends else text


def _words(line: str, *, is_key: bool) -> list[str]:
    return (line[len(_key(line)) + 1 :] if is_key else line).split()


def _values(lines: list[str], place: _Place) -> list[str]:
    return [
        word
        for index in place.option_lines
        for word in _words(lines[index], is_key=index == place.option)
    ]


def _without(line: str, value: str) -> str:
    """Return a line without the word `value` and the space before that word."""
    start = line.rindex(value)
    return line[:start].rstrip(" \t") + line[start + len(value) :]


def _without_empty_section(lines: list[str]) -> list[str]:
    place = _find(lines)
    if place.header is None:
        return lines
    end = place.header + 1
    while end < len(lines) and not lines[end].strip():
        end += 1
    if end < len(lines) and not lines[end].lstrip().startswith("["):
        return lines
    start = place.header
    if end == len(lines):
        # Also remove the blank line that `add` wrote before a new section at the end.
        start -= start > 0 and not lines[start - 1].strip()
    return lines[:start] + lines[end:]


def _with_end(line: str, end: str) -> str:
    return line if line.endswith("\n") else line + end
