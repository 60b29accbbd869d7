"""A small process that ends a job's workers if its launcher is killed; run as a script.

The watcher reads lines from stdin: `+PID` and `-PID` add and remove a live process group, `!PATH`
names the folder to remove. The launcher holds the other end of the pipe, which closes when the
launcher dies for any reason. After an orderly end nothing is left to do. The watcher starts with
`python -I -S` and few imports, which takes a few milliseconds.
"""

from __future__ import annotations

import os
import signal
import sys


def watch() -> None:
    """Read until the launcher ends, then kill the listed process groups and remove the folder."""
    groups: set[int] = set()
    folder = ""
    for line in sys.stdin.buffer:
        mark, value = line[:1], line[1:].rstrip(b"\n")
        if mark == b"+":
            groups.add(int(value))
        elif mark == b"-":
            groups.discard(int(value))
        elif mark == b"!":
            folder = os.fsdecode(value)
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if folder:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    # A Ctrl-C is meant for the launcher; the watcher exits only when its pipe closes.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watch()
