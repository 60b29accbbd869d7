"""Freeze another process, or measure how long this process could not run (to excuse late waits)."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import TracebackType

_TICK_S = 0.005
# If a wake-up is late by less than this, the delay is ordinary scheduling.
_USUAL_S = 0.015
_FREEZE_S = 20.0


def freeze(pid: int) -> None:
    """Stop a process by SIGSTOP; return when none of its threads runs any more.

    On busy cores this takes up to 25 ms. The kernel stops all threads after one thread has received
    the signal, and the other threads run until then.

    Raises  FileNotFoundError if the process has ended
    """
    os.kill(pid, signal.SIGSTOP)
    deadline, pause = time.monotonic() + _FREEZE_S, threading.Event()
    while any(_state(task) not in "TtZX" for task in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < deadline, f"process {pid} still runs"
        pause.wait(0.0005)


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"  # the thread has ended


class Standstill:
    """Adds up, inside a block, how long this process was stopped or had no core.

    Time in which threads of this process computed does not count, so a thread that holds the GIL
    does not excuse a late wait.

        with Standstill() as stood:
            ...
        assert took_s - stood.seconds < 0.2

    Units   seconds
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begun, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._tick, name="standstill", daemon=True)

    def __enter__(self) -> Standstill:
        self._thread.start()
        self._begun.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _tick(self) -> None:
        began, computed = time.monotonic(), time.process_time()
        self._begun.set()
        is_over = False
        while not is_over:
            is_over = self._over.wait(_TICK_S)
            now, has_computed = time.monotonic(), time.process_time()
            stood_s = now - began - (has_computed - computed) - _TICK_S
            if stood_s > _USUAL_S:
                self.seconds += stood_s
            began, computed = now, has_computed
