"""Many workers on one machine call each other, and all of them end without an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.kept_port import KeptPort

ROOT = Path(__file__).resolve().parents[2]

# The workers are forked before the parent has threads or sockets. If each of the 64 workers
# imported fastdist itself, the imports would take two cores a minute.
_GROUP = """
import os, sys, traceback
from bench.distributed import many_workers
from fastdist.distributed import rpc


def live(rank):
    status = 1
    try:
        os.environ["RANK"] = str(rank)
        many_workers.work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


pids = [os.fork() or live(rank) for rank in range(int(os.environ["WORLD_SIZE"]))]
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
print({rank: code for rank, code in enumerate(codes) if code})
"""


def run_all_to_all(size: int, bound_s: float) -> None:
    kept = KeptPort()
    try:
        ran = subprocess.run(
            [sys.executable, "-c", _GROUP],
            cwd=ROOT,
            env={
                **os.environ,
                "WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(kept.number),
            },
            capture_output=True,
            text=True,
            timeout=bound_s,
            check=False,
        )
    finally:
        kept.close()
    assert (ran.returncode, ran.stdout) == (0, "{}\n"), ran.stderr[-4_000:]
    assert "Assertion failed" not in ran.stderr


@pytest.mark.one_in(2)
def test_16_workers_that_have_called_each_other_end_well() -> None:
    run_all_to_all(16, 100)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("turn", range(10))
def test_64_workers_that_have_called_each_other_end_well(turn: int) -> None:
    run_all_to_all(64, 380)
