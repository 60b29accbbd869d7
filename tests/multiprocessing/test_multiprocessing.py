"""`spawn`: the work of its processes, the reports of their failures, and their end."""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing import forkserver as server
from pathlib import Path
from typing import Any

import pytest

import fastdist.multiprocessing as mp
from fastdist.core.errors import FastdistError
from tests.multiprocessing import work

_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


@pytest.fixture(scope="module")
def forkserver() -> Iterator[str]:
    """Yield a start method that forks from a server with preloaded modules. A spawned process would
    spend half a second of a core on imports.
    """
    multiprocessing.set_forkserver_preload([work.__name__])
    yield "forkserver"
    server._forkserver._stop()  # type: ignore[attr-defined]
    multiprocessing.set_forkserver_preload(["__main__"])


@pytest.mark.one_in(3)
def test_each_process_gets_its_index_and_the_arguments(tmp_path: Path) -> None:
    assert mp.spawn(work.write_index, args=(str(tmp_path), "here"), nprocs=2) is None
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "0": "here",
        "1": "here",
    }


@pytest.mark.one_in(3)
def test_a_tutorials_workers_train(port: int) -> None:
    mp.spawn(work.train, args=(2, port), nprocs=2, join=True)


def test_the_traceback_of_who_failed_is_told_and_the_others_are_ended(forkserver: str) -> None:
    started = mp.spawn(work.fail_in_the_second, nprocs=3, join=False, start_method=forkserver)
    assert started is not None
    pids = started.pids()
    with pytest.raises(mp.ProcessRaisedException) as raised:
        started.join()
    text = str(raised.value)
    assert text.startswith("\n\n-- Process 1 terminated with the following error:\nTraceback")
    assert text.rstrip().endswith("ValueError: no luck in 1")
    assert (raised.value.error_index, raised.value.error_pid) == (1, pids[1])
    assert isinstance(raised.value, FastdistError)
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


@pytest.mark.one_in(3)
def test_what_a_process_ended_by_is_told(forkserver: str) -> None:
    with pytest.raises(mp.ProcessExitedException, match=r"^process 0 terminated with exit code 3$"):
        mp.spawn(work.exit_with, args=(3,), start_method=forkserver)
    with pytest.raises(
        mp.ProcessExitedException, match=r"^process 0 terminated with signal SIGKILL$"
    ) as raised:
        mp.spawn(work.die_by, args=(signal.SIGKILL,))
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (copy.exit_code, copy.signal_name, str(copy)) == (-9, "SIGKILL", str(raised.value))
    with pytest.raises(mp.ProcessExitedException, match=r"^process 0 terminated with signal 40$"):
        mp.spawn(work.die_by, args=(40,), start_method=forkserver)
    mp.spawn(work.exit_with, args=(0,), start_method=forkserver)


def test_a_join_with_a_timeout_can_be_repeated(tmp_path: Path, forkserver: str) -> None:
    go = str(tmp_path / "go")
    started = mp.spawn(work.wait_for, args=(go,), nprocs=2, join=False, start_method=forkserver)
    assert started is not None
    assert started.join(timeout=0.05) is False
    (tmp_path / "go").touch()
    assert started.join(timeout=60) is True
    assert started.join() is True


def test_a_text_longer_than_a_pipe_is_told_by_its_end(forkserver: str) -> None:
    with pytest.raises(mp.ProcessRaisedException, match="the end"):
        mp.spawn(work.raise_much, start_method=forkserver)


def test_what_cannot_be_sent_to_a_process_leaves_none_behind() -> None:
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        mp.spawn(lambda index: None, nprocs=2)
    with pytest.raises(ValueError, match="nprocs is 0; expected at least 1"):
        mp.spawn(work.write_index, nprocs=0)
    assert not multiprocessing.active_children()


def test_pythons_own_names_are_there() -> None:
    assert mp.Queue == multiprocessing.Queue
    assert mp.get_context("spawn") is multiprocessing.get_context("spawn")
    with pytest.raises(AttributeError, match="has no attribute 'spwan'"):
        _ = mp.spwan


_SPAWNS = """
import threading
import fastdist.multiprocessing as mp

def wait(index):
    threading.Event().wait(60)

if __name__ == "__main__":
    started = mp.spawn(wait, nprocs=2, join=False)
    print(*started.pids(), flush=True)
    started.join()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_the_one_that_started_them(tmp_path: Path, number: int) -> None:
    script = tmp_path / "spawns.py"
    script.write_text(_SPAWNS)
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, env=_ENVIRONMENT
    ) as starter:
        assert starter.stdout is not None
        spawned = [os.pidfd_open(int(pid)) for pid in starter.stdout.readline().split()]
        starter.send_signal(number)
    assert len(spawned) == 2
    for one in spawned:
        assert select.select([one], [], [], 20)[0], "a process outlives the one that started it"
        os.close(one)


@pytest.mark.one_in(3)
def test_who_is_interrupted_while_they_run_ends_them(tmp_path: Path) -> None:
    script = tmp_path / "spawns.py"
    script.write_text(_SPAWNS.replace(", join=False)", ", join=True)").replace("started.p", "p"))
    with subprocess.Popen(
        [sys.executable, script], stderr=subprocess.PIPE, text=True, env=_ENVIRONMENT
    ) as starter:
        # The third child is Python's resource tracker.
        while len(children := _children_of(starter.pid)) < 3:
            assert starter.poll() is None
            threading.Event().wait(0.01)
        spawned = [os.pidfd_open(pid) for pid in children]
        starter.send_signal(signal.SIGINT)
        assert starter.stderr is not None
        assert "KeyboardInterrupt" in starter.stderr.read()
    for one in spawned:
        assert select.select([one], [], [], 20)[0], "a process outlives the one that started it"
        os.close(one)


@pytest.mark.parametrize("begins", [False, True])
def test_ctrl_c_while_a_process_starts_leaves_none(
    begins: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, begun = multiprocessing.get_context("spawn").Process, list[multiprocessing.Process]()
    start = kind.start

    def start_and_be_struck(process: Any) -> None:
        if begins:
            start(process)
            begun.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(kind, "start", start_and_be_struck)
    with pytest.raises(KeyboardInterrupt):
        mp.spawn(work.wait_for, args=(str(tmp_path / "never"),))
    assert [process.is_alive() for process in begun] == [False] * begins


def test_ctrl_c_inside_of_the_start_of_a_process_ends_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn, begun = multiprocessing.util.spawnv_passfds, list[int]()

    def spawn_and_be_struck(path: bytes, words: list[bytes], passed: list[int]) -> int:
        pid: int = spawn(path, words, passed)
        if not any("resource_tracker" in str(word) for word in words):
            begun.append(pid)
        if len(begun) == 2:
            signal.raise_signal(signal.SIGINT)
        return pid

    monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", spawn_and_be_struck)
    with pytest.raises(KeyboardInterrupt):
        mp.spawn(work.wait_for, args=(str(tmp_path / "never"),), nprocs=2)
    assert len(begun) == 2
    assert not [pid for pid in begun if Path(f"/proc/{pid}").exists()]


def _children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.one_in(3)
def test_a_way_of_sharing_memory_can_be_chosen_and_changes_nothing() -> None:
    before = mp.get_sharing_strategy()
    assert before in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    try:
        assert mp.get_sharing_strategy() == "file_system"
    finally:
        mp.set_sharing_strategy(before)
    with pytest.raises(ValueError, match="'foo' is not one of"):
        mp.set_sharing_strategy("foo")
