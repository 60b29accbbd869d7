"""The claim: a process that ends without rpc.shutdown() is named to the others, with its reason."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Any

import pytest

from fastdist.core.errors import ShutdownIncomplete
from fastdist.distributed import rpc
from fastdist.distributed.rpc import init as init_module
from tests.distributed.members import init
from tests.distributed.workers import Group

ENDED = "'w2' (rank 2): it ended without rpc.shutdown()"


class Heard(logging.Handler):
    """The warnings of this process."""

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
    """Be as one whose main thread has died of an error, and is about to exit."""
    sys.last_value = error


def leave_soon() -> tuple[str, list[str]]:
    return leave(1.0)  # half of which one that was lost has to come back


def leave(timeout_s: float = 0.0) -> tuple[str, list[str]]:
    try:
        rpc.shutdown(timeout=timeout_s)
    except ShutdownIncomplete as error:
        return str(error), heard[0].lines
    return "", heard[0].lines


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
                f"worker 'w{worker.rank}' has shut down without {why}; its work may not be done"
            )
            assert f"worker 'w{worker.rank}' shuts down without worker {why}; what" in lines[-1]
            assert worker.end() == 0
    finally:
        group.kill()


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


@pytest.mark.parametrize("cause", [True, False])
def test_in_a_group_that_takes_workers_back_an_end_is_named_and_no_error(cause: bool) -> None:
    group = Group(__file__, 2)
    try:
        group.run_all(join, {"restarts": True})
        group[1].run(meet)
        if cause:
            group[1].run(die_of, ValueError("mine"))
        assert group[1].end() == 0
        error, lines = group[0].run(leave_soon)
        assert error == ""
        assert ENDED.replace("2", "1") in lines[-1]
        assert group[0].end() == 0
    finally:
        group.kill()


def test_one_that_was_killed_is_named_to_all_and_is_no_error_of_their_shutdown() -> None:
    group = Group(__file__, 3)
    try:
        group.run_all(join)
        group[2].kill(signal.SIGKILL)
        for worker in group.workers[:2]:
            worker.start(leave)
        for worker in group.workers[:2]:
            error, lines = worker.result()
            assert error == ""
            assert "shuts down without worker 'w2' (rank 2): its process has ended" in lines[-1]
            assert worker.end() == 0
    finally:
        group.kill()


def test_an_error_of_an_interactive_session_is_not_why_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "last_value", ValueError("mine"), raising=False)
    assert init_module._why_it_ends() == "it ended without rpc.shutdown(), by ValueError: mine"
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert init_module._why_it_ends() == "it ended without rpc.shutdown()"
