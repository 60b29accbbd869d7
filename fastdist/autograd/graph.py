"""The recorded graph, as one may look at it and hold on to it."""

from __future__ import annotations

from typing import NamedTuple

from ..core.errors import GraphError
from ..graph.node import Node, RemovableHandle, node_of, output_number
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor


class GradientEdge(NamedTuple):
    """One output of a Node: where a tensor's gradient arrives."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge at which the tensor's gradient arrives; for a leaf its AccumulateGrad.

    Raises  RuntimeError for a tensor that does not require grad
    """
    if tensor.edge is None:
        raise GraphError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    return GradientEdge(node_of(tensor.edge), output_number(tensor.edge))


def increment_version(tensor: Tensor) -> None:
    """Tell the graph that the tensor's memory was changed behind its back."""
    storage_of(tensor).bump()


__all__ = ["GradientEdge", "Node", "RemovableHandle", "get_gradient_edge", "increment_version"]
