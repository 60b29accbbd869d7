"""However a pass fails, it leaves no task running, sends nothing more and does not start again."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import ContextError, ContextReleasedError
from fastdist.distributed import rpc
from fastdist.distributed.autograd.pass_metadata import Terms
from fastdist.distributed.autograd.recv_rpc_backward import RecvRpcBackward
from fastdist.distributed.rpc.agent import get_current_agent
from fastdist.distributed.rpc.message.types import MessageType
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.on_worker import on_worker, outside
from tests.distributed.autograd.programs import (
    _weight,
    close,
    close_gate,
    fail,
    first_of,
    leaf,
    open_gate,
    wait_at_gate,
    with_hook,
)
from tests.distributed.lives import life

BACKWARD = MessageType.BACKWARD_AUTOGRAD_REQ
ABORT = MessageType.ABORT_AUTOGRAD_CONTEXT_REQ
OTHER_PASS = (1 << 40) + 1  # far above the pass numbers that these tests reach


def tell(to: int, kind: MessageType, tensors: Any = (), **words: Any) -> None:
    """Send a message as a worker's engine does, and wait for its answer."""
    get_current_agent().send(to, kind, tensors, words, timeout_s=20).wait()


def send_gradients(
    to: int, context_id: int, pass_id: int, messages: list[int], *tensors: Tensor
) -> None:
    terms = Terms(context_id, pass_id, retain_graph=True)
    tell(to, BACKWARD, tensors, **terms._asdict(), messages=messages)


def passes_of(worker: str) -> int:
    return outside(rpc.rpc_sync, worker, da._get_debug_info)["num_current_backward_passes"]


# ---- gradients for messages that were never sent ------------------------------------------------


@pytest.mark.seed("E30")
@pytest.mark.usefixtures("workers_hold_nothing")
@on_worker(0)
def test_gradients_for_an_unknown_message_begin_no_pass_where_others_were_sent() -> None:
    a = leaf(1)
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", first_of, (a,))
        (known,) = da._current_context()._recv_functions()
        grad = fastdist.ones(3, 4, dtype=fastdist.float64)
        for messages in ([77, 1], [known, 1, 77, 1], [77, -1]):
            grads = [grad] * (messages[1::2].count(1))
            expected = "^Could not find send function for autograd message id: 77"
            with pytest.raises(ContextError, match=expected):
                send_gradients(1, context_id, OTHER_PASS, messages, *grads)
            assert passes_of("w1") == 0
        da.backward(context_id, [z.sum()])
        assert (da.get_gradients(context_id)[a].numpy() == 2).all()


# ---- a root that is interrupted -----------------------------------------------------------------


def held(*given: Tensor) -> Tensor:
    """Return a tensor whose gradient goes back to the caller or, without `given`, stays here."""
    (x,) = given or (_weight.setdefault("w", leaf(3)),)
    return with_hook(x, wait_at_gate)


@pytest.mark.seed("E33")
@pytest.mark.parametrize("goes_back", [False, True])
@pytest.mark.usefixtures("workers_hold_nothing")
@on_worker(0)
def test_a_root_that_is_interrupted_while_it_waits_leaves_no_pass(goes_back: bool) -> None:
    rpc.rpc_sync("w1", close_gate)
    a = leaf(1)

    def interrupt() -> None:
        while rpc.rpc_sync("w1", da._get_debug_info)["num_current_backward_passes"] == 0:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    with da.context() as context_id:
        # If no gradient goes back to the root, the root's own part has ended while it waits for w1.
        z = rpc.rpc_sync("w1", held, (a,) if goes_back else ())
        other = threading.Thread(target=interrupt)
        other.start()
        with pytest.raises(KeyboardInterrupt):
            da.backward(context_id, [z.sum()], retain_graph=True)
        other.join(20)
        assert da._get_debug_info()["num_current_backward_passes"] == 0
        outside(rpc.rpc_sync, "w1", open_gate)
        while passes_of("w1"):
            pass
        # The context can be used again.
        da.backward(context_id, [(a * 3).sum() + z.sum()])
        assert (da.get_gradients(context_id)[a].numpy() == (5 if goes_back else 3)).all()


# ---- gradients of a pass that failed -------------------------------------------------------------


def fail_after(*_: object) -> None:
    raise RuntimeError("Simulate error on backward pass")


@pytest.mark.seed("E24")
@pytest.mark.parametrize("mode", ["auto", "fast"])
def test_gradients_of_a_pass_that_failed_stay_here(agent: FakeAgent, mode: str) -> None:
    with da.context() as context_id:
        x = leaf(1).detach()
        x._edge = RecvRpcBackward(da._current_context(), 5, life(2), (x._layout,))
        # The gradients of this part are ready to be sent when the hook fails.
        x.grad_fn.register_hook(fail_after)
        with pytest.raises(RuntimeError, match=r"^Error on Node 3: Simulate error"):
            da.backward(context_id, [(x * 3).sum()], mode=mode)
        assert [kind for _, kind, *_ in agent.sent if kind == BACKWARD] == []


