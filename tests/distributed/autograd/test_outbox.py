"""Gradients for one worker are batched while the remaining work is light."""

from __future__ import annotations

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.distributed.autograd import outbox as outboxes
from fastdist.distributed.autograd.engine import _elements
from fastdist.distributed.autograd.outbox import HOLD_S, LIGHT, Gradients, Outbox, unpack
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.tasks import begin, leaf
from tests.distributed.lives import life


def test_gradients_wait_for_the_first_heavy_node_or_until_the_oldest_has_waited_long(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [10.0]
    monkeypatch.setattr(outboxes.time, "perf_counter", lambda: now[0])
    with da.context():
        outbox = Outbox(begin(da._current_context(), leaf().sum()))
        outbox.add(life(1), Gradients(5, [fastdist.ones(2)]))
        assert not outbox.is_due(LIGHT) and outbox.is_due(LIGHT + 1)
        now[0] += 0.75 * HOLD_S
        outbox.add(life(2), Gradients(6, [fastdist.ones(2)]))
        assert not outbox.is_due(0)
        now[0] += 0.5 * HOLD_S
        assert outbox.is_due(0)
        outbox.flush()
        # Later gradients start a new wait.
        outbox.add(life(1), Gradients(7, [fastdist.ones(2)]))
        assert not outbox.is_due(0)
        outbox.flush()
    assert [to for to, *_ in agent.sent[:3]] == [1, 2, 1]


def test_gradients_that_arrive_in_one_piece_of_memory_are_parted() -> None:
    together: Tensor = fastdist.zeros(4)
    apart: Tensor = fastdist.zeros(4)
    words = {"messages": (7, 3)}
    ((_, found, *_),) = unpack([together, together[1:3], apart], words, 3)
    assert found is not None
    for number, one in enumerate(found, 1):
        one.fill_(float(number))
    assert [one.tolist() for one in found] == [[1.0] * 4, [2.0] * 2, [3.0] * 4]
    # The first of several overlapping tensors, and tensors without overlap, need no copy.
    assert found[0] is together and found[2] is apart


def test_gradients_that_lie_beside_each_other_are_not_copied() -> None:
    memory: Tensor = fastdist.zeros(6)
    pieces = [memory[4:], memory[:2], memory[2:4]]
    ((_, found, *_),) = unpack(pieces, {"messages": (7, 3)}, 3)
    assert found is not None and all(a is b for a, b in zip(found, pieces, strict=True))


def test_a_node_has_the_elements_of_all_its_outputs() -> None:
    x = fastdist.ones(2, 3, requires_grad=True)
    first, second = fastdist.split(x * 1.0, [1, 1])
    assert first.grad_fn is second.grad_fn
    assert [_elements(y.grad_fn) for y in (first, x * 1.0, x.sum())] == [6, 6, 1]
    assert _elements(None) == 0
