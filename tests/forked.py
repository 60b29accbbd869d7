"""Run code that may crash in forked children: a crash is a result and does not end the run."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
from collections.abc import Callable, Iterable

# A child that hangs is ended by SIGALRM after this time. A whole list takes a second or two.
DEADLINE_S = 60


def outcomes(names: Iterable[str], run: Callable[[str], str]) -> dict[str, str]:
    """Return the result of `run` for each name, or "signal N" if `run` ended by signal N.

    One child runs all names; after a crash, a new child continues with the next name.
    """
    left, found = list(names), dict[str, str]()
    while left:
        lines, ended_by = _in_child(left, run)
        found.update(zip(left, lines, strict=False))
        left = left[len(lines) :]
        if left:
            found[left[0]] = f"signal {ended_by}"
            left = left[1:]
    return found


def _in_child(names: list[str], run: Callable[[str], str]) -> tuple[list[str], int]:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            faulthandler.disable()  # crashes are expected here, so write no traceback file
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.alarm(DEADLINE_S)
            for name in names:
                os.write(writer, f"{_said(run, name)}\n".encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader) as lines:
        found = lines.read().split("\n")[:-1]
    _, status = os.waitpid(child, 0)
    return found, os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


def _said(run: Callable[[str], str], name: str) -> str:
    try:
        said = run(name)
    except BaseException as error:
        said = f"raises {error!r}"
    return said.replace("\n", " ")
