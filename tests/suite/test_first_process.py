"""A container's first process adopts the orphans of tests, and exits as the tests do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AS_FIRST = """
import os, signal, sys
own, os.getpid = os.getpid, lambda: 1
from tests.first_process import leave_orphans_to_a_parent
before = own()
leave_orphans_to_a_parent()
assert os.getppid() == before != own()
"""
MAKE_AN_ORPHAN = """
import os, sys
from tests.first_process import leave_orphans_to_a_parent
assert os.getpid() == 1
leave_orphans_to_a_parent()
read, write = os.pipe()
if not os.fork():
    if not os.fork():
        os.read(read, 1)  # until its parent has ended
        os._exit(0)
    os._exit(0)
os.wait()
os.write(write, b"!")
while len(processes := [name for name in os.listdir("/proc") if name.isdecimal()]) > 2:
    pass
try:
    os.wait()
except ChildProcessError:
    print("none of mine")
"""


@pytest.mark.parametrize(
    ("end", "status"),
    [("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os.kill(own(), signal.SIGKILL)", 137)],
)
def test_it_ends_as_its_child_does(end: str, status: int) -> None:
    done = subprocess.run([sys.executable, "-c", AS_FIRST + end], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == status


def test_who_is_not_the_first_goes_on_itself() -> None:
    script = AS_FIRST.replace("lambda: 1", "os.getpid").replace(
        "== before != own", "!= before == own"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, timeout=60, check=True)


@pytest.mark.namespaces
def test_it_waits_for_an_orphan() -> None:
    apart = "unshare --pid --fork --kill-child --mount-proc --user --map-root-user"
    done = subprocess.run(
        [*apart.split(), sys.executable, "-c", MAKE_AN_ORPHAN],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "none of mine\n", done.stderr


def test_ctrl_c_interrupts_a_run_that_a_shell_started_with_it_ignored() -> None:
    program = (
        "import os, signal; from tests.first_process import restore_ctrl_c\n"
        "restore_ctrl_c()\n"
        "try: os.kill(os.getpid(), signal.SIGINT); signal.pause()\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$0" -c "$1"', sys.executable, program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "interrupted\n", done.stderr
