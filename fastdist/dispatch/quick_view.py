"""Writes the short way through a view op into the function that users call. See quick.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..graph.modes import modes, tls
from ..graph.node import next_sequence_number
from ..tensor.tensor import Tensor
from .op import PLAIN, recoded
from .structured_node import Recordable, StructuredNode


class QuickView(Recordable, Protocol):
    """What this file reads off a view op."""

    by_type: tuple[bool, ...]
    written: Any

    @property
    def node_class(self) -> type[StructuredNode]:
        """The Node class that records this op."""


def quicken_view(op: QuickView, see: Callable[..., Tensor]) -> None:
    """Give op's public function its short way; see(raw view, its layout, its steps, of which
    Tensor) makes the view.
    """
    function, head, tail = op.written
    function.__globals__.update(_PLAIN=PLAIN, _modes=modes, _seen=_recorded(op, see))
    key = ["_op"]
    for name, by_type in zip(op.attributes, op.by_type, strict=True):
        key += [name, f"{name}.__class__"] if by_type else [name]
    lines = [
        "if input.__class__ in _PLAIN and not _modes.special:",
        f"    try: _way = input.facts.plans.get(({', '.join(key)},))",
        "    except TypeError: _way = None",
        "    if _way is not None: return _seen(_way, input)",
    ]
    body = "".join(f"    {line}\n" for line in lines)
    recoded(function, f"{head}{body}{tail}", op.name)


def _recorded(op: QuickView, see: Callable[..., Tensor]) -> Callable[[Any, Tensor], Tensor]:
    """Return the function of a Way and a Tensor that makes the view and records it."""
    Node: Any = op.node_class

    def seen(way: Any, input: Tensor) -> Tensor:
        result = see(way.run(input.array), way.facts, way.steps, input)
        edge = input.edge
        if edge is not None and not (modes.grad_off and not tls.grad):
            result.edge = node = Node()
            node.seq = next_sequence_number()
            node.edges = (edge,)
            node.hooks = None
            node.facts = result.facts
            node.way = way
        return result

    return seen
