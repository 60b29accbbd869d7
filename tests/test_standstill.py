"""A bound on waiting is excused by the machine alone, for just as long as it stood still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from tests.standstill import Standstill

_STANDS = """
from tests.standstill import Standstill
with Standstill() as stood:
    print("begun", flush=True)
    input()
print(stood.seconds)
"""


def test_a_process_that_was_stopped_stood_still_for_so_long() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _STANDS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    child.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    while time.monotonic() < stopped + 0.3:
        pass
    child.send_signal(signal.SIGCONT)
    output, _ = child.communicate("\n", timeout=20)
    assert 0.25 < float(output) < 0.3 + time.monotonic() - stopped
    assert child.returncode == 0


def test_a_process_that_computes_does_not_stand_still() -> None:
    began, computed = time.monotonic(), time.process_time()
    with Standstill() as stood:
        while time.process_time() < computed + 0.2:
            pass
    elapsed, computed = time.monotonic() - began, time.process_time() - computed
    assert stood.seconds <= elapsed - computed + 0.05
