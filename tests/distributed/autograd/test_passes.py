"""One worker's part of a pass begins, fails and ends as in PyTorch's engine."""

from __future__ import annotations

import gc
import logging
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import ref

import numpy as np
import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.concurrency.future import Future
from fastdist.core.errors import ContextError, ContextReleasedError, RpcError
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.engine import dist_engine
from fastdist.distributed.autograd.message_autograd import add_send_rpc_backward
from fastdist.distributed.autograd.outbox import Gradients, current_outbox
from fastdist.distributed.autograd.own_queue import OwnQueue
from fastdist.distributed.autograd.pass_metadata import Terms
from fastdist.distributed.autograd.recv_rpc_backward import RecvRpcBackward
from fastdist.distributed.autograd.send_rpc_backward import SendRpcBackward
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.engine.input_buffer import InputBuffer
from fastdist.engine.ready_queue import NodeTask
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.tasks import begin, inside, leaf, task_of
from tests.distributed.lives import life

# ---- passes -------------------------------------------------------------------------------------


@pytest.mark.seed("E24")
def test_an_error_puts_the_threads_state_back(agent: FakeAgent) -> None:
    y = leaf() * 2
    y.register_hook(lambda grad: 1 / 0)
    with da.context() as context_id:
        with pytest.raises(ZeroDivisionError, match=r"^Error on Node 3: division by zero") as one:
            da.backward(context_id, [y.sum()])
        # The local error is a RuntimeError, as in PyTorch; other workers receive the original
        # class.
        assert isinstance(one.value, RuntimeError)
        assert type(pickle.loads(pickle.dumps(one.value))) is ZeroDivisionError
        assert da.current_context_id() == context_id and fastdist.is_grad_enabled()


@pytest.mark.seed("E24")
def test_after_an_error_nothing_more_of_the_pass_runs(agent: FakeAgent) -> None:
    ran: list[Tensor] = []
    good = leaf() * 2
    good.register_hook(ran.append)
    bad = leaf() * 3  # made later, so its Node runs first
    bad.register_hook(lambda grad: 1 / 0)
    with da.context() as context_id:
        with pytest.raises(ZeroDivisionError):
            da.backward(context_id, [(good + bad).sum()])
        assert ran == [] and da.get_gradients(context_id) == {}


