"""A race between two instructions is found, and a lock prevents it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from tests.disturbances.interleaving import each_interleaving


class Counter:
    """Counts in two steps, between which another thread may run."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self.value = 0
        self._lock = lock

    def add_one(self) -> None:
        with self._lock:
            value = self.value
            self.value = value + 1


def totals(make_lock: Callable[[], AbstractContextManager[object]]) -> list[int]:
    counters: list[Counter] = []

    def prepare() -> tuple[Callable[[], None], Callable[[], None]]:
        counters.append(Counter(make_lock()))
        return counters[-1].add_one, counters[-1].add_one

    return [counters[-1].value for _ in each_interleaving(prepare, "test_interleaving.py")]


def test_a_lost_update_is_found_at_the_instructions_between() -> None:
    found = totals(nullcontext)
    assert len(found) > 10 and set(found) == {1, 2} and found[0] == found[-1] == 2


def test_a_lock_keeps_the_other_out() -> None:
    assert set(totals(threading.Lock)) == {2}


def test_what_either_raises_is_raised() -> None:
    def fail() -> None:
        raise ValueError("mine")

    for steps in ((fail, lambda: None), (lambda: None, fail)):
        with pytest.raises(ValueError, match="mine"):
            list(each_interleaving(lambda steps=steps: steps, "test_interleaving.py"))
