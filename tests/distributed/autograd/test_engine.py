"""Roots, tasks and gradients behave as in PyTorch's distributed engine."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.autograd.graph import current_graph_task_execution_order
from fastdist.core.errors import ContextReleasedError, GraphError
from fastdist.distributed.autograd.backward_pass import PassState
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.dependencies import compute_dependencies
from fastdist.distributed.autograd.engine import dist_engine
from fastdist.distributed.autograd.message_autograd import add_send_rpc_backward
from fastdist.distributed.autograd.outbox import Gradients
from fastdist.distributed.autograd.pass_metadata import Terms
from fastdist.distributed.autograd.recv_rpc_backward import RecvRpcBackward
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.engine.graph_task import GraphRoot
from fastdist.graph.accumulate_grad import accumulator_of
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.tasks import End, OnlyFirst, leaf, task_of
from tests.distributed.lives import life

BACKWARD = MessageType.BACKWARD_AUTOGRAD_REQ

# ---- roots --------------------------------------------------------------------------------------


@pytest.mark.seed("E6")
def test_a_pass_without_roots_is_an_error(agent: FakeAgent) -> None:
    with (
        da.context() as context_id,
        pytest.raises(GraphError, match=r"^No tensors provided for gradient computation\."),
    ):
        da.backward(context_id, [])


@pytest.mark.seed("E7")
def test_a_root_that_requires_no_grad_is_an_error(agent: FakeAgent) -> None:
    with (
        da.context() as context_id,
        pytest.raises(GraphError, match=r"^requires_grad not set on root"),
    ):
        da.backward(context_id, [leaf().sum().detach()])


@pytest.mark.seed("E8")
def test_a_root_that_is_no_scalar_is_an_error_that_names_it(agent: FakeAgent) -> None:
    y = leaf() * 2
    name = y.grad_fn.name()
    with (
        da.context() as context_id,
        pytest.raises(GraphError, match=f"^{name} is not a scalar, all roots need to be scalar"),
    ):
        da.backward(context_id, [y])


@pytest.mark.seed("E9")
def test_a_root_that_is_a_leaf_is_an_error(agent: FakeAgent) -> None:
    with (
        da.context() as context_id,
        pytest.raises(GraphError, match=r"^roots\[0\] does not have a valid gradient function\."),
    ):
        da.backward(context_id, [leaf(1.0)])


def test_a_root_that_is_no_tensor_is_an_error(agent: FakeAgent) -> None:
    with da.context() as context_id, pytest.raises(TypeError, match=r"roots\[0\] is float"):
        da.backward(context_id, [3.0])  # type: ignore[list-item]


def test_an_unknown_mode_is_an_error(agent: FakeAgent) -> None:
    with da.context() as context_id, pytest.raises(ValueError, match=r"known: auto, fast"):
        da.backward(context_id, [leaf().sum()], mode="quick")


@pytest.mark.seed("E10")
def test_a_roots_gradient_is_one_of_its_dtype(agent: FakeAgent) -> None:
    seen: list[Tensor] = []
    loss = leaf().sum().reshape(1, 1)
    loss.register_hook(seen.append)
    with da.context() as context_id:
        da.backward(context_id, [loss])
    assert seen[0].tolist() == [[1.0]] and seen[0].dtype is fastdist.float64


@pytest.mark.seed("E10")
def test_a_roots_gradient_is_on_its_device(agent: FakeAgent) -> None:
    seen: list[Tensor] = []
    loss = leaf().to("sim:0").sum()
    loss.register_hook(seen.append)
    with da.context() as context_id:
        da.backward(context_id, [loss])
    assert str(seen[0].device) == "sim:0" and seen[0].to("cpu").tolist() == 1.0


# ---- the task -----------------------------------------------------------------------------------


@pytest.mark.seed("E2", "E4")
def test_all_passes_have_the_queue_of_the_one_cpu_thread(agent: FakeAgent) -> None:
    first, second = (task_of(DistAutogradContext(i), leaf().sum()) for i in range(2))
    assert first.cpu_ready_queue is second.cpu_ready_queue
    assert first.cpu_ready_queue is dist_engine().global_cpu_thread.queue


@pytest.mark.seed("E12", "E29")
@pytest.mark.parametrize("retain", [False, True])
def test_a_task_has_what_a_distributed_pass_wants(agent: FakeAgent, retain: bool) -> None:
    a, b = leaf(), leaf()
    task = task_of(DistAutogradContext(1), (a * b).sum(), retain=retain)
    assert (task.keep_graph, task.create_graph, task.depth) == (retain, False, 0)
    assert task.exit_on_error and len(task.captured_vars) == 2


@pytest.mark.seed("E18", "E29")
def test_a_task_ends_with_one_gradient_for_each_leaf(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[Any] = []
    monkeypatch.setattr(
        "fastdist.distributed.autograd.engine.compute_dependencies",
        lambda *args: tasks.append(compute_dependencies(*args)) or tasks[-1],
    )
    a, b = leaf(), leaf(3.0, 4.0)
    with da.context() as context_id:
        da.backward(context_id, [(a * b).sum()])
        found = da.get_gradients(context_id)
    captured = tasks[0].future.value()
    assert sorted(map(id, captured)) == sorted(map(id, [found[a], found[b]]))


@pytest.mark.seed("E13", "E14")
def test_every_send_counts_as_one_outstanding_task(agent: FakeAgent) -> None:
    context = DistAutogradContext(1)
    leaves = [leaf() for _ in range(3)]
    sends = [add_send_rpc_backward(context, i, [x * 2], life(2)) for i, x in enumerate(leaves)]
    task = task_of(context, leaf().sum())
    assert task.outstanding == 3 and len(task.captured_vars) == 4
    below = {*sends, *(send.edges[0] for send in sends), *(x._edge for x in leaves)}
    assert below <= task.nodes_in_graph


@pytest.mark.seed("E15")
def test_a_graph_that_ends_elsewhere_than_in_leaves_is_refused(agent: FakeAgent) -> None:
    y = leaf()
    y._edge = End(y._layout)
    with (
        da.context() as context_id,
        pytest.raises(GraphError, match=r"End ends the graph; a distributed pass ends in leaves"),
    ):
        da.backward(context_id, [y.sum()])
    assert da._get_debug_info()["num_current_backward_passes"] == 0


@pytest.mark.seed("E15", "E17")
def test_a_receive_ends_the_graph_and_runs(agent: FakeAgent) -> None:
    x = leaf().detach()
    with da.context() as context_id:
        x._edge = RecvRpcBackward(da._current_context(), 5, life(2), (x._layout,))
        da.backward(context_id, [(x * 3).sum()])
        assert da.get_gradients(context_id) == {}
    assert [to for to, kind, *_ in agent.sent if kind == BACKWARD] == [2]
    assert [grad.tolist() for grad in agent.tensors[0]] == [[3.0, 3.0]]


@pytest.mark.seed("E42")
def test_the_execution_order_can_be_asked_for_in_a_hook(agent: FakeAgent) -> None:
    x, orders = leaf(), []
    y = x.sin()
    loss = (y * y).sum()
    loss.register_hook(lambda _: orders.append(current_graph_task_execution_order()))
    with da.context() as context_id:
        da.backward(context_id, [loss])
    names = [node.name() for node in orders[0]]
    assert names == [
        "SumBackward0",
        "MulBackward0",
        "SinBackward0",
        "torch::autograd::AccumulateGrad",
    ]


@pytest.mark.seed("E42")
def test_there_is_no_execution_order_outside_of_a_pass() -> None:
    with pytest.raises(GraphError, match="should be called during the backward pass"):
        current_graph_task_execution_order()


# ---- gradients ----------------------------------------------------------------------------------


@pytest.mark.seed("E17", "E41")
def test_gradients_are_in_the_context_and_not_in_grad(agent: FakeAgent) -> None:
    x = leaf()
    with da.context() as context_id:
        da.backward(context_id, [(x * 3).sum()])
        assert da.get_gradients(context_id)[x].tolist() == [3.0, 3.0]
    assert x.grad is None


@pytest.mark.seed("E21")
def test_gradients_add_up_without_being_recorded(agent: FakeAgent) -> None:
    x, recorded = leaf(), list[bool]()
    accumulator_of(x).register_hook(lambda *_: recorded.append(fastdist.is_grad_enabled()))
    with da.context() as context_id:
        for _ in range(2):
            da.backward(context_id, [(x * x).sum()])
        grad = da.get_gradients(context_id)[x]
    assert grad.tolist() == [4.0, 8.0] and not grad.requires_grad
    assert recorded == [False, False]


@pytest.mark.seed("E19")
def test_a_gradient_that_the_pass_made_is_taken_over(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, given = leaf(), []
    _ = x * 3  # the first call with a layout takes the general path, which copies
    keep = DistAutogradContext.accumulate_grad

    def note(self: DistAutogradContext, accumulator: Any, grad: Tensor, mine: bool) -> None:
        given.append((grad, mine))
        keep(self, accumulator, grad, mine)

    monkeypatch.setattr(DistAutogradContext, "accumulate_grad", note)
    with da.context() as context_id:
        da.backward(context_id, [(x * 3).sum()])
        ((grad, mine),) = given
        assert mine and da.get_gradients(context_id)[x] is grad


@pytest.mark.seed("E19")
def test_a_gradient_that_others_may_hold_is_copied() -> None:
    context, accumulator = DistAutogradContext(1), accumulator_of(leaf())
    grad = fastdist.ones(2, dtype=fastdist.float64)
    context.accumulate_grad(accumulator, grad, mine=False)
    grad.fill_(7.0)  # another holder may modify it
    context.accumulate_grad(accumulator, fastdist.ones(2, dtype=fastdist.float64), mine=False)
    (total,) = context.gradients().values()
    assert total.tolist() == [2.0, 2.0] and grad.tolist() == [7.0, 7.0]


@pytest.mark.seed("E18", "E20")
def test_an_undefined_gradient_is_not_kept_yet_hooks_after_it_run(agent: FakeAgent) -> None:
    x, y, seen = leaf(), leaf(), []
    accumulator_of(y).register_hook(lambda inputs, grads: seen.append((inputs, grads)))
    with da.context() as context_id:
        da.backward(context_id, [OnlyFirst.apply(x, y).sum()])
        assert list(da.get_gradients(context_id)) == [x]
    assert seen == [((), (None,))]


def test_the_gradient_of_a_leaf_whose_handle_is_gone_is_still_there(agent: FakeAgent) -> None:
    with da.context() as context_id:
        loss = (leaf(1.0, 2.0) * 3).sum()
        gc.collect()
        da.backward(context_id, [loss])
        ((found, grad),) = da.get_gradients(context_id).items()
    assert found.tolist() == [1.0, 2.0] and grad.tolist() == [3.0, 3.0]


def test_a_worker_that_has_done_its_part_may_be_asked_to_begin_it(agent: FakeAgent) -> None:
    # The root sends a request to each worker that has not begun. Gradients may start it earlier.
    with da.context() as context_id:
        context = da._retrieve_context(context_id)
        pass_id = next_pass(context)
        done, batch = dist_engine().execute_send_functions_async(
            context, [], Terms(context_id, pass_id, is_auto=True), fresh=True
        )
        assert done.done() and done.exception() is None and batch is None
        part, task, is_new = dist_engine()._begin(
            context, GraphRoot((), (), 0), Terms(context_id, pass_id)
        )
        assert part.state is PassState.OVER and task is None and not is_new


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_worker_that_does_its_part_while_it_is_asked_to_begin_is_done(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch, is_begun: bool
) -> None:
    engine, begin = dist_engine(), dist_engine()._begin
    context = da._init(3).get_or_create_context(5 << 48)

    def begin_too_late(*args: Any) -> Any:
        # Gradients that arrive at the same time start the pass first, and the pass may end at once.
        part, task, is_new = begin(*args)
        found = begin(*args) if is_begun else None
        assert is_new and found in (None, (part, task, False))
        engine._clean_up(context, part)
        return found or begin(*args)

    monkeypatch.setattr(engine, "_begin", begin_too_late)
    done, batch = engine.execute_send_functions_async(
        context, [], Terms(context.id, 9, is_auto=True), fresh=True
    )
    assert done.done() and done.exception() is None and batch is None


def test_no_pass_begins_in_a_context_that_ends_meanwhile(agent: FakeAgent) -> None:
    # The context ends after a message has looked it up. Nothing would end a pass that begins now.
    context = da._init(3).get_or_create_context(5 << 48)
    add_send_rpc_backward(context, 7, [leaf() * 2], life(2))
    add_send_rpc_backward(context, 8, [leaf() * 2], life(2))
    da._release_context(context.id)
    with pytest.raises(
        ContextReleasedError, match=r"^context \d+:\d+ was released before a backward"
    ):
        dist_engine().execute_send_functions_async(
            context, [Gradients(7, [leaf().detach()])], Terms(context.id, 9), fresh=True
        )
    assert da._get_debug_info()["num_current_backward_passes"] == 0


def test_a_pass_that_begins_while_its_context_is_released_is_ended(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = da._init(3).get_or_create_context(5 << 48)
    add_send_rpc_backward(context, 7, [leaf() * 2], life(2))
    begun: list[Any] = []

    def close() -> set[int]:
        # Start a pass just before the context closes; a later pass would be rejected.
        begun.append(dist_engine()._begin(context, GraphRoot((), (), 0), Terms(context.id, 9)))
        return DistAutogradContext.close(context)

    monkeypatch.setattr(context, "close", close)
    da._release_context(context.id)
    ((part, task, _),) = begun
    assert isinstance(task.future.exception(), ContextReleasedError)
    dist_engine()._clean_up(context, part)


def next_pass(context: DistAutogradContext) -> int:
    da.backward(context.id, [(leaf() * 2).sum()])
    return max(context._passes)
