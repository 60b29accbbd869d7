"""A time limit is extended only by the time for which this process itself was stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.standstill import Standstill, freeze

_STANDS = """
import time
from pathlib import Path
from tests.standstill import Standstill
before = time.monotonic()
with Standstill() as stood:
    print("begun", flush=True)
    input()
print(stood.seconds, time.monotonic() - before)
"""


@pytest.mark.one_in(3)
def test_a_process_that_was_stopped_stood_still_for_so_long() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _STANDS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    freeze(child.pid)
    # The kernel reports that a process is stopped only after all its threads are stopped.
    assert os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOHANG) is not None
    stopped = time.monotonic()
    while time.monotonic() < stopped + 0.3:
        pass
    child.send_signal(signal.SIGCONT)
    output, _ = child.communicate("\n", timeout=20)
    stood_s, elapsed_s = map(float, output.split())
    assert 0.25 < stood_s < elapsed_s
    assert child.returncode == 0


@pytest.mark.one_in(3)
def test_a_process_that_computes_does_not_stand_still() -> None:
    began, computed = time.monotonic(), time.process_time()
    with Standstill() as stood:
        while time.process_time() < computed + 0.2:
            pass
    elapsed, computed = time.monotonic() - began, time.process_time() - computed
    assert stood.seconds <= elapsed - computed + 0.05
