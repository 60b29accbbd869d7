"""A Node has PyTorch's name, both as its class name and from name()."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
import fastdist.nn.functional as F
from fastdist.graph.node import node_of
from tests.properties import Properties

from .node_names import CALLS, names_in

NAMES = names_in(fd)
X = NAMES["x"]


# The name of this Node depends on whether an operand was a number or a tensor without axes. Only
# the Node's saved tensors show which one it was: see OpNode.has_number.
NAMED_BY_TENSORS = "t.tensor(2.0) / x"


@pytest.mark.one_in(5)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", CALLS)
def test_the_node_of_a_call_is_called_as_pytorch_does(text: str, properties: Properties) -> None:
    with properties("with its tensors"):
        node = eval(text, dict(NAMES)).grad_fn
        assert (type(node).__name__, node.name()) == (CALLS[text], CALLS[text])
    if text == NAMED_BY_TENSORS:
        return
    with properties("released before users see it, which names it"):
        found = eval(text, dict(NAMES))
        node_of(found._edge).release()
        assert found.grad_fn.name() == CALLS[text]
        assert "grad_fn=" in repr(found)


def of(shape: Any, dtype: Any = None) -> Any:
    return fd.ones(shape, dtype=dtype).requires_grad_()


GIVEN = [of((4, 4)), of((2, 3, 3)), of((200, 200)), of(()), of((0, 3))] + [
    of((4, 4), dtype) for dtype in (fd.float64, fd.bfloat16, fd.complex64)
]
OF_ONE_OP: dict[str, Any] = {
    "mul": lambda x: [x * x, x * 2, 2 * x, fd.mul(x, x), x.clone().mul_(x)],
    "exp": lambda x: [x.exp(), fd.exp(x), x.clone().exp_()],
    "sum": lambda x: [x.sum(), fd.sum(x)],
    "sum of rows": lambda x: [x.sum(-1), x.sum(-1, keepdim=True)],
    "mm": lambda x: (
        [x @ x, fd.mm(x, x), x @ x.detach()] if len({*x.shape}) == 1 == x.ndim - 1 else []
    ),
    "view": lambda x: [x.view(-1), x.reshape(-1), x.flatten()] if x.ndim > 1 else [],
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", OF_ONE_OP)
def test_nodes_of_one_op_are_of_one_class_for_any_operands(name: str) -> None:
    kinds = {type(y.grad_fn) for x in GIVEN for y in OF_ONE_OP[name](x)}
    assert len(kinds) == 1
    # The second call takes the short path; the first did not.
    assert kinds == {type(y.grad_fn) for x in GIVEN for y in OF_ONE_OP[name](x)}


OF_SEVERAL_OPS: dict[str, Any] = {
    "GeluBackward0": lambda x: [F.gelu(x), F.gelu(x, approximate="tanh")],
    "DivBackward2": lambda x: [x.div(x, rounding_mode=mode) for mode in ("floor", "trunc")],
    "CloneBackward0": lambda x: [x.clone(), x.mT.contiguous()],
    "ClampBackward0": lambda x: [x.clamp(min=x.detach()), x.clamp(max=x.detach())],
    "ClampBackward1": lambda x: [x.clamp(min=1.0), x.clamp(max=2.0)],
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", OF_SEVERAL_OPS)
def test_nodes_of_ops_that_are_recorded_alike_are_of_one_class(name: str) -> None:
    x = of((3, 3), fd.float64)
    found = OF_SEVERAL_OPS[name](x)
    assert [one.grad_fn.name() for one in found] == [name] * len(found)
    assert len({type(one.grad_fn) for one in found}) == 1
    for function in range(len(found)):
        assert fd.autograd.gradgradcheck(lambda x, i=function: OF_SEVERAL_OPS[name](x)[i], x + 0.5)


@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16])
def test_halves_that_a_wider_number_scales_record_what_was_called(dtype: Any) -> None:
    x, factor = of((2,), dtype), of(())
    for _ in range(2):
        assert [(x * factor).grad_fn.name(), (x / factor).grad_fn.name()] == [
            "MulBackward0",
            "DivBackward0",
        ]


def test_a_node_that_nobody_has_looked_at_is_called_the_same_after_its_pass() -> None:
    for call, name in (
        (lambda: X @ X, "MmBackward0"),
        (lambda: X.sum(1), "SumBackward1"),
        (lambda: 2**X, "PowBackward2"),
        (lambda: F.linear(X, X), "MmBackward0"),
        (lambda: F.mse_loss(X, NAMES["y"]), "MseLossBackward0"),
    ):
        result = call()
        result.backward(fd.ones_like(result), inputs=[X])
        assert repr(result.grad_fn).startswith(f"<{name} object")
    X.grad = None


def test_a_function_that_gives_back_its_argument_leaves_its_node_its_name() -> None:
    y = X.exp()
    assert y.tile(2).grad_fn.name() == "RepeatBackward0"
    assert y.clamp_min(0.0).grad_fn.next_functions[0][0].name() == "ExpBackward0"
    assert F.dropout(y, training=False).grad_fn.name() == "ExpBackward0"


def test_what_is_written_unrecorded_leaves_the_node_its_name() -> None:
    z = X.clone()
    z.copy_(X * 2)
    with fd.no_grad():
        z.cumsum_(0)
    assert z.grad_fn.name() == "CopyBackwards"


def test_a_renamed_node_passes_its_gradient_as_before() -> None:
    x = X.detach().requires_grad_()
    loss = F.mse_loss(x, NAMES["y"])
    assert type(loss.grad_fn).__name__ == "MseLossBackward0"
    (first,) = fd.autograd.grad(loss, x, create_graph=True)
    assert fd.allclose(first, 2 / 9 * (x - NAMES["y"]))
    assert first.grad_fn is not None


def test_hooks_are_kept_when_a_node_is_first_looked_at() -> None:
    x = X.detach().requires_grad_()
    total, seen = x.sum(1), []
    total.register_hook(seen.append)
    assert total.grad_fn is not None
    total.grad_fn.metadata["key"] = 1
    total.backward(fd.ones(3))
    assert len(seen) == 1 and total.grad_fn.metadata == {"key": 1}
