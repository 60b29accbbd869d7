"""Two concurrent passes through one Node, both of which free its saved tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import grad
from fastdist.core.errors import ShapeError
from fastdist.dispatch.route import Route
from fastdist.dispatch.structured import Plan, StructuredOp
from fastdist.nn import functional
from tests.disturbances.opcodes import call_traced


class Preemption:
    """Runs a function, as another thread could, before instruction `number` of a Node's method."""

    def __init__(self, deed: Callable[[], None], number: int) -> None:
        self.left, self._deed = number, deed

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_name not in ("apply", "apply_recorded"):
            return None
        if event == "opcode":
            self.left -= 1
            if self.left == -1:
                self._deed()
        return self


def freed(result: Tensor, inputs: list[Tensor], number: int, again: bool) -> Any:
    """Return the gradients, "released" if the graph was freed, or None if `number` is too high."""
    node = result.grad_fn
    assert node is not None
    node = node.next_functions[0][0]  # result is a sum of the op's outputs
    assert node is not None
    preemption = Preemption(node.release, number)
    try:
        gradients = call_traced(preemption, lambda: grad([result], inputs, create_graph=again))
        found: Any = [g.tolist() for g in gradients]
    except RuntimeError as error:
        found = "released" if "a second time" in str(error) else str(error)
    return found if preemption.left < 0 else None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("again", [False, True], ids=["once", "create_graph"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: functional.layer_norm(x, (3,), w, w),
        lambda x, w: (x * w).softmax(-1).square(),
        lambda x, w: (x * w).max(1)[0],
        lambda x, w: (x * w).exp(),
    ],
    ids=["layer_norm", "softmax", "max", "exp"],
)
def test_a_pass_gives_right_gradients_or_says_that_another_freed_what_was_saved(
    function: Callable[[Tensor, Tensor], Tensor], again: bool
) -> None:
    x = fd.tensor([[1.0, 2.0, 0.5], [0.0, 1.0, 0.7]], requires_grad=True)
    w = fd.tensor([0.2, 0.3, 0.4], requires_grad=True)

    result = function(x, w).sum()
    expected = [g.tolist() for g in grad([result], [x, w], create_graph=again)]
    number = 0
    while (found := freed(function(x, w).sum(), [x, w], number, again)) is not None:
        assert found in (expected, "released"), f"instruction {number}"
        number += 1
    assert number > 50


def negative(input: Tensor) -> Tensor:  # type: ignore[empty-body]
    """Return -input."""


def test_a_vjp_of_another_shape_names_op_and_input() -> None:
    op = StructuredOp(negative, "shape.copying.cast")
    op.plan(lambda input: Plan(input._layout.shape, input._layout.dtype))
    op.vjp("input")(lambda g: fd.ones(3))
    x = fd.tensor(np.ones(2, np.float32), requires_grad=True)
    with pytest.raises(
        ShapeError,
        match=r"^Function NegativeBackward0 returned an invalid gradient at index 0 - got \[3\] "
        r"but expected shape compatible with \[2\]: the vjp of negative by input$",
    ):
        op.public(x).sum().backward()


def product(input: Tensor, other: Tensor | None, more: Tensor) -> Tensor:  # type: ignore[empty-body]
    """Return input."""


def test_one_function_gives_the_gradients_of_several_inputs_in_one_call() -> None:
    op, calls = StructuredOp(product, "shape.copying.cast"), []
    op.plan(lambda input, other, more: Plan(input._layout.shape, input._layout.dtype))

    @op.vjp("input", "more")
    def _(g: Any, wanted: Any) -> Any:
        calls.append(wanted)
        return g * 2, g * 3

    @op.vjp("other")
    def _(g: Any) -> Any:
        return g * 5

    x, y, z = (fd.ones(2, requires_grad=True) for _ in range(3))
    node = op.node_class()
    layouts = (x._layout, y._layout, z._layout)
    route = Route(op, (), layouts)
    for edges, expected in (
        ((x._edge, None, z._edge), (2, None, 3)),
        ((None, None, z._edge), (None, None, 3)),
        ((None, y._edge, None), (None, 5, None)),
    ):
        node.edges, node.route = edges, route
        found = node.apply_recorded(fd.ones(2), keep=True)
        assert tuple(None if one is None else one[0].item() for one in found) == expected
    assert calls == [(True, False, True), (False, False, True)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x * x,
        lambda x: x.add(x, alpha=2),
        lambda x: x.exp(),
        lambda x: x.sum(),
        lambda x: x @ x.mT,
        lambda x: x[None] @ x.mT,
        lambda x: functional.leaky_relu(x, 0.3),
    ],
    ids=["mul", "add", "exp", "sum", "matmul", "batched matmul", "leaky_relu"],
)
def test_an_op_has_one_node_class_whatever_its_operands_are(call: Callable[[Tensor], Any]) -> None:
    classes = set()
    for shape in ((2, 3), (200, 100)):
        for dtype in (fd.float32, fd.float64, fd.float16):
            x = fd.ones(shape, dtype=dtype, requires_grad=True)
            for one in (x, x[:1], x.t().contiguous().t()):
                for _ in range(2):
                    classes.add(type(call(one).grad_fn))
    assert len(classes) == 1


def test_an_op_and_its_in_place_twin_and_its_usual_form_have_one_node_class() -> None:
    x = fd.ones(3, requires_grad=True)
    made = [x + x, x.add(x, alpha=2), fd.add(x, 1), (x * 1).add_(x), (x * 1).add_(x, alpha=3)]
    assert len({type(one.grad_fn) for one in made}) == 1


def test_a_node_that_saved_nothing_may_run_again() -> None:
    x, y = fd.ones(3, requires_grad=True), fd.ones(3)
    total = fd.addcmul(x, y, y)
    for _ in range(2):
        total.backward(fd.ones(3))
    assert x.grad is not None and x.grad.tolist() == [2.0] * 3
    product = x * y
    product.backward(fd.ones(3))
    with pytest.raises(RuntimeError, match="a second time"):
        product.backward(fd.ones(3))


def test_products_of_vectors_have_pytorchs_names() -> None:
    a, v = fd.ones(3, 2, requires_grad=True), fd.ones(2, requires_grad=True)
    made = {
        "MvBackward0": [a @ v, a.mv(v), fd.mv(a, v), fd.ones(1, 2) @ v],
        "DotBackward0": [v @ v, v.dot(v), fd.ones(1) @ v[:1]],
        "VdotBackward0": [v.vdot(v)],
        "SqueezeBackward4": [v @ a.t()],
        "UnsafeViewBackward0": [a.expand(4, 3, 2) @ v, v @ a.t().expand(4, 2, 3)],
    }
    for name, products in made.items():
        assert [one.grad_fn.name() for one in products if one.grad_fn] == [name] * len(products)
    (a @ v).backward(fd.tensor([1.0, 2.0, 3.0]))
    assert a.grad is not None and v.grad is not None
    assert (a.grad.tolist(), v.grad.tolist()) == ([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [6.0, 6.0])
