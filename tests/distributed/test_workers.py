"""The claim: what goes wrong in a worker of a test, in any of its threads, fails the test."""

from __future__ import annotations

import threading

import pytest

from tests.distributed.workers import WorkerFailed, run_group


def raise_in_a_thread() -> str:
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    return "all is well"


def raise_here() -> None:
    raise KeyError("here")


def return_the_rank() -> int:
    import os

    return int(os.environ["RANK"])


def test_results_come_in_the_order_of_ranks() -> None:
    assert run_group(return_the_rank, 2) == [0, 1]


def test_an_error_of_a_worker_fails_the_test() -> None:
    with pytest.raises(WorkerFailed, match="KeyError: 'here'"):
        run_group(raise_here, 1)


def test_an_error_in_a_thread_of_a_worker_fails_the_test() -> None:
    with pytest.raises(WorkerFailed, match=r"a thread of the worker died:(.|\n)*ZeroDivisionError"):
        run_group(raise_in_a_thread, 1)
