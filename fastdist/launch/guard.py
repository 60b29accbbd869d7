"""The launcher's end of the pipe to its watcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


class Guard:
    """Reports the live process groups to the watcher, which kills them if the launcher dies."""

    def __init__(self, folder: str) -> None:
        script = Path(__file__).with_name("watcher.py")
        # The watcher has a separate session, so that a signal to the launcher's process group does
        # not end the watcher too.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        self._tell(b"!" + os.fsencode(folder))

    def add(self, group: int) -> None:
        """Let the watcher kill this process group if the launcher dies."""
        self._tell(b"+%d" % group)

    def discard(self, group: int) -> None:
        """Remove this process group, all of whose processes have ended."""
        self._tell(b"-%d" % group)

    def close(self) -> None:
        """End the watcher, which kills the process groups that are still in its list."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
        except BrokenPipeError:
            # The watcher was killed. The job continues without its protection.
            return
