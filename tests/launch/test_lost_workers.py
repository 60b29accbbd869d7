"""Workers that others report as lost or hanging, read from the store and checked for progress."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastdist.distributed.restarts import DECLARED_LOST
from fastdist.distributed.store import HashStore
from fastdist.launch.lost_workers import PROGRESS_S, Hangs, LostWorker, LostWorkers
from fastdist.launch.worker_process import WorkerProcess
from tests.launch.test_stopped_workers import WAITS, wait_for_end

_COMPUTES = [sys.executable, "-c", "print('here', flush=True)\nwhile True: pass"]


def line(giver: int, gone: int, rank: int, *, hangs: bool = False) -> str:
    return json.dumps([giver, gone, rank, 100 + rank, f"w{giver}", "is silent", hangs]) + "\n"


def test_each_lost_worker_is_passed_on_once_and_what_lost_ones_declare_is_ignored() -> None:
    store = HashStore()
    found: list[LostWorker] = []
    has_last = threading.Event()

    def tell(lost: LostWorker) -> None:
        found.append(lost)
        if lost.rank == 9:
            has_last.set()

    store.append(DECLARED_LOST, line(1, 2, 2) + "none of ours\n")
    closing = threading.Event()
    watch = LostWorkers(lambda: store, tell, closing)
    store.append(DECLARED_LOST, line(3, 2, 2))  # a second worker declares worker 2 lost
    store.append(DECLARED_LOST, line(2, 1, 1))  # ignored, because worker 2 is itself lost
    store.append(DECLARED_LOST, line(1, 5, 5, hangs=True) + line(1, 5, 5))
    store.append(DECLARED_LOST, line(1, 9, 9))
    assert has_last.wait(20.0)
    closing.set()
    store.close()
    watch.join()
    assert [(lost.rank, lost.pid, lost.hangs) for lost in found] == [
        (2, 102, False),
        (5, 105, True),
        (5, 105, False),
        (9, 109, False),
    ]


@pytest.fixture
def workers() -> Iterator[list[WorkerProcess]]:
    made = [
        WorkerProcess(rank, command, os.environ) for rank, command in enumerate((WAITS, _COMPUTES))
    ]
    for worker in made:
        os.set_blocking(worker.stdout.fileno(), True)
        assert worker.stdout.readline() == b"here\n"
    yield made
    for worker in made:
        worker.send(9)  # type: ignore[arg-type]
        wait_for_end(worker)
        worker.close()


@pytest.mark.one_in(3)
def test_a_worker_that_hangs_is_found_and_one_that_computes_is_not(
    workers: list[WorkerProcess],
) -> None:
    hangs = Hangs()
    assert hangs.next_look() == math.inf
    for worker in workers:
        hangs.watch(worker, LostWorker(worker.rank, worker.pid, "w2", "hangs", True), 100.0)
    assert hangs.next_look() == 100.0 + PROGRESS_S
    assert hangs.without_progress(100.0) == []
    (before,) = workers[1].thread_ticks().values()
    while max(workers[1].thread_ticks().values()) < before + 20:  # the worker computes for 0.2 s
        assert workers[1].status is None
    assert [worker for worker, _ in hangs.without_progress(100.0 + PROGRESS_S)] == workers[:1]
    assert hangs.next_look() == math.inf


@pytest.mark.slow
def test_a_worker_that_hangs_with_the_interpreter_lock_comes_back(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        textwrap.dedent(
            """
            import ctypes, os
            from dataclasses import replace
            from fastdist.core.errors import FastdistError
            from fastdist.distributed import rpc
            from fastdist.distributed.rpc.workers.workers import Workers
            rank, count = int(os.environ["RANK"]), int(os.environ["FASTDIST_RESTART_COUNT"])
            timeouts_of = Workers._liveness_timeouts_of
            def short_timeouts(*known):
                return replace(timeouts_of(*known), unresponsive_s=2.0)
            Workers._liveness_timeouts_of = short_timeouts
            def hang():
                if count == 0:
                    ctypes.PyDLL(None).sleep(1000)  # it keeps the interpreter lock
                return count
            rpc.init_rpc(f"worker{rank}")
            came_back = rank
            while not came_back:
                try:
                    came_back = rpc.rpc_sync("worker1", hang, timeout=0)
                except FastdistError as error:
                    print(type(error).__name__)
            rpc.shutdown()
            """
        )
    )
    launch = (
        "import sys, fastdist.launch.lost_workers as lost_workers, fastdist.run\n"
        "lost_workers.PROGRESS_S = 1.0\n"
        "sys.exit(fastdist.run.main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", launch, "-n2", "--max-restarts=1", "--restart=worker", str(script)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "makes no progress, and does not answer worker0: it lives, but its Python" in (
        done.stderr
    )
