"""Ops with a kernel of their own: reductions, products, indexing, all that is not pointwise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ..core.dtypes import WORDS, dtype_of
from ..core.errors import NoKernelError
from ..core.overriding import NOT_TAKEN
from ..graph.accumulate_grad import extra_of
from ..graph.modes import modes
from ..listeners.sparse_rules import meet_sparse
from ..tensor.tensor import Tensor, wrap
from .calls import write_short_path
from .differentiated import is_recorded
from .kinds import require_tensors
from .listening import heard
from .op import common_device, declaring
from .outline import outlines
from .output import write_out
from .pointwise import _operand, refused
from .structured_form import StructuredForm
from .tangents import carry, levels_of
from .way import Plan, Way, find_functions, layouts_of, may_be_kept, run_silently


class StructuredOp(StructuredForm):
    """A structured op as it runs."""

    def general(
        self, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: Any = None
    ) -> Any:
        """Check, offer to the tracer, run, record a Node, carry tangents."""
        if modes.tracers:
            found, operands = heard(self, operands, attributes, out)
            if found is not NOT_TAKEN:
                return found
        given, operands = operands, tuple([None if o is None else _operand(o) for o in operands])
        if refused(operands) or not any(isinstance(o, Tensor) for o in operands):
            return meet_sparse(self.name, given, attributes, out)
        require_tensors(self.called, self.parameters, self.tensors, operands)
        of_complex = self.complex_form(operands)
        if of_complex is not None:
            found = of_complex(*operands, *attributes)
            return found if out is None else write_out(self, out, found, operands)
        way = self._way(operands, attributes)
        results = self._run(operands, way)
        if out is not None:
            return write_out(self, out, results[0], operands)
        special = modes.special and bool(levels_of(operands))
        if special:
            for result in results if self.several else results[:1]:
                extra_of(result)  # a Node that saves its output finds the tangents there
        self.record(results, operands, way)
        if special:
            self.carry_tangents(results, operands, way)
        return results[0] if len(results) == 1 else results

    def _way(self, operands: Sequence[Any], attributes: tuple[Any, ...]) -> Way:
        """Return how to run, found before for these layouts and attributes if there is one."""
        if not may_be_kept(operands, attributes):
            return self._new_way(operands, attributes)
        plans = operands[0].facts.plans
        key = self.key(layouts_of(operands), attributes)
        try:
            way: Way | None = plans.get(key)
        except TypeError:  # a tuple of what cannot be a key, such as slices
            return self._new_way(operands, attributes)
        if way is None:
            way = self._new_way(operands, attributes, kept=True)
            plans.remember(key, way)
            self._find_short_path(way, attributes)
        return way

    def _find_short_path(self, way: Way, attributes: tuple[Any, ...]) -> None:
        """Let later calls find a Way that is kept without the general path."""
        first = way.layouts[0]
        if first is not None and self._is_usual(way.layouts, attributes):
            first.ways[self] = way
        if not self.several:
            write_short_path(self, self, len(way.more))

    def _is_usual(self, layouts: Sequence[Any], attributes: tuple[Any, ...]) -> bool:
        """Return whether all operands are of one layout, and all attributes at their defaults."""
        usual, first = self.defaults, layouts[0]
        return (
            usual is not None
            and all(layout is first for layout in layouts)
            and all(one is default for one, default in zip(attributes, usual, strict=True))
        )

    def _new_way(
        self, operands: Sequence[Any], attributes: tuple[Any, ...], *, kept: bool = False
    ) -> Way:
        assert self._plan is not None, f"{self.name} has no plan"
        # Users may call a dtype by Python's float, int or bool.
        attributes = tuple([dtype_of(a) if a.__class__ is type else a for a in attributes])
        seen = outlines(self.name, self.tensors, operands) if kept else operands
        plan = self._plan(*seen, *attributes)
        if not self.takes_complex:
            require_no_complex(self.called, plan, operands)
        way = Way(attributes, layouts_of(operands), plan)
        device = common_device(self, tuple(operands))
        find_functions(way, self.kernel, device, keeps_order=self.keeps_order, kept=kept)
        return way

    def _run(self, operands: Sequence[Any], way: Way) -> tuple[Tensor, ...]:
        assert way.run is not None
        found = run_silently(way.run, [None if o is None else o.array for o in operands])
        if not way.more:
            found = (found,)
        layouts: Any = (way.facts, *way.more)
        return tuple([wrap(a, layout) for a, layout in zip(found, layouts, strict=True)])

    def record(self, results: Sequence[Tensor], operands: Sequence[Any], way: Way) -> None:
        """Give the first result, or all of several, an edge if a gradient may flow through it."""
        if not self.vjps or not is_recorded(operands):
            return
        edges = self.node_class.edges_of(operands)
        may_pass = self.several or results[0].facts.dtype.may_have_gradient
        if may_pass and any(edge is not None for edge in edges):
            self.node_class().record(way, edges, operands, (), results)

    def carry_tangents(self, results: Sequence[Tensor], operands: Sequence[Any], way: Way) -> None:
        """Give the results the tangents that follow from those of the operands, level by level."""
        if not self.several:
            results, others = results[:1], results[1:]
            if not results[0].facts.dtype.may_have_gradient:
                return
        else:
            others = ()
        carry(results, operands, partial(self.tangents, way, others))

    def tangents(
        self,
        way: Way,
        others: Sequence[Tensor],
        inputs: Sequence[Any],
        tangents: Sequence[Any],
        outs: tuple[Tensor, ...],
    ) -> tuple[Tensor | None, ...]:
        """Return the tangents of outs."""
        attributes = way.attributes
        if self.linear:
            if tangents[0] is None:
                return ()
            found = self.general((tangents[0], *inputs[1:]), attributes)
            return found if isinstance(found, tuple) else (found,)
        if self._jvp is None:
            if not self.vjps:
                return ()
            raise NotImplementedError(
                f"Trying to use forward AD with {self.called} that does not support it because it "
                "has not been implemented yet."
            )
        known = dict(zip(self.tensors, inputs, strict=True))
        known.update(zip(self.attributes, attributes, strict=True))
        known.update({f"{name}_t": t for name, t in zip(self.tensors, tangents, strict=True)})
        known.update(
            {
                f"{n}_layout": i.facts
                for n, i in zip(self.tensors, inputs, strict=True)
                if i is not None
            }
        )
        known.update(out=outs[0], outs=outs, plan=way.plan, others=others)
        found = self._jvp(**{name: known[name] for name in self._jvp_needs})
        return found if self.several else (found,)


def require_no_complex(name: str, plan: Plan, operands: Sequence[Any]) -> None:
    """Raise NoKernelError where an operand or the result of an op is complex."""
    given = [o.facts.dtype for o in operands if isinstance(o, Tensor)]
    found = next((dtype for dtype in (*given, plan.dtype) if dtype.is_complex), None)
    if found is not None:
        raise NoKernelError(f'"{name}" not implemented for {WORDS[found]!r}: take its parts')


structured = declaring(StructuredOp)

__all__ = ["Plan", "StructuredOp", "structured"]
