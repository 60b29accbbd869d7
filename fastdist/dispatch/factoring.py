"""Ops with several results of which each has a gradient: factorizations of one tensor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..core.errors import DeclarationError
from ..graph.accumulate_grad import extra_of
from ..graph.modes import modes, tls
from ..graph.node import Edge, Node, raise_released
from ..graph.recording import begin_node
from ..graph.saved_tensors import pack_one
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, layout_of, wrap
from .gradients import reduce_recorded
from .node_code import unpack_input
from .op import register
from .structured import StructuredOp
from .tangents import below, levels_of, set_tangent, tangent_of
from .way import Way


class FactoringOp(StructuredOp):
    """A structured op of one tensor. All floating results stand in the graph, as one Node.

    `@op.gradient` decorates the function of (grads, input, outs, *attributes) that gives the
    gradient of the input; grads has None for results that got none. `@op.tangents` decorates the
    function of (tangent, input, outs, *attributes) that gives the results' tangents. Both are
    written with ops of input and outs, so that their own derivatives are free.
    """

    def __init__(self, function: Callable[..., Any], kernel: str, node_name: str) -> None:
        super().__init__(function, kernel, False, has_out=False, fresh=False, node_name=node_name)
        if len(self.tensors) != 1:
            raise DeclarationError(f"{self.name}: a factorization is of one tensor")
        # The short way knows one gradient a Node.
        self._is_quick = True
        self._gradient: Callable[..., Any] | None = None
        self._tangents: Callable[..., Any] | None = None
        self._recorded = type(node_name, (FactoringNode,), {"__slots__": (), "op": self})

    def gradient(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the gradient of the input."""
        self._require("gradient", function)
        self._gradient = function
        return function

    def tangents(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the tangents of the results."""
        self._require("tangents", function)
        self._tangents = function
        return function

    def _require(self, what: str, function: Callable[..., Any]) -> None:
        given, wanted = len(inspect.signature(function).parameters), 3 + len(self.attributes)
        if given != wanted:
            raise DeclarationError(
                f"{self.name}: its {what} takes {given} parameters, expected {wanted}: what comes "
                f"in, the input, the results, and {', '.join(self.attributes) or 'nothing else'}"
            )

    def record(
        self, result: Tensor, operands: Sequence[Any], way: Way, others: Sequence[Tensor] = ()
    ) -> None:
        """Give the floating results an edge if a gradient may flow through them."""
        (input,) = operands
        if input.edge is None or (modes.grad_off and not tls.grad):
            return
        outs = (result, *others)
        if modes.special and levels_of(operands):
            for out in outs:
                extra_of(out)  # the Node finds their tangents there
        self._recorded(input, outs, way)

    def carry_tangents(
        self, result: Tensor, operands: Sequence[Any], way: Way, others: Sequence[Tensor] = ()
    ) -> None:
        """Give the results the tangents that follow from the input's, level by level."""
        (input,), outs = operands, (result, *others)
        assert self._tangents is not None, f"{self.name} has no tangents"
        for level in levels_of(operands):
            tangent = tangent_of(input, level)
            under = tuple([below(out, level) for out in outs])
            found = self._tangents(tangent, below(input, level), under, *way.attributes)
            for out, one in zip(outs, found, strict=False):
                set_tangent(out, one, level)

    def pulled_back(
        self, grads: Sequence[Any], input: Tensor, outs: tuple[Tensor, ...], way: Way
    ) -> Any:
        """Return the gradient of the input."""
        assert self._gradient is not None, f"{self.name} has no gradient"
        found = self._gradient(grads, input, outs, *way.attributes)
        return reduce_recorded(found, input.facts, (self.node_name, 0, f"{self.name}'s gradient"))


class FactoringNode(Node):
    """One recorded factorization."""

    __slots__ = ("input", "input_version", "num_outputs", "outs", "way")
    op: ClassVar[Any]

    def __init__(self, input: Tensor, outs: tuple[Tensor, ...], way: Way) -> None:
        begin_node(self, (input.edge,), tuple([out.facts for out in outs]))
        self.num_outputs = len(outs)
        self.way: Way | None = way
        self.input, self.input_version = pack_one(input), input._version
        kept = []
        for i, out in enumerate(outs):
            storage = storage_of(out)
            # Without its edge, since the Node must not hold itself.
            alias = wrap(out.array, out.facts)
            alias.extra, alias._storage = out.extra, storage
            kept.append((pack_one(alias), storage.version))
            if out.facts.dtype.is_floating_point:
                out.edge = Edge(self, i)
        self.outs: tuple[Any, ...] = tuple(kept)

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradient of the input as a raw array."""
        grads = [
            None if one is None else wrap(one, layout_of(one, layout.device))
            for one, layout in zip(g, self.facts, strict=True)
        ]
        (found,) = self.apply_recorded(grads, keep)
        return (None if found is None else found.array,)

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradient of the input as a Tensor."""
        way = self.way
        if way is None:
            raise_released(self)
        input = unpack_input(self, self.input, self.input_version, self.edges[0])
        outs = tuple([self._out(i, *saved) for i, saved in enumerate(self.outs)])
        found = self.op.pulled_back(g, input, outs, way)
        if not keep:
            self.release()
        return (found,)

    def _out(self, i: int, saved: Any, version: int) -> Tensor:
        edge = Edge(self, i) if self.facts[i].dtype.is_floating_point else None
        return unpack_input(self, saved, version, edge)

    def release(self) -> None:
        """Forget what was saved."""
        self.way = self.input = None
        self.outs = ()


def factoring(kernel: str, *, node_name: str) -> Callable[[Callable[..., Any]], FactoringOp]:
    """Declare a factorization: the decorated function gives name, signature and docstring."""

    def declare(function: Callable[..., Any]) -> FactoringOp:
        op = FactoringOp(function, kernel, node_name)
        register(op)
        return op

    return declare
