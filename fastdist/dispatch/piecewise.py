"""Second derivatives of functions whose slope is constant in steps: zeros, as in PyTorch.

The gradient that relu, or a pool, passes back depends on its input's position only in steps, so its
derivative is 0. PyTorch returns zeros, not None, so that the second derivative of a network of such
layers does not raise an error about unused inputs. Only passes with create_graph pay for it.
"""

from __future__ import annotations

from typing import Any

from ..graph.modes import tls
from ..graph.node import Node
from ..graph.recording import begin_node
from ..graph.unbroadcast import zeros_of
from ..interpreters.batched_tensor import Batched, unbatched
from ..tensor.layout import Layout
from ..tensor.tensor import Tensor, from_array
from .op import OPS, PLAIN


def with_zero_second_order(
    gradient: Any, g: Any, edges: tuple[Any, ...], layouts: tuple[Layout, ...]
) -> Any:
    """Return a gradient that was computed from g, with edges to the inputs on which it depends in
    steps.
    """
    if not tls.grad or (gradient.__class__ not in PLAIN and gradient.__class__ is not Batched):
        return gradient
    # A batch does not have an edge: the values in it do.
    base = unbatched(gradient)
    found: Tensor = gradient
    if base is unbatched(g):
        found = OPS["clone"].public(gradient)
        base = unbatched(found)
    base._edge = ZeroSecondOrder(base, edges, layouts)
    return found


class ZeroSecondOrder(Node):
    """The Node of a gradient and the inputs on which it depends in steps: it passes all to the one,
    zeros to the others.
    """

    __slots__ = ("layouts",)

    def __init__(
        self, gradient: Tensor, edges: tuple[Any, ...], layouts: tuple[Layout, ...]
    ) -> None:
        begin_node(self, (gradient._edge, *edges), gradient._layout)
        self.layouts = layouts

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return g, and zeros."""
        return g, *self._zeros()

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the same gradients as Tensors."""
        pairs = zip(self._zeros(), self.layouts, strict=True)
        return g, *[z if z is None else from_array(z, layout.device) for z, layout in pairs]

    def _zeros(self) -> list[Any]:
        pairs = zip(self.edges[1:], self.layouts, strict=True)
        return [None if edge is None else zeros_of(layout) for edge, layout in pairs]
