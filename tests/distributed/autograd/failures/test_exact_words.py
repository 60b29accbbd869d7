"""The exact content of messages about contexts and passes; malformed messages are rejected."""

from __future__ import annotations

import gc
import logging
import threading
from typing import Any
from weakref import ref

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist.concurrency.future import Future
from fastdist.core.errors import GraphError, MessageError, WorkerLostError
from fastdist.distributed.autograd.backward_pass import BackwardPass
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.engine import dist_engine
from fastdist.distributed.autograd.global_cpu_thread import GlobalCpuThread
from fastdist.distributed.autograd.lost_workers import handle_lost_worker
from fastdist.distributed.autograd.message_autograd import add_send_rpc_backward
from fastdist.distributed.autograd.outbox import Gradients
from fastdist.distributed.autograd.pass_metadata import Progress, Terms
from fastdist.distributed.autograd.sparse_parts import SPARSE, together
from fastdist.distributed.rpc import interceptors
from fastdist.distributed.rpc.handlers import Reply, handler_of
from fastdist.distributed.rpc.message.message import AutogradBlock, Message
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.engine.input_buffer import InputBuffer
from fastdist.engine.ready_queue import NodeTask
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.tasks import begin, leaf, task_of
from tests.distributed.lives import life
from tests.disturbances.interleaving import Step, each_interleaving

PROGRESS = MessageType.PASS_PROGRESS_REQ
CLEAN_UP = MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ


def asked(kind: MessageType, peer: int, **words: Any) -> Any:
    """Return the reply of this worker's handler to a message of worker `peer`."""
    handle = handler_of(kind)
    assert handle is not None
    return handle(Message(kind, peer=life(peer), metadata=words))


# ---- messages about contexts --------------------------------------------------------------------


def test_who_lost_its_bringer_hears_which_contexts_are_over(agent: FakeAgent) -> None:
    context = da._init(3).get_or_create_context(3 << 48 | 7)
    held = (context.id, context.id + 1)
    answer = asked(CLEAN_UP, 5, context_ids=held, held=True)
    assert isinstance(answer, Reply) and answer.metadata == {"over": [context.id + 1]}
    # Worker 5 will be notified when the context ends.
    assert context._known_worker_ids() == {5}
    assert asked(CLEAN_UP, 5, context_ids=()) is None


def test_of_a_context_that_is_not_here_nothing_is_under_way(agent: FakeAgent) -> None:
    words = Terms(77, 1)._asdict()
    assert asked(PROGRESS, 5, **words).metadata == Progress(0, 0, 0, begun=True)._asdict()
    told = asked(PROGRESS, 5, **words, sends=(4, 6))
    assert told.metadata == {"sends": (4, 6), "begun": True}


def test_an_answer_to_what_was_not_wrapped_brings_no_context(agent: FakeAgent) -> None:
    plain = Message(MessageType.PYTHON_CALL, peer=life(1))
    answer = Message(MessageType.PYTHON_RET, peer=life(1), metadata={"autograd.reached": (7, 8)})
    answer.autograd = AutogradBlock(5 << 48, 7)
    interceptors.response_in(answer, plain)
    assert da._get_debug_info()["num_autograd_contexts"] == 0 and agent.sent == []


# ---- lost workers -------------------------------------------------------------------------------


def one_of_two_gradients(context: DistAutogradContext) -> Future[None]:
    """Start this worker's part of a pass; it has one of two gradients, and waits for the other."""
    for message_id in (5, 6):
        add_send_rpc_backward(context, message_id, [leaf() * 1], life(2))
    came = Gradients(5, [fastdist.ones(2, dtype=fastdist.float64)])
    terms = Terms(context.id, 1)
    return dist_engine().execute_send_functions_async(context, [came], terms, fresh=True)[0]


