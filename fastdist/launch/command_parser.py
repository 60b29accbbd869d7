"""A command-line parser that reports a mistake in one line, and suggests a similar option."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

# The beginning of argparse's message about missing arguments.
_MISSING = "the following arguments are required: "


class CommandParser(argparse.ArgumentParser):
    """argparse's parser, but for a mistake it prints `example` and not the complete usage.

    `instead` maps flags of another command to advice on what to use with this command.
    """

    def __init__(
        self, prog: str, example: str, instead: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        # argparse creates a formatter per option, and the first one imports shutil for the width.
        formatter = settings.pop("formatter_class", argparse.HelpFormatter)
        settings["formatter_class"] = partial(formatter, width=_columns() - 2)
        super().__init__(prog=prog, allow_abbrev=False, **settings)
        self._example = example
        self._instead = instead or {}

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Read `arguments`, or the process's arguments if they are None. Report a mistake, and exit
        with status 2.
        """
        given, unknown = self.parse_known_args(arguments)
        for word in unknown:
            flag = word.partition("=")[0].replace("_", "-")
            if flag in self._instead:
                self.refuse(f"{flag} is not supported: {self._instead[flag]}")
        if unknown:
            self.error(f"unknown: {' '.join(unknown)}{did_you_mean(unknown[0], self._flags())}")
        return given

    def error(self, message: str) -> NoReturn:
        """Report an invalid command line and show a valid one; exit with status 2."""
        if message.startswith(_MISSING):
            message = message.removeprefix(_MISSING).replace(", ...", "") + " is missing"
        more = f"for example: {self._example}; `{self.prog} --help` tells more"
        self.exit(2, f"{self.prog}: {message}\n{more}\n")

    def refuse(self, message: str) -> NoReturn:
        """Report what is wrong with a parsed command line; exit with status 2."""
        self.exit(2, f"{self.prog}: {message}\n")

    def _flags(self) -> list[str]:
        # Aliases with underscores are left out, as in the help text.
        return [f for f in self._option_string_actions if f.startswith("--") and "_" not in f]


def _columns() -> int:
    """Return the terminal's width like shutil.get_terminal_size, whose import takes 0.2 MB."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80  # stdout is closed, or is not a terminal


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` if a known word resembles or begins with `given`, else ""."""
    import difflib  # imported only to report an unknown option

    word = given.partition("=")[0]
    candidates = list(known)
    longer = [name for name in candidates if len(word) > 2 and name.startswith(word)]
    # Words are compared without their leading dashes, because all flags have these. If a flag and a
    # command have the same name, `bare` keeps the flag if `given` has dashes, and else the command.
    candidates.sort(key=lambda name: name.startswith("-") == word.startswith("-"))
    bare = {name.lstrip("-"): name for name in candidates}
    close = difflib.get_close_matches(word.lstrip("-"), bare, 1)
    near = longer or [bare[name] for name in close]
    return f"; did you mean {near[0]}?" if near else ""
