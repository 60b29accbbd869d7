"""A process that ends without rpc.shutdown() is reported to the others, with its reason."""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import signal
import sys
from typing import Any

import pytest

from fastdist.core.errors import ShutdownIncomplete, WorkerLostError
from fastdist.distributed import rpc
from fastdist.distributed.rpc import process_end
from fastdist.distributed.rpc.process_end import why_it_ends
from fastdist.distributed.rpc.workers.end_reasons import LAUNCHED, level_of_end
from tests.distributed.members import init
from tests.distributed.scripts import Script
from tests.distributed.workers import Group

ENDED = "'w2' (rank 2): it ended without rpc.shutdown()"


class Heard(logging.Handler):
    """Collects the warnings of this process."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        logging.getLogger("fastdist").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


heard: list[Heard] = []


def join(options: dict[str, Any] | None = None) -> None:
    heard.append(Heard())
    init(**(options or {}))


def meet() -> None:
    rpc.rpc_sync("w0", abs, (-1,))


def be_launched() -> None:
    os.environ["TORCHELASTIC_RESTART_COUNT"] = "0"


def die_of(error: Exception) -> None:
    """Simulate an error that ended the main thread of a process that is about to exit."""
    sys.last_value = error


def leave_soon() -> tuple[str, list[str]]:
    return leave(1.0)  # a lost worker has half of this time to rejoin


def leave(timeout_s: float = 0.0) -> tuple[str, list[str]]:
    try:
        rpc.shutdown(timeout=timeout_s)
    except ShutdownIncomplete as error:
        return str(error), heard[0].lines
    return "", heard[0].lines


@pytest.mark.one_in(4)
@pytest.mark.parametrize("has_met", [False, True])
@pytest.mark.parametrize("cause", ["ValueError: mine\n\x1b[1mforged", ""])
def test_all_others_are_told_who_ended_and_why_at_their_shutdown(has_met: bool, cause: str) -> None:
    group = Group(__file__, 3)
    try:
        group.run_all(join)
        if has_met:
            group[2].run(meet)
        if cause:
            group[2].run(die_of, ValueError(cause.partition(": ")[2]))
        assert group[2].end() == 0
        why = f"{ENDED}, by ValueError: mine\\n\\x1b[1mforged" if cause else ENDED
        for worker in group.workers[:2]:
            worker.start(leave)
        for worker in group.workers[:2]:
            error, lines = worker.result()
            assert error == (
                f"worker 'w{worker.rank}' has shut down without {why}; its work may be unfinished"
            )
            assert f"worker 'w{worker.rank}' shuts down without worker {why}, whose" in lines[-1]
            assert worker.end() == 0
    finally:
        group.kill()


@pytest.mark.one_in(8)
def test_where_a_launcher_watches_the_workers_it_is_a_warning_alone() -> None:
    group = Group(__file__, 2)
    try:
        group.run_all(join)
        group[0].run(be_launched)
        assert group[1].end() == 0
        error, lines = group[0].run(leave)
        assert error == "" and "'w1' (rank 1): it ended without rpc.shutdown()" in lines[-1]
        assert group[0].end() == 0
    finally:
        group.kill()


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("cause", [True, False])
def test_in_a_group_that_takes_workers_back_one_that_stays_away_is_an_error(cause: bool) -> None:
    group = Group(__file__, 2)
    try:
        group.run_all(join, {"restarts": True})
        group[1].run(meet)
        if cause:
            group[1].run(die_of, ValueError("mine"))
        assert group[1].end() == 0
        error, lines = group[0].run(leave_soon)
        lost = ENDED.replace("2", "1")
        assert lost in error and lost in lines[-1]
        assert group[0].end() == 0
    finally:
        group.kill()


def leave_at_once() -> None:
    os._exit(0)


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("is_killed", [True, False])
def test_one_that_was_killed_or_has_left_by_exit_is_an_error_of_all_others(is_killed: bool) -> None:
    group = Group(__file__, 3)
    try:
        group.run_all(join)
        if is_killed:
            group[2].kill(signal.SIGKILL)
        else:
            group[2].start(leave_at_once)
        for worker in group.workers[:2]:
            worker.start(leave)
        for worker in group.workers[:2]:
            error, lines = worker.result()
            lost = "without worker 'w2' (rank 2): its process has ended"
            assert f"shuts down {lost}" in lines[-1]
            assert lost.replace("worker ", "") in error and "its work may be unfinished" in error
            assert worker.end() == 0
    finally:
        group.kill()


CHILD_ENDS = {
    "raise": "ValueError: mine",
    "exit": "sys.exit(3)",
    "raise SystemExit": "sys.exit('text')",
    "handle": "sys.exit(1) while it handled ValueError: mine",
}
# From Python 3.13 on, a child's finalizers run after the exception that ends it (process_end.py).
UNKNOWN = {"raise", "raise SystemExit"} if sys.version_info >= (3, 13) else set[str]()


def child(how: str) -> None:
    """Join as a child process of multiprocessing, and end without a shutdown."""
    join()
    meet()
    if how == "raise":
        raise ValueError("mine")
    if how == "exit":
        sys.exit(3)
    if how == "raise SystemExit":
        raise SystemExit("text")
    try:
        raise ValueError("mine")
    except ValueError:
        sys.exit(1)


def run_child(method: str, how: str) -> int | None:
    # Import this module by a name that a spawned child can import.
    here = importlib.import_module("tests.distributed.rpc.test_ends_without_shutdown")
    process = multiprocessing.get_context(method).Process(target=here.child, args=(how,))
    process.start()
    process.join(30)
    return process.exitcode


@pytest.mark.one_in(10)
@pytest.mark.parametrize("how", CHILD_ENDS)
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_children_of_multiprocessing_are_named_with_what_ended_them(method: str, how: str) -> None:
    group = Group(__file__, 2)
    try:
        group[1].start(run_child, method, how)
        group[0].run(join)
        assert group[1].result() == (3 if how == "exit" else 1)
        error, _ = group[0].run(leave)
        by = "" if how in UNKNOWN else f", by {CHILD_ENDS[how]}"
        assert f"'w1' (rank 1): it ended without rpc.shutdown(){by}; its work" in error
        assert group.end() == [0, 0]
    finally:
        group.kill()


def test_a_worker_that_fails_is_left_to_the_launcher_to_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for why, alone, launched in (
        ("", logging.WARNING, logging.WARNING),
        (", by ValueError: mine", logging.WARNING, logging.INFO),
        (f", by {WorkerLostError.__module__}.WorkerLostError: w2", logging.INFO, logging.INFO),
    ):
        why = f"it ended without rpc.shutdown(){why}"
        monkeypatch.delenv(LAUNCHED, raising=False)
        assert level_of_end(why) == alone
        monkeypatch.setenv(LAUNCHED, "0")
        assert level_of_end(why) == launched


_EXITS = """
import sys
from fastdist.distributed.rpc.process_end import watch_end, why_it_ends
watch_end(lambda: print(why_it_ends()))
"""


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize(
    ("last", "because"),
    [
        ("sys.exit()", ""),
        ("sys.exit(0)", ""),
        ("sys.exit(3)", ", by sys.exit(3)"),
        ("try: 1 / 0\nexcept ZeroDivisionError: sys.exit(1)", ", by sys.exit(1) while it handled"),
        ("1 / 0", ", by ZeroDivisionError: division by zero"),
    ],
)
def test_the_main_process_is_named_with_the_status_of_its_exit(last: str, because: str) -> None:
    script = Script(_EXITS + last)
    said = script.stdout.read()
    assert script.end() == (3 if "3" in last else int(bool(because)))
    assert said.startswith(f"it ended without rpc.shutdown(){because}")
    assert because or said == "it ended without rpc.shutdown()\n"


def test_the_traceback_of_another_worker_is_not_a_part_of_why_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = ValueError("mine")
    error.add_note("On worker 'w1':\nTraceback (most recent call last): ...")
    monkeypatch.setattr(process_end, "_exit_call", "")
    monkeypatch.setattr(sys, "last_value", error, raising=False)
    assert why_it_ends() == "it ended without rpc.shutdown(), by ValueError: mine"


def test_an_error_of_an_interactive_session_is_not_why_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_end, "_exit_call", "")
    monkeypatch.setattr(sys, "last_value", ValueError("mine"), raising=False)
    assert why_it_ends() == "it ended without rpc.shutdown(), by ValueError: mine"
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert why_it_ends() == "it ended without rpc.shutdown()"


def test_an_end_that_the_loss_of_another_worker_caused_is_no_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_end, "_exit_call", "")
    for error, level in (
        (WorkerLostError("worker 'w1' (rank 1) was lost"), logging.INFO),
        (ValueError("fastdist.core.errors.WorkerLostError: said"), logging.WARNING),
    ):
        monkeypatch.setattr(sys, "last_value", error, raising=False)
        assert level_of_end(why_it_ends()) == level
