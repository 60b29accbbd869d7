"""The general path of a call: check, offer it to open interpreters, run, record, carry tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.interpreter import NOT_TAKEN, offer_call
from ..graph.accumulate_grad import extra_of
from ..graph.lazy_conj_neg import LazyConjNeg, resolved
from ..graph.modes import modes
from ..graph.node import Node
from ..interpreters.sparse_rules import meet_sparse
from ..tensor.tensor import Tensor, from_users_array, wrap
from .needs_derivative import has_tangents, is_recorded
from .node_writer import RecordedOp
from .op import OPS, Given, Op, P, R
from .pytorch_names import recorded_as
from .route import Route, are_keys, arrays_of, run_silently
from .target import NEW, Out, Target


class GeneralPath(RecordedOp[P, R]):
    """An op as it runs: `general` has the five steps, parts of which each kind of op defines.

    A Route runs the op; its `values` are the operands, followed by the op's numbers as tensors
    where the kernel takes these. `resolves` means that the op only reads its operands' numbers.
    """

    resolves = True

    def general(self, operands: Given, attributes: Given, out: Any = None) -> Any:
        """Check, offer the call to open interpreters, run, record a Node, carry tangents."""
        if out is not None:
            attributes = self.attributes_for_out(out, operands, attributes)
        if modes.tracers:
            found = offer_call(self, (operands, attributes), out)
            if found is not NOT_TAKEN:
                return found
        elif out is None and LazyConjNeg in map(type, operands) and self.is_usual(attributes):
            found = self._call_resolved(operands)
            if found is not NOT_TAKEN:
                return found
        return self.run_call(operands, attributes, self.target_of(operands, out))

    def target_of(self, operands: Given, out: Any) -> Target:
        """Return where the result of a call goes."""
        return NEW if out is None else Out(self.out, out)

    def run_call(self, operands: Given, attributes: Given, target: Target) -> Any:
        """Make a call that no interpreter has taken."""
        given, operands = operands, self.accept_operands(operands)
        # By identity: `in` would compare, and comparing Tensors is an op.
        if any(o is NotImplemented for o in operands) or not any(
            isinstance(o, Tensor) for o in operands
        ):
            out = target.tensor if isinstance(target, Out) else None
            return meet_sparse(self.name, given, attributes, out)
        target.accept(operands)
        decomposition = self.decomposition(operands, attributes)
        if decomposition is not None:
            return target.take(decomposition(*target.before(operands)), operands)
        route, values = self.route_call(operands, attributes, self)
        return target.run(self, route, values)

    def _call_resolved(self, operands: Given) -> Any:
        """Return the result of the public function for the resolved values of unresolved views: its
        short path may take these. NOT_TAKEN where more checks are needed.
        """
        is_public = self.resolves and OPS.get(self.name) is self
        if is_public and all(isinstance(o, Tensor | int | float | complex) for o in operands):
            return self.public(*map(resolved, operands))
        return NOT_TAKEN

    def is_one_call(self, attributes: Given) -> bool:
        """Return whether a trace shows a call as one: not with tensors among the attributes."""
        return self.kind != "structured" or are_keys(attributes)

    def attributes_for_out(self, out: Any, operands: Given, attributes: Given) -> Given:
        """Return the attributes of a call that writes into out."""
        return attributes

    def accept_operands(self, operands: Given) -> Given:
        """Return operands as the op takes them, with NotImplemented for those that it does not
        take: an op that reads more than numbers takes an unresolved first operand as it is.
        """
        if self.resolves or operands[0].__class__ is not LazyConjNeg:
            return tuple([as_operand_of(operand) for operand in operands])
        return (operands[0], *map(as_operand_of, operands[1:]))

    def decomposition(self, operands: Given, attributes: Given) -> Callable[..., Any] | None:
        """Return a function that computes the result with other ops, where the op has no kernel for
        the operands; or None.
        """
        complex_decomposition = self.complex_decomposition
        if complex_decomposition is None or not any(
            isinstance(o, Tensor) and o._layout.dtype.is_complex for o in operands
        ):
            return None
        if self.node_namer is not None:
            return lambda *given: complex_decomposition(*given, *attributes)
        return lambda *given: recorded_as(
            self.node_name, complex_decomposition(*given, *attributes), given
        )

    def computes(self, operands: Given, attributes: Given) -> bool:
        """Return whether this op computes the result itself, with other ops at no step."""
        return self.decomposition(operands, attributes) is None

    def route_call(self, operands: Given, attributes: Given, called: Op) -> tuple[Route, Given]:
        """Check a call of `called`, and return how it runs, and on which values."""
        raise NotImplementedError(self.name)

    def run_recorded(self, route: Route, values: Given) -> Any:
        """Return the result, or a tuple of them, recorded and with tangents."""
        results = self.run_route(route, values)
        special = has_tangents(values)
        if special:
            for result in results if self.several else results[:1]:
                extra_of(result)  # a Node that saves its output reads the tangents from it
        self.record(results, values, route)
        if special:
            self.carry_tangents(results, values, route)
        return results[0] if len(results) == 1 else results

    def run_route(self, route: Route, values: Given) -> tuple[Tensor, ...]:
        """Return what a Route makes of values: new tensors."""
        found = run_silently(route.run, arrays_of(values))
        if not route.more:
            return (wrap(found, route.layout),)
        layouts = (route.layout, *route.more)
        return tuple([wrap(array, layout) for array, layout in zip(found, layouts, strict=True)])

    def record(
        self,
        results: Sequence[Tensor],
        values: Given,
        route: Route,
        attach: Callable[[Tensor, Node], None] | None = None,
    ) -> None:
        """Record the call in the graph for the first result, or for all of several, if a gradient
        passes it; with attach, in any case.
        """
        if attach is None and not (self.may_record and route.records and is_recorded(values)):
            return
        count = len(self.tensors)
        pairs = zip(values[:count], self.node_class.op.gradients, strict=True)
        edges = tuple([v._edge if one and isinstance(v, Tensor) else None for v, one in pairs])
        if attach is None and all(edge is None for edge in edges):
            return
        numbers: list[Any] = [number._array for number in values[count:]]
        numbers += [None] * (len(self.node_class.op.number_names) - len(numbers))
        self.node_class().record(route, edges, values[:count], numbers, results, attach)

    def carry_tangents(self, results: Sequence[Tensor], values: Given, route: Route) -> None:
        """Give results the tangents that follow from the tangents of the operands."""
        raise NotImplementedError(self.name)


def as_operand_of(value: Any) -> Any:
    """Return a tensor or a number that represents value; NotImplemented where no op takes it."""
    if isinstance(value, Tensor):
        if value.__class__ is LazyConjNeg:
            return value.resolved()
        # No kernel takes sparse tensors: see sparse_rules.py.
        return NotImplemented if value._layout.is_sparse else value
    if isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, np.generic):
        return value.item()
    return from_users_array(value) if isinstance(value, np.ndarray) else NotImplemented
