"""What is said at the end of a run in which several workers failed."""

from __future__ import annotations

from fastdist.launch.report import Failure, write_report


class Paper:
    """A screen that only remembers."""

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


def test_the_first_failures_traceback_stands_at_the_bottom() -> None:
    lines = _report(_failure(2, b"Traceback ...", b"ValueError: a"), _failure(0, b"KeyError: b"))
    assert lines == [
        "after that, rank 0 failed: KeyError: b",
        "fastdist run: rank 2 failed with exit status 1 (pid 7)",
        "Traceback ...",
        "ValueError: a",
    ]


def test_who_failed_in_the_same_way_shares_a_line() -> None:
    ranks = [_failure(rank, b"Traceback ...", b"ValueError: a") for rank in range(4)]
    assert _report(*ranks)[0] == "after that, ranks 1, 2, 3 failed in the same way"
    assert _report(*ranks[:2])[0] == "after that, rank 1 failed in the same way"


def test_a_lost_node_has_a_line_of_its_own() -> None:
    lost = Failure("node 1 (10.0.0.2) was lost: not heard for 6 s", 1)
    assert _report(_failure(0), lost)[0] == f"after that, {lost.sentence}"
