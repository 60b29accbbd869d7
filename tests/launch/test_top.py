"""`fastdist top`: a job under load, a frozen worker, and users without the secret."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastdist.launch import top
from fastdist.launch.gathering import Card, Members
from fastdist.launch.job_address import running_jobs, split_address
from fastdist.launch.job_reading import JobReading, stalls, waits
from fastdist.launch.top_table import as_text, size
from tests.short_folders import short_folder
from tests.standstill import freeze

_LOADED = """
import os, signal
import fastdist as torch
import fastdist.distributed as dist
import fastdist.distributed.rpc as rpc

rank, stop = int(os.environ["RANK"]), []
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
dist.init_process_group("gloo")
rpc.init_rpc(f"worker{rank}")
ones = torch.ones(1000)
print("pid of", rank, "is", os.getpid(), flush=True)
while True:
    flag = torch.tensor([float(len(stop))])
    dist.all_reduce(flag)
    if flag.item():
        break
    rpc.rpc_sync(f"worker{1 - rank}", torch.add, args=(ones, ones))
rpc.shutdown()
dist.destroy_process_group()
"""


@pytest.fixture(autouse=True)
def _no_other_jobs(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the jobs of other processes in this test run."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(private))


@pytest.mark.one_in(7)
def test_a_job_under_load_is_shown_and_its_frozen_worker_is_named(
    start_run: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    job = start_run(_LOADED, "-n2")
    pids = [job.number_after(f"pid of {rank} is") for rank in range(2)]
    (found,) = running_jobs()
    assert top.main([found.address, "--once"]) == 0
    head, names, *workers = capsys.readouterr().out.splitlines()[:4]
    assert head.startswith(f"job at {found.address}: 1 node, 2 workers, memory ")
    for rank, line in enumerate(workers):
        cells = dict(zip(names.split(), line.split()))
        assert (cells["RANK"], cells["NAME"]) == (str(rank), f"worker{rank}")
        assert int(cells["PID"]) == pids[rank]
    freeze(pids[1])
    assert top.main(["--once"]) == 0
    shown = capsys.readouterr().out
    assert "  rank 1: does not answer within 1 s: stopped, or busy in one call" in shown
    # Rank 0 waits for rank 1, in a collective or for the answer to a call.
    assert "not there yet rank 1" in shown or "worker0 waits for worker1 (1 call)" in shown
    os.kill(pids[1], signal.SIGCONT)
    os.kill(pids[0], signal.SIGUSR1)
    assert job.end() == 0
    assert running_jobs() == []
    assert top.main([found.address, "--once"]) == 1


def test_without_the_job_s_secret_nobody_gets_in(
    start_run: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = start_run("import signal; print('ready', flush=True); signal.pause()")
    job.wait_for("ready")
    (found,) = running_jobs()
    # Act as another user, who cannot find the job's folder.
    monkeypatch.setenv("FASTDIST_JOB_SECRET", secrets.token_hex(32))
    with short_folder() as elsewhere:
        monkeypatch.setenv("XDG_RUNTIME_DIR", elsewhere)
        assert top.main([found.address, "--once"]) == 1
    assert "refused the handshake" in capsys.readouterr().err
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["localhost"], "'localhost' is not HOST:PORT, such as 127.0.0.1:29500"),
        (["h:1", "h:2"], "takes one HOST:PORT, got h:1 and h:2"),
        (["--interval", "0"], "--interval is '0'; expected seconds from 0.1 to 3600"),
        (["--interval"], "--interval is ''; expected seconds"),
        (["--twice"], "unknown: --twice; known: HOST:PORT, --once, --interval S"),
        ([], "no job of this user runs on this machine: give HOST:PORT of its store"),
    ],
)
def test_a_mistake_is_an_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert top.main(arguments) == 2
    assert f"fastdist top: {message}" in capsys.readouterr().err


def test_addresses() -> None:
    assert split_address("[::1]:29500") == ("::1", 29500)
    assert split_address("head:80") == ("head", 80)


# ---- what `fastdist top` reads from the workers --------------------------------------------------


def worker(rank: int, calls: int = 0, **more: Any) -> dict[str, Any]:
    group = {
        "name": "0",
        "backend": "gloo",
        "ranks": [0, 1, 2],
        "collectives": more.pop("collectives", 0),
        "bytes": 4000,
        "under_way": more.pop("under_way", None),
    }
    rpc = {
        "name": f"w{rank}",
        "stage": "serving",
        "calls": calls,
        "served": 1,
        "errors": 0,
        "sent_bytes": 500,
        "received_bytes": 500,
        "waits_for": {},
        "silent": {},
        "given_up": False,
        "leaves_after": "",
        **more,
    }
    return {
        "rank": rank,
        "pid": 100 + rank,
        "up_s": 65.0,
        "rss_bytes": 50_000_000,
        "passes": {"running": 1, "contexts": 2},
        "rpc": rpc,
        "groups": [group],
    }


def reading(*workers: dict[str, Any], at: float = 10.0, silent: tuple[str, ...] = ()) -> JobReading:
    return JobReading(Members(1, (Card(0, 1, 3, "here"),)), workers, silent, at)


def test_who_is_late_to_a_collective_is_named() -> None:
    now = {"what": "all_reduce", "line": "train.py:12", "for_s": 7.0}
    found = reading(
        worker(0, collectives=5, under_way=now),
        worker(1, collectives=5, under_way={**now, "for_s": 6.0}),
        worker(2, collectives=4),
    )
    assert waits(found) == [
        "ranks 0, 1 in all_reduce at train.py:12 for 7.0 s: not there yet rank 2"
    ]
    assert stalls(found) == [
        "rank 0: all_reduce at train.py:12 has lasted 7 s",
        "rank 1: all_reduce at train.py:12 has lasted 6 s",
    ]


def test_calls_without_answer_and_silent_ones_are_named() -> None:
    found = reading(
        worker(0, waits_for={"w2": 3}, silent={"w2": "alive, but its Python does not answer"}),
        worker(1, leaves_after="these have not called theirs yet: 'w2'"),
        {"rank": 2, "silent": "does not answer within 1 s"},
        silent=("node 1 (there)",),
    )
    assert waits(found) == [
        "w0 waits for w2 (3 calls)",
        "w1 waits in shutdown(): these have not called theirs yet: 'w2'",
    ]
    assert stalls(found) == [
        "node 1 (there): its launcher does not answer",
        "w2: alive, but its Python does not answer, as rank 0 sees it",
        "rank 2: does not answer within 1 s",
    ]


def test_rates_are_those_since_the_reading_before() -> None:
    before, after = reading(worker(0, 10), at=10.0), reading(worker(0, 30), at=12.0)
    first = as_text(before, None, "h:1").splitlines()[2].split()
    second = as_text(after, before, "h:1").splitlines()[2].split()
    assert first[:8] == ["0", "w0", "100", "1m5s", "50", "MB", "-", "10"]
    assert second[6] == "10"  # calls made and served per second
    assert as_text(after, before, "h:1").startswith("job at h:1: 1 node, 3 workers, restart 1, ")


def test_sizes() -> None:
    shown = [size(count) for count in (0, 999, 1000, 1_250_000, 3.2e12)]
    assert shown == ["0 B", "999 B", "1 KB", "1.25 MB", "3.2 TB"]