def test_an_error_is_raised_as_it_is_where_rpc_has_ended_meanwhile(
    agent: FakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    def end_and_fail(grad: Tensor) -> None:
        da._stop()
        raise ZeroDivisionError("on purpose")

    y = leaf() * 2
    y.register_hook(end_and_fail)
    with da.context() as context_id, pytest.raises(ZeroDivisionError, match=r"^on purpose$"):
        da.backward(context_id, [y.sum()])
    assert "a callback of a Future raised" not in caplog.text


@pytest.mark.seed("E25", "E33")
def test_a_context_released_during_a_pass_ends_it(agent: FakeAgent) -> None:
    y = leaf() * 2
    with da.context() as context_id:
        y.register_hook(lambda grad: da._release_context(context_id))
        with pytest.raises(ContextReleasedError, match="was released during a backward pass"):
            da.backward(context_id, [y.sum()])
    assert dist_engine().number_of_passes() == 0


class NeedsTwo(Exception):
    """An exception that cannot be created from a text alone."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


@pytest.mark.seed("E28")
def test_an_error_of_any_class_gets_its_worker_into_its_text(agent: FakeAgent) -> None:
    def hook(grad: Tensor) -> None:
        raise NeedsTwo("one", "two")

    y = leaf() * 2
    y.register_hook(hook)
    with (
        da.context() as context_id,
        pytest.raises(NeedsTwo, match=r"^Error on Node 3: one and two$") as caught,
    ):
        da.backward(context_id, [y.sum()])
    assert isinstance(caught.value, RuntimeError) and type(caught.value.__cause__) is NeedsTwo


@pytest.mark.seed("E25")
def test_a_node_of_a_pass_that_is_over_is_skipped_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = leaf().sum().grad_fn
    item = NodeTask(task_of(DistAutogradContext(1), leaf().sum()), node, InputBuffer(1))
    gc.collect()
    dist_engine().execute_until_empty(item)
    expected = f"GraphTask has expired for NodeTask: {node.name()}, skipping execution."
    assert expected in caplog.text


@pytest.mark.seed("E27")
def test_a_pass_does_not_wait_for_messages_of_an_earlier_one(agent: FakeAgent) -> None:
    with da.context() as context_id:
        da.backward(context_id, [leaf().sum()])
        (earlier,) = da._current_context()._passes.values()
        earlier.add_outstanding_rpc(Future())
        da.backward(context_id, [leaf().sum()])


def test_what_an_earlier_pass_still_does_is_nothing_to_a_later_one(agent: FakeAgent) -> None:
    # A hook may take long, and another worker may end the pass meanwhile.
    is_inside, may_go_on = threading.Event(), threading.Event()

    def take_long(grad: Tensor) -> None:
        if not is_inside.is_set():
            is_inside.set()
            assert may_go_on.wait(10)

    context, x = da._init(3).get_or_create_context(5 << 48), leaf().detach()
    x._edge = RecvRpcBackward(context, 7, life(2), (x._layout,))
    x.register_hook(take_long)
    add_send_rpc_backward(context, 8, [x], life(2))

    def go_on(pass_id: int, value: float) -> Future[None]:
        came = Gradients(8, [fastdist.tensor([value, value])])
        return dist_engine().execute_send_functions_async(
            context, [came], Terms(context.id, pass_id, True), fresh=True
        )[0]

    first = threading.Thread(target=go_on, args=(1, 1.0))
    first.start()
    assert is_inside.wait(10)
    task = context.graph_task()
    assert task is not None
    task.set_exception(RuntimeError("given up elsewhere"))

    def let_the_first_go_on(grad: Tensor) -> None:
        may_go_on.set()
        first.join(10)

    x.register_hook(let_the_first_go_on)
    assert go_on(2, 2.0).wait(10) is None
    assert [words["pass_id"] for _, _, words, _ in agent.sent] == [2]
    assert [grad.tolist() for grad in agent.tensors[0]] == [[2.0, 2.0]]
    assert [context.progress(pass_id).sent for pass_id in (1, 2)] == [0, 1]


@pytest.mark.seed("E30")
def test_gradients_for_an_unknown_send_are_an_error(agent: FakeAgent) -> None:
    expected = r"^Could not find send function for autograd message id: 77"
    with pytest.raises(ContextError, match=expected):
        dist_engine().execute_send_functions_async(
            DistAutogradContext(1), [Gradients(77, ())], Terms(1, 1), fresh=False
        )


@pytest.mark.seed("E31", "E35")
def test_a_late_message_cannot_begin_a_pass_that_has_ended(agent: FakeAgent) -> None:
    context = DistAutogradContext(1)
    x = leaf()
    add_send_rpc_backward(context, 5, [x], life(2))
    go(context, 5, pass_id=1, retain=True).wait(5)
    with pytest.raises(ContextReleasedError, match="has ended here"):
        go(context, 5, pass_id=1, retain=True)
    go(context, 5, pass_id=2, retain=True).wait(5)
    assert context.gradients()[x].tolist() == [2.0, 2.0]


@pytest.mark.seed("E22", "E33")
def test_passes_of_two_roots_at_once_are_told_what_is_wrong(agent: FakeAgent) -> None:
    context, x = DistAutogradContext(1), leaf()
    for message_id in (5, 6):
        add_send_rpc_backward(context, message_id, [x], life(2))
    first = go(context, 5, pass_id=1 << 48)
    expected = (
        r"^Cannot set GraphTask multiple times for the same autograd context: the backward pass of "
        r"context 0:1 that worker 1 began is under way here, and one that worker 2 began has "
        r"arrived; "
    )
    with pytest.raises(ContextError, match=expected):
        go(context, 6, pass_id=2 << 48)
    go(context, 6, pass_id=1 << 48)
    assert first.wait(10) is None and context.gradients()[x].tolist() == [2.0, 2.0]


def go(
    context: DistAutogradContext, message_id: int, *, pass_id: int = 1, retain: bool = False
) -> Future[None]:
    """Deliver a gradient of ones to one send."""
    ones = (fastdist.ones(2, dtype=fastdist.float64),)
    done, batch = dist_engine().execute_send_functions_async(
        context, [Gradients(message_id, ones)], Terms(context.id, pass_id, retain), fresh=False
    )
    assert batch is None
    return done


@pytest.mark.seed("E24", "E31", "E32")
def test_the_first_gradient_is_answered_when_all_is_done_and_later_ones_at_once(
    agent: FakeAgent,
) -> None:
    context, x = DistAutogradContext(1), leaf()
    for message_id in (5, 6, 7):
        add_send_rpc_backward(context, message_id, [x], life(2))
    first = go(context, 5)
    assert dist_engine().number_of_passes() == 1
    assert go(context, 6).done() and not first.done()
    assert go(context, 7).done() and first.done()
    # The state of the executing thread is restored.
    assert da.current_context_id() == -1 and current_outbox() is None
    assert context.gradients()[x].tolist() == [3.0, 3.0]


def send_on(agent: FakeAgent) -> tuple[Future[Any], Future[Any]]:
    """Deliver a gradient that makes this worker send one; return both answers, in this order."""
    agent.unanswered = True
    context, x = DistAutogradContext(1), leaf().detach()
    x._edge = RecvRpcBackward(context, 9, life(2), (x._layout,))
    add_send_rpc_backward(context, 5, [x * 3], life(2))
    done = go(context, 5)
    (answer,) = agent.futures
    return done, answer


@pytest.mark.parametrize("told", ["Error on Node 2: 'key'", "key"])
def test_an_error_of_a_key_says_once_where_it_was(agent: FakeAgent, told: str) -> None:
    done, answer = send_on(agent)
    answer.set_exception(KeyError(told))
    error = done.exception()
    assert isinstance(error, KeyError) and isinstance(error, RuntimeError)
    assert error.args == (told if "Node" in told else "Error on Node 3: 'key'",)


@pytest.mark.seed("E31", "E34", "E38")
@pytest.mark.parametrize("fails", [False, True])
def test_an_answer_waits_for_the_answers_to_what_was_sent_on(agent: FakeAgent, fails: bool) -> None:
    done, answer = send_on(agent)
    assert not done.done() and dist_engine().number_of_passes() == 1
    if fails:
        answer.set_exception(RpcError("gone"))
        assert str(done.exception()) == "Error on Node 3: gone"
    else:
        answer.set_result(None)
        assert done.exception() is None
    assert done.done() and dist_engine().number_of_passes() == 0


@pytest.mark.seed("E31", "E33")
@pytest.mark.parametrize("fails", [False, True])
def test_a_pass_is_cleaned_up_before_its_answer_leaves(agent: FakeAgent, fails: bool) -> None:
    context, y = DistAutogradContext(1), leaf() * 2
    if fails:
        y.register_hook(lambda grad: 1 / 0)
    add_send_rpc_backward(context, 5, [leaf()], life(2))
    add_send_rpc_backward(context, 6, [y], life(2))
    done, passes = go(context, 5), list[int]()
    done.add_done_callback(lambda _: passes.append(dist_engine().number_of_passes()))
    go(context, 6)
    assert passes == [0] and context.graph_task() is None
    assert str(done.exception()) == ("Error on Node 3: division by zero" if fails else "None")


@pytest.mark.seed("E22")
def test_a_context_takes_one_task_at_a_time(agent: FakeAgent) -> None:
    context = DistAutogradContext(1)
    first = begin(context, leaf().sum())
    expected = r"^Cannot set GraphTask multiple times for the same autograd context"
    with pytest.raises(ContextError, match=expected):
        begin(context, leaf().sum())
    assert first.end() is not None and first.end() is None
    begin(context, leaf().sum())


@pytest.mark.seed("E33")
def test_a_pass_needs_its_context(agent: FakeAgent) -> None:
    with pytest.raises(ContextError, match=r"^Could not find autograd context with id: 1"):
        da.backward(1, [leaf().sum()])
    assert dist_engine().number_of_passes() == 0


@pytest.mark.seed("E36", "U5")
def test_a_receive_whose_context_is_gone_says_so(agent: FakeAgent) -> None:
    context = DistAutogradContext(1)
    x = leaf()
    function = RecvRpcBackward(context, 5, life(1), (x._layout,))
    part = begin(DistAutogradContext(2), x.sum())
    del context
    with (
        inside(part),
        pytest.raises(ContextReleasedError, match=r"^Autograd context no longer valid! This"),
    ):
        function.apply_recorded(x, False)


@pytest.mark.seed("E36", "E40", "U5")
@pytest.mark.parametrize("retain", [False, True])
def test_a_receive_sends_gradients_to_who_sent_the_tensors(agent: FakeAgent, retain: bool) -> None:
    context, x, y = DistAutogradContext(1), leaf(), leaf()
    function = RecvRpcBackward(context, 5, life(2), (x._layout, y._layout))
    part = begin(context, leaf().sum(), retain=retain)
    with inside(part):
        function.apply((None, np.array([1.0, 2.0])), retain)
    words = {**part.terms._asdict(), "messages": [5, 2]}
    assert part.terms.retain_graph == retain
    assert agent.sent == [(2, MessageType.BACKWARD_AUTOGRAD_REQ, words, 0)]
    assert [g.tolist() for g in agent.tensors[0]] == [[0.0, 0.0], [1.0, 2.0]]


@pytest.mark.seed("E37")
def test_a_send_takes_no_inputs_and_hands_over_what_it_was_given() -> None:
    x, part = leaf(), begin(DistAutogradContext(1), leaf().sum())
    function = SendRpcBackward((x._edge,), (x._layout,), life(2))
    grad = fastdist.ones(2, dtype=fastdist.float64)
    function.set_grads(part, (grad,))
    with inside(part):
        assert function.num_outputs == 0 and function.grads() == (grad,)
        assert function.apply_recorded((), False) == (grad,)
        with pytest.raises(AssertionError, match="before its gradients arrived"):
            function.apply((), False)


@pytest.mark.seed("E37")
def test_a_send_refuses_undefined_gradients() -> None:
    x, part = leaf(), begin(DistAutogradContext(1), leaf().sum())
    function = SendRpcBackward((x._edge,), (x._layout,), life(2))
    function.set_grads(part, (None,))
    with inside(part), pytest.raises(AssertionError, match="undefined gradient"):
        function.apply((), False)


@pytest.mark.seed("E38", "E39")
def test_the_first_error_of_a_message_ends_the_pass_and_later_ones_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    context = DistAutogradContext(1)
    part = begin(context, leaf().sum())
    task = part.task
    assert task is not None
    first: Future[Any] = Future()
    second: Future[Any] = Future()
    part.add_outstanding_rpc(first)
    part.add_outstanding_rpc(second)
    waiting = part.clear_and_wait_for_outstanding_rpcs_async()
    second.set_exception(RuntimeError("one"))
    first.set_exception(RuntimeError("two"))
    assert task.has_error and str(task.future.exception()) == "one"
    assert str(waiting.exception()) == "one"
    assert "ignoring a later error of context 0:1: two" in caplog.text


def test_a_pass_that_failed_is_freed_without_the_garbage_collector(agent: FakeAgent) -> None:
    def fail(grad: Tensor) -> None:
        raise ValueError("mine")

    gc.collect()
    gc.disable()
    try:
        with da.context() as context_id:
            y = leaf().exp()
            y.register_hook(fail)
            watched = ref(y.grad_fn), ref(da._retrieve_context(context_id))
            with pytest.raises(ValueError, match="mine"):
                da.backward(context_id, [y.sum()])
        del y
        assert [one() for one in watched] == [None, None]
    finally:
        gc.enable()


@pytest.mark.seed("E23")
def test_threads_run_one_pass_together(agent: FakeAgent) -> None:
    context, x, together = DistAutogradContext(1), leaf(), threading.Barrier(2)

    def meet(grad: Tensor) -> None:
        together.wait(10)  # passes only if both threads are inside the pass together

    for message_id in (5, 6):
        y = x * 2
        y.register_hook(meet)
        add_send_rpc_backward(context, message_id, [y], life(2))
    with ThreadPoolExecutor(2) as pool:
        for answer in [pool.submit(go, context, message_id) for message_id in (5, 6)]:
            answer.result(20).wait(10)
    assert context.gradients()[x].tolist() == [4.0, 4.0]


@pytest.mark.seed("E23")
def test_each_call_of_the_loop_has_a_queue_of_its_own(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[OwnQueue] = []
    monkeypatch.setattr(
        "fastdist.distributed.autograd.engine.OwnQueue",
        lambda: made.append(OwnQueue()) or made[-1],
    )
    context, x = DistAutogradContext(1), leaf()
    for message_id in (5, 6):
        add_send_rpc_backward(context, message_id, [x], life(2))
    for message_id in (5, 6):
        go(context, message_id)
    assert context.gradients()[x].tolist() == [2.0, 2.0]
    assert len({id(queue) for queue in made}) == 2