def test_a_pass_that_goes_through_a_lost_worker_ends_with_its_name(agent: FakeAgent) -> None:
    context = da._init(3).get_or_create_context(3 << 48 | 1)
    context.add_known_worker(life(2))
    done = one_of_two_gradients(context)
    handle_lost_worker(life(9))
    assert not done.done()
    handle_lost_worker(life(2))
    expected = r"^Error on Node 3: worker 'w2' \(rank 2\) was lost during the .* of context 3:1$"
    with pytest.raises(WorkerLostError, match=expected):
        done.wait(10)


def test_owners_of_what_is_held_are_asked_and_one_that_cannot_be_is_logged(
    agent: FakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for owner in (1, 2, 3):
        da._init(3).get_or_create_context(owner << 48, life(owner))
    agent.raises_for, agent.unanswered = {1}, True
    handle_lost_worker(life(9))
    assert "on node 1: worker 'w1' was not notified: worker 1 cannot be" in caplog.text
    assert [(to, words["context_ids"]) for to, _, words, _ in agent.sent] == [(2, [2 << 48])]
    agent.futures[0].set_result(Reply([], {"over": (2 << 48,)}))
    assert da._get_debug_info()["num_autograd_contexts"] == 2


def test_a_worker_may_be_lost_where_rpc_has_ended() -> None:
    container = da._init(3)
    try:
        container.get_or_create_context(1 << 48)
        handle_lost_worker(life(9))
        assert da._get_debug_info()["num_autograd_contexts"] == 1
    finally:
        da._stop()


# ---- messages with gradients --------------------------------------------------------------------


@pytest.mark.parametrize("told", [(0,), (0, 1), (0, 1, -1), (1, 1, 0), (-1, 1, 0)])
def test_parts_of_sparse_gradients_that_do_not_fit_are_refused(told: tuple[int, ...]) -> None:
    parts = [fastdist.ones(2), fastdist.ones(2)]
    with pytest.raises(MessageError, match=r"worker 5 is .*expected the places of parts among 2"):
        together(parts, {SPARSE: told}, 5)


@pytest.mark.seed("E32")
def test_gradient_messages_that_two_threads_take_are_both_counted(agent: FakeAgent) -> None:
    found: list[bool] = []
    parts: list[BackwardPass] = []

    def prepare(*ids: int) -> tuple[Step, Step]:
        context = DistAutogradContext(1)
        found.clear()
        for message_id in (5, 6):
            add_send_rpc_backward(context, message_id, [leaf() * 1], life(2))
        parts[:] = [part] = [begin(context, leaf().sum())]
        first, second = (lambda i=i: found.append(part.take(i)) for i in ids)  # type: ignore[misc]
        return first, second

    for _ in each_interleaving(lambda: prepare(5, 6), "autograd/backward_pass.py"):
        assert found == [True, True] and parts[0].progress().received == 2
    for _ in each_interleaving(lambda: prepare(5, 5), "autograd/backward_pass.py"):
        assert sorted(found) == [False, True] and parts[0].progress().received == 2


# ---- threads ------------------------------------------------------------------------------------


def test_the_cpu_thread_holds_no_pass_while_it_sleeps() -> None:
    ran = threading.Event()
    thread = GlobalCpuThread(lambda item: ran.set())
    thread.start()
    try:
        loss = leaf().sum()
        task = task_of(DistAutogradContext(1), loss)
        watched, asleep = ref(task), threading.Event()
        thread.queue.push(NodeTask(task, loss.grad_fn, InputBuffer(1)))
        assert ran.wait(10)
        del task
        gc.collect()
        for _ in range(500):
            if watched() is None:
                break
            asleep.wait(0.01)  # the thread may not have gone to sleep yet
        assert watched() is None
    finally:
        thread.stop()


def test_a_pass_that_another_worker_gives_up_fails_with_its_words(agent: FakeAgent) -> None:
    with da.context():
        context = da._current_context()
        part = begin(context, leaf().sum())
        words = {**part.terms._asdict(), "reason": "of the test"}
        asked(MessageType.ABORT_AUTOGRAD_CONTEXT_REQ, 1, **words)
        assert part.task is not None
        with pytest.raises(GraphError, match=r"^the pass was given up by worker 1: of the test"):
            part.task.future.wait(10)
