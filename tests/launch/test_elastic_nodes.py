"""Lost, replaced and added nodes with `--nnodes MIN:MAX`, and killed launchers."""

from __future__ import annotations

import os
import re
import secrets
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.standstill import freeze

# A node is lost after this many seconds without a heartbeat; launchers send two a second.
_LOST_S = "3"
_TEXT = """
import os, signal
names = "FASTDIST_RESTART_COUNT RANK WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE"
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("start", *[os.environ[name] for name in names.split()], "pid", os.getpid(), flush=True)
signal.sigwait([signal.SIGUSR1])
"""
StartNode = Callable[..., Any]


@pytest.fixture
def start_node(start_run: Any, port: int) -> StartNode:
    """Return a function that starts a node's launcher; node 0 has two workers, others have one."""
    secret = secrets.token_hex(32)

    def start(node: int, nnodes: str, *flags: str, address: int = 0) -> Any:
        return start_run(
            _TEXT,
            f"-n{2 if node == 0 else 1}",
            f"--nnodes={nnodes}",
            f"--node-rank={node}",
            "--master-addr=127.0.0.1",
            f"--master-port={port}",
            f"--local-addr=127.0.0.{address or node + 1}",
            "--max-restarts=3",
            *flags,
            environment={"FASTDIST_JOB_SECRET": secret, "FASTDIST_FROZEN_S": _LOST_S},
        )

    return start


def _pids(run: Any, *starts: str) -> list[int]:
    """Wait for workers that print these variables' values, and return their process ids."""
    return [run.number_after(f"start {text} pid") for text in starts]


def _finish(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGUSR1)


@pytest.mark.one_in(7)
def test_another_launcher_takes_the_place_of_a_killed_one(start_node: StartNode) -> None:
    first, second = (start_node(node, "2") for node in (0, 1))
    _pids(first, "0 0 3 0 2", "0 1 3 0 2")
    _pids(second, "0 2 3 1 2")
    second.process.kill()
    # The third launcher waits until the loss is detected, however long that takes.
    third = start_node(1, "2", address=7)
    pids = _pids(first, "1 0 3 0 2", "1 1 3 0 2") + _pids(third, "1 2 3 1 2")
    _finish(pids)
    assert [first.end(), third.end()] == [0, 0]
    told = first.err.decode()
    # The loss is reported after at least 3 s of silence, and later on a busy machine.
    lost = (
        r"fastdist: node 1 \(127\.0\.0\.2\) was lost: not heard for (\d+) s; waiting up to 60 s for"
    )
    found = re.search(lost, told)
    assert found is not None and int(found[1]) >= 3
    assert "a launcher with --node-rank 1 to take its place; restart 1 of 3" in told
    assert (
        "the job goes on with node 1 (127.0.0.7) and without node 1 (127.0.0.2) (2 nodes," in told
    )
    assert "all workers are started again (restart 1 of 3)" in told
    # A loss counts as one restart, whichever node reports it.
    assert told.count("restart 2 of 3") == 0


@pytest.mark.one_in(7)
def test_a_job_goes_on_with_fewer_nodes_and_takes_another_at_its_next_restart(
    start_node: StartNode,
) -> None:
    flags = ("--rejoin-timeout=1",)
    first, second = (start_node(node, "1:3", *flags) for node in (0, 1))
    _pids(first, "0 0 3 0 2", "0 1 3 0 2")
    _pids(second, "0 2 3 1 2")
    second.process.kill()
    pids = _pids(first, "1 0 2 0 1", "1 1 2 0 1")
    third = start_node(2, "1:3", *flags)
    third.wait_for("node 2 waits for the next restart of the job", of="err")
    os.kill(pids[1], signal.SIGKILL)
    pids = _pids(first, "2 0 3 0 2", "2 1 3 0 2") + _pids(third, "2 2 3 1 2")
    _finish(pids)
    assert [first.end(), third.end()] == [0, 0]
    told = first.err.decode()
    assert "take its place, then going on without it; restart 1 of 3" in told
    assert "the job goes on without node 1 (127.0.0.2) (1 node, 2 workers)" in told
    assert "the job goes on with node 2 (127.0.0.3) (2 nodes, 3 workers)" in told


