"""A worker's part of a pass runs, settles and ends, in this order and once each."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import fastdist
from fastdist import Tensor
from fastdist.concurrency.future import Future
from fastdist.core.errors import ContextReleasedError, GraphError
from fastdist.distributed.autograd.backward_pass import BackwardPass, PassState
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.engine import dist_engine
from fastdist.distributed.autograd.message_autograd import add_send_rpc_backward
from fastdist.distributed.autograd.outbox import Gradients, Outbox
from fastdist.distributed.autograd.pass_metadata import Terms
from fastdist.graph.accumulate_grad import accumulator_of
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.tasks import begin, leaf
from tests.distributed.lives import life


def a_part() -> BackwardPass:
    """Return a pass that waits for the gradients of one send to worker 2."""
    context = DistAutogradContext(1)
    add_send_rpc_backward(context, 5, [leaf()], life(2))
    return begin(context, leaf().sum())


def test_a_pass_settles_when_its_nodes_have_run_and_is_over_when_it_is_ended() -> None:
    part, states = a_part(), list[PassState]()
    assert part.task is not None
    states.append(part.state)
    part.task.mark_completed_and_post_process()
    states.append(part.state)
    done = part.end()
    assert [*states, part.state] == [PassState.RUNNING, PassState.SETTLING, PassState.OVER]
    assert done is not None and not done.done() and part.end() is None


def test_errors_count_while_it_runs_and_not_later() -> None:
    part = a_part()
    task = part.task
    assert task is not None and part.fail(ValueError("first"))
    assert not part.fail(ValueError("second"))
    part.end()
    assert not part.fail(ValueError("third"))
    assert str(task.future.exception()) == "first"


def test_of_its_errors_a_part_keeps_the_words_of_the_first_and_whether_it_was_its_own() -> None:
    part, told = a_part(), a_part()
    part.note_failure(ValueError("first"))
    part.note_failure(ValueError("second"))
    told.give_up(RuntimeError("elsewhere"))
    told.note_failure(RuntimeError("elsewhere"))
    assert part.failure is not None and part.failure[1:3] == (True, "ValueError: first")
    assert told.failure is not None and told.failure[1:3] == (False, "RuntimeError: elsewhere")


def test_a_pass_that_is_over_takes_and_sends_nothing(agent: FakeAgent) -> None:
    part = a_part()
    part.received_grads[leaf().sum()._edge] = None
    part.end()
    assert not part.take(5) and not part.note_sent() and part.received_grads == {}
    outbox = Outbox(part)
    outbox.add(life(2), Gradients(6, None))
    outbox.flush()
    assert agent.sent == [] and part.progress()[:4] == (0, 0, 1, True)


def test_what_its_root_tells_when_it_is_over_is_counted_all_the_same(agent: FakeAgent) -> None:
    part = a_part()
    part.end()
    part.mark_notified(2)
    assert part.progress().sent == 2


def test_what_a_send_awaits_comes_once_and_is_counted_each_time() -> None:
    part = a_part()
    assert (part.progress().waiting, part.progress().waits_for) == ((5,), (2,))
    assert [part.take(message_id) for message_id in (5, 5, 6)] == [True, False, False]
    assert part.progress().waiting == () and part.progress().received == 3


def test_word_of_a_failure_elsewhere_is_news_once() -> None:
    context = DistAutogradContext(1)
    part, error = begin(context, leaf().sum()), GraphError("elsewhere")
    assert [context.give_up_pass(part.terms, error) for _ in range(2)] == [True, False]
    assert part.task is not None and part.task.future.exception() is error


def test_a_pass_that_was_given_up_before_it_began_does_not_begin(agent: FakeAgent) -> None:
    context, terms = DistAutogradContext(1), Terms(1, 9)
    add_send_rpc_backward(context, 5, [leaf()], life(2))
    news = [context.give_up_pass(terms, GraphError("elsewhere")) for _ in range(2)]
    assert news == [True, False]
    with pytest.raises(ContextReleasedError, match="has ended here"):
        dist_engine().execute_send_functions_async(
            context, [Gradients(5, [leaf().detach()])], terms, fresh=True
        )
    assert context.pass_under_way() is None


def test_a_pass_that_is_given_up_while_it_is_set_up_does_not_begin(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, terms = DistAutogradContext(1), Terms(1, 9, is_auto=True)
    count = context.number_of_receives

    def give_up_meanwhile() -> int:
        context.give_up_pass(terms, GraphError("elsewhere"))
        return count()

    monkeypatch.setattr(context, "number_of_receives", give_up_meanwhile)
    done, _ = dist_engine().execute_send_functions_async(context, [], terms, fresh=True)
    assert done.done() and context.pass_under_way() is None
    assert dist_engine().number_of_passes() == 0


def test_the_answers_to_all_messages_are_waited_for() -> None:
    part, sent = a_part(), [Future[Any]() for _ in range(2)]
    for future in sent:
        part.add_outstanding_rpc(future)
    waiting = part.clear_and_wait_for_outstanding_rpcs_async()
    sent[0].set_result(None)
    assert not waiting.done()
    sent[1].set_result(None)
    assert waiting.done() and waiting.exception() is None
    assert part.clear_and_wait_for_outstanding_rpcs_async().done()


def test_gradients_are_added_by_several_threads_at_once_and_none_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each addition waits up to 0.05 s until another thread reaches an addition too.
    context, x, inside = DistAutogradContext(1), leaf(), threading.Barrier(2)
    # In the package, the name `context` is a class, so look up the module `context` by its name.
    module = sys.modules[DistAutogradContext.__module__]
    add = module.add_gradients

    def add_slowly(have: Tensor, new: Tensor, mine: bool) -> Tensor:
        try:
            inside.wait(0.05)
        except threading.BrokenBarrierError:
            inside.reset()
        return add(have, new, mine)

    monkeypatch.setattr(module, "add_gradients", add_slowly)
    accumulator = accumulator_of(x)

    def work() -> None:
        for _ in range(5):
            one = fastdist.ones(2, dtype=fastdist.float64)
            context.accumulate_grad(accumulator, one, mine=True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert context.gradients()[x].tolist() == [20.0, 20.0]


def test_a_gradient_that_cannot_be_added_leaves_the_sum_as_it_was() -> None:
    context, x = DistAutogradContext(1), leaf()
    ones = fastdist.ones(2, dtype=fastdist.float64)
    context.accumulate_grad(accumulator_of(x), ones, mine=True)
    with pytest.raises(ValueError, match="shape"):
        context.accumulate_grad(accumulator_of(x), fastdist.ones(3, dtype=fastdist.float64), False)
    assert context.gradients()[x].tolist() == [1.0, 1.0]
