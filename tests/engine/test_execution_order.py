"""The execution order of a pass, as it is reported inside the pass."""

from __future__ import annotations

import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import backward, grad
from fastdist.autograd.graph import current_graph_task_execution_order


def leaf() -> Tensor:
    return fd.tensor([1.0, 2.0], requires_grad=True)


def order_in(hooked: Tensor) -> list[str]:
    """Return a list, to which a hook on `hooked` adds the names of the Nodes in execution order."""
    names: list[str] = []

    def tell(_: Tensor) -> None:
        names.extend(node.name() for node in current_graph_task_execution_order())

    hooked.register_hook(tell)
    return names


@pytest.mark.seed("E42")
@pytest.mark.usefixtures("loop")
def test_a_hook_hears_the_order_of_a_local_pass() -> None:
    x = leaf()
    y = (x.sin() * x).sum()
    names = order_in(y)
    y.backward()
    assert names == [
        "SumBackward0",
        "MulBackward0",
        "SinBackward0",
        "torch::autograd::AccumulateGrad",
    ]


@pytest.mark.usefixtures("loop")
def test_leaves_that_are_ready_at_once_are_told_in_the_order_of_their_edges() -> None:
    y = leaf() * leaf()
    names = order_in(y)
    y.sum().backward()
    assert names == [
        "SumBackward0",
        "MulBackward0",
        "torch::autograd::AccumulateGrad",
        "torch::autograd::AccumulateGrad",
    ]


@pytest.mark.usefixtures("loop")
def test_a_root_below_another_root_is_told_once_and_after_it() -> None:
    inner = leaf().sin().sum()
    outer = inner.cos()
    names = order_in(outer)
    backward([inner, outer])
    assert names == [
        "CosBackward0",
        "SumBackward0",
        "SinBackward0",
        "torch::autograd::AccumulateGrad",
    ]


def test_nodes_that_do_not_run_are_not_told() -> None:
    x, other = leaf(), leaf()
    y = (x.sin() * other.cos()).sum()
    names = order_in(y)
    grad(y, x)
    assert names == [
        "SumBackward0",
        "MulBackward0",
        "SinBackward0",
        "torch::autograd::AccumulateGrad",
    ]


def test_a_pass_on_one_device_has_an_order_and_one_on_two_has_none() -> None:
    x = fd.ones(2, device="sim:0", requires_grad=True)
    y = x.sin().sum()
    names = order_in(y)
    y.backward()
    assert names == ["SumBackward0", "SinBackward0", "torch::autograd::AccumulateGrad"]
    crossing = x.sin().to("cpu").sum()
    order_in(crossing)
    with pytest.raises(RuntimeError, match="several devices is not supported"):
        crossing.backward()
