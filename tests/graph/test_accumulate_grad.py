"""The claim: threads that meet at a tensor find one place for its gradient, and what is rare."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import fastdist
from fastdist import Tensor
from fastdist.graph import accumulate_grad
from fastdist.graph.accumulate_grad import accumulator_of, extra_of, freeze


def meet(
    monkeypatch: pytest.MonkeyPatch,
    mine: Callable[[], object],
    others: Callable[[], object],
) -> list[object]:
    """Return what both return where the other thread comes when mine makes an Extra."""
    returned: list[object] = []
    other, make = threading.Thread(target=lambda: returned.append(others())), accumulate_grad.Extra

    def make_slowly() -> object:
        monkeypatch.setattr(accumulate_grad, "Extra", make)
        other.start()
        other.join(0.1)  # it may have to wait until this thread is done
        return make()

    monkeypatch.setattr(accumulate_grad, "Extra", make_slowly)
    first = mine()
    other.join(10)
    return [first, *returned]


def test_two_threads_that_keep_something_with_a_tensor_find_one_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x: Tensor = fastdist.ones(2)
    found = meet(monkeypatch, lambda: extra_of(x), lambda: extra_of(x))
    assert found == [x.extra, x.extra]


def test_a_leaf_that_two_threads_freeze_and_thaw_keeps_its_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x: Tensor = fastdist.ones(2, requires_grad=True)
    x.sum().backward()
    accumulator = x.edge
    meet(monkeypatch, lambda: freeze(x), lambda: accumulator_of(x))
    assert x.edge is accumulator and x.grad is not None and x.grad.tolist() == [1.0, 1.0]
