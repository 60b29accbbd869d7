"""Ops with a separate kernel: reductions, products, indexing, everything that is not pointwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property, partial
from typing import Any, Self

from ..core.dtypes import dtype_of
from ..core.errors import DeclarationError
from ..kernels.cpu.halves import MOVES
from ..tensor.tensor import Tensor
from .call import GeneralPath, as_operand_of, require_no
from .declaration import (
    BATCH_WORDS,
    later_results,
    parameter_names,
    require_parameters,
    require_word,
)
from .node_writer import Gradient
from .op import Given, Op, P, R, common_device, declarator, registrar
from .route import (
    Plan,
    Route,
    find_functions,
    is_cacheable,
    layouts_of,
    outlines,
    require_declared_plan,
)
from .short_path import write_short_path
from .signature import require_tensors
from .tangents import carry

# For each input, the function that computes its raw gradient; None for an input without one.
RawGradients = tuple[Callable[..., Any] | None, ...]


class StructuredOp(GeneralPath[P, R]):
    """An op with its own kernel. `kernel` is the kernel's name, `@op.plan` defines the shapes and
    dtypes of the results, and the derivatives are functions that call ops.

    `@op.vjp("input")` decorates the function of (g, ...) that gives the gradient of that input. Its
    other parameters name the values that it needs: out, `others` (the results after the first), the
    inputs, the attributes, `<input>_layout`, `plan`. Only values that a vjp names are saved. A
    gradient that is None counts as zeros, as in `torch.autograd.Function`: the input's `grad` stays
    None if nothing else contributes to it. An op that has floating results, but no vjp, declares
    differentiable=False.

    `@op.jvp` decorates the function of the tangents `<input>_t` (None where there is no tangent).
    `linear=True` means that the jvp is the op itself, applied to the tangent. By default, only the
    first result has gradients and tangents. If `several` is true, all results have them: the
    derivatives name `grads` (None for a result without a gradient) and `outs` instead of g and out,
    and the jvp returns a tuple. With `keeps_order` the axes of the result have the input's order in
    memory; otherwise the result is in C order.

    fresh=True promises that no vjp returns g, a view of g, or a saved value, so that gradients may
    be accumulated in place. `batch`, one of BATCH_WORDS, defines how `vmap` runs the op;
    `@op.batches` registers a function for other cases. `has_out` says whether the op takes an
    `out=`; by default it is true for the ops that users call. computes_in_out=True means that the
    op computes in the dtype of `out=` if no dtype= is given. takes_complex=True means that the
    kernel takes complex numbers, and that the derivatives are right for complex numbers because
    they only move elements or because they conjugate. piecewise=True means that the slope is
    piecewise constant: see Note [Functions in steps] in node_writer.py. With kernel_gradients=True,
    gradients that are not recorded are computed by the CPU kernels for small tensors
    (`small_kernels.GRADIENTS`) instead of the vjps.
    """

    __slots__ = (
        "_jvp", "_jvp_needs", "_plan", "computes_in_out", "differentiable", "fresh", "kernel",
        "kernel_gradients", "linear", "may_record", "on_device", "piecewise", "several",
        "takes_complex", "vjps",
    )  # fmt: skip
    kind = "structured"
    keeps_order = False

    def __init__(
        self,
        function: Callable[P, R],
        kernel: str,
        *,
        linear: bool = False,
        has_out: bool | None = None,
        out: str = "same",
        memory: str = "anywhere",
        fresh: bool = False,
        known_as: str = "",
        node: str = "",
        several: bool = False,
        homes: str | None = None,
        batch: str = "",
        takes_complex: bool = False,
        piecewise: bool = False,
        computes_in_out: bool = False,
        kernel_gradients: bool = False,
        differentiable: bool = True,
    ) -> None:
        super().__init__(function, known_as, node, homes, out, memory)
        require_word(f"{self.name}: batch=", batch, BATCH_WORDS)
        self.batching = batch
        self.has_out = homes != "nowhere" if has_out is None else has_out
        if several and self.has_out:
            raise DeclarationError(f"{self.name}: an op with several results does not take out=")
        self.several = several
        self.fresh = fresh
        self.kernel = kernel
        self.kernel_gradients = kernel_gradients
        self.differentiable = differentiable
        self.linear = linear
        self.takes_complex = takes_complex
        self.piecewise = piecewise
        self.computes_in_out = computes_in_out
        self.may_record = False  # until a vjp is registered
        self._plan: Callable[..., Plan] | None = None
        # For each input its vjp, and the names of the vjp's arguments.
        self.vjps: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {}
        self._jvp: Callable[..., Any] | None = None
        self._jvp_needs: tuple[str, ...] = ()
        self.on_device: Callable[..., RawGradients | None] | None = None

    # Registers a function of (layouts of the inputs, device). It returns the functions that compute
    # raw gradients on a device, or None where the vjps compute them.
    gradients_on_device = registrar("on_device")

    def plan(self, function: Callable[..., Plan]) -> Callable[..., Plan]:
        """Register the rule for shapes and dtypes, a function of (inputs..., attributes...).

        Note    a plan is cached for all inputs of the same layouts, so the rule gets no values to
                read
        """
        given = parameter_names(function)
        if given != (*self.tensors, *self.attributes):
            raise DeclarationError(
                f"{self.name}: its plan takes ({', '.join(given)}), expected the op's own "
                f"parameters, tensors first: ({', '.join((*self.tensors, *self.attributes))})"
            )
        if self._plan is not None:
            raise DeclarationError(f"{self.name} has a plan already: leave one of them out")
        self._plan = function
        return function

    def vjp(self, *inputs: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the function that computes the gradient of one input, or of several inputs. For
        several, it returns a tuple, because one pass over the data may compute all gradients. It
        may take `wanted`, which says for each input of the op whether its gradient is needed.
        """
        for input in inputs:
            require_word(f"{self.name}: the input of a vjp", input, self.tensors)
        if not self.differentiable:
            raise DeclarationError(
                f"{self.name}: a vjp by {', '.join(inputs)} was given, but the declaration says "
                "differentiable=False: leave one of them out"
            )
        more = ("wanted",) if len(inputs) > 1 else ()
        of_results = ("grads", "outs") if self.several else ("g", "out", "others")
        known = (*of_results, "plan", *more, *self._names_of_inputs())

        def register_vjp(function: Callable[..., Any]) -> Callable[..., Any]:
            require_parameters(f"{self.name}: the vjp by {', '.join(inputs)}", function, known)
            for input in inputs:
                if input in self.vjps:
                    raise DeclarationError(
                        f"{self.name} has a vjp by {input} already: leave one of them out"
                    )
            found = (function, parameter_names(function))
            self.vjps.update(dict.fromkeys(inputs, found))
            self.may_record = True
            return function

        return register_vjp

    def _names_of_inputs(self) -> tuple[str, ...]:
        layouts = [f"{name}_layout" for name in self.tensors]
        return (*self.tensors, *self.attributes, *layouts)

    def jvp(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the function that computes the tangent of the result. If `several` is true, it
        returns a tuple with the tangents of all results.
        """
        tangents = [f"{name}_t" for name in self.tensors]
        of_results = ("outs",) if self.several else ("out", "others")
        known = (*of_results, "plan", *tangents, *self._names_of_inputs())
        require_parameters(f"{self.name}: the jvp", function, known)
        if self._jvp is not None or self.linear:
            earlier = "is linear=True, so it is its own jvp" if self.linear else "has a jvp already"
            raise DeclarationError(f"{self.name} {earlier}: leave one of them out")
        self._jvp, self._jvp_needs = function, parameter_names(function)
        return function

    def in_steps(self) -> Self:
        """Return a copy of this op whose second gradients are zeros, as for a piecewise op. The
        copy is used for a linear function if PyTorch's op for the function's derivative also takes
        the function's input.
        """
        made = copy(self)
        made.piecewise, made.homes, made.fitted = True, frozenset(), set()
        for name in ("node_class", "public"):
            made.__dict__.pop(name, None)  # the cached values belong to the original op
        made.call_later()
        return made

    @cached_property
    def gradients(self) -> tuple[Gradient | None, ...]:
        return tuple([self._gradient(*self.vjps.get(name, (None, ()))) for name in self.tensors])

    def _gradient(self, vjp: Any, needs: tuple[str, ...]) -> Gradient | None:
        if vjp is None:
            return None
        raw = [name for name in ("out", "others", *self.tensors, "wanted") if name in needs]
        together = [one for one in self.tensors if self.vjps.get(one, (None,))[0] is vjp]
        more = tuple(together) if len(together) > 1 else ()
        return Gradient(("g", *raw), needs, frozenset(needs), more)

    def gradient_makers(self, route: Route) -> tuple[Callable[..., Any] | None, ...]:
        return tuple([self.vjps.get(name, (None,))[0] for name in self.tensors])

    def attributes_for_out(self, out: Any, operands: Given, attributes: Given) -> Given:
        """Return attributes; with `computes_in_out`, out's dtype replaces a missing `dtype`."""
        if not self.computes_in_out or not isinstance(out, Tensor):
            return attributes
        at, dtype = self.attributes.index("dtype"), out._layout.dtype
        of = operands[0]._layout.dtype if isinstance(operands[0], Tensor) else None
        if attributes[at] is not None or (of is dtype and dtype.may_have_gradient):
            return attributes
        return (*attributes[:at], dtype, *attributes[at + 1 :])

    def require_plan(self, operands: Given, attributes: Given) -> None:
        """Run the op's plan, if there is one, on the operands, only to raise the plan's errors."""
        if self._plan is not None:
            self._plan(*operands, *attributes)

    def accept_operands(self, operands: Given) -> Given:
        if not self.resolves:
            return super().accept_operands(operands)
        return tuple([None if o is None else as_operand_of(o) for o in operands])

    def route_call(self, operands: Given, attributes: Given, called: Op) -> tuple[Route, Given]:
        require_tensors(self.called, self.parameters, self.tensors, operands)
        if not is_cacheable(operands, attributes):
            return self._new_route(operands, attributes), operands
        routes = operands[0]._layout.routes
        # The short path uses the same key. The key contains the classes of the attributes, because
        # 1, 1.0 and True are equal.
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
        if (more := later_results(self.returns)) not in (None, len(route.more)):
            raise DeclarationError(
                f"{self.name}: its plan has {len(route.more) + 1} results, but the declaration "
                f"returns {self.returns}; write -> tuple[Tensor, ...] with a Tensor for each"
            )
        self.write_short_path(more)

    def write_short_path(self, more: int | None) -> None:
        """Give the public function its short path, for `more` results after the first, unless their
        number differs from call to call.
        """
        if not self.several and more is not None:
            write_short_path(self, self, more)

    def _new_route(
        self, operands: Sequence[Any], attributes: tuple[Any, ...], *, kept: bool = False
    ) -> Route:
        if self._plan is None:
            raise DeclarationError(f"{self.name} has no plan: register one with @{self.name}.plan")
        # Users may give Python's float, int or bool as a dtype.
        attributes = tuple([dtype_of(a) if a.__class__ is type else a for a in attributes])
        seen = outlines(self.name, self.tensors, operands) if kept else operands
        plan = self._plan(*seen, *attributes)
        require_declared_plan(self.name, plan)
        if self.differentiable and not self.may_record and plan.dtype.may_have_gradient:
            raise DeclarationError(
                f"{self.name} has a result of {plan.dtype.name}, but no vjp: register one with "
                f"@{self.name}.vjp, or declare differentiable=False for an op without gradients"
            )
        given = [o._layout.dtype for o in operands if isinstance(o, Tensor)]
        if not self.takes_complex:
            require_no(self.called, "is_complex", (*given, plan.dtype))
        if self.kernel not in MOVES:
            computed = given if plan.compute is None else [plan.compute]
            require_no(self.called, "is_float8", (*computed, plan.dtype))
        route = Route(self, attributes, layouts_of(operands), plan)
        device = common_device(self, tuple(operands))
        find_functions(route, self.kernel, device, keeps_order=self.keeps_order, kept=kept)
        return route

    def carry_tangents(self, results: Sequence[Tensor], values: Given, route: Route) -> None:
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
        """Return the tangent of a call's result. The call took the short path, has one result, and
        is not recorded.
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
        """Return the tangents of the results `outs`."""
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


structured = declarator(StructuredOp)

__all__ = ["Plan", "RawGradients", "StructuredOp", "structured"]
