"""A worker stopped by a signal does not hold up a job whose other workers have ended."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastdist.launch.stopped_workers import STOPPED_S, StoppedWorkers
from fastdist.launch.worker_process import WorkerProcess
from tests.standstill import freeze

# A worker that exits immediately, and one that prints a line and waits forever.
ENDS = [sys.executable, "-c", ""]
WAITS = [sys.executable, "-c", "import signal; print('here', flush=True); signal.pause()"]


@pytest.fixture
def workers() -> Iterator[list[WorkerProcess]]:
    made = [WorkerProcess(rank, command, os.environ) for rank, command in enumerate((ENDS, WAITS))]
    yield made
    for worker in made:
        worker.send(signal.SIGKILL)
        wait_for_end(worker)
        worker.close()


def wait_for_end(worker: WorkerProcess) -> None:
    if worker.status is None:
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        assert worker.has_ended()


def test_it_looks_only_while_some_have_ended_and_some_run(workers: list[WorkerProcess]) -> None:
    watch = StoppedWorkers()
    assert watch.next_look(workers) == math.inf
    wait_for_end(workers[0])
    assert watch.next_look(workers) == -math.inf
    assert watch.look(workers, 5.0) is None and watch.next_look(workers) == 6.0
    workers[1].send(signal.SIGKILL)
    wait_for_end(workers[1])
    assert watch.next_look(workers) == math.inf


def test_only_who_stays_stopped_is_named(workers: list[WorkerProcess]) -> None:
    watch, (ended, waiting) = StoppedWorkers(), workers
    wait_for_end(ended)
    assert not waiting.is_stopped()
    freeze(waiting.pid)
    assert waiting.is_stopped()
    assert watch.look(workers, 0.0) is None
    waiting.send(signal.SIGCONT)
    os.waitid(os.P_PID, waiting.pid, os.WCONTINUED)
    assert watch.look(workers, STOPPED_S + 1) is None, "it ran in between"
    freeze(waiting.pid)
    assert watch.look(workers, 100.0) is None
    assert watch.look(workers, 100.0 + STOPPED_S - 1) is None
    failure = watch.look(workers, 100.0 + STOPPED_S)
    assert failure is not None and failure.rank == 1
    assert failure.sentence.startswith(
        f"rank 1 (pid {waiting.pid}) has been stopped by a signal for 10 s while others have ended"
    )


@pytest.mark.one_in(7)
def test_a_job_with_a_stopped_worker_ends(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, signal\nif os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    launch = (
        "import sys, fastdist.launch.stopped_workers as stopped, fastdist.run\n"
        "stopped.STOPPED_S = 0.5\n"
        "sys.exit(fastdist.run.main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", launch, "-n", "2", str(script)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "rank 1 (pid " in done.stderr and "has been stopped by a signal" in done.stderr
