"""A Node without hooks or special state runs on the short path as it does in the engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.autograd import Function
from fastdist.distributed.autograd.outbox import LIGHT
from fastdist.distributed.autograd.plain_nodes import is_plain
from fastdist.distributed.autograd.recv_rpc_backward import RecvRpcBackward
from fastdist.engine.engine import Engine
from fastdist.nn.functional import linear
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.tasks import OnlyFirst, leaf
from tests.distributed.lives import life


class Both(Function):
    """Returns two outputs of different lengths."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2.0, x.sum()

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor) -> Tensor:
        return g * 2.0 + h


def meeting(x: Tensor, y: Tensor) -> Tensor:
    return (x * y + x.tanh() * x + y[0]).sum()


def of_several_outputs(x: Tensor, y: Tensor) -> Tensor:
    first, _ = fastdist.split(x * y, 1)
    return cast(Tensor, (Both.apply(first)[1] + Both.apply(y)[0]).sum())


def of_an_op_with_several_results(x: Tensor, y: Tensor) -> Tensor:
    square = fastdist.outer(x, y) + fastdist.outer(y, y) + fastdist.eye(2)
    q, r = fastdist.linalg.qr(square)
    return cast(Tensor, (q[0] * r[1]).sum())


def without_a_gradient(x: Tensor, y: Tensor) -> Tensor:
    return cast(Tensor, (OnlyFirst.apply(x, y * 3) + x.detach() * y.exp()).sum())


