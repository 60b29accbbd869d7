"""Ops with a kernel of their own: reductions, products, indexing, all that is not pointwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dtypes import dtype_of
from ..core.errors import DeclarationError
from ..devices.backend import backend_of
from ..graph.accumulate_grad import extra_of
from ..graph.modes import modes, set_grad_mode, tls
from ..graph.recording import begin_node
from ..graph.saved_tensors import pack_saved
from ..tensor.tensor import Tensor, layout_of, wrap
from .autocast import cast_operands
from .declaration import parameter_names, require_parameters, require_word
from .gradients import as_array
from .kinds import require_tensors
from .op import Op, common_device, register
from .outline import outlines
from .output import write_out
from .pointwise import _operand, empty_like_operands, refused
from .quick import quicken
from .sparse_rules import meet_sparse
from .structured_node import StructuredNode, node_class
from .tangents import below, levels_of, set_tangent, tangent_of
from .timing import timed, to_be_timed
from .way import Plan, Way, layouts_of, may_be_kept, shorten


class StructuredOp(Op):
    """An op that names a kernel, says its shapes and dtypes (`@op.plan`), and writes its
    derivatives with ops.

    `@op.vjp("input")` decorates the function of (g, ...) that gives the gradient of that input; it
    names what it needs of: out, `others` (results after the first), the inputs, the attributes,
    `<input>_layout`, `plan`. What no vjp names is not saved. `@op.jvp` takes `<input>_t` for the
    tangents (None where there is none); `linear=True` means that the op of the tangent is the jvp.
    With `keeps_order` the result walks memory as the input does; all others are in C order.
    """

    kind = "structured"
    keeps_order = False

    def __init__(
        self,
        function: Callable[..., Any],
        kernel: str,
        linear: bool,
        has_out: bool = True,
        fresh: bool = False,
        node_name: str = "",
    ) -> None:
        super().__init__(function)
        self.node_name = node_name or self.node_name
        self.fresh = fresh
        self.kernel = kernel
        self.linear = linear
        self.has_out = has_out
        self.by_type = tuple(
            [function.__annotations__[name] not in _ANY_NUMBER for name in self.attributes]
        )
        self.tell_name: Callable[[Any], str] | None = None
        self._plan: Callable[..., Plan] | None = None
        self._vjps: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {}
        self._jvp: Callable[..., Any] | None = None
        self._jvp_needs: tuple[str, ...] = ()
        self._node: type[StructuredNode] | None = None
        self._is_quick = False

    def plan(self, function: Callable[..., Plan]) -> Callable[..., Plan]:
        """Register the shape and dtype rule, a function of (inputs..., attributes...).

        Note    it is kept for all inputs of the same layouts, so it is given no values to read
        """
        given = parameter_names(function)
        if given != (*self.tensors, *self.attributes):
            raise DeclarationError(
                f"{self.name}: its plan takes ({', '.join(given)}), expected the op's own "
                f"parameters, tensors first: ({', '.join((*self.tensors, *self.attributes))})"
            )
        self._plan = function
        return function

    def vjp(self, *inputs: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the gradient of one input, or a function that returns those of several as a
        tuple: one pass may make them all. That may ask for `wanted`, which says of each input of
        the op whether its gradient is.
        """
        for input in inputs:
            require_word(f"{self.name}: the input of a vjp", input, self.tensors)
        more = ("wanted",) if len(inputs) > 1 else ()
        known = ("g", "out", "others", "plan", *more, *self._names_of_inputs())

        def register_vjp(function: Callable[..., Any]) -> Callable[..., Any]:
            require_parameters(f"{self.name}: the vjp by {', '.join(inputs)}", function, known)
            found = (function, parameter_names(function))
            self._vjps.update(dict.fromkeys(inputs, found))
            return function

        return register_vjp

    def _names_of_inputs(self) -> tuple[str, ...]:
        layouts = [f"{name}_layout" for name in self.tensors]
        return (*self.tensors, *self.attributes, *layouts)

    def vjp_of(self, input: str) -> Callable[..., Any]:
        """Return the function registered for the gradient of one input."""
        return self._vjps[input][0]

    def jvp(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the tangent of the result."""
        tangents = [f"{name}_t" for name in self.tensors]
        known = ("out", "others", "plan", *tangents, *self._names_of_inputs())
        require_parameters(f"{self.name}: the jvp", function, known)
        self._jvp, self._jvp_needs = function, parameter_names(function)
        return function

    def names_node(self, function: Callable[[Any], str]) -> Callable[[Any], str]:
        """Register what `grad_fn` shows of a Node, where that differs from call to call."""
        self.tell_name = function
        return function

    @property
    def vjps(self) -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
        """Input -> (its vjp, the names of what that takes)."""
        return self._vjps

    @property
    def node_class(self) -> type[StructuredNode]:
        """The Node class that records this op, made at its first recorded call."""
        if self._node is None:
            self._node = node_class(self)
        return self._node

    def general(
        self, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: Any = None
    ) -> Any:
        """Check, offer to the tracer, run, record a Node, carry tangents."""
        if modes.tracers:
            if to_be_timed(self):
                return timed(self, self.name, self.general, operands, attributes, out)
            operands = cast_operands(self.name, operands)
        given, operands = operands, tuple([None if o is None else _operand(o) for o in operands])
        if refused(operands) or not any(isinstance(o, Tensor) for o in operands):
            return meet_sparse(self.name, given, attributes, out)
        require_tensors(self.name, self.parameters, self.tensors, operands)
        way = self._way(operands, attributes)
        results = self._run(operands, way)
        if out is not None:
            return write_out(self, out, results[0], operands)
        special = modes.special and bool(levels_of(operands))
        if special:
            extra_of(results[0])  # a Node that saves its output finds the tangents there
        self.record(results[0], operands, way, results[1:])
        if special:
            self.carry_tangents(results[0], operands, way, results[1:])
        return results[0] if len(results) == 1 else results

    def _way(self, operands: Sequence[Any], attributes: tuple[Any, ...]) -> Way:
        """Return how to run, found before for these layouts and attributes if there is one."""
        if not may_be_kept(operands, attributes):
            return self._new_way(operands, attributes)
        plans = operands[0].facts.plans
        key = self.key(layouts_of(operands), attributes)
        try:
            way: Way | None = plans.get(key)
        except TypeError:  # a tuple of what cannot be a key
            return self._new_way(operands, attributes)
        if way is None:
            way = self._new_way(operands, attributes, kept=True)
            shorten(way, self.kernel, keeps_order=self.keeps_order)
            plans.remember(key, way)
            if way.run is not None and self.written is not None and not self._is_quick:
                self._is_quick = True
                quicken(self, way)
        return way

    def key(self, layouts: Sequence[Any], attributes: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what a Way is found by: op, layouts but the first, attributes and the types of
        those where 1, 1.0 and True are not the same.
        """
        parts: list[Any] = [self, *layouts[1:]]
        for value, by_type in zip(attributes, self.by_type, strict=True):
            parts += [value, value.__class__] if by_type else [value]
        return tuple(parts)

    def _new_way(
        self, operands: Sequence[Any], attributes: tuple[Any, ...], *, kept: bool = False
    ) -> Way:
        assert self._plan is not None, f"{self.name} has no plan"
        # Users may call a dtype by Python's float, int or bool.
        attributes = tuple([dtype_of(a) if a.__class__ is type else a for a in attributes])
        seen = outlines(self.name, self.tensors, operands) if kept else operands
        plan = self._plan(*seen, *attributes)
        return Way(attributes, layouts_of(operands), plan)

    def _run(self, operands: Sequence[Any], way: Way) -> tuple[Tensor, ...]:
        plan = way.plan
        assert plan is not None
        if way.run is not None:
            found = way.run(*[None if o is None else o.array for o in operands])
            if not way.more:
                found = (found,)
            layouts: Any = (way.facts, *way.more)
            return tuple([wrap(a, layout) for a, layout in zip(found, layouts, strict=True)])
        device = common_device(self, tuple(operands))
        backend = backend_of(device.type)
        index = device.index
        arrays: list[Any] = []
        for operand in operands:
            if operand is None:
                arrays.append(None)
                continue
            layout = operand.facts
            array = (
                operand.array
                if layout.device is device
                else backend.from_numpy(operand.array, index)
            )
            if plan.compute is not None and layout.dtype is not plan.compute:
                array = as_array(backend, array, plan.compute.numpy, index)
            arrays.append(array)
        if self.keeps_order:
            outs = [empty_like_operands(backend, operands, plan.dtype, device, plan.shape)]
        else:
            outs = [
                backend.empty(shape, dtype.numpy, index)
                for shape, dtype in ((plan.shape, plan.dtype), *plan.extra_outputs)
            ]
        backend.kernel(plan.kernel or self.kernel)(*arrays, *outs, *plan.numbers)
        if plan.seen_as is not None:
            outs = [array.reshape(plan.seen_as) for array in outs]
        return tuple([wrap(array, layout_of(array, device)) for array in outs])

    def record(
        self, result: Tensor, operands: Sequence[Any], way: Way, others: Sequence[Tensor] = ()
    ) -> None:
        """Give result an edge if a gradient may flow through it."""
        if (
            not self._vjps
            or not result.facts.dtype.is_floating_point
            or (modes.grad_off and not tls.grad)
        ):
            return
        edges = tuple(
            [
                o.edge
                if o is not None and name in self._vjps and o.__class__ not in _NUMBER
                else None
                for name, o in zip(self.tensors, operands, strict=True)
            ]
        )
        if not any(edge is not None for edge in edges):
            return
        node = self.node_class()
        begin_node(node, edges, result.facts)
        node.save(way, *operands, result, others)
        result.edge = node
        if modes.tracers:
            pack_saved(node, self.tensors, operands)

    def carry_tangents(
        self, result: Tensor, operands: Sequence[Any], way: Way, others: Sequence[Tensor] = ()
    ) -> None:
        """Give result the tangents that follow from those of the operands, level by level."""
        if not result.facts.dtype.is_floating_point:
            return
        for level in levels_of(operands):
            tangents = [tangent_of(operand, level) for operand in operands]
            inputs = [below(operand, level) for operand in operands]
            set_tangent(
                result,
                self.tangent(inputs, tangents, way, below(result, level), others),
                level,
            )

    def tangent(
        self,
        inputs: Sequence[Any],
        tangents: Sequence[Any],
        way: Way,
        out: Tensor,
        others: Sequence[Tensor],
    ) -> Tensor | None:
        """Return the tangent of out."""
        attributes = way.attributes
        if self.linear:
            if tangents[0] is None:
                return None
            found = self.general((tangents[0], *inputs[1:]), attributes)
            return found[0] if isinstance(found, tuple) else found  # type: ignore[no-any-return]
        if self._jvp is None:
            if not self._vjps:
                return None
            raise NotImplementedError(
                f"Trying to use forward AD with {self.name} that does not support it because it "
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
        known.update(out=out, plan=way.plan, others=others)
        tangent: Tensor | None = self._jvp(**{name: known[name] for name in self._jvp_needs})
        return tangent


_NUMBER = frozenset({int, float, bool})
# Attributes with these annotations take no two equal values that are not the same.
_ANY_NUMBER = frozenset(
    [kind + more for kind in ("float", "str", "DType") for more in ("", " | None")]
)


def structured(
    kernel: str,
    *,
    linear: bool = False,
    has_out: bool = True,
    fresh: bool = False,
    node_name: str = "",
) -> Callable[[Callable[..., Any]], StructuredOp]:
    """Declare a structured op: the decorated function gives name, signature and docstring.

    fresh=True promises that no vjp returns g, a view of it, or anything saved: gradients may then
    be taken over.
    """

    def declare(function: Callable[..., Any]) -> StructuredOp:
        op = StructuredOp(function, kernel, linear, has_out, fresh, node_name)
        register(op)
        return op

    return declare


__all__ = ["Plan", "StructuredNode", "StructuredOp", "set_grad_mode", "structured"]
