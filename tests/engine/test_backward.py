"""The gradients and errors of a backward pass, in the inline loop and in the engine."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import Function, backward, grad
from fastdist.engine.engine import current_graph_task, queue_callback
from fastdist.graph.modes import modes
from tests.disturbances.interrupts import each_ctrl_c

pytestmark = pytest.mark.usefixtures("loop")


def leaf(*values: float) -> Tensor:
    return fd.tensor(values or (1.0, 2.0, 3.0), dtype=fd.float64, requires_grad=True)


def identity(backward: Any) -> Any:
    """Return a Function that copies its input and has the given backward."""
    body = {"forward": lambda ctx, x: x * 1.0, "backward": backward}
    return type("Identity", (Function,), {n: staticmethod(f) for n, f in body.items()}).apply


def test_gradients_of_several_passes_add_up() -> None:
    x = leaf()
    for _ in range(3):
        (x * x).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0, 18.0]


def test_grad_is_added_to_in_place() -> None:
    x = leaf()
    (x * 2.0).sum().backward()
    held = x.grad
    (x * 2.0).sum().backward()
    assert held.tolist() == [4.0] * 3 and x.grad is held


def test_leaf_used_many_times_gets_the_sum() -> None:
    x = leaf()
    (x * x + x + x.exp() * 0.0 + x).sum().backward()
    assert x.grad.tolist() == [4.0, 6.0, 8.0]


def test_two_leaves_do_not_share_their_gradient() -> None:
    x, y = leaf(), leaf()
    (x + y).sum().backward()
    x.grad.mul_(5.0)
    assert y.grad.tolist() == [1.0] * 3


def test_given_gradient_is_not_changed_or_kept() -> None:
    x, g = leaf(), fd.ones(3, dtype=fd.float64)
    (x * 1.0).backward(g)
    (x + 0.0).backward(g)
    x.grad.mul_(3.0)
    assert g.tolist() == [1.0] * 3


def test_second_pass_is_refused_without_retain_graph() -> None:
    x = leaf()
    y = x.exp().sum()
    y.backward()
    with pytest.raises(
        RuntimeError,
        match=r"^Trying to backward through the graph a second time \(or directly access saved "
        r"tensors after they have already been freed\)",
    ):
        y.backward()


def test_retain_graph_allows_a_second_pass() -> None:
    x = leaf()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0, 12.0]


def test_create_graph_gives_second_and_third_derivatives() -> None:
    x = leaf(2.0)
    (first,) = grad(x * x * x * x, x, create_graph=True)
    (second,) = grad(first, x, create_graph=True)
    (third,) = grad(second, x)
    assert (first.item(), second.item(), third.item()) == (32.0, 48.0, 48.0)
    assert third.grad_fn is None


def test_create_graph_in_backward_leaves_a_grad_that_can_be_differentiated() -> None:
    x = leaf()
    (x * x * x).sum().backward(create_graph=True)
    g = x.grad
    x.grad = None
    g.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0, 18.0]


def test_create_graph_does_not_share_one_gradient_between_two_leaves() -> None:
    x, y = leaf(), leaf()
    (x + y).sum().backward(create_graph=True)
    with fd.no_grad():
        x.grad.mul_(5.0)
    assert y.grad.tolist() == [1.0] * 3


def test_several_roots_add_up() -> None:
    x = leaf()
    y = x * 2.0
    backward([y.sum(), (y * y).sum(), x.sum()])
    assert x.grad.tolist() == [2.0 + 8.0 + 1.0, 2.0 + 16.0 + 1.0, 2.0 + 24.0 + 1.0]


def test_root_above_another_root_waits_for_it() -> None:
    x = leaf(3.0)
    y = x * x
    backward([y, y * y])
    assert x.grad.item() == 6.0 + 108.0


def test_one_root_given_twice_counts_twice() -> None:
    x = leaf(3.0)
    y = x * x
    backward([y, y])
    assert x.grad.item() == 12.0


def test_leaf_as_a_root_gets_its_own_gradient() -> None:
    x = leaf(3.0)
    x.backward()
    assert x.grad.item() == 1.0


def test_inputs_restricts_where_gradients_go() -> None:
    x, y = leaf(), leaf()
    backward((x * y).sum(), inputs=[x])
    assert x.grad.tolist() == [1.0, 2.0, 3.0] and y.grad is None


def test_inputs_may_name_a_result_which_then_retains_its_gradient() -> None:
    x = leaf()
    y = x * 2.0
    (y * y).sum().backward(inputs=[y])
    assert y.grad.tolist() == [4.0, 8.0, 12.0] and x.grad is None


@pytest.mark.parametrize("value", ["a", 1, None])
def test_requires_grad_is_set_to_a_bool_alone(value: Any) -> None:
    with pytest.raises(RuntimeError, match="requires_grad must be a bool, got"):
        leaf().requires_grad = value
    with pytest.raises(TypeError, match=r"requires_grad_\(\): .* must be bool, not"):
        leaf().requires_grad_(value)


def test_inputs_may_not_be_empty() -> None:
    with pytest.raises(RuntimeError, match=r"^`inputs` argument to `backward\(\)` cannot be empty"):
        backward(leaf().sum(), inputs=[])
    with pytest.raises(RuntimeError, match=r"^`inputs` argument to `backward\(\)` cannot be empty"):
        leaf().sum().backward(inputs=())


def test_grad_leaves_dot_grad_alone_and_skips_other_leaves() -> None:
    x, y = leaf(), leaf()
    (gx,) = grad((x * y).sum(), x)
    assert gx.tolist() == [1.0, 2.0, 3.0] and x.grad is None and y.grad is None


def test_grad_with_respect_to_a_result_inside_the_graph() -> None:
    x = leaf()
    y = x * 2.0
    gy, gx = grad((y * y).sum(), (y, x))
    assert (gy.tolist(), gx.tolist()) == ([4.0, 8.0, 12.0], [8.0, 16.0, 24.0])


def test_grad_of_an_output_with_respect_to_itself_is_the_given_gradient() -> None:
    y = leaf() * 2.0
    (g,) = grad(y, y, fd.tensor([1.0, 5.0, 7.0], dtype=fd.float64))
    assert g.tolist() == [1.0, 5.0, 7.0]


def test_unused_input_is_an_error_unless_allowed() -> None:
    x, y = leaf(), leaf()
    with pytest.raises(
        RuntimeError,
        match=r"^The differentiated Tensor at index 1 appears to not have been used in the graph\. "
        r"Set allow_unused=True if this is the desired behavior\.$",
    ):
        grad(x.sum(), (x, y))
    assert grad(x.sum(), (x, y), allow_unused=True)[1] is None
    assert grad(x.sum(), y, materialize_grads=True)[0].tolist() == [0.0] * 3


def test_grad_takes_the_old_word_only_inputs_and_touches_no_grad() -> None:
    x = leaf()
    (g,) = grad(outputs=x.sum(), inputs=x, grad_outputs=None, create_graph=True, only_inputs=True)
    assert g.tolist() == [1.0] * 3 and x.grad is None
    assert grad(x.sum(), x, None, None, False, True, True)[0].tolist() == [1.0] * 3


def test_input_without_requires_grad_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"^One of the differentiated Tensors does not require"):
        grad(leaf().sum(), fd.ones(3))


def test_root_without_a_graph_is_an_error() -> None:
    with pytest.raises(
        RuntimeError,
        match=r"^element 0 of tensors does not require grad and does not have a grad_fn",
    ):
        fd.ones(1).backward()


def test_root_with_several_elements_needs_a_gradient() -> None:
    with pytest.raises(RuntimeError, match=r"^grad can be implicitly created only for scalar"):
        (leaf() * 2.0).backward()


def test_gradient_of_another_shape_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"^Mismatch in shape: grad_output"):
        (leaf() * 2.0).backward(fd.ones(2, dtype=fd.float64))


def test_saved_tensor_changed_in_place_is_an_error() -> None:
    x = leaf()
    y = x * 1.0
    z = y * y
    y.add_(1.0)
    with pytest.raises(
        RuntimeError,
        match=r"^one of the variables needed for gradient computation has been modified by an "
        "inplace operation: .* is at version 1; expected version 0 instead",
    ):
        z.sum().backward()


def test_undefined_gradient_passes_through_nodes_and_stops_at_leaves() -> None:
    x, y = leaf(), leaf()
    nothing = identity(lambda ctx, g: None)
    (nothing((x * 2.0).exp()) + y).sum().backward()
    assert x.grad is None and y.grad.tolist() == [1.0] * 3


def test_undefined_gradient_adds_nothing_to_a_defined_one() -> None:
    x = leaf()
    y = x * 2.0
    (identity(lambda ctx, g: None)(y) + y * 3.0).sum().backward()
    assert x.grad.tolist() == [6.0] * 3


def test_passes_inside_a_pass_run_to_their_end() -> None:
    x, w = leaf(), leaf()

    def nested(ctx: Any, g: Tensor) -> Tensor:
        with fd.enable_grad():
            (w * w).sum().backward()
        return g * w.grad

    identity(nested)(x).sum().backward()
    assert (x.grad.tolist(), w.grad.tolist()) == ([2.0, 4.0, 6.0], [2.0, 4.0, 6.0])


def test_pass_may_nest_deeply() -> None:
    x = leaf(1.0)

    def nested(depth: int) -> Tensor:
        def run(ctx: Any, g: Tensor) -> Tensor:
            if depth:
                with fd.enable_grad():
                    nested(depth - 1).backward()
            return g

        return identity(run)(x)

    nested(20).backward()
    assert x.grad.item() == 21.0


@pytest.mark.seed("E24")
def test_grad_mode_is_what_it_was_after_a_pass_that_failed() -> None:
    def fail(ctx: Any, g: Tensor) -> Tensor:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        identity(fail)(leaf()).sum().backward()
    assert fd.is_grad_enabled() and current_graph_task() is None
    assert [entry.name for entry in caught.traceback][-1] == "fail"


@pytest.mark.seed("E26")
def test_callbacks_run_when_all_nodes_have_run() -> None:
    order: list[str] = []
    x = leaf()
    y = x * 2.0
    x.register_hook(lambda g: order.append("leaf"))

    def hook(g: Tensor) -> None:
        queue_callback(lambda: order.append("callback"))
        order.append("result")

    y.register_hook(hook)
    y.sum().backward()
    assert order == ["result", "leaf", "callback"]


@pytest.mark.parametrize("create_graph", [False, True])
def test_callback_may_add_another_and_sees_the_grad_mode_of_the_pass(create_graph: bool) -> None:
    seen: list[bool] = []

    def first() -> None:
        seen.append(fd.is_grad_enabled())
        queue_callback(lambda: seen.append(fd.is_grad_enabled()))

    x = leaf()
    y = x * 2.0
    y.register_hook(lambda g: queue_callback(first))
    backward(y.sum(), create_graph=create_graph)
    assert seen == [create_graph] * 2
    assert fd.is_grad_enabled() and current_graph_task() is None


def test_callback_outside_of_a_pass_is_refused() -> None:
    with pytest.raises(
        RuntimeError, match=r"^Final callbacks can only be installed during backward pass\."
    ):
        queue_callback(print)


def test_graph_is_freed_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf()
        y = (x.exp() * x.tanh()).sum()
        watched = [ref(y), ref(y.grad_fn)]
        y.backward()
        del y
        assert [one() for one in watched] == [None, None]
    finally:
        gc.enable()


def test_graph_is_freed_without_the_garbage_collector_after_an_error() -> None:
    def fail(ctx: Any, g: Tensor) -> Any:
        raise ValueError("mine")

    gc.collect()
    gc.disable()
    try:
        y = identity(fail)(leaf().exp())
        watched = ref(y.grad_fn)
        with pytest.raises(ValueError, match="mine"):
            y.sum().backward()
        del y
        assert watched() is None
    finally:
        gc.enable()


@pytest.mark.one_in(2)
def test_chain_of_100000_nodes_is_played_back_and_freed() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.sum().backward()
    assert x.grad.item() == 1.0
    del y


@pytest.mark.one_in(2)
def test_chain_of_100000_nodes_is_freed_without_a_pass() -> None:
    y = leaf(1.0)
    for _ in range(100_000):
        y = y.exp()
    watched = ref(y.grad_fn)
    del y
    assert watched() is None


def test_gradient_of_a_transposed_leaf_has_its_shape_and_values() -> None:
    w = fd.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    (w.t() @ fd.ones(2, 1, dtype=fd.float64)).sum().backward()
    assert tuple(w.grad.shape) == (2, 3) and w.grad.is_contiguous()


def test_gradient_of_a_mean_can_be_added_to() -> None:
    for values in ((1.0,), (1.0, 2.0, 3.0)):
        x = leaf(*values)
        for _ in range(3):
            (x.mean() + (x * 1.0).mean()).backward()
        assert x.grad.tolist() == pytest.approx([6.0 / len(values)] * len(values))


@pytest.mark.one_in(2)
def test_after_ctrl_c_in_a_pass_its_thread_records_and_others_pay_nothing(loop: str) -> None:
    def prepare() -> Callable[[], object]:
        x = fd.ones(2, requires_grad=True)
        return (x * 2 + x).sum().backward

    prepare()()
    for place in each_ctrl_c(prepare):
        assert fd.is_grad_enabled(), f"place {place}"
        prepare()()
        assert modes.grad_off == 0, f"place {place}"
