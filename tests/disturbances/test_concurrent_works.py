"""Works that run in many threads, or in a forked child, give the results that they give alone."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.disturbances.works import ONE_AT_A_TIME, WORKS, alike, state

SHARED_WORKS = {name: work for name, work in WORKS.items() if name not in ONE_AT_A_TIME}
EXPECTED = {name: work() for name, work in SHARED_WORKS.items()}


def run_in_turn(seed: int, rounds: float, until: float, wrong: list[str]) -> None:
    """Run all works in random order, for `rounds` rounds or until a time; record wrong results."""
    choose = random.Random(seed)
    while rounds > 0 and time.monotonic() < until and not wrong:
        rounds -= 1
        for name in choose.sample(sorted(SHARED_WORKS), len(SHARED_WORKS)):
            try:
                found = SHARED_WORKS[name]()
            except BaseException:
                wrong.append(f"{name}: {traceback.format_exc()}")
                return
            if not alike(found, EXPECTED[name]):
                wrong.append(f"{name} gave {found}")


@contextmanager
def threads(count: int, rounds: float, seconds: float) -> Iterator[list[str]]:
    wrong: list[str] = []
    until = time.monotonic() + seconds
    made = [
        threading.Thread(target=run_in_turn, args=(seed, rounds, until, wrong))
        for seed in range(count)
    ]
    for thread in made:
        thread.start()
    try:
        yield wrong
    finally:
        for thread in made:
            thread.join()


@pytest.mark.one_in(3)
def test_works_of_16_threads_give_what_they_give_alone() -> None:
    before = state()
    with threads(16, rounds=2, seconds=60) as wrong:
        pass
    assert not wrong and state() == before


@pytest.mark.slow
def test_works_of_16_threads_give_what_they_give_alone_for_a_minute() -> None:
    with threads(16, rounds=float("inf"), seconds=60) as wrong:
        pass
    assert not wrong


def fork_once() -> None:
    """Fork a child that runs all works, and require that it ends within 30 s."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(30)
            wrong: list[str] = []
            run_in_turn(0, 1, float("inf"), wrong)
            os.write(2, "".join(wrong).encode())
            status = len(wrong)
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def fork_beside_threads(forks: int) -> None:
    with threads(3, rounds=float("inf"), seconds=100) as wrong:
        try:
            for _ in range(forks):
                fork_once()
        finally:
            ended, wrong[:] = list(wrong), ["the forks are done"]
    assert not ended


@pytest.mark.one_in(3)
def test_a_child_forked_while_threads_compute_gives_the_same() -> None:
    fork_beside_threads(5)


@pytest.mark.slow
def test_children_forked_while_threads_compute_give_the_same() -> None:
    fork_beside_threads(100)
