"""The general path of a call: check, offer to who listens, run, record a Node, carry tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.overriding import NOT_TAKEN
from ..graph.accumulate_grad import extra_of
from ..graph.modes import modes
from ..graph.node import Node
from ..listeners.sparse_rules import meet_sparse
from ..tensor.tensor import Tensor, from_users_array, wrap
from .differentiated import is_recorded
from .listening import heard
from .op import Given, Op
from .output import write_out, written_at_once
from .tangents import levels_of
from .way import Way, arrays_of, run_silently


class GeneralPath(Op):
    """An op as it runs: `general` is the five steps, of which a kind of op says what differs.

    What runs is a Way; its `values` are the operands, and behind them the op's numbers as tensors
    where the kernel takes these.
    """

    def general(self, operands: Given, attributes: Given, out: Any = None) -> Any:
        """Check, offer to who listens, run, record a Node, carry tangents."""
        if out is not None:
            attributes = self.as_out_asks(out, operands, attributes)
        if modes.tracers:
            found, operands = heard(self, operands, attributes, out)
            if found is not NOT_TAKEN:
                return found
        given, operands = operands, self.accepted(operands)
        # By identity: `in` would compare, and comparing Tensors is an op.
        if any(o is NotImplemented for o in operands) or not any(
            isinstance(o, Tensor) for o in operands
        ):
            return meet_sparse(self.name, given, attributes, out)
        of_others = self.of_other_ops(operands, attributes)
        if of_others is not None:
            found = of_others(*operands)
            return found if out is None else write_out(self, out, found, operands)
        way, values = self.prepared(operands, attributes, self)
        if out is None:
            return self.made(way, values)
        if written_at_once(way, out, values):
            return out
        return write_out(self, out, _run(way, values)[0], operands)

    def as_out_asks(self, out: Any, operands: Given, attributes: Given) -> Given:
        """Return the attributes of a call that writes into out."""
        return attributes

    def accepted(self, operands: Given) -> Given:
        """Return operands as the op takes them, NotImplemented in the place of what it does not."""
        return tuple([as_operand_of(operand) for operand in operands])

    def of_other_ops(self, operands: Given, attributes: Given) -> Callable[..., Any] | None:
        """Return what makes the result of operands with other ops, where the op has no kernel for
        them; or None.
        """
        of_complex = self.of_complex
        if of_complex is None or not any(
            isinstance(o, Tensor) and o.facts.dtype.is_complex for o in operands
        ):
            return None
        return lambda *given: of_complex(*given, *attributes)

    def prepared(self, operands: Given, attributes: Given, called: Op) -> tuple[Way, Given]:
        """Check a call of `called`, and return how it runs, and on which values."""
        raise NotImplementedError(self.name)

    def made(self, way: Way, values: Given) -> Any:
        """Return the result, or a tuple of them, recorded and with tangents."""
        results = _run(way, values)
        special = modes.special and bool(levels_of(values))
        if special:
            for result in results if self.several else results[:1]:
                extra_of(result)  # a Node that saves its output finds the tangents there
        self.record(results, values, way)
        if special:
            self.carry_tangents(results, values, way)
        return results[0] if len(results) == 1 else results

    def record(
        self: Any,  # one of the forms, which say whether and how
        results: Sequence[Tensor],
        values: Given,
        way: Way,
        attach: Callable[[Tensor, Node], None] | None = None,
    ) -> None:
        """Let the first result, or all of several, stand in the graph for a call, if a gradient
        passes it; or as attach says, in any case.
        """
        if attach is None and not (self.may_record and way.records and is_recorded(values)):
            return
        count = len(self.tensors)
        edges = self.node_class.edges_of(values[:count])
        if attach is None and all(edge is None for edge in edges):
            return
        numbers: list[Any] = [number.array for number in values[count:]]
        numbers += [None] * (len(self.recording.numbers) - len(numbers))
        self.node_class().record(way, edges, values[:count], numbers, results, attach)

    def carry_tangents(self, results: Sequence[Tensor], values: Given, way: Way) -> None:
        """Give results the tangents that follow from those of the operands."""
        raise NotImplementedError(self.name)


def _run(way: Way, values: Given) -> tuple[Tensor, ...]:
    found = run_silently(way.run, arrays_of(values))
    if not way.more:
        return (wrap(found, way.facts),)
    layouts = (way.facts, *way.more)
    return tuple([wrap(array, layout) for array, layout in zip(found, layouts, strict=True)])


def as_operand_of(value: Any) -> Any:
    """Return a tensor or a number that stands for value; NotImplemented where no op takes it."""
    if isinstance(value, Tensor):
        # What is sparse no kernel takes: see sparse_rules.py.
        return NotImplemented if value.facts.is_sparse else value
    if isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, np.generic):
        return value.item()
    return from_users_array(value) if isinstance(value, np.ndarray) else NotImplemented
