"""The claim: a pass that begins after a worker was lost neither waits for it nor ends by it."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import ContextReleasedError, WorkerLostError
from fastdist.distributed.autograd import stall
from fastdist.distributed.autograd.abort import handle_lost_worker
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.engine import dist_engine
from fastdist.distributed.autograd.message_autograd import add_send_rpc_backward
from fastdist.distributed.autograd.outbox import Gradients
from fastdist.distributed.autograd.recv_rpc_backward import RecvRpcBackward
from fastdist.distributed.rpc.agent import get_current_agent
from fastdist.distributed.rpc.membership import WorkerInfo
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.tasks import leaf

LOST = 2


@pytest.fixture
def agent(agent: FakeAgent, monkeypatch: pytest.MonkeyPatch) -> FakeAgent:
    """Be worker 3, for which worker 2 is lost."""
    monkeypatch.setattr(agent, "is_dead", lambda worker_id: worker_id == LOST)
    return agent


def send(context: DistAutogradContext, message_id: int, tensor: Tensor, to: int = LOST) -> None:
    assert context.add_known_worker(to)
    add_send_rpc_backward(context, message_id, [tensor], to)


def test_a_pass_does_not_wait_for_gradients_of_a_lost_worker(agent: FakeAgent) -> None:
    x = leaf()
    with da.context() as context_id:
        context = da._current_context()
        y = x * 3
        send(context, 5, y)
        unused = leaf().detach()
        unused.edge = RecvRpcBackward(context, 6, LOST, (unused.facts,))
        context.add_recv_function(unused.edge, 6)
        da.backward(context_id, [(y * 2).sum()])
        assert da.get_gradients(context_id)[x].tolist() == [6.0, 6.0]
    assert agent.sent == []


def test_a_fast_pass_ends_by_what_was_sent_to_a_lost_worker(agent: FakeAgent) -> None:
    with da.context() as context_id:
        send(da._current_context(), 5, leaf() * 3)
        with pytest.raises(WorkerLostError, match=r"worker 2 was lost, and tensors went there"):
            da.backward(context_id, [leaf().sum() * 2], mode="fast")
        assert da._get_debug_info()["num_current_backward_passes"] == 0


def begin_part(context: DistAutogradContext, value: float) -> Any:
    came = [Gradients(5, [fastdist.tensor([value, value])])]
    return dist_engine().execute_send_functions_async(
        context, came, False, pass_id=9, fresh=True, is_auto=True
    )[0]


def test_a_part_of_a_pass_does_not_wait_for_gradients_of_a_lost_worker(agent: FakeAgent) -> None:
    context, x = da._init(3).get_or_create_context(5 << 48), leaf()
    send(context, 5, x * 3, to=1)
    send(context, 6, x * 4)
    assert begin_part(context, 1.0).wait(10) is None
    assert [grad.tolist() for grad in context.gradients().values()] == [[3.0, 3.0]]
    assert context.progress(9)["sent"] == 1 and context.progress(9)["received"] == 2


def test_word_of_a_loss_does_not_end_a_pass_that_began_without_the_worker(
    agent: FakeAgent,
) -> None:
    context, x = da._init(3).get_or_create_context(5 << 48), leaf()
    y = x * 3
    y.register_hook(lambda _: handle_lost_worker(WorkerInfo("w2", LOST)))
    send(context, 5, y, to=1)
    send(context, 6, x * 4)
    assert begin_part(context, 1.0).wait(10) is None


def test_a_round_of_questions_leaves_the_lost_out(agent: FakeAgent) -> None:
    context = da._init(3).get_or_create_context(5 << 48)
    context.add_known_worker(LOST)
    found = stall._ask_round(get_current_agent(), context)
    assert found is not None and list(found) == [3]


def test_a_context_of_a_lost_worker_is_not_brought_by_another(agent: FakeAgent) -> None:
    # Who brings it may be lost as well before it tells that the context is over.
    with pytest.raises(WorkerLostError, match=r"^worker 2, in whose context this was sent, was"):
        da._init(3).get_or_create_context(LOST << 48, 1)


def test_who_takes_the_rank_of_a_worker_that_left_gives_out_its_ids_again(
    agent: FakeAgent,
) -> None:
    container = da._init(3)
    for owner in (5, 6):
        container.get_or_create_context(owner << 48, owner)
        container.release_context(owner << 48)
    handle_lost_worker(WorkerInfo("w5", 5))
    assert container.get_or_create_context(5 << 48, 5).id == 5 << 48
    with pytest.raises(ContextReleasedError):
        container.get_or_create_context(6 << 48, 6)
