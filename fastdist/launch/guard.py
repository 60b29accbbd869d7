"""The launcher's end of the pipe to its watcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


class Guard:
    """Tells the watcher which groups live, so that they die with the launcher."""

    def __init__(self, folder: str) -> None:
        script = Path(__file__).with_name("watcher.py")
        # In a separate session: a signal that ends the launcher's group must not end the watcher
        # first.
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
        """Kill this group if the launcher dies."""
        self._tell(b"+%d" % group)

    def discard(self, group: int) -> None:
        """Forget this group: all of it has ended."""
        self._tell(b"-%d" % group)

    def close(self) -> None:
        """End the watcher; it kills what is still in its list."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
        except BrokenPipeError:
            # Somebody killed the watcher. The job runs on: only the protection is lost.
            return
