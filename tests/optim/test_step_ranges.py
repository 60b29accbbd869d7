"""A profile records optimisers' steps, and removes its hooks when it ends."""

from __future__ import annotations

import pytest

import fastdist as fd
from fastdist.instrumentation.time_ranges import Recording
from fastdist.optim import SGD, Adam, hooks
from fastdist.profiler import profile


def test_a_step_is_a_stretch_under_torchs_name() -> None:
    x = fd.ones(2, requires_grad=True)
    optimizers = [SGD([x], lr=0.1), Adam([x])]
    x.sum().backward()
    with profile() as p:
        for optimizer in optimizers:
            optimizer.step()
        optimizers[0].step(x.sum)
    events = [event for event in p.events() if event.name.startswith("Optimizer")]
    names = [f"Optimizer.step#{name}.step" for name in ("SGD", "Adam", "SGD")]
    assert [event.name for event in events] == names
    # The ops of a closure are inside the step that called the closure.
    assert [child.name for child in events[2].cpu_children] == ["aten::sum"]


def test_hooks_are_there_while_somebody_listens() -> None:
    def counts() -> tuple[int, int]:
        return len(hooks._of_all_before_steps), len(hooks._of_all_after_steps)

    before = counts()
    with profile(), Recording():
        assert counts() == (before[0] + 1, before[1] + 1)
    assert counts() == before


def test_a_step_that_fails_is_told_with_the_next_one() -> None:
    x = fd.ones(2, requires_grad=True)
    optimizer = SGD([x], lr=0.1)

    def fail() -> float:
        raise ValueError("closure")

    with profile() as p:
        with pytest.raises(ValueError, match="closure"):
            optimizer.step(fail)
        optimizer.step()
    assert [event.name for event in p.events()] == ["Optimizer.step#SGD.step"] * 2
