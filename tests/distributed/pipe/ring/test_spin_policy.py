"""A reader polls less often after polls in vain, and more often after a success."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from fastdist.distributed.pipe.ring import spin_policy
from fastdist.distributed.pipe.ring.spin_policy import LOOK_NS, SpinPolicy


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock by a quarter of a polling period at each query of the time."""
    ticks = itertools.count(0, LOOK_NS // 4)
    monkeypatch.setattr(spin_policy, "time", SimpleNamespace(monotonic_ns=lambda: next(ticks)))
    monkeypatch.setattr(spin_policy, "_has_two_processors", lambda: True)


def looks_of(calm: SpinPolicy, times: int) -> list[bool]:
    """Return which of `times` waits polled; no poll finds anything."""
    looked: list[bool] = []
    for _ in range(times):
        asked: list[bool] = []
        assert not calm.look(lambda asked=asked: bool(asked.append(True)))  # type: ignore[misc]
        looked.append(bool(asked))
    return looked


def test_what_comes_while_somebody_looks_is_seen() -> None:
    answers = iter([False] * 20 + [True])
    assert SpinPolicy().look(lambda: next(answers))


def test_who_looks_in_vain_does_so_half_as_often_each_time() -> None:
    seldom = [True, False, True, False, False, False, True, *[False] * 7, True]
    assert looks_of(SpinPolicy(), len(seldom)) == seldom


def test_who_has_seen_something_looks_as_if_for_the_first_time() -> None:
    calm = SpinPolicy()
    looks_of(calm, 2)
    assert calm.look(lambda: True)
    assert looks_of(calm, 3) == [True, False, True]


def test_who_has_one_processor_never_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spin_policy, "_has_two_processors", lambda: False)
    assert looks_of(SpinPolicy(), 600) == [False] * 600
