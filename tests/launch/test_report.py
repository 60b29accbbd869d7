"""The report at the end of a run in which several workers failed."""

from __future__ import annotations

from dataclasses import replace

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


def _report(*failures: Failure) -> list[str]:
    paper = Paper()
    write_report(paper, "fastdist run", failures[0], failures[1:])  # type: ignore[arg-type]
    return paper.lines


def test_the_first_failures_traceback_stands_before_what_came_after_it() -> None:
    lines = _report(_failure(2, b"Traceback ...", b"ValueError: a"), _failure(0, b"KeyError: b"))
    assert lines == [
        "fastdist run: rank 2 failed with exit status 1 (pid 7)",
        "Traceback ...",
        "ValueError: a",
        "after that, rank 0 failed: KeyError: b",
    ]


def test_who_failed_in_the_same_way_shares_a_line() -> None:
    ranks = [_failure(rank, b"Traceback ...", b"ValueError: a") for rank in range(4)]
    assert _report(*ranks)[-1] == "after that, ranks 1, 2, 3 failed in the same way"
    assert _report(*ranks[:2])[-1] == "after that, rank 1 failed in the same way"
    other = [_failure(rank, b"KeyError: b") for rank in (5, 6)]
    assert _report(_failure(0), *other)[-1] == "after that, ranks 5, 6 failed: KeyError: b"


def test_no_headline_of_a_cut_traceback_is_shown_as_what_happened() -> None:
    cut = _failure(1, b"Traceback (most recent call last):", b'  File "x.py", line 1')
    assert _report(_failure(0), cut)[-1] == f"after that, {cut.sentence}"


def test_a_lost_node_has_a_line_of_its_own() -> None:
    lost = Failure("node 1 (10.0.0.2) was lost: not heard for 6 s", 1)
    assert _report(_failure(0), lost)[-1] == f"after that, {lost.sentence}"


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
    # If the first lost worker did not fail itself, its loss is the cause.
    assert first_of([lost, replace(cause, rank=2)], [0, 1, 2]) is lost


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
