"""The leak fixture detects what a test leaves behind, and waits for threads that are ending."""

from __future__ import annotations

import mmap
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from fastdist.system import sealed_memory
from tests import leak_fixture
from tests.leak_fixture import hold, left, nothing_left_behind

ROOT = Path(__file__).resolve().parents[2]
CAT = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leak_fixture, "PATIENCE_S", 0.01)


@pytest.mark.usefixtures("impatient")
def test_a_thread_that_runs_on_is_a_leak() -> None:
    before, enough = hold(), threading.Event()
    thread = threading.Thread(target=enough.wait, name="forgotten", daemon=True)
    thread.start()
    found = left(before, wider=False)
    enough.set()
    thread.join()
    assert found == ["thread 'forgotten'"]


def test_a_thread_that_is_just_ending_is_waited_for() -> None:
    before, enough = hold(), threading.Event()
    threading.Thread(target=enough.wait, args=(0.05,), name="ending").start()
    assert left(before, wider=False) == []


def test_an_engine_thread_is_no_leak_unless_it_keeps_the_interpreter() -> None:
    before, enough = hold(), threading.Event()
    threads = [
        threading.Thread(target=enough.wait, name=f"fastdist-engine-{daemon}", daemon=daemon)
        for daemon in (True, False)
    ]
    for thread in threads:
        thread.start()
    leak_fixture.PATIENCE_S, patience = 0.01, leak_fixture.PATIENCE_S
    found = left(before, wider=False)
    leak_fixture.PATIENCE_S = patience
    enough.set()
    for thread in threads:
        thread.join()
    assert found == ["thread 'fastdist-engine-False'"]


@pytest.mark.usefixtures("impatient")
def test_a_pool_that_was_there_may_grow_inside_a_test_only() -> None:
    enough = threading.Event()
    threads = [threading.Thread(target=enough.wait, name=f"some-pool-{i}") for i in (0, 1)]
    threads[0].start()
    before = hold()
    threads[1].start()
    found = left(before, wider=True), left(before, wider=False)
    enough.set()
    for thread in threads:
        thread.join()
    assert found == ([], ["thread 'some-pool-1'"])


@pytest.mark.usefixtures("impatient")
def test_a_child_that_runs_on_is_a_leak() -> None:
    before = hold()
    with subprocess.Popen(CAT, stdin=subprocess.PIPE) as child:
        (found,) = left(before, wider=False)
    assert found.startswith(f"process {child.pid} (")


def test_a_child_that_ended_unasked_is_a_leak() -> None:
    before = hold()
    with subprocess.Popen(CAT, stdin=subprocess.DEVNULL) as child:
        (found,) = left(before, wider=False)
    assert found == f"process {child.pid} (never waited for)"


def test_a_socket_file_of_this_process_is_a_leak() -> None:
    before = hold()
    folder = Path(os.environ["XDG_RUNTIME_DIR"], "fastdist", f"ipc-{os.getpid()}-test")
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "lane"))
        found = left(before, wider=False)
    (folder / "lane").unlink()
    folder.rmdir()
    assert found == ["socket file 'lane'"]


def test_an_open_socket_is_a_leak() -> None:
    import zmq

    from fastdist.distributed.sockets.context import open_socket

    before = hold()
    sender = open_socket(zmq.PUSH, "of a test")
    found = left(before, wider=False)
    sender.close()
    assert found == ["ZeroMQ socket 'of a test'"] and left(before, wider=False) == []


def test_shared_memory_of_this_process_or_of_a_dead_one_is_a_leak(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # In the real folder, files of dead processes would be leaks in every test run on this machine.
    monkeypatch.setattr(leak_fixture, "SHARED_MEMORY", str(tmp_path))
    with subprocess.Popen(CAT, stdin=subprocess.DEVNULL) as ended:
        pass
    with subprocess.Popen(CAT, stdin=subprocess.PIPE) as other:
        before = hold()
        names = [f"fastdist-{maker}-test" for maker in (os.getpid(), ended.pid, other.pid)]
        for name in names:
            (tmp_path / name).touch()
        found = left(before, wider=False)
    monkeypatch.undo()
    assert found == sorted(f"shared memory {name!r}" for name in names[:2])


def test_shared_memory_without_a_name_is_a_leak() -> None:
    before = hold()
    others, ours = os.memfd_create("others"), os.memfd_create("fastdist-arena")
    found = left(before, wider=False)
    os.close(others)
    os.close(ours)
    assert found == ["shared memory 'fastdist-arena'"]


def test_memory_that_is_mapped_is_a_leak() -> None:
    before = hold()
    descriptor = sealed_memory.create("memory of a test", mmap.PAGESIZE)
    mapping = sealed_memory.map_shared(descriptor, mmap.PAGESIZE, "test")
    os.close(descriptor)
    found = left(before, wider=False)
    mapping.close()
    assert found == ["mapping of a test"] and not left(before, wider=False)


def test_a_file_among_the_private_ones_is_a_leak() -> None:
    before = hold()
    file = Path(os.environ["XDG_RUNTIME_DIR"], "fastdist", "secret-test")
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.touch()
    found = left(before, wider=False)
    file.unlink()
    assert found == ["file 'secret-test'"]


@pytest.mark.parametrize(
    ("key", "named"),
    [("num_owner_rrefs", "RRef owned here"), ("num_users", "RRef used here")],
)
def test_a_reference_is_a_leak(monkeypatch: pytest.MonkeyPatch, key: str, named: str) -> None:
    counts = {"num_owner_rrefs": "0", "num_users": "1"}
    room = SimpleNamespace(_rref_context_get_debug_info=lambda: counts)
    monkeypatch.setitem(sys.modules, "fastdist.distributed.rpc", room)
    before = hold()
    counts[key] = str(int(counts[key]) + 2)
    found = left(before, wider=False)
    monkeypatch.undo()
    assert found == [named] * 2


def test_what_a_room_counts_is_a_leak_if_it_grew(monkeypatch: pytest.MonkeyPatch) -> None:
    open_contexts = 1
    room = SimpleNamespace(_get_debug_info=lambda: {"num_autograd_contexts": open_contexts})
    monkeypatch.setitem(sys.modules, "fastdist.distributed.autograd", room)
    before = hold()
    open_contexts += 1
    found = left(before, wider=False)
    monkeypatch.undo()
    assert found == ["autograd context"]


@pytest.mark.usefixtures("impatient")
def test_the_check_fails_with_the_name_of_what_was_left() -> None:
    enough = threading.Event()
    thread = threading.Thread(target=enough.wait, name="forgotten")
    left_behind = pytest.raises(pytest.fail.Exception, match="test left behind: thread 'forgotten'")
    with left_behind, nothing_left_behind("test"):
        thread.start()
    enough.set()
    thread.join()


TIMED = """
import time
import fastdist.distributed.autograd, fastdist.distributed.rpc
from tests.leak_fixture import nothing_left_behind
rounds = []
for _ in range(20):
    start = time.perf_counter()
    with nothing_left_behind("test"):
        pass
    rounds.append(time.perf_counter() - start)
print(min(rounds))
"""


@pytest.mark.one_in(3)
def test_the_check_costs_less_than_a_millisecond() -> None:
    # Run in a separate process, since the check reads each open file, and earlier tests open files.
    told = subprocess.check_output([sys.executable, "-c", TIMED], text=True, cwd=ROOT, timeout=60)
    assert float(told) < 1e-3
