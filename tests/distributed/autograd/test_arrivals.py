"""A gradient that arrives for a send is used once, and only in a pass that began with the send."""

from __future__ import annotations

import threading

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.concurrency.future import Future
from fastdist.core.errors import ContextReleasedError
from fastdist.distributed.autograd.backward_pass import BackwardPass
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.engine import dist_engine
from fastdist.distributed.autograd.message_autograd import add_send_rpc_backward
from fastdist.distributed.autograd.outbox import Gradients, Outbox
from fastdist.distributed.autograd.pass_metadata import Terms
from fastdist.distributed.autograd.recv_rpc_backward import RecvRpcBackward
from fastdist.distributed.rpc.message.types import MessageType
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.tasks import leaf
from tests.distributed.lives import life


@pytest.fixture
def context(agent: FakeAgent) -> DistAutogradContext:
    """Return a context that worker 5 owns, on this worker 3."""
    return da._init(3).get_or_create_context(5 << 48)


def come(context: DistAutogradContext, pass_id: int, **values: float | None) -> Future[None]:
    """Deliver gradients to sends: `_7=2.0` is for send 7; None means that no gradient follows."""
    came = [
        Gradients(int(name[1:]), None if value is None else [grad(value)])
        for name, value in values.items()
    ]
    return dist_engine().execute_send_functions_async(
        context, came, Terms(context.id, pass_id, True, True), fresh=True
    )[0]


def grad(value: float) -> Tensor:
    return fastdist.tensor([value, value], dtype=fastdist.float64)


def test_what_a_pass_that_failed_was_told_is_nothing_to_the_next(
    context: DistAutogradContext,
) -> None:
    x, y = leaf(), leaf()
    add_send_rpc_backward(context, 7, [y * 1], life(2))
    failing = x * 2  # made later, so its Node runs before send 7
    handle = failing.register_hook(lambda grad: 1 / 0)
    add_send_rpc_backward(context, 8, [failing], life(2))
    assert isinstance(come(context, 1, _7=None, _8=1.0).exception(), ZeroDivisionError)
    handle.remove()
    assert come(context, 2, _7=5.0, _8=None).wait(10) is None
    assert [grad.tolist() for grad in context.gradients().values()] == [[5.0, 5.0]]


def test_a_send_that_still_runs_for_an_earlier_pass_takes_nothing_of_a_later_one(
    context: DistAutogradContext,
) -> None:
    x, is_inside, may_go_on = leaf(), threading.Event(), threading.Event()
    send = add_send_rpc_backward(context, 7, [x], life(2))

    def hold_the_first(grads: tuple[Tensor, ...]) -> None:
        # The first pass checks for a failure before this hook, and uses gradients after the hook.
        if threading.current_thread() is first:
            is_inside.set()
            assert may_go_on.wait(10)
        else:
            may_go_on.set()
            first.join(10)

    send.register_prehook(hold_the_first)
    first = threading.Thread(target=come, args=(context, 1), kwargs={"_7": 1.0})
    first.start()
    assert is_inside.wait(10)
    task = context.graph_task()
    assert task is not None
    task.set_exception(RuntimeError("given up elsewhere"))
    assert come(context, 2, _7=2.0).wait(10) is None
    assert context.gradients()[x].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("value", [None, 9.0])
def test_a_send_that_is_made_after_a_pass_began_is_no_part_of_it(
    context: DistAutogradContext, value: float | None
) -> None:
    x = leaf()
    for message_id in (6, 7):
        add_send_rpc_backward(context, message_id, [x * 1], life(2))
    done = come(context, 1, _6=1.0)
    add_send_rpc_backward(context, 8, [x * 1], life(2))
    come(context, 1, _8=value)
    told = context.progress(1)
    assert not done.done() and (told.waiting, told.received) == ((7,), 2)
    come(context, 1, _7=1.0)
    assert done.wait(10) is None and context.gradients()[x].tolist() == [2.0, 2.0]


def test_the_first_word_about_a_send_counts(context: DistAutogradContext) -> None:
    x = leaf()
    for message_id in (6, 7):
        add_send_rpc_backward(context, message_id, [x * 1], life(2))
    done = come(context, 1, _6=1.0)
    come(context, 1, _6=None)
    assert not done.done() and context.progress(1).received == 2
    come(context, 1, _7=None)
    assert done.wait(10) is None and context.gradients()[x].tolist() == [1.0, 1.0]


def test_that_a_send_is_unused_is_no_news_where_the_pass_is_over(
    context: DistAutogradContext,
) -> None:
    add_send_rpc_backward(context, 7, [leaf()], life(2))
    assert come(context, 1, _7=None).wait(10) is None
    assert come(context, 1, _7=None).wait(10) is None
    assert context.progress(1).received == 2
    with pytest.raises(ContextReleasedError, match="has ended here"):
        come(context, 1, _7=1.0)


def test_a_worker_says_which_messages_have_no_part_in_its_pass(
    context: DistAutogradContext,
) -> None:
    def receive(message_id: int) -> None:
        context.add_recv_function(
            RecvRpcBackward(context, message_id, life(2), (leaf()._layout,)), message_id
        )

    receive(5)
    assert context.sends_without_receive(1, [5, 6]) == [6]
    add_send_rpc_backward(context, 7, [leaf()], life(2))
    come(context, 1)
    receive(6)
    assert (
        context.sends_without_receive(1, [5, 6]) == [6]
        and context.sends_without_receive(2, [5, 6]) == []
    )


def test_gradients_that_do_not_reach_who_began_this_part_of_a_pass_end_all_of_it(
    context: DistAutogradContext, agent: FakeAgent
) -> None:
    context.add_known_workers({life(1), life(5)})
    agent.fails_for = {5}
    part = BackwardPass(Terms(context.id, 1), requester=life(5))
    part.reached = context.known_workers
    part.task = object()  # type: ignore[assignment]
    outbox = Outbox(part)
    outbox.add(life(5), Gradients(7, [grad(1.0)]))
    outbox.flush()
    told = [to for to, kind, *_ in agent.sent if kind == MessageType.ABORT_AUTOGRAD_CONTEXT_REQ]
    assert sorted(told) == [1, 5]
