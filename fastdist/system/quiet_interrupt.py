"""Ctrl-C while a command is still loading: end the process without a traceback."""

from __future__ import annotations

import os
import sys

_MODULES = ("fastdist", "fastdist.cli", "fastdist.run")


def end_quietly_if_command() -> None:
    """If this process is the command `fastdist` or an equivalent module, let SIGINT end it without
    a traceback.

    Until a launcher can handle signals, it mostly imports modules. A traceback from an import would
    be useless. In a program that imports fastdist, SIGINT still raises KeyboardInterrupt.
    """
    if _is_command(sys.argv, sys.orig_argv):
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _is_command(arguments: list[str], original: list[str]) -> bool:
    if arguments[:1] == ["-m"]:
        # Python is still locating the module to run: only orig_argv has the module's name.
        after = original[original.index("-m") + 1 :]
        return after[:1] in [[module] for module in _MODULES]
    return bool(arguments) and os.path.basename(arguments[0]) == "fastdist"
