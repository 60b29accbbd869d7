"""A pass fails as stalled only if two rounds of queries agree that nothing moves on any worker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.concurrency.future import Future
from fastdist.core.errors import GraphError, WorkerLostError
from fastdist.distributed.autograd import stall
from fastdist.distributed.autograd.backward_pass import BackwardPass
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.pass_metadata import Progress, Terms
from fastdist.distributed.autograd.stall import (
    Round,
    _let_all_begin,
    _sends_without_receive,
    are_over,
    has_answer,
    wait_for_pass,
)
from fastdist.distributed.rpc.handlers import Reply
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.tasks import begin
from tests.distributed.lives import Life

ASLEEP = Progress(0, 0, 0, begun=False)


def told(running: int = 0, sent: int = 0, received: int = 0, *waiting: int) -> Progress:
    return Progress(running, sent, received, True, waiting, tuple([2 for _ in waiting]))


def a_pass(*, is_auto: bool = False) -> tuple[DistAutogradContext, BackwardPass]:
    return DistAutogradContext(1), BackwardPass(Terms(1, 9, is_auto=is_auto))


ME, OTHER, WAITED_FOR = Life(3), Life(5), Life(2)
AT_REST: Round = {ME: told(0, 2, 1), OTHER: told(0, 1, 2, 77), WAITED_FOR: told()}


@pytest.fixture
def rounds(agent: FakeAgent, monkeypatch: pytest.MonkeyPatch) -> list[Round | None]:
    """Replace the rounds of queries by answers from a list, and descriptions by a short text."""
    answers: list[Round | None] = []
    monkeypatch.setattr(stall, "_ask_round", lambda *_: answers.pop(0))
    monkeypatch.setattr(stall, "_describe", lambda found, context: f"stuck: {found}")
    return answers


def never(timeout_s: float | None) -> bool:
    return False


def test_two_equal_rounds_at_rest_end_a_pass(rounds: list[Round | None]) -> None:
    rounds += [AT_REST, AT_REST, AT_REST]
    with pytest.raises(GraphError, match=r"stuck: .*77"):
        wait_for_pass(*a_pass(), never)
    assert len(rounds) == 1


@pytest.mark.parametrize(
    "other",
    [
        {ME: told(1, 2, 1), OTHER: told(0, 1, 2, 77)},  # a Node runs
        {ME: told(0, 2, 0), OTHER: told(0, 1, 2, 77)},  # a gradient is on its way
        None,  # a worker did not answer
    ],
)
def test_rounds_in_which_something_may_move_are_asked_again(
    rounds: list[Round | None], other: Round | None
) -> None:
    rounds += [other, other, AT_REST, other, AT_REST, AT_REST]
    with pytest.raises(GraphError, match="stuck"):
        wait_for_pass(*a_pass(), never)
    assert rounds == []


def test_who_has_not_begun_is_found_though_a_round_was_not_answered(
    rounds: list[Round | None], agent: FakeAgent
) -> None:
    rounds += [None, None, {ME: told(), OTHER: ASLEEP}]
    waits = iter([False, False, False, True])
    begun: list[Future[Any]] = []
    wait_for_pass(*a_pass(is_auto=True), lambda timeout_s: next(waits), begun)
    assert rounds == [] and begun == agent.futures
    assert [worker_id for worker_id, *_ in agent.sent] == [5]


def test_a_pass_asks_soon_at_first_and_then_less_and_less_often(
    rounds: list[Round | None], agent: FakeAgent
) -> None:
    rounds += [None] * 8
    waited: list[float | None] = []

    def wait(timeout_s: float | None) -> bool:
        waited.append(timeout_s)
        return len(waited) > 8

    wait_for_pass(*a_pass(is_auto=True), wait, [])
    assert waited == [*(stall.FIRST_POLL_S * 2**i for i in range(7)), 1.0, 1.0]


def test_only_members_that_live_are_asked() -> None:
    present = {1: Life(1), 2: Life(2), 3: None}
    present[2].is_dead = True
    agent: Any = SimpleNamespace(workers=SimpleNamespace(find=present.get))
    assert stall._living(agent, (1, 2, 3, 4)) == {present[1]}


def test_a_wait_has_seen_an_end_where_that_is_an_error_and_none_where_its_time_was_up() -> None:
    done: Future[Any] = Future()
    assert not stall.is_over(done, 0.0)
    done.set_exception(GraphError("mine"))
    assert stall.is_over(done, 0.0)


def test_who_cannot_begin_does_not_keep_a_pass_that_is_at_rest(
    rounds: list[Round | None], agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "get_rpc_timeout", lambda: 0.05)
    monkeypatch.setattr(stall, "_ask_round", lambda *_: {ME: told(), OTHER: ASLEEP})
    begun: list[Future[Any]] = []
    with pytest.raises(GraphError, match="stuck"):
        wait_for_pass(*a_pass(is_auto=True), never, begun)
    # The sleeping worker gets one request, however many rounds find it asleep.
    assert begun == agent.futures and len(begun) == 1


def test_a_pass_that_moved_between_two_rounds_goes_on(rounds: list[Round | None]) -> None:
    later = {ME: told(0, 3, 1), OTHER: told(0, 1, 3, 77)}
    rounds += [AT_REST, later]
    waits = iter([False, False, True])
    wait_for_pass(*a_pass(), lambda timeout_s: next(waits))
    assert rounds == []


def test_what_fails_where_a_worker_was_asked_to_begin_ends_the_pass(agent: FakeAgent) -> None:
    agent.unanswered = True
    part = begin(DistAutogradContext(1))
    begun = _let_all_begin(agent, part, {OTHER: ASLEEP}, {}, {})  # type: ignore[arg-type]
    begun[0].set_exception(RuntimeError("a hook failed there"))
    assert part.task is not None
    assert str(part.task.future.exception()) == "a hook failed there"


def test_a_pass_in_which_no_send_waits_has_not_come_to_rest(rounds: list[Round | None]) -> None:
    # No send waits: the workers wait for answers, which a broken connection may delay.
    answers_come = {ME: told(0, 1, 1), OTHER: told(0, 1, 1)}
    rounds += [answers_come, answers_come, answers_come]
    waits = iter([False, False, False, True])
    wait_for_pass(*a_pass(), lambda timeout_s: next(waits))
    assert rounds == []


def test_a_pass_at_rest_that_waits_for_who_is_gone_ends_by_its_loss(
    rounds: list[Round | None],
) -> None:
    # The root has learned of the loss of w2; the waiting worker has not yet.
    without = {ME: told(0, 2, 1), OTHER: told(0, 1, 2, 77)}
    rounds += [without, without]
    with pytest.raises(
        WorkerLostError, match=r"worker 'w2' \(rank 2\) was lost, or has left, and the backward"
    ):
        wait_for_pass(*a_pass(), never)


def test_who_waits_for_an_answer_hears_of_another_part_that_fails() -> None:
    begun, asked = [Future[Any](), Future[Any]()], SimpleNamespace(has_come=never)
    assert not has_answer(asked, begun, 0.0)  # type: ignore[arg-type]
    begun[1].set_exception(GraphError("the queried worker waits for its gradients"))
    assert has_answer(asked, begun, 10.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("begun", [False, True])
def test_a_context_that_came_between_two_questions_is_asked_about_again(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    answer: Future[Reply] = Future()
    answer.set_result(Reply([], {"sends": (), "begun": begun}))
    monkeypatch.setattr(agent, "send", lambda *_, **__: answer)
    found = {ME: told(0, 0, 0, 7), Life(2): told()}
    lost = _sends_without_receive(agent, a_pass()[1], found)  # type: ignore[arg-type]
    assert lost == ({} if begun else None)


def test_who_waits_for_several_parts_hears_of_one_that_fails_before_the_others_are_over() -> None:
    waits, failed = Future[Any](), Future[Any]()
    assert not are_over([waits, failed], 0.0)
    failed.set_exception(GraphError("it has lost a worker, for which the other one waits"))
    assert are_over([waits, failed], 0.0)
    assert are_over([_done(), _done()], None)


def _done() -> Future[Any]:
    done: Future[Any] = Future()
    done.set_result(None)
    return done
