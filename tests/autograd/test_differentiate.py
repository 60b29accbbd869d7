"""grad and backward accept a dict of inputs and edges of the graph.

The expected numbers were made with PyTorch 2.13.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import fastdist as fd
from fastdist.autograd.graph import GradientEdge, get_gradient_edge

grad = fd.autograd.grad


def leaf() -> Any:
    return fd.ones(2, requires_grad=True)


def test_grad_gives_a_dict_for_a_dict_of_inputs() -> None:
    x, z, unused = leaf(), leaf(), leaf()
    y = (x * 2 + z).sum()
    found: Any = grad(y, {"x": x, 0: z}, retain_graph=True)
    assert {key: g.tolist() for key, g in found.items()} == {"x": [2, 2], 0: [1, 1]}
    some: Any = grad(y, {"x": x, "unused": unused}, retain_graph=True, allow_unused=True)
    assert some["unused"] is None
    many: Any = grad(y, {"x": x}, fd.ones(3), is_grads_batched=True)
    assert many["x"].tolist() == [[2, 2]] * 3


def test_grad_takes_no_other_mapping_and_no_empty_one() -> None:
    x = leaf()
    with pytest.raises(TypeError, match="must be a dict, not OrderedDict"):
        grad(x.sum(), OrderedDict(x=x))
    with pytest.raises(RuntimeError, match="cannot be empty"):
        grad(x.sum(), {})


def test_zeros_of_an_unused_input_can_be_differentiated_where_the_gradients_can() -> None:
    x, unused = leaf(), leaf()
    for create_graph in (False, True):
        y = (x * x).sum()
        _, zeros = grad(y, [x, unused], create_graph=create_graph, materialize_grads=True)
        assert zeros.tolist() == [0, 0]
        assert zeros.requires_grad is create_graph


def test_grad_begins_and_ends_at_edges_of_the_graph() -> None:
    x = leaf()
    middle = x * 2
    y = (middle * middle).sum()
    edge = get_gradient_edge(middle)
    at_x = get_gradient_edge(x)
    assert [g.tolist() for g in grad(y, [edge, at_x], retain_graph=True)] == [[4, 4], [8, 8]]
    assert grad(y, GradientEdge(middle.grad_fn, 0), retain_graph=True)[0].tolist() == [4, 4]
    assert grad(edge, x, fd.tensor([1.0, 3.0]), retain_graph=True)[0].tolist() == [2, 6]
    assert grad(get_gradient_edge(y), x, retain_graph=True)[0].tolist() == [8, 8]
    fd.autograd.backward(get_gradient_edge(y), inputs=at_x)
    assert x.grad.tolist() == [8, 8]


def chain() -> tuple[Any, Any, Any]:
    """Return a leaf, a tensor computed from the leaf, and the sum of that tensor."""
    x = leaf()
    middle = x * 2
    return x, middle, (middle * middle).sum()


def test_backward_takes_one_edge_or_several_among_tensors() -> None:
    x, middle, y = chain()
    y.backward(inputs=get_gradient_edge(x))
    assert x.grad.tolist() == [8, 8]
    x, middle, y = chain()
    y.backward(inputs=[middle, get_gradient_edge(x)])
    assert (middle.grad.tolist(), x.grad.tolist()) == ([4, 4], [8, 8])
    x, middle, y = chain()
    fd.autograd.backward([get_gradient_edge(y), y.sum()], inputs=(get_gradient_edge(x), middle))
    assert (middle.grad.tolist(), x.grad.tolist()) == ([8, 8], [16, 16])


def test_backward_to_an_edge_fills_a_gradient_that_is_retained_and_no_other() -> None:
    x, middle, y = chain()
    y.backward(inputs=get_gradient_edge(middle))
    assert (x.grad, middle.retains_grad) == (None, False)
    x, middle, y = chain()
    middle.register_hook(lambda g: g * 3)
    middle.retain_grad()
    middle.grad = fd.ones(2)
    y.backward(inputs=[get_gradient_edge(middle)])
    assert (x.grad, middle.grad.tolist()) == (None, [13, 13])
    parts = fd.linalg.svd(fd.eye(2, requires_grad=True) * 2)
    parts[1].retain_grad()
    (parts[1] * 3).sum().backward(inputs=get_gradient_edge(parts[1]))
    assert parts[1].grad.tolist() == [3, 3]


def test_backward_takes_a_dict_of_inputs() -> None:
    x, middle, y = chain()
    y.backward(inputs={"x": x, 0: middle})
    assert (middle.grad.tolist(), x.grad.tolist()) == ([4, 4], [8, 8])
    x, middle, y = chain()
    fd.autograd.backward(y, inputs={"x": get_gradient_edge(x)})
    assert x.grad.tolist() == [8, 8]


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        ({}, RuntimeError, "argument to `backward\\(\\)` cannot be empty"),
        ((), RuntimeError, "argument to `backward\\(\\)` cannot be empty"),
        (OrderedDict(x=leaf()), TypeError, "must be a dict, not OrderedDict. Other Mapping types"),
        ([3], RuntimeError, "all inputs have to be Tensors or GradientEdges, but got int"),
        ({"a": None}, RuntimeError, "all inputs have to be Tensors or GradientEdges, but got None"),
        (3, TypeError, "backward\\(\\): argument 'inputs' must be .* a sequence of Tensors, not 3"),
    ],
)
def test_backward_refuses_what_is_no_input(inputs: Any, error: Any, words: str) -> None:
    for backward in (fd.Tensor.backward, fd.autograd.backward):
        with pytest.raises(error, match=words):
            backward(leaf().sum(), inputs=inputs)


def test_who_takes_over_backward_is_given_the_edges_themselves() -> None:
    class Mine(fd.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            told.append((args, kwargs))

    told: list[Any] = []
    _, middle, y = chain()
    edge = get_gradient_edge(middle)
    mine = fd.ones(1).as_subclass(Mine)
    fd.autograd.backward([mine, y], inputs=edge)
    ((args, kwargs),) = told
    assert args == ((mine, y),)
    assert kwargs["inputs"] == (edge,)


def test_an_edge_tells_its_fields_by_name() -> None:
    x, middle, _ = chain()
    assert get_gradient_edge(x)._fields == ("node", "output_nr", "ownership_token")
    assert get_gradient_edge(middle) == (middle.grad_fn, 0, None)


def test_an_edge_is_one_output_of_a_node_of_several() -> None:
    parts = fd.linalg.svd(fd.eye(2, requires_grad=True) * 2)
    assert grad(parts[1].sum(), get_gradient_edge(parts[1]))[0].tolist() == [1, 1]


def test_an_edge_without_a_path_has_no_zeros() -> None:
    x, edge = leaf(), get_gradient_edge(leaf() * 2)
    y = x.sum()
    assert list(grad(y, edge, retain_graph=True, allow_unused=True)) == [None]
    with pytest.raises(RuntimeError, match="cannot be used when the given input is a GradientEdge"):
        grad(y, edge, retain_graph=True, materialize_grads=True)
    of_leaf = get_gradient_edge(leaf())
    for inputs in ([x, of_leaf], {"x": x, "leaf": of_leaf}):
        with pytest.raises(RuntimeError, match="when the given input is a GradientEdge"):
            grad(y, inputs, retain_graph=True, materialize_grads=True)
    with pytest.raises(RuntimeError, match="when the given input is a GradientEdge"):
        grad(y, of_leaf, fd.ones(3), True, is_grads_batched=True, materialize_grads=True)
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        grad(y, edge)
