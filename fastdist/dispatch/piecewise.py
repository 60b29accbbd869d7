"""Second derivatives of functions whose slope is constant in pieces: zeros, as in PyTorch.

The slope of relu, or of a pool, depends on the input in steps, so its derivative by the input is 0.
PyTorch returns zeros, not None: whoever differentiates a network of such layers twice gets no error
about an unused input. Only a pass with create_graph pays for it.
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
    """Return a gradient that was made of g, with edges to what it depends on in steps."""
    if not tls.grad or (gradient.__class__ not in PLAIN and gradient.__class__ is not Batched):
        return gradient
    # A batch has no edge: what it holds has.
    base = unbatched(gradient)
    found: Tensor = gradient
    if base is unbatched(g):
        found = OPS["clone"].public(gradient)
        base = unbatched(found)
    base.edge = ZeroSecondOrder(base, edges, layouts)
    return found


class ZeroSecondOrder(Node):
    """A gradient and what it depends on in steps: all for the one, zeros for the others."""

    __slots__ = ("layouts",)

    def __init__(
        self, gradient: Tensor, edges: tuple[Any, ...], layouts: tuple[Layout, ...]
    ) -> None:
        begin_node(self, (gradient.edge, *edges), gradient._layout)
        self.layouts = layouts

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return g, and zeros."""
        return g, *self._zeros()

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the same as Tensors."""
        pairs = zip(self._zeros(), self.layouts, strict=True)
        return g, *[z if z is None else from_array(z, layout.device) for z, layout in pairs]

    def _zeros(self) -> list[Any]:
        pairs = zip(self.edges[1:], self.layouts, strict=True)
        return [None if edge is None else zeros_of(layout) for edge, layout in pairs]