@pytest.mark.one_in(7)
def test_node_0_may_be_started_again_and_the_others_come_back_to_it(start_node: StartNode) -> None:
    first, second = (start_node(node, "2") for node in (0, 1))
    _pids(first, "0 0 3 0 2", "0 1 3 0 2")
    _pids(second, "0 2 3 1 2")
    first.process.kill()
    second.wait_for("fastdist: node 0 (127.0.0.1) was lost: ", of="err")
    second.wait_for("for a launcher with --node-rank 0 to take its place; restart 1 of 3", of="err")
    again = start_node(0, "2")
    # The counter of restarts continues.
    pids = _pids(again, "1 0 3 0 2", "1 1 3 0 2") + _pids(second, "1 2 3 1 2")
    _finish(pids)
    assert [again.end(), second.end()] == [0, 0]


@pytest.mark.one_in(7)
def test_a_launcher_that_was_stopped_for_long_comes_back_to_its_place(
    start_node: StartNode,
) -> None:
    first, second = (start_node(node, "2") for node in (0, 1))
    _pids(first, "0 0 3 0 2", "0 1 3 0 2")
    _pids(second, "0 2 3 1 2")
    freeze(second.process.pid)
    first.wait_for("node 1 (127.0.0.2) was lost: not heard for", of="err")
    second.process.send_signal(signal.SIGCONT)
    pids = _pids(first, "1 0 3 0 2", "1 1 3 0 2") + _pids(second, "1 2 3 1 2")
    _finish(pids)
    assert [first.end(), second.end()] == [0, 0]


@pytest.mark.one_in(7)
def test_a_place_whose_launcher_lives_is_refused_and_too_few_nodes_end_the_job(
    start_node: StartNode,
) -> None:
    flags = ("--rejoin-timeout=1",)
    first, second = (start_node(node, "2", *flags) for node in (0, 1))
    _pids(first, "0 0 3 0 2", "0 1 3 0 2")
    _pids(second, "0 2 3 1 2")
    late = start_node(1, "2", *flags, address=7)
    assert late.end() == 1
    assert b"--node-rank 1 was given twice, at 127.0.0.2 and at 127.0.0.7" in late.err
    second.process.kill()
    assert first.end() == 1
    told = "no launcher took the place of node 1 within 1 s, and a job of --nnodes 2 cannot go on"
    assert told in first.err.decode()
    assert b"start 1" not in first.out


@pytest.mark.one_in(7)
def test_a_launcher_that_is_not_needed_ends_well_with_the_job(start_node: StartNode) -> None:
    flags = ("--rejoin-timeout=0",)
    first = start_node(0, "1:2", *flags)
    pids = _pids(first, "0 0 2 0 1", "0 1 2 0 1")
    spare = start_node(1, "1:2", *flags)
    spare.wait_for("node 1 waits for the next restart of the job", of="err")
    _finish(pids)
    assert [first.end(), spare.end()] == [0, 0]
    assert b"node 1 was not needed: the job has ended before it needed this node" in spare.err


@pytest.mark.one_in(7)
def test_nodes_without_a_rank_share_the_places_out(start_run: Any, port: int) -> None:
    secret = secrets.token_hex(32)
    line = ["--nnodes=3", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}"]

    def start() -> Any:
        return start_run(_TEXT, *line, environment={"FASTDIST_JOB_SECRET": secret})

    # The second launcher finds the port in use.
    runs = [start() for _ in range(3)]
    for run in runs:
        run.wait_for("start 0 ")
        run.wait_for_line_after("start 0 ")
    starts = [run.out.decode().split("start 0 ")[1].split() for run in runs]
    assert sorted(words[0] for words in starts) == ["0", "1", "2"]
    assert all(words[1] == "3" and words[2] == words[0] for words in starts)
    late = start()
    assert late.end() == 1
    assert b"this node could not join the job: all 3 places of nodes are taken" in late.err
    _finish([int(words[-1]) for words in starts])
    assert [run.end() for run in runs] == [0, 0, 0]
