"""The report at the end of a run in which several workers failed."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from typing import Any

from fastdist import launch
from fastdist.launch.report import Failure, first_of, write_report


class Paper:
    """A screen that only records its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def print(self, line: bytes, *, to_stderr: bool = False) -> None:
        assert to_stderr
        self.lines.append(line.decode())


def _failure(rank: int, *text: bytes) -> Failure:
    return Failure(f"rank {rank} failed with exit status 1 (pid 7)", 1, text, rank=rank)


def _report(*failures: Failure, log_folder: str | None = None) -> list[str]:
    paper: Any = Paper()
    write_report(paper, "fastdist run", failures[0], failures[1:], log_folder)
    return paper.lines


_PROG = "fastdist run:"
_FIRST = f"{_PROG} rank 0 failed with exit status 1 (pid 7)"


def test_the_first_failures_traceback_is_last_after_a_line_for_later_ones() -> None:
    lines = _report(_failure(2, b"Traceback ...", b"ValueError: a"), _failure(0, b"KeyError: b"))
    assert lines == [
        f"{_PROG} later, rank 0 failed: KeyError: b",
        f"{_PROG} rank 2 failed with exit status 1 (pid 7)",
        "Traceback ...",
        "ValueError: a",
    ]


def test_failures_with_the_same_error_share_a_line() -> None:
    ranks = [_failure(rank, b"Traceback ...", b"ValueError: a") for rank in range(5)]
    whole = [_FIRST, "Traceback ...", "ValueError: a"]
    same = "failed in the same way"
    assert _report(*ranks) == [f"{_PROG} later, 4 ranks (1-4) {same}", *whole]
    assert _report(*ranks[:3]) == [f"{_PROG} later, 2 ranks (1, 2) {same}", *whole]
    assert _report(*ranks[:2]) == [f"{_PROG} later, rank 1 {same}", *whole]
    other = [_failure(rank, b"KeyError: b") for rank in (9, 6, 5, 7)]
    assert _report(_failure(0), *other) == [
        f"{_PROG} later, 4 ranks (5-7, 9) failed: KeyError: b",
        _FIRST,
    ]


def test_a_line_for_later_failures_says_where_they_were_and_what_keeps_their_tracebacks() -> None:
    text = (
        b"Traceback (most recent call last):",
        b'  File "/home/me/train.py", line 12, in step',
        b"    dist.all_reduce(x)",
        b'  File "/venv/site-packages/numpy/x.py", line 3, in f',
        b"    raise",
        b"CollectiveLostError: rank 0 (pid 7 on here) has left the group",
    )
    later = _failure(1, *text)
    line = f"{_PROG} later, rank 1 failed: {text[-1].decode()} (at train.py:12, dist.all_reduce(x))"
    kept = f"{_PROG} --log-dir FOLDER keeps the tracebacks of later failures"
    assert _report(_failure(0), later) == [line, kept, _FIRST]
    kept = f"{_PROG} the tracebacks of later failures are in /logs"
    assert _report(_failure(0), later, log_folder="/logs") == [line, kept, _FIRST]


def test_no_headline_of_a_cut_traceback_is_shown_as_what_happened() -> None:
    cut = _failure(1, b"Traceback (most recent call last):", b'  File "x.py", line 1')
    assert _report(_failure(0), cut)[0] == f"{_PROG} later, {cut.sentence}"


def test_a_lost_node_has_a_line_of_its_own() -> None:
    lost = Failure("node 1 (10.0.0.2) was lost: not heard for 6 s", 1)
    assert _report(_failure(0), lost) == [f"{_PROG} later, {lost.sentence}", _FIRST]


def test_a_crash_is_shown_without_the_threads_of_fastdist() -> None:
    ours, users = os.path.abspath(launch.__file__).encode(), b"/home/me/train.py"
    blocks = [
        [b"Fatal Python error: Segmentation fault", b""],
        [b"Thread 0x1 (most recent call first):", b'  File "%s", line 3 in _run' % ours, b""],
        [b"Thread 0x2 (most recent call first):", b'  File "%s", line 4 in serve' % users, b""],
        [b"Current thread 0x3 (most recent call first):", b'  File "%s", line 8 in f' % ours],
    ]
    lines = _report(_failure(0, *itertools.chain(*blocks)))
    kept = itertools.chain(blocks[0], *blocks[2:])
    assert lines == [
        f"{_PROG} --log-dir FOLDER keeps the other threads (1) of fastdist",
        _FIRST,
        *(line.decode() for line in kept),
    ]


def _raised(rank: int, raised: bytes, began: float) -> Failure:
    text = (b"Traceback (most recent call last):", b'  File "x.py", line 1', raised, b"a log line")
    return Failure(f"rank {rank} failed", 1, text, rank=rank, began=began)


def test_the_failure_that_began_first_is_the_first_in_whatever_order_they_ended() -> None:
    early, late = _raised(1, b"ValueError: a", 5.0), _raised(0, b"ValueError: b", 6.0)
    assert first_of([late, early], [0, 1]) is early
    assert first_of([early, late], [0, 1]) is early


def test_the_loss_of_a_worker_comes_after_its_cause() -> None:
    lost = _raised(0, b"fastdist.core.errors.WorkerLostError: worker 'w' (rank 1) left", 5.0)
    cause = _raised(1, b"ValueError: user bug", 6.0)
    assert first_of([lost, cause], [0, 1]) is cause
    # Rank 1, which was lost, did not fail itself, so its loss is the cause.
    assert first_of([lost, replace(cause, rank=2)], [0, 1, 2]) is lost


def test_the_loss_of_a_member_of_a_group_comes_after_its_cause() -> None:
    lost = _raised(0, b"CollectiveLostError: rank 1 (pid 7 on here) has left the group", 5.0)
    cause = _raised(1, b"ValueError: user bug", 6.0)
    assert first_of([lost, cause], [0, 1]) is cause


def test_the_loss_of_a_worker_of_another_node_comes_after_its_end() -> None:
    lost = _raised(0, b"WorkerLostError: worker 'w' (rank 3) was lost: it died", 5.0)
    node = Failure("node 1 was lost: not heard for 10 s", 1, began=9.0)
    assert first_of([lost, node], [0, 1]) is node


def test_a_worker_that_was_ended_failed_first_only_if_others_say_that_they_lost_it() -> None:
    ended = replace(_raised(1, b"ValueError: caught", 4.0), was_ended=True)
    other = _raised(0, b"ValueError: a", 5.0)
    assert first_of([other, ended], [0, 1]) is other
    lost = _raised(0, b"WorkerLostError: worker 'w' (rank 1) was lost: it died", 5.0)
    assert first_of([lost, ended], [0, 1]) is ended