# ---- notices that a pass has failed -------------------------------------------------------------


@pytest.mark.seed("E38")
@pytest.mark.usefixtures("workers_hold_nothing")
@on_worker(0)
def test_a_pass_that_was_given_up_does_not_begin_any_more() -> None:
    a = leaf(1)
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", first_of, (a,))
        (known,) = da._current_context()._recv_functions()
        tell(1, ABORT, **Terms(context_id, OTHER_PASS)._asdict(), reason="of the test")
        with pytest.raises(ContextReleasedError, match="has ended here"):
            send_gradients(1, context_id, OTHER_PASS, [known, 1], a.detach())
        assert passes_of("w1") == 0
        da.backward(context_id, [z.sum()])
        assert (da.get_gradients(context_id)[a].numpy() == 2).all()


_heard: list[int] = []


def listen_for_aborts() -> None:
    """Record every notice of a failed pass that this worker receives."""
    from fastdist.distributed.rpc import handlers

    handle = handlers.handler_of(ABORT)

    def note(envelope: Any) -> Any:
        _heard.append(envelope.peer.id)
        return handle(envelope)

    _heard.clear()
    handlers.register_handler(ABORT, note)


def who_told() -> list[int]:
    return list(_heard)


def call_in_a_circle(x: Tensor) -> Tensor:
    return rpc.rpc_sync("w2", call_back, (x * 2,))


def call_back(x: Tensor) -> Tensor:
    return rpc.rpc_sync("w0", first_of, (rpc.rpc_sync("w1", first_of, (x,)),))


@pytest.mark.seed("E38")
@pytest.mark.usefixtures("workers_hold_nothing")
@on_worker(0)
def test_the_word_of_a_failed_pass_goes_to_each_worker_and_not_round_in_circles() -> None:
    for worker in ("w0", "w1", "w2"):
        rpc.rpc_sync(worker, listen_for_aborts)
    a = leaf(1)
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", call_in_a_circle, (a,))
        z.register_hook(fail)
        with pytest.raises(RuntimeError, match=r"^Error on Node 0: Simulate error"):
            da.backward(context_id, [z.sum()])
        # Each worker notifies both others. The root may notify them twice before its pass has
        # ended.
        for _ in range(50):
            for worker in ("w1", "w2"):
                assert len(outside(rpc.rpc_sync, worker, who_told)) <= 3
        for worker, others in (("w1", {0, 2}), ("w2", {0, 1})):
            while set(outside(rpc.rpc_sync, worker, who_told)) < others:
                pass


# ---- workers that were requested to begin -------------------------------------------------------


def weight_whose_gradient_fails() -> Tensor:
    weight = _weight["w"] = leaf(5)
    fastdist.autograd.graph.get_gradient_edge(weight).node.register_hook(fail_after)
    return weight * 2


def use_that_weight(x: Tensor) -> None:
    rpc.rpc_sync("w2", weight_whose_gradient_fails)


@pytest.mark.seed("E34")
@pytest.mark.usefixtures("workers_hold_nothing")
@on_worker(0)
def test_an_error_of_a_worker_that_was_asked_to_begin_reaches_the_root() -> None:
    a = leaf(1)
    with da.context() as context_id:
        # No gradient reaches w1, so w1 gets a request to begin. Its report of unused results ends
        # w1's own part and the root's part, and makes the hook at w2 fail.
        rpc.rpc_sync("w1", use_that_weight, (a,))
        with pytest.raises(RuntimeError, match=r"^Error on Node 2: Simulate error"):
            da.backward(context_id, [(a * 2).sum()])
        assert da._get_debug_info()["num_current_backward_passes"] == 0


# ---- gradients that belong to the user ----------------------------------------------------------


@pytest.mark.seed("E18", "E19")
def test_what_a_hook_returns_stays_the_users(agent: FakeAgent) -> None:
    x, given = leaf(1), fastdist.full((3, 4), 5.0, dtype=fastdist.float64)
    node = fastdist.autograd.graph.get_gradient_edge(x).node
    node.register_prehook(lambda grads: (given,))
    with da.context() as context_id:
        for _ in range(2):
            da.backward(context_id, [(x * 3).sum()])
        found = da.get_gradients(context_id)[x]
    assert (found.numpy() == 10).all() and (given.numpy() == 5).all()


@pytest.mark.seed("E18", "E19")
def test_what_a_hook_keeps_stays_the_users(agent: FakeAgent) -> None:
    x, kept = leaf(1), list[Tensor]()
    node = fastdist.autograd.graph.get_gradient_edge(x).node
    node.register_prehook(lambda grads: kept.append(grads[0]))
    x.register_hook(kept.append)
    with da.context() as context_id:
        for _ in range(2):
            da.backward(context_id, [(x * 3).sum()])
        assert (da.get_gradients(context_id)[x].numpy() == 6).all()
    assert all(close(grad, fastdist.full((3, 4), 3.0, dtype=fastdist.float64)) for grad in kept)
