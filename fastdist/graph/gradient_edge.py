"""The class with which users name an edge of the graph, and the inputs that a pass accepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..core.errors import GraphError
from ..core.short_repr import short_repr
from ..tensor.tensor import Tensor, wrap
from .node import Edge, Node, node_of, output_number


class GradientEdge(NamedTuple):
    """One output of a Node: where a tensor's gradient arrives.

    Note    `ownership_token` exists for compatibility with PyTorch, and is not needed: `node` keeps
            the rest of its graph alive
    """

    node: Node
    output_nr: int
    ownership_token: Node | None = None


# The inputs that a pass accepts: tensors, or edges.
Inputs: TypeAlias = Tensor | GradientEdge | Sequence[Tensor | GradientEdge] | dict[Any, Tensor]


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge at which the tensor's gradient arrives; for a leaf its AccumulateGrad.

    Raises  RuntimeError for a tensor that does not require grad
    """
    if tensor._edge is None:
        raise GraphError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    return GradientEdge(node_of(tensor._edge), output_number(tensor._edge))


def tensor_at(edge: GradientEdge) -> Tensor:
    """Return a tensor whose gradient arrives at an edge of the graph: the leaf itself, or else a
    new tensor without values.
    """
    node, number = edge.node, edge.output_nr
    if node.is_accumulate:
        leaf: Tensor = node.variable  # type: ignore[attr-defined]
        return leaf
    several = isinstance(node.output_layout, tuple)
    made = wrap(None, node.output_layout[number] if several else node.output_layout)
    made._edge = Edge(node, number) if several else node
    return made


def given_inputs(given: Inputs, function: str) -> tuple[Any, ...]:
    """Return the argument `inputs` of a function as a tuple. `given` is a Tensor, an edge, a
    sequence of Tensors and edges, or a dict whose values are Tensors.

    Raises  TypeError for a mapping that is not a dict, RuntimeError if there are no inputs
    """
    if isinstance(given, Tensor | GradientEdge):
        return (given,)
    if given.__class__ is dict:
        given = tuple(given.values())
    elif isinstance(given, Mapping):
        raise TypeError(
            f"`inputs` argument to `{function}()` must be a dict, not {type(given).__name__}. "
            "Other Mapping types are not supported."
        )
    elif not isinstance(given, Iterable):
        raise TypeError(
            f"{function}(): argument 'inputs' must be a Tensor or a sequence of Tensors, not "
            f"{short_repr(given)}"
        )
    inputs: tuple[Any, ...] = tuple(given)
    if not inputs:
        raise GraphError(f"`inputs` argument to `{function}()` cannot be empty.")
    return inputs
