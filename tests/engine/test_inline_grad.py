"""In the calling thread, autograd.grad gives the engine's gradients and runs no further Nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import grad
from fastdist.engine.backward import modes_engine
from fastdist.engine.execution_order import current_graph_task_execution_order
from fastdist.engine.inline_grad import GradPass
from fastdist.graph.modes import modes, tls
from fastdist.graph.node import node_of, output_number
from fastdist.utils.checkpoint import checkpoint
from tests.disturbances.interrupts import each_ctrl_c


def joined(x: Tensor, y: Tensor) -> Tensor:
    return fd.cat([x, y])[1:4]


def halves(x: Tensor, y: Tensor) -> Tensor:
    first, second, third = (x + y).unbind(0)
    return fd.stack([third, first * second, first])


STEPS = [fd.add, fd.mul, fd.matmul, joined, halves, lambda x, y: x * 2.0, fd.maximum]


def derivatives(seed: int, *, create_graph: bool) -> list[Any]:
    """Return gradients of a random program, and with `create_graph` also second derivatives."""
    generator = np.random.default_rng(seed)
    leaves = [fd.tensor(generator.standard_normal((3, 3)), requires_grad=True) for _ in range(3)]
    known: list[Tensor] = list(leaves)
    for _ in range(10):
        x, y = (known[generator.integers(len(known))] for _ in range(2))
        known.append(STEPS[generator.integers(len(STEPS))](x, y).tanh())
    if seed % 2:
        leaves[1].register_hook(lambda g: g * 2.0)
        known[4].register_hook(lambda g: g * g)
        known[5].retain_grad()
    inputs = [known[i] for i in generator.choice(10, 4, replace=False)]
    roots = [known[-1], known[-2]]
    weights = [fd.tensor(generator.standard_normal((3, 3))) for _ in roots]
    found = grad(roots, inputs, weights, create_graph=create_graph, allow_unused=True)
    kept = [known[5].grad] if seed % 2 else []
    second: list[Any] = []
    recorded = [g.square().sum() for g in found if g is not None and g.requires_grad]
    if recorded:
        second = list(grad(recorded, leaves, allow_unused=True))
    assert [x.grad for x in leaves] == [None, None, None]
    return [None if g is None else g.detach().numpy() for g in [*found, *kept, *second]]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("first", range(0, 120, 40))
def test_random_graphs_have_the_same_gradients_in_both_loops(
    first: int, create_graph: bool
) -> None:
    for seed in range(first, first + 40):
        expected = derivatives(seed, create_graph=create_graph)
        modes_engine.always = True
        try:
            found = derivatives(seed, create_graph=create_graph)
        finally:
            modes_engine.always = False
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert (a is None) == (b is None), f"seed {seed}"
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14, err_msg=f"seed {seed}")


def test_a_pass_with_inputs_on_the_cpu_needs_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the engine was called")

    monkeypatch.setattr("fastdist.engine.engine.Engine.execute", fail)
    x = fd.tensor([1.0, 2.0], requires_grad=True)
    (first,) = grad(x.pow(3).sum(), x, create_graph=True)
    assert first is not None and first.tolist() == [3.0, 12.0]
    (second,) = grad(first.sum(), x)
    assert second is not None and second.tolist() == [6.0, 12.0]


def test_another_device_is_the_engines(loop: str) -> None:
    x = fd.ones(2, requires_grad=True)
    y = (x.to("sim:0") * 2.0).cpu()
    assert not GradPass([y._edge], [(node_of(x._edge), output_number(x._edge))]).is_on_cpu
    (g,) = grad(y.sum(), x)
    assert g is not None and g.tolist() == [2.0, 2.0]


def test_a_device_beside_the_way_does_not_count() -> None:
    x, beside = fd.ones(2, requires_grad=True), fd.ones(2, device="sim:0", requires_grad=True)
    y = x * 2.0 + beside.cpu()
    assert GradPass([y._edge], [(node_of(x._edge), 0)]).is_on_cpu


def test_nodes_beside_the_way_do_not_run(loop: str) -> None:
    x, other = (fd.ones(2, requires_grad=True) for _ in range(2))
    beside, ran = other * 3.0, list[str]()
    beside.register_hook(lambda g: ran.append("beside"))
    older = x * 5.0
    older.register_hook(lambda g: ran.append("older"))
    middle = older * 2.0
    grad((middle * beside).sum(), middle)
    assert ran == []


def test_hooks_of_an_input_see_its_gradient_and_those_of_its_node_do_not(loop: str) -> None:
    x, seen = fd.ones(2, requires_grad=True), list[str]()
    y = x * 2.0
    y.register_hook(lambda g: (seen.append("tensor"), g * 10.0)[1])
    assert y.grad_fn is not None
    y.grad_fn.register_prehook(lambda g: seen.append("prehook"))
    y.grad_fn.register_hook(lambda i, o: seen.append("hook"))
    (g,) = grad((y * 3.0).sum(), y, retain_graph=True)
    assert g is not None and g.tolist() == [30.0, 30.0] and seen == ["tensor"]
    seen.clear()
    grad((y * 3.0).sum(), x)
    assert seen == ["tensor", "prehook", "hook"]


def test_gradients_that_were_given_are_not_added_into(loop: str) -> None:
    x, given = fd.ones(3, requires_grad=True), [fd.ones(3), fd.ones(3), fd.ones(3)]
    ys = [x * 1.0, x + 0.0, x.view(3)]
    (g,) = grad(ys, x, given)
    assert g is not None and g.tolist() == [3.0, 3.0, 3.0]
    assert [each.tolist() for each in given] == [[1.0, 1.0, 1.0]] * 3


def test_one_input_may_be_asked_for_twice_and_be_a_root(loop: str) -> None:
    x = fd.ones(2, requires_grad=True)
    y = x * 2.0
    found = grad(y.sum() + x.sum(), [x, x, y], retain_graph=True)
    assert [g.tolist() for g in found if g is not None] == [[3.0, 3.0], [3.0, 3.0], [1.0, 1.0]]
    (g,) = grad(y, y, fd.ones(2) * 7.0)
    assert g is not None and g.tolist() == [7.0, 7.0]


def test_the_graph_is_released_unless_it_is_kept(loop: str) -> None:
    x = fd.ones(2, requires_grad=True)
    y = x.exp().sum()
    grad(y, x, retain_graph=True)
    grad(y, x)
    with pytest.raises(RuntimeError, match="second time"):
        grad(y, x)


def test_grad_mode_is_what_it_was_after_an_error(loop: str) -> None:
    x = fd.ones(2, requires_grad=True)
    y = x * 2.0
    y.register_hook(lambda g: 1 / 0)
    for create_graph in (False, True):
        with pytest.raises(ZeroDivisionError):
            grad(y.sum(), x, retain_graph=True, create_graph=create_graph)
        assert fd.is_grad_enabled()
        with fd.no_grad(), pytest.raises(ZeroDivisionError):
            grad(y.sum() if y.sum().requires_grad else y, x, fd.ones(2), retain_graph=True)
        assert fd.is_grad_enabled()


def test_the_order_is_that_of_the_nodes_on_the_way(loop: str) -> None:
    x, other, order = fd.ones(2, requires_grad=True), fd.ones(2, requires_grad=True), []
    y = x * 2.0
    z = (y * other.exp()).sum()
    y.register_hook(lambda g: order.append(current_graph_task_execution_order()))
    grad(z, x)
    names = [node.name() for node in order[0]]
    assert "ExpBackward0" not in names
    assert names[-1] == "torch::autograd::AccumulateGrad" or names[-1] == "MulBackward0"


def test_a_reentrant_checkpoint_refuses_grad(loop: str) -> None:
    x = fd.ones(2, requires_grad=True)
    y = checkpoint(fd.exp, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\)"):
        grad(y.sum(), x)


@pytest.mark.parametrize("create_graph", [False, True])
def test_after_ctrl_c_in_grad_its_thread_records_and_others_pay_nothing(
    create_graph: bool,
) -> None:
    def prepare() -> Callable[[], object]:
        x = fd.ones(2, requires_grad=True)
        y = (x * 2 + x).sum()
        return lambda: grad(y, x, create_graph=create_graph)

    prepare()()
    for place in each_ctrl_c(prepare):
        assert fd.is_grad_enabled(), f"place {place}"
        assert tls.inline_pass is None, f"place {place}"
        prepare()()
        assert modes.grad_off == 0, f"place {place}"
