"""Hooks: their order, what they may change, and their removal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import Function, grad
from fastdist.graph import accumulate_grad
from fastdist.graph import node as node_module
from fastdist.graph.accumulate_grad import AccumulateGrad
from fastdist.graph.node import Hooks

pytestmark = pytest.mark.usefixtures("loop")


def leaf(*values: float) -> Tensor:
    return fd.tensor(values or (1.0, 2.0, 3.0), dtype=fd.float64, requires_grad=True)


def test_hooks_run_in_pytorchs_order() -> None:
    order: list[str] = []
    x = leaf()
    y = x * 2.0
    node = y.grad_fn
    node.register_hook(lambda inputs, outputs: order.append("post"))
    node.register_prehook(lambda outputs: order.append("pre"))
    y.retain_grad()
    y.register_hook(lambda g: order.append(f"first, kept {y.grad is not None}"))
    y.register_hook(lambda g: order.append("second"))
    x.register_hook(lambda g: order.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda leaf: order.append(f"added {leaf.grad.tolist()}"))
    y.sum().backward()
    assert order == [
        "first, kept False",
        "second",
        "pre",
        "post",
        "leaf",
        "added [2.0, 2.0, 2.0]",
    ]


def test_tensor_hook_replaces_the_gradient() -> None:
    x = leaf()
    y = x * 2.0
    y.register_hook(lambda g: g * 10.0)
    x.register_hook(lambda g: g + 1.0)
    y.sum().backward()
    assert x.grad.tolist() == [21.0] * 3


def test_tensor_hook_sees_the_whole_gradient_of_a_shared_result() -> None:
    x, seen = leaf(), []
    y = x * 2.0
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y + y * 3.0).sum().backward()
    assert seen == [[4.0] * 3]


def test_retain_grad_keeps_the_gradient_that_hooks_left() -> None:
    x = leaf()
    y = x * 2.0
    y.retain_grad()
    y.register_hook(lambda g: g * 10.0)
    y.sum().backward()
    assert y.retains_grad and y.grad.tolist() == [10.0] * 3


def test_retained_gradient_is_not_changed_by_the_rest_of_the_pass() -> None:
    x = leaf()
    y = x * 1.0
    y.retain_grad()
    (y + x * 5.0).sum().backward()
    assert (y.grad.tolist(), x.grad.tolist()) == ([1.0] * 3, [6.0] * 3)


def test_prehook_and_post_hook_replace_gradients() -> None:
    x = leaf()
    y = x * 2.0
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 3.0,))
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + outputs[0], *inputs[1:]))
    y.sum().backward()
    assert x.grad.tolist() == [6.0 + 3.0] * 3


def test_removed_hook_is_not_called_and_the_others_keep_their_order() -> None:
    x, order = leaf(), []
    handles = [x.register_hook(lambda g, k=k: order.append(k)) for k in range(3)]
    handles[1].remove()
    handles[1].remove()
    (x * 2.0).sum().backward()
    assert order == [0, 2]


def test_handle_removes_its_hook_at_the_end_of_a_block() -> None:
    x, order = leaf(), []
    with x.register_hook(lambda g: order.append("called")):
        x.sum().backward()
    x.sum().backward()
    assert order == ["called"]


def test_hooks_outlive_the_tensor_that_they_were_registered_on() -> None:
    x, seen = leaf(), []
    y = x * 2.0
    y.register_hook(lambda g: seen.append(g.tolist()))
    z = y.sum()
    del y
    z.backward()
    assert seen == [[1.0] * 3]


def test_hook_that_changes_the_shape_is_refused() -> None:
    x = leaf()
    x.register_hook(lambda g: g.sum())
    with pytest.raises(RuntimeError, match=r"^hook has changed the size of value"):
        x.sum().backward()


def test_hook_that_returns_no_tensor_is_refused() -> None:
    x = leaf()
    x.register_hook(lambda g: 3.0)
    with pytest.raises(TypeError, match="returned float; expected a Tensor or None"):
        x.sum().backward()


def test_hook_is_refused_where_no_gradient_will_come() -> None:
    with pytest.raises(RuntimeError, match=r"^cannot register a hook on a tensor that doesn't req"):
        fd.ones(2).register_hook(print)


def test_post_accumulate_hook_may_take_the_gradient_away() -> None:
    x = leaf()

    def step(leaf: Tensor) -> None:
        with fd.no_grad():
            leaf.sub_(leaf.grad)
        leaf.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 2.0).sum().backward()
    assert x.grad is None and x.tolist() == [-1.0, 0.0, 1.0]


def test_hooks_of_a_captured_leaf_run_and_post_accumulate_hooks_do_not() -> None:
    x, order = leaf(), []
    x.register_hook(lambda g: g * 7.0)
    x.register_post_accumulate_grad_hook(lambda leaf: order.append("added"))
    (g,) = grad(x.sum(), x)
    assert g.tolist() == [7.0] * 3 and order == []


def test_hook_sees_a_gradient_with_a_graph_only_under_create_graph() -> None:
    seen: list[bool] = []
    for create_graph in (False, True):
        x = leaf()
        x.register_hook(lambda g: seen.append(g.requires_grad))
        (x * x).sum().backward(create_graph=create_graph)
        x.grad = None
    assert seen == [False, True]


def test_error_in_a_hook_reaches_the_caller() -> None:
    x = leaf()

    def fail(g: Tensor) -> Any:
        raise LookupError("mine")

    x.register_hook(fail)
    with pytest.raises(LookupError, match="mine"):
        x.sum().backward()
    assert x.grad is None


def test_hook_may_run_a_pass_of_its_own() -> None:
    x, w = leaf(), leaf()

    def nested(g: Tensor) -> Tensor:
        with fd.enable_grad():
            (w * w).sum().backward()
        return w.grad

    y = x * 1.0
    y.register_hook(nested)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_prehook_of_a_node_that_does_not_run_is_not_called_on_what_is_captured() -> None:
    x = leaf()
    y = x * 2.0
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 100.0,))
    (g,) = grad(y.sum(), y)
    assert g.tolist() == [1.0] * 3


def test_gradient_that_a_hook_kept_does_not_change_later() -> None:
    x, kept = leaf(), []
    x.register_hook(kept.append)
    for _ in range(2):
        (x * x).sum().backward()
    assert kept[0].tolist() == [2.0, 4.0, 6.0]


def test_hook_may_register_another_for_the_next_pass() -> None:
    x, order = leaf(), []
    y = x * 2.0

    def hook(g: Tensor) -> None:
        order.append("first")
        y.register_hook(lambda g: order.append("second"))

    y.register_hook(hook)
    y.sum().backward(retain_graph=True)
    assert order == ["first"]


@pytest.mark.seed("E20")
def test_hooks_of_a_leafs_node_run_even_if_no_gradient_came() -> None:
    class Nothing(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> None:
            return None

    x, order = leaf(), []
    x._edge.register_hook(lambda inputs, outputs: order.append(outputs))
    Nothing.apply(x).sum().backward()
    assert order == [(None,)] and x.grad is None


def test_a_retained_gradient_is_a_copy_that_may_be_changed() -> None:
    leaf = fd.ones(2, requires_grad=True)
    result = leaf * 2
    result.retain_grad()
    result.sum().backward()
    assert result.grad.stride() == (1,)
    result.grad.add_(1)
    assert result.grad.tolist() == [2.0, 2.0] and leaf.grad.tolist() == [2.0, 2.0]


def meanwhile(function: Callable[[], object]) -> None:
    """Call `function` in another thread, and wait until it returns."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(10.0)
    assert not thread.is_alive()


def test_the_first_hooks_that_two_threads_register_at_once_both_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, ran = leaf(), list[str]()
    y = x * 2.0

    class Preempted(Hooks):
        def __init__(self) -> None:
            super().__init__()
            monkeypatch.undo()
            meanwhile(lambda: y.register_hook(lambda g: ran.append("theirs")))

    monkeypatch.setattr(node_module, "Hooks", Preempted)
    y.register_hook(lambda g: ran.append("ours"))
    y.sum().backward()
    assert sorted(ran) == ["ours", "theirs"]


def test_two_threads_that_ask_for_gradients_of_one_tensor_make_one_leaf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, results = fd.ones(2), list[Tensor]()

    class Preempted(AccumulateGrad):
        __slots__ = ()

        def __init__(self, tensor: Tensor) -> None:
            super().__init__(tensor)
            monkeypatch.undo()
            meanwhile(lambda: results.append(x.requires_grad_() * 2.0))

    monkeypatch.setattr(accumulate_grad, "AccumulateGrad", Preempted)
    results.append(x.requires_grad_() * 3.0)
    (results[0] + results[1]).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
