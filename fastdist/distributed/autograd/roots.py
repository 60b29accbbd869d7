"""The roots of a distributed pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import GraphError
from ...graph.add_gradients import first_gradient
from ...tensor.tensor import Tensor


def validate_roots(roots: Sequence[Tensor]) -> tuple[tuple[Any, ...], tuple[Tensor, ...]]:
    """Return the edges and the initial gradients of a pass.

    Raises  GraphError if there are no roots, or a root is not a scalar or has no history
    """
    if not roots:
        raise GraphError("No tensors provided for gradient computation.")
    edges, gradients = [], []
    for i, root in enumerate(roots):
        if not isinstance(root, Tensor):
            raise TypeError(f"roots[{i}] is {type(root).__name__}; expected a Tensor")
        layout = root._layout
        if root._edge is None:
            raise GraphError(
                f"requires_grad not set on root: roots[{i}] of shape {layout.shape} was made by no "
                "recorded op"
            )
        if layout.numel != 1:
            name = f"roots[{i}]" if root._edge.is_accumulate else root._edge.name()
            raise GraphError(
                f"{name} is not a scalar, all roots need to be scalar: it has shape "
                f"{layout.shape}; reduce it first, for instance with .sum()"
            )
        if root._edge.is_accumulate:
            raise GraphError(
                f"roots[{i}] does not have a valid gradient function. It is a leaf, made by no "
                "op: there is no graph behind it"
            )
        edges.append(root._edge)
        gradients.append(first_gradient(root))
    return tuple(edges), tuple(gradients)
