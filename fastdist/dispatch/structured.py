"""Ops with their own kernel: reductions, products, indexing, everything that is not pointwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..core.dtypes import WORDS, dtype_of
from ..core.errors import DeclarationError, NoKernelError
from ..kernels.cpu.halves import MOVES
from ..tensor.tensor import Tensor
from .argument_kinds import require_tensors
from .general_path import GeneralPath, as_operand_of
from .op import Given, Op, P, R, common_device, declarator
from .outline import outlines
from .route import Plan, Route, find_functions, is_cacheable, layouts_of, require_declared_plan
from .short_path import write_short_path
from .structured_form import StructuredForm
from .tangents import carry


class StructuredOp(StructuredForm[P, R], GeneralPath[P, R]):
    """A structured op as it runs."""

    def attributes_for_out(self, out: Any, operands: Given, attributes: Given) -> Given:
        """Return attributes with out's dtype where the op computes in that dtype, none is given,
        and it is not the default.
        """
        if not self.computes_in_out or not isinstance(out, Tensor):
            return attributes
        at, dtype = self.attributes.index("dtype"), out._layout.dtype
        of = operands[0]._layout.dtype if isinstance(operands[0], Tensor) else None
        if attributes[at] is not None or (of is dtype and dtype.may_have_gradient):
            return attributes
        return (*attributes[:at], dtype, *attributes[at + 1 :])

    def require_plan(self, operands: Given, attributes: Given) -> None:
        """Raise the errors of the plan, if there is one, for operands of these layouts."""
        if self._plan is not None:
            self._plan(*operands, *attributes)

    def accept_operands(self, operands: Given) -> Given:
        """Return operands as the op takes them, None for one that is not given."""
        if not self.resolves:
            return super().accept_operands(operands)
        return tuple([None if o is None else as_operand_of(o) for o in operands])

    def route_call(self, operands: Given, attributes: Given, called: Op) -> tuple[Route, Given]:
        """Return how to run, from the Route if these layouts and attributes have one, and the
        operands.
        """
        require_tensors(self.called, self.parameters, self.tensors, operands)
        if not is_cacheable(operands, attributes):
            return self._new_route(operands, attributes), operands
        routes = operands[0]._layout.routes
        # The short path's key. 1, 1.0 and True are equal, but not the same.
        classes = [attribute.__class__ for attribute in attributes]
        key = (self, *layouts_of(operands[1:]), *attributes, *classes)
        route: Route | None = routes.get(key)
        if route is None:
            route = self._new_route(operands, attributes, kept=True)
            routes.remember(key, route)
            self._find_short_path(route, attributes)
        return route, operands

    def _find_short_path(self, route: Route, attributes: tuple[Any, ...]) -> None:
        """Let later calls find a stored Route without the general path."""
        first, *others = route.layouts
        if first is not None and self.defaults is not None:
            given, usual = (*others, *attributes), (*[first] * len(others), *self.defaults)
            if all(one is other for one, other in zip(given, usual, strict=True)):
                first.uniform_routes[self] = route
        if not self.several:
            write_short_path(self, self, len(route.more))

    def _new_route(
        self, operands: Sequence[Any], attributes: tuple[Any, ...], *, kept: bool = False
    ) -> Route:
        if self._plan is None:
            raise DeclarationError(f"{self.name} has no plan: register one with @{self.name}.plan")
        # Users may name a dtype by Python's float, int or bool.
        attributes = tuple([dtype_of(a) if a.__class__ is type else a for a in attributes])
        seen = outlines(self.name, self.tensors, operands) if kept else operands
        plan = self._plan(*seen, *attributes)
        require_declared_plan(self.name, plan)
        if not self.takes_complex:
            require_no_complex(self.called, plan, operands)
        if self.kernel not in MOVES:
            require_no_float8(self.called, plan, operands)
        route = Route(self, attributes, layouts_of(operands), plan)
        device = common_device(self, tuple(operands))
        find_functions(route, self.kernel, device, keeps_order=self.keeps_order, kept=kept)
        return route

    def carry_tangents(self, results: Sequence[Tensor], values: Given, route: Route) -> None:
        """Give the results the tangents that follow from the operands' tangents, level by level."""
        results, others = (results, ()) if self.several else (results[:1], results[1:])
        if self.several or results[0]._layout.dtype.may_have_gradient:
            carry(results, values, partial(self.tangents, route, others))

    def tangent_of_call(
        self,
        plain: Callable[..., Any],
        primals: Sequence[Any],
        attributes: Given,
        tangents: Sequence[Any],
        result: Tensor,
    ) -> Tensor | None:
        """Return the tangent of the one result of a call that is not recorded; `plain` is the short
        path of this op.
        """
        if not result._layout.dtype.may_have_gradient:
            return None
        if self.linear:
            first = tangents[0]
            if first is None:
                return None
            if first._extra is None:
                return plain(first, *primals[1:], *attributes)  # type: ignore[no-any-return]
            return self.general((first, *primals[1:]), attributes)  # type: ignore[no-any-return]
        route, values = self.route_call(tuple(primals), attributes, self)
        found = self.tangents(route, (), values, tangents, (result,))
        return found[0] if found else None

    def tangents(
        self,
        route: Route,
        others: Sequence[Tensor],
        inputs: Sequence[Any],
        tangents: Sequence[Any],
        outs: tuple[Tensor, ...],
    ) -> tuple[Tensor | None, ...]:
        """Return the tangents of outs."""
        attributes = route.attributes
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
        known = dict(zip(self.attributes, attributes, strict=True))
        for name, input, tangent in zip(self.tensors, inputs, tangents, strict=True):
            known |= {name: input, f"{name}_t": tangent}
            known[f"{name}_layout"] = None if input is None else input._layout
        known.update(out=outs[0], outs=outs, plan=route.plan, others=others)
        found = self._jvp(**{name: known[name] for name in self._jvp_needs})
        return found if self.several else (found,)


def require_no_complex(name: str, plan: Plan, operands: Sequence[Any]) -> None:
    """Raise NoKernelError where an operand or the result of an op is complex."""
    given = [o._layout.dtype for o in operands if isinstance(o, Tensor)]
    found = next((dtype for dtype in (*given, plan.dtype) if dtype.is_complex), None)
    if found is not None:
        raise NoKernelError(f'"{name}" not implemented for {WORDS[found]!r}: take its parts')


def require_no_float8(name: str, plan: Plan, operands: Sequence[Any]) -> None:
    """Raise NoKernelError where an op would compute in a float8 type."""
    given = [o._layout.dtype for o in operands if isinstance(o, Tensor)]
    computed = given if plan.compute is None else [plan.compute]
    found = next((dtype for dtype in (*computed, plan.dtype) if dtype.is_float8), None)
    if found is not None:
        from .float8 import no_float8_kernel

        raise no_float8_kernel(name, found)


structured = declarator(StructuredOp)

__all__ = ["Plan", "StructuredOp", "structured"]
