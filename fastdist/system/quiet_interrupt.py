"""Ctrl-C while a command is still being loaded: the end of the process, without a traceback."""

from __future__ import annotations

import os
import sys

_MODULES = ("fastdist", "fastdist.cli", "fastdist.run")


def end_quietly_if_command() -> None:
    """Let SIGINT end this process at once if it is `fastdist`, or one of the modules
    that do the same.

    Imports take most of the time until a launcher listens to signals. An exception out of the
    middle of them would tell nothing. A program that imports fastdist keeps KeyboardInterrupt.
    """
    if _is_command(sys.argv, sys.orig_argv):
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _is_command(arguments: list[str], original: list[str]) -> bool:
    if arguments[:1] == ["-m"]:
        # While Python looks for the module it is to run: only the original line has its name.
        after = original[original.index("-m") + 1 :]
        return after[:1] in [[module] for module in _MODULES]
    return bool(arguments) and os.path.basename(arguments[0]) == "fastdist"