def gradients(graph: Callable[[Tensor, Tensor], Tensor], around: Any = None) -> list[list[float]]:
    x, y = leaf(0.5, -2.0), leaf(3.0, 0.25)
    with da.context() as context_id, around or nullcontext():
        da.backward(context_id, [graph(x, y)])
        found = da.get_gradients(context_id)
    return [found[x].tolist(), found[y].tolist()]


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the names of Nodes that the engine runs."""
    names: list[str] = []
    evaluate = Engine._evaluate

    def note(self: Engine, task: Any, node: Any, *given: Any) -> None:
        names.append(node.name())
        evaluate(self, task, node, *given)

    monkeypatch.setattr(Engine, "_evaluate", note)
    return names


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "graph", [meeting, of_several_outputs, of_an_op_with_several_results, without_a_gradient]
)
def test_a_plain_pass_gives_the_gradients_of_the_engine_without_it(
    agent: FakeAgent,
    evaluated: list[str],
    graph: Callable[[Tensor, Tensor], Tensor],
) -> None:
    plain = gradients(graph)
    assert not evaluated
    x, y = leaf(0.5, -2.0), leaf(3.0, 0.25)
    graph(x, y).backward()
    assert x.grad is not None and y.grad is not None
    assert plain == [x.grad.tolist(), y.grad.tolist()]
    with fastdist.autograd.set_detect_anomaly(True):
        assert gradients(graph) == plain
    assert len(evaluated) > 4


def test_a_node_with_hooks_is_the_engines_and_the_others_are_not(
    agent: FakeAgent, evaluated: list[str]
) -> None:
    def hooked(x: Tensor, y: Tensor) -> Tensor:
        product = x * y
        product.register_hook(lambda g: g * 10)
        return product.sum()

    assert gradients(hooked) == [[30.0, 2.5], [5.0, -20.0]]
    assert evaluated == ["MulBackward0"]


def test_what_watches_ops_watches_nodes_too(agent: FakeAgent, evaluated: list[str]) -> None:
    unpacked: list[Tensor] = []

    def unpack(tensor: Tensor) -> Tensor:
        unpacked.append(tensor)
        return tensor

    watch = fastdist.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack)
    assert gradients(meeting, watch) == gradients(meeting)
    assert unpacked


def test_a_recorded_pass_is_not_plain(agent: FakeAgent, evaluated: list[str]) -> None:
    x, y = leaf(0.5, -2.0), leaf(3.0, 0.25)
    with da.context() as context_id:
        da.backward(context_id, [meeting(x, y)], create_graph=True)
        assert da.get_gradients(context_id)[x].requires_grad
    assert "TanhBackward0" in evaluated


def test_a_wrong_number_of_gradients_ends_the_pass(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    y = leaf() * 2
    total = y.sum()
    monkeypatch.setattr(type(y.grad_fn), "apply", lambda self, g, keep: (g, g, g))
    with da.context() as context_id, pytest.raises(ValueError, match="argument"):
        da.backward(context_id, [total])


def test_a_pass_on_streams_is_not_plain() -> None:
    task = SimpleNamespace(streams={"device": "stream"}, create_graph=False)
    assert not is_plain(cast(Any, task))


# ---- gradients that others wait for -------------------------------------------------------------

ROWS = 1 + LIGHT // 128


def received(message_id: int, rows: int = ROWS) -> Tensor:
    """Return a tensor received from worker 1 in the current context."""
    x: Tensor = fastdist.arange(rows * 2.0).reshape(rows, 2)
    context = da._current_context()
    receive = RecvRpcBackward(context, message_id, life(1), (x._layout,))
    context.add_recv_function(receive, message_id)
    x._edge = receive
    return x


def note_gradients_there(agent: FakeAgent, context_id: int) -> list[int]:
    """Return a list that collects, at each send, how many leaves have a gradient."""
    there: list[int] = []
    agent.when_sent = lambda _: there.append(len(da.get_gradients(context_id)))
    return there


@pytest.mark.parametrize(("rows", "leaves"), [(ROWS, 0), (ROWS - 1, 2)])
def test_a_heavy_node_sends_what_another_waits_for_before_it_goes_on(
    agent: FakeAgent, rows: int, leaves: int
) -> None:
    weight: Tensor = fastdist.ones(128, 2, requires_grad=True)
    bias: Tensor = fastdist.zeros(128, requires_grad=True)
    with da.context() as context_id:
        x = received(5, rows)
        y = linear(x, weight, bias)
        there = note_gradients_there(agent, context_id)
        da.backward(context_id, [y.sum()], retain_graph=True)
        assert there == [leaves]
        ((sent,),) = agent.tensors
        assert sent.tolist() == [[128.0, 128.0]] * rows
        found = da.get_gradients(context_id)
        alone = fastdist.autograd.grad(linear(x.detach(), weight, bias).sum(), (weight, bias))
        assert [found[weight].tolist(), found[bias].tolist()] == [one.tolist() for one in alone]
        # The graph was retained; the second pass releases it.
        da.backward(context_id, [y.sum()])
        assert da.get_gradients(context_id)[bias].tolist() == (2 * alone[1]).tolist()
        with pytest.raises(RuntimeError, match="second time"):
            da.backward(context_id, [y.sum()])


def test_gradients_of_several_calls_leave_before_any_of_weights(agent: FakeAgent) -> None:
    weight: Tensor = fastdist.ones(128, 2, requires_grad=True)
    with da.context() as context_id:
        total = sum(linear(received(5 + i), weight).sum() for i in range(3))
        there = note_gradients_there(agent, context_id)
        da.backward(context_id, [total])
        assert there == [0] * len(there) and sum(map(len, agent.tensors)) == 3
        weights = da.get_gradients(context_id)[weight]
    alone = weight.detach().requires_grad_()
    x: Tensor = fastdist.arange(ROWS * 2.0).reshape(ROWS, 2)
    (3 * linear(x, alone).sum()).backward()
    assert alone.grad is not None and weights.tolist() == alone.grad.tolist()


def test_a_heavy_node_that_gives_to_others_alone_is_not_parted(agent: FakeAgent) -> None:
    with da.context() as context_id:
        y = received(5) * received(6)
        wide = linear(y, fastdist.ones(128, 2))
        da.backward(context_id, [wide.sum()])
        assert [*map(len, agent.tensors)] == [2]
