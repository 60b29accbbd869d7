"""Ctrl-C at any place of forward, backward, steps, saving and transforms leaves state intact."""

from __future__ import annotations

import random
import sys

import pytest

from fastdist.graph.modes import modes
from tests.disturbances.interrupts import Signal
from tests.disturbances.opcodes import call_traced
from tests.disturbances.works import WORKS, alike, state

pytestmark = pytest.mark.filterwarnings("ignore:Error detected in")

TRACING = {function.__code__.co_filename for function in (Signal.during, call_traced)}


def interrupt() -> None:
    """Raise KeyboardInterrupt, unless the first line of an `__exit__` has not run yet.

    A context manager that is written in Python cannot handle an interrupt at that place.
    """
    frame = sys._getframe(1)
    while frame.f_code.co_filename in TRACING:
        assert frame.f_back is not None
        frame = frame.f_back
    if frame.f_code.co_name != "__exit__" or frame.f_lasti > 8:
        raise KeyboardInterrupt


def require_undisturbed(name: str, place: int, before: dict[str, object]) -> None:
    after = state()
    assert after == before, f"{name} interrupted at place {place}"
    for other in {name, "backward", "modes_in_modes"}:
        assert alike(WORKS[other](), EXPECTED[other]), (
            f"{name} interrupted at place {place}: {other}"
        )
    assert (modes.special, modes.tracers) == (0, 0), f"{name} interrupted at place {place}"


# `default_dtype` is left out: its `finally` calls a function, and an interrupt may come before the
# call.
INTERRUPTED = sorted(WORKS.keys() - {"default_dtype"})
EXPECTED = {name: work() for name, work in WORKS.items()}


def interrupt_at_random_places(name: str, count: int) -> None:
    signal, before = Signal(interrupt), state()
    # A work has fewer places once its results are cached: a place of its first run may not exist.
    places = range(min(signal.num_places(WORKS[name]) for _ in range(3)))
    chosen, num_struck = random.Random(name).sample(places, min(count, len(places))), 0
    for place in chosen:
        num_struck += signal.during(WORKS[name], place)
        require_undisturbed(name, place, before)
    assert num_struck > 0.5 * len(chosen)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", INTERRUPTED)
def test_a_work_that_is_interrupted_leaves_all_as_it_was(name: str) -> None:
    interrupt_at_random_places(name, 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", INTERRUPTED)
def test_a_work_that_is_interrupted_leaves_all_as_it_was_at_more_places(name: str) -> None:
    interrupt_at_random_places(name, 150)
