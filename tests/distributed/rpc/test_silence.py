"""A live worker that does not answer is reported, and is not treated as dead."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import logging
import os
import re
import threading
import time
from pathlib import Path

import pytest

from fastdist.distributed import rpc
from fastdist.distributed.rpc.workers import session, worker
from fastdist.distributed.rpc.workers.session import LivenessTimeouts
from tests.distributed.workers import run_group
from tests.standstill import Standstill

SILENT_S = 1.0
told: list[str] = []
was_notified = threading.Event()


def note(worker: rpc.WorkerInfo, why: str) -> None:
    told.append(f"{worker.name} {why}\n")
    was_notified.set()


class Ends(logging.Handler):
    """Records the log lines that report the end of a silence."""

    def emit(self, record: logging.LogRecord) -> None:
        if "answers again" in record.getMessage():
            told.append("answers again\n")


def hold_the_interpreter(path: str) -> None:
    """Block this worker's Python, like a library that never releases the GIL.

    The block ends when w0 releases its lock on the file `path`.
    """
    with open(path) as file:
        ctypes.PyDLL(None).flock(file.fileno(), fcntl.LOCK_EX)


def wait_until_w1_is(how: str) -> None:
    deadline = time.monotonic() + 20
    while how not in (found := rpc._get_debug_info()["agent.peer.w1"]):
        assert time.monotonic() < deadline, found


def wait_for_a_stuck_worker(path: str) -> tuple[str, float]:
    """Return the reports of silences, and how many seconds this worker was stopped."""
    worker.BEAT_S = 0.2
    session.LivenessTimeouts = functools.partial(LivenessTimeouts, unresponsive_s=SILENT_S)  # type: ignore[assignment,misc]
    rpc.add_silence_hook(note)
    logging.getLogger(worker.__name__).addHandler(Ends())
    with Standstill() as stood:
        rpc.init_rpc(f"w{os.environ['RANK']}")
        count = None
        if os.environ["RANK"] == "0":
            with open(path) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                future = rpc.rpc_async("w1", hold_the_interpreter, (path,))
                assert was_notified.wait(20)
                wait_until_w1_is("its Python does not answer")
                threading.Event().wait(1.5 * SILENT_S)  # a wrong second report would come now
            future.wait()
            wait_until_w1_is("connected")
            count = len(told)  # ignore later events of w1
        rpc.shutdown()
    return "".join(told[:count]), stood.seconds


@pytest.mark.one_in(4)
def test_a_worker_whose_python_is_stuck_is_told_of_and_its_call_ends_well(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    (by_w0, stood_s), (by_w1, _) = run_group(wait_for_a_stuck_worker, 2, str(path))
    # Each silence is reported once. If the machine also stops w1, there is more than one silence.
    silence = r"w1 lives, but its Python has not answered for (\d+) s[^\n]*\nanswers again\n"
    assert re.fullmatch(f"({silence})+", by_w0), by_w0
    for silent_s in re.findall(silence, by_w0):
        assert SILENT_S <= int(silent_s) < SILENT_S + 0.5 + stood_s
    # w1 must not report its own block as a silence of w0, unless w0 was stopped too.
    assert "Python" not in by_w1 or stood_s > SILENT_S / 2, by_w1
