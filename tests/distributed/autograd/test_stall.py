"""The claim: a pass is ended as stuck only when two rounds agree that nothing moves anywhere."""

from __future__ import annotations

from typing import Any

import pytest

from fastdist.core.errors import GraphError
from fastdist.core.future import Future
from fastdist.distributed.autograd import stall
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.stall import wait_for_pass
from tests.distributed.autograd.fake_agent import FakeAgent

Round = dict[int, dict[str, Any]]


def told(running: int = 0, sent: int = 0, received: int = 0, *waiting: int) -> dict[str, Any]:
    answer = {"running": running, "sent": sent, "received": received, "begun": True}
    return {**answer, "waiting": [*waiting], "waits_for": [2 for _ in waiting]}


AT_REST: Round = {3: told(0, 2, 1), 5: told(0, 1, 2, 77)}


@pytest.fixture
def rounds(agent: FakeAgent, monkeypatch: pytest.MonkeyPatch) -> list[Round | None]:
    """Be asked for answers that the test gives, and be the only ones to know worker names."""
    answers: list[Round | None] = []
    monkeypatch.setattr(stall, "_ask_round", lambda *_: answers.pop(0))
    monkeypatch.setattr(stall, "_describe", lambda found, context: f"stuck: {found}")
    return answers


def never(timeout_s: float | None) -> bool:
    return False


def test_two_equal_rounds_at_rest_end_a_pass(rounds: list[Round | None]) -> None:
    rounds += [AT_REST, AT_REST, AT_REST]
    with pytest.raises(GraphError, match=r"stuck: .*77"):
        wait_for_pass(DistAutogradContext(1), never)
    assert len(rounds) == 1


@pytest.mark.parametrize(
    "other",
    [
        {3: told(1, 2, 1), 5: told(0, 1, 2, 77)},  # a Node runs
        {3: told(0, 2, 0), 5: told(0, 1, 2, 77)},  # a gradient is on its way
        None,  # somebody did not answer
    ],
)
def test_rounds_in_which_something_may_move_are_asked_again(
    rounds: list[Round | None], other: Round | None
) -> None:
    rounds += [other, other, AT_REST, other, AT_REST, AT_REST]
    with pytest.raises(GraphError, match="stuck"):
        wait_for_pass(DistAutogradContext(1), never)
    assert rounds == []


def test_who_has_not_begun_is_found_though_a_round_was_not_answered(
    rounds: list[Round | None], agent: FakeAgent
) -> None:
    rounds += [None, None, {3: told(), 5: told() | {"begun": False}}]
    waits = iter([False, False, False, True])
    context, begun = DistAutogradContext(1), list[Future[Any]]()
    context.is_auto = True
    wait_for_pass(context, lambda timeout_s: next(waits), begun)
    assert rounds == [] and begun == agent.futures
    assert [worker_id for worker_id, *_ in agent.sent] == [5]


def test_who_cannot_begin_does_not_keep_a_pass_that_is_at_rest(
    rounds: list[Round | None], agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "get_rpc_timeout", lambda: 0.05)
    monkeypatch.setattr(stall, "_ask_round", lambda *_: {3: told(), 5: told() | {"begun": False}})
    context, begun = DistAutogradContext(1), list[Future[Any]]()
    context.is_auto = True
    with pytest.raises(GraphError, match="stuck"):
        wait_for_pass(context, never, begun)
    # It is asked once, as often as it is found asleep.
    assert begun == agent.futures and len(begun) == 1


def test_a_pass_that_moved_between_two_rounds_goes_on(rounds: list[Round | None]) -> None:
    later = {3: told(0, 3, 1), 5: told(0, 1, 3, 77)}
    rounds += [AT_REST, later]
    waits = iter([False, False, True])
    wait_for_pass(DistAutogradContext(1), lambda timeout_s: next(waits))
    assert rounds == []
