"""For a test, a forked worker behaves like a started one."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import leak_fixture
from tests.distributed import templates
from tests.distributed.scripts import Script
from tests.distributed.workers import Group, Worker, WorkerFailed, run_group
from tests.leak_fixture import hold, left


def environment_and_parent() -> tuple[dict[str, str], int, str]:
    return dict(os.environ), os.getppid(), os.getcwd()


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def hash_of_a_word() -> int:
    return hash("a word")


def write_at_exit(path: str) -> None:
    atexit.register(lambda: Path(path).write_text("ended"))


class WritesWhenFinalized:
    def __init__(self, descriptor: int, word: bytes) -> None:
        self.itself, self.descriptor, self.word = self, descriptor, word

    def __del__(self, write: Callable[[int, bytes], int] = os.write) -> None:
        write(self.descriptor, self.word)


def make_what_writes_at_the_end(path: str) -> None:
    written = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    atexit.register(os.write, written, b"exit ")
    WritesWhenFinalized(written, b"cycle ")
    globals()["kept"] = WritesWhenFinalized(written, b"kept ")
    os.__dict__["kept_for_the_test"] = WritesWhenFinalized(written, b"interpreter ")


def print_a_word() -> None:
    sys.stdout.write("a word\n")
    sys.stdout.flush()


def exit_with(code: int) -> None:
    os._exit(code)


def threads_and_children() -> tuple[int, list[str]]:
    return threading.active_count(), Path("/proc/thread-self/children").read_text().split()


def test_the_environment_is_the_runs_with_the_workers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTDIST_OF_THIS_TEST", "1")
    [(found, parent, folder)] = run_group(
        environment_and_parent, 1, environment={"FASTDIST_OF_THIS_GROUP": "2"}
    )
    expected = {**os.environ, "FASTDIST_OF_THIS_GROUP": "2", "RANK": "0", "WORLD_SIZE": "1"}
    expected["PYTHONPATH"] = found["PYTHONPATH"]  # contains the folder of `tests`
    assert expected.items() <= found.items() and folder == os.getcwd()
    assert parent in set(templates.templates())


def test_a_script_has_arguments_streams_and_an_exit_code() -> None:
    script = Script("import sys; print(__name__, sys.argv[1:], input()); sys.exit(3)", "a", "b")
    script.stdin.write("word\n")
    script.stdin.flush()
    assert script.stdout.read() == "__main__ ['a', 'b'] word\n"
    assert script.end() == 3
    assert Script("import threading; threading.Event().wait()").kill() == -signal.SIGKILL


@pytest.mark.one_in(3)
def test_what_may_be_meant_for_a_process_that_is_started_starts_one() -> None:
    [(found, parent, _)] = run_group(
        environment_and_parent, 1, environment={"OMP_NUM_THREADS": "1"}
    )
    assert (found["OMP_NUM_THREADS"], parent) == ("1", os.getpid())


@pytest.mark.one_in(3)
def test_workers_of_a_file_that_tests_devices_have_another_template() -> None:
    files = (str(Path(__file__).parent / "rpc/test_lifecycle.py"), __file__)
    assert [templates.tests_devices(file) for file in files] == [True, False]
    parents = set()
    for file in files:
        worker = Worker(file, 0, {})
        parents.add(worker.run(os.getppid))
        assert worker.end() == 0
    assert len(parents) == 2 and parents <= set(templates.templates())


@pytest.mark.one_in(3)
def test_a_template_for_devices_is_forked_from_that_of_its_rank() -> None:
    devices, plain = (
        templates._template(*one)
        for one in (
            ("3 of devices", templates._WORKERS, 3, templates._OF_DEVICES),
            (3, templates._WORKERS),
        )
    )
    assert parent_of(devices.process.pid) == plain.process.pid
    assert devices.process.pid not in set(templates.unended())


@pytest.mark.one_in(3)
def test_hashes_differ_between_ranks() -> None:
    assert len(set(run_group(hash_of_a_word, templates.NUM_TEMPLATES))) == templates.NUM_TEMPLATES


def test_it_begins_with_one_thread_and_no_children() -> None:
    assert run_group(threads_and_children, 2) == [(1, [])] * 2


def test_it_ends_as_a_program_does(tmp_path: Path) -> None:
    run_group(write_at_exit, 1, str(tmp_path / "word"))
    assert (tmp_path / "word").read_text() == "ended"


@pytest.mark.parametrize("one_in", [1, 1 << 40])
def test_it_ends_as_an_interpreter_does_or_once_all_of_the_test_has_ended(
    one_in: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "ENDS_WHOLE_ONE_IN", one_in)
    run_group(make_what_writes_at_the_end, 1, str(tmp_path / "words"))
    first, *words = (tmp_path / "words").read_text().split()
    assert first == "exit"
    assert sorted(words) == ["cycle", *(["interpreter"] * (one_in == 1)), "kept"]


def test_some_processes_end_as_an_interpreter_does_the_same_in_each_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(templates, "ENDS_WHOLE_ONE_IN", 4)  # --slow sets another value
    tests = [{"PYTEST_CURRENT_TEST": f"test_{number}.py::test_it (call)"} for number in range(400)]
    ends = [templates.how_it_ends(rank, test) for test in tests for rank in range(3)]
    assert 0.2 < ends.count(templates.WHOLE) / len(ends) < 0.3
    for test, of_one in zip(tests, ends[::3], strict=True):
        setup = {name: value.replace("(call)", "(setup)") for name, value in test.items()}
        assert templates.how_it_ends(0, setup) == of_one


def test_fewer_end_as_an_interpreter_does_in_a_run_of_all_tests_and_others_with_each_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ENDS_WHOLE_ONE_IN", "_seed_of_ends"):
        monkeypatch.setattr(templates, name, getattr(templates, name))  # restores it
    test, counts = {"PYTEST_CURRENT_TEST": "test_it.py::test_it (call)"}, Counter[int]()
    for number in range(400):
        templates.draw_ends(f"{number:08x}")
        ranks = range(4)
        counts.update(r for r in ranks if templates.how_it_ends(r, test) == templates.WHOLE)
    assert all(10 < counts[rank] < 45 for rank in range(4))


def test_what_it_writes_goes_where_this_process_writes(capfd: pytest.CaptureFixture[str]) -> None:
    run_group(print_a_word, 1)
    assert capfd.readouterr().out == "a word\n"


def test_exit_codes_and_signals_are_told() -> None:
    group = Group(__file__, 2)
    try:
        with pytest.raises(WorkerFailed, match="worker 0 ended with code 7"):
            group[0].run(exit_with, 7)
        with pytest.raises(subprocess.TimeoutExpired):
            group[1].process.wait(0.01)
        assert group[1].process.poll() is None
        group[1].kill(signal.SIGTERM)
        assert (group[1].process.wait(20), group[0].process.poll()) == (-signal.SIGTERM, 7)
        group[1].kill()  # killing an ended process has no effect, as with subprocess
    finally:
        group.kill()


def test_one_that_has_ended_may_be_killed_before_its_template_tells_of_its_end() -> None:
    ended = subprocess.Popen(["true"])
    descriptor = os.pidfd_open(ended.pid)
    assert ended.wait(20) == 0
    told, tell = os.pipe()
    worker = templates.ForkedWorker(["true"], ended.pid, descriptor, told)
    worker.kill()
    os.write(tell, templates._STATUS.pack(0))
    os.close(tell)
    assert worker.wait(0) == 0
    worker.kill()


def test_one_that_runs_on_is_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leak_fixture, "PATIENCE_S", 0.01)
    before, worker = hold(), Worker(__file__, 0, {})
    found = left(before, wider=False)
    assert worker.end() == 0 and left(before, wider=False) == []
    assert [words.split(" ")[:2] for words in found] == [["process", str(worker.process.pid)]]


def test_a_template_that_cannot_begin_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(templates.TemplateError, match="ended with code 1"):
        templates.Template(__file__).fork(([__file__, "0"], {}, os.getcwd()), 0, (0, 1, 2))
