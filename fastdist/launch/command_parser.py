"""A command line whose mistakes are reported in one line, with a near match if there is one."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

# argparse's own words
_MISSING = "the following arguments are required: "


class CommandParser(argparse.ArgumentParser):
    """argparse's parser, but a mistake does not print the whole usage; `example` shows some.

    `instead` says, of flags that another command has, what to do here.
    """

    def __init__(
        self, prog: str, example: str, instead: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        # argparse makes a formatter for each option, and loads shutil for the width of the first.
        formatter = settings.pop("formatter_class", argparse.HelpFormatter)
        settings["formatter_class"] = partial(formatter, width=_columns() - 2)
        super().__init__(prog=prog, allow_abbrev=False, **settings)
        self._example = example
        self._instead = instead or {}

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Read all arguments (None: the process's); on a mistake say so and exit with status 2."""
        given, unknown = self.parse_known_args(arguments)
        for word in unknown:
            flag = word.partition("=")[0].replace("_", "-")
            if flag in self._instead:
                self.refuse(f"{flag} is not supported: {self._instead[flag]}")
        if unknown:
            self.error(f"unknown: {' '.join(unknown)}{did_you_mean(unknown[0], self._flags())}")
        return given

    def error(self, message: str) -> NoReturn:
        """Tell a command line that cannot be read, and show one that can; exit with status 2."""
        if message.startswith(_MISSING):
            message = message.removeprefix(_MISSING).replace(", ...", "") + " is missing"
        more = f"for example: {self._example}; `{self.prog} --help` tells more"
        self.exit(2, f"{self.prog}: {message}\n{more}\n")

    def refuse(self, message: str) -> NoReturn:
        """Tell what is wrong with a command line that could be read; exit with status 2."""
        self.exit(2, f"{self.prog}: {message}\n")

    def _flags(self) -> list[str]:
        # The twins with underscores are out of sight here as well.
        return [f for f in self._option_string_actions if f.startswith("--") and "_" not in f]


def _columns() -> int:
    """Return the width of the terminal as shutil.get_terminal_size does, which loads 0.2 MB."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80  # stdout is closed, or is not a terminal


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` if the word begins or resembles a known one, else nothing."""
    import difflib  # imported only to report an unknown option

    word = given.partition("=")[0]
    candidates = list(known)
    longer = [name for name in candidates if len(word) > 2 and name.startswith(word)]
    # Without their dashes, in which all flags are alike; of a flag and a command, the word's kind.
    candidates.sort(key=lambda name: name.startswith("-") == word.startswith("-"))
    bare = {name.lstrip("-"): name for name in candidates}
    close = difflib.get_close_matches(word.lstrip("-"), bare, 1)
    near = longer or [bare[name] for name in close]
    return f"; did you mean {near[0]}?" if near else ""
