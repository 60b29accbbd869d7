"""A pass that begins after a worker was lost neither waits for that worker nor fails."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import WorkerLostError
from fastdist.distributed.autograd import stall
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.engine import dist_engine
from fastdist.distributed.autograd.lost_workers import handle_lost_worker
from fastdist.distributed.autograd.message_autograd import add_send_rpc_backward
from fastdist.distributed.autograd.outbox import Gradients
from fastdist.distributed.autograd.pass_metadata import Terms
from fastdist.distributed.autograd.recv_rpc_backward import RecvRpcBackward
from fastdist.distributed.rpc.agent import get_current_agent
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.tasks import begin, leaf
from tests.distributed.lives import life, next_life

LOST = 2


@pytest.fixture
def agent(agent: FakeAgent) -> FakeAgent:
    """Make this process worker 3, with worker 2 lost."""
    life(LOST).is_dead = True
    return agent


def send(context: DistAutogradContext, message_id: int, tensor: Tensor, to: int = LOST) -> None:
    assert context.add_known_worker(life(to))
    add_send_rpc_backward(context, message_id, [tensor], life(to))


def test_a_worker_without_an_agent_has_nobody_to_lose() -> None:
    da._init(3)
    try:
        x = leaf()
        with da.context() as context_id:
            da.backward(context_id, [(x * 3).sum()])
            assert da.get_gradients(context_id)[x].tolist() == [3.0, 3.0]
    finally:
        da._stop()


def test_a_pass_does_not_wait_for_gradients_of_a_lost_worker(agent: FakeAgent) -> None:
    x = leaf()
    with da.context() as context_id:
        context = da._current_context()
        y = x * 3
        send(context, 5, y)
        unused = leaf().detach()
        unused._edge = RecvRpcBackward(context, 6, life(LOST), (unused._layout,))
        context.add_recv_function(unused._edge, 6)
        da.backward(context_id, [(y * 2).sum()])
        assert da.get_gradients(context_id)[x].tolist() == [6.0, 6.0]
    assert agent.sent == []


def test_a_fast_pass_ends_by_what_was_sent_to_a_lost_worker(agent: FakeAgent) -> None:
    with da.context() as context_id:
        send(da._current_context(), 5, leaf() * 3)
        with pytest.raises(
            WorkerLostError, match=r"worker 'w2' \(rank 2\) was lost, and tensors were sent there"
        ):
            da.backward(context_id, [leaf().sum() * 2], mode="fast")
        assert da._get_debug_info()["num_current_backward_passes"] == 0


def begin_part(context: DistAutogradContext, value: float) -> Any:
    came = [Gradients(5, [fastdist.tensor([value, value])])]
    return dist_engine().execute_send_functions_async(
        context, came, Terms(context.id, 9, is_auto=True), fresh=True
    )[0]


def test_a_part_of_a_pass_does_not_wait_for_gradients_of_a_lost_worker(agent: FakeAgent) -> None:
    context, x = da._init(3).get_or_create_context(5 << 48), leaf()
    send(context, 5, x * 3, to=1)
    send(context, 6, x * 4)
    assert begin_part(context, 1.0).wait(10) is None
    assert [grad.tolist() for grad in context.gradients().values()] == [[3.0, 3.0]]
    assert (context.progress(9).sent, context.progress(9).received) == (1, 2)


def test_word_of_a_loss_does_not_end_a_pass_that_began_without_the_worker(
    agent: FakeAgent,
) -> None:
    context, x = da._init(3).get_or_create_context(5 << 48), leaf()
    y = x * 3
    y.register_hook(lambda _: handle_lost_worker(life(LOST)))
    send(context, 5, y, to=1)
    send(context, 6, x * 4)
    assert begin_part(context, 1.0).wait(10) is None


def test_a_round_of_questions_leaves_the_lost_out(agent: FakeAgent) -> None:
    context = da._init(3).get_or_create_context(5 << 48)
    context.add_known_worker(life(LOST))
    found = stall._ask_round(get_current_agent(), context, begin(context, leaf().sum()))
    assert found is not None and list(found) == [life(3)]


def test_a_context_of_a_lost_worker_is_not_brought_by_another(agent: FakeAgent) -> None:
    # Worker 1, the sender, may be lost before it reports the end of the context. Then the context
    # would stay here.
    with pytest.raises(WorkerLostError, match=r"^worker 'w2' \(rank 2\), in whose context"):
        da._init(3).get_or_create_context(LOST << 48, life(1), life(LOST).record.incarnation)


def test_a_context_of_a_former_life_is_not_brought_by_another(agent: FakeAgent) -> None:
    former, container = life(5), da._init(3)
    later = next_life(5)
    with pytest.raises(WorkerLostError, match=r"^worker 'w5' \(rank 5\), in whose context"):
        container.get_or_create_context(5 << 48, life(1), former.record.incarnation)
    brought = container.get_or_create_context(5 << 48, life(1), later.record.incarnation)
    assert brought.owner is later


def test_a_context_of_a_former_life_of_ours_is_not_brought(agent: FakeAgent) -> None:
    former, container = life(3), da._init(3)
    next_life(3)
    with pytest.raises(WorkerLostError, match=r"^worker 'w3' \(rank 3\), in whose context"):
        container.get_or_create_context(3 << 48, life(1), former.record.incarnation)


def test_the_late_end_of_a_life_releases_no_context_of_the_next(agent: FakeAgent) -> None:
    container, former = da._init(3), life(5)
    container.get_or_create_context(5 << 48, former)
    container.get_or_create_context(5 << 48 | 1, next_life(5))
    handle_lost_worker(former)
    assert [context.id for context in container.all_contexts()] == [5 << 48 | 1]


def test_the_late_end_of_a_life_ends_no_pass_that_goes_through_the_next(agent: FakeAgent) -> None:
    context, former = da._init(3).get_or_create_context(5 << 48, life(5)), life(1)
    next_life(1)
    send(context, 6, leaf() * 4, to=1)
    terms = Terms(context.id, 9, is_auto=True)
    begun, _ = dist_engine().execute_send_functions_async(context, [], terms, fresh=True)
    handle_lost_worker(former)
    assert not begun.done()
    came = [Gradients(6, [fastdist.tensor([1.0, 1.0])])]
    dist_engine().execute_send_functions_async(context, came, terms, fresh=True)
    assert begun.wait(10) is None
