"""Ops with a kernel of their own: reductions, products, indexing, all that is not pointwise."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..backends.backend import backend_of
from ..core.dtypes import DType
from ..graph.accumulate_grad import extra_of
from ..graph.anomaly import note_forward
from ..graph.forward_streams import note_stream
from ..graph.modes import modes, set_grad_mode, tls
from ..graph.node import Node, next_sequence_number
from ..tensor.layout import Shape
from ..tensor.tensor import Tensor, layout_of, wrap
from .gradients import as_array, cast_array, reduce_recorded
from .node_code import unpack_input, unpack_output
from .op import Op, common_device, register
from .output import write_out
from .pointwise import _operand, empty_like_operands, refused
from .tangents import below, levels_of, set_tangent, tangent_of


class Plan(NamedTuple):
    """What a structured op will do: the result's shape and dtype, and the numbers that the kernel
    takes.

    `compute` is the dtype to which tensors are cast first (None: each stays as it is); `seen_as` is
    the shape under which the caller sees the kernel's output (keepdim), `kernel` names another
    kernel than the op's; `others` are the results of `extra_outputs`, filled in for the derivatives
    that ask for the plan.
    """

    shape: Shape
    dtype: DType
    numbers: tuple[Any, ...] = ()
    compute: DType | None = None
    kernel: str | None = None
    seen_as: Shape | None = None
    extra_outputs: tuple[tuple[Shape, DType], ...] = ()
    others: tuple[Tensor, ...] = ()


class StructuredOp(Op):
    """An op that names a kernel, says its shapes and dtypes (`@op.plan`), and writes its
    derivatives with ops.

    `@op.vjp("input")` decorates the function of (g, ...) that gives the gradient of that input; it
    names what it needs of: out, the inputs, the attributes, `<input>_layout`, `plan`. What no vjp
    names is not saved. `@op.jvp` takes `<input>_t` for the tangents (None where there is none);
    `linear=True` means that the op of the tangent is the jvp. With `keeps_order` the result walks
    memory as the input does; all others are in C order.
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
    ) -> None:
        super().__init__(function)
        self.fresh = fresh
        self.kernel = kernel
        self.linear = linear
        self.has_out = has_out
        self._plan: Callable[..., Plan] | None = None
        self._vjps: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {}
        self._jvp: Callable[..., Any] | None = None
        self._jvp_needs: tuple[str, ...] = ()
        self._node: type[StructuredNode] | None = None

    def plan(self, function: Callable[..., Plan]) -> Callable[..., Plan]:
        """Register the shape and dtype rule, a function of (inputs..., attributes...)."""
        self._plan = function
        return function

    def vjp(self, input: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register the gradient of one input."""
        assert input in self.tensors, f"{self.name} has no input {input}"

        def register_vjp(function: Callable[..., Any]) -> Callable[..., Any]:
            self._vjps[input] = (function, tuple(inspect.signature(function).parameters))
            return function

        return register_vjp

    def vjp_of(self, input: str) -> Callable[..., Any]:
        """Return the function registered for the gradient of one input."""
        return self._vjps[input][0]

    def jvp(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the tangent of the result."""
        self._jvp, self._jvp_needs = function, tuple(inspect.signature(function).parameters)
        return function

    @property
    def node_class(self) -> type[StructuredNode]:
        """The Node class that records this op, made at its first recorded call."""
        if self._node is None:
            name = f"{self.name.title().replace('_', '')}Backward0"
            # type() as a statement: the class differs from its base only in name and op.
            made: Any = type(
                name, (StructuredNode,), {"__slots__": (), "__module__": "fastdist.graph"}
            )
            made.op, made.fresh = self, self.fresh
            self._node = made
        return self._node

    def general(
        self, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: Any = None
    ) -> Any:
        """Check, offer to the tracer, run, record a Node, carry tangents."""
        operands = tuple([None if o is None else _operand(o) for o in operands])
        if refused(operands) or not any(isinstance(o, Tensor) for o in operands):
            return NotImplemented
        plan = self._plan_for(operands, attributes)
        results = self._run(operands, plan)
        if len(results) > 1:
            plan = plan._replace(others=results[1:])
        if out is not None:
            return write_out(self, out, results[0], operands)
        special = modes.special and bool(levels_of(operands))
        if special:
            extra_of(results[0])  # a Node that saves its output finds the tangents there
        self.record(results[0], operands, attributes, plan)
        if special:
            self.carry_tangents(results[0], operands, attributes, plan)
        return results[0] if len(results) == 1 else results

    def _plan_for(self, operands: Sequence[Any], attributes: tuple[Any, ...]) -> Plan:
        """Return the plan, found before for this layout and attributes if there is one input."""
        assert self._plan is not None, f"{self.name} has no plan"
        types = tuple(map(type, attributes))
        if len(operands) != 1 or not _PLAIN_ATTRIBUTES.issuperset(types):
            return self._plan(*operands, *attributes)
        plans = operands[0].layout.plans
        # The types count as well: True, 1 and 1.0 are equal, but an axis may not be True.
        key = (self, attributes, types)
        try:
            plan: Plan | None = plans.get(key)
        except TypeError:  # a tuple of what cannot be a key
            return self._plan(*operands, *attributes)
        if plan is None:
            plan = plans.remember(key, self._plan(*operands, *attributes))
        return plan

    def _run(self, operands: Sequence[Any], plan: Plan) -> tuple[Tensor, ...]:
        device = common_device(self, tuple(operands))
        backend = backend_of(device.type)
        index = device.index
        arrays: list[Any] = []
        for operand in operands:
            if operand is None:
                arrays.append(None)
                continue
            layout = operand.layout
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
        self, result: Tensor, operands: Sequence[Any], attributes: tuple[Any, ...], plan: Any
    ) -> None:
        """Give result an edge if a gradient may flow through it."""
        if (
            not self._vjps
            or not result.layout.dtype.is_floating_point
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
        node.seq = next_sequence_number()
        if modes.tracers:
            note_forward(node)
        note_stream(node, result.layout.device)
        node.edges = edges
        node.hooks = None
        node.layout = result.layout
        node.save(operands, attributes, plan, result)
        result.edge = node

    def carry_tangents(
        self, result: Tensor, operands: Sequence[Any], attributes: tuple[Any, ...], plan: Any
    ) -> None:
        """Give result the tangents that follow from those of the operands, level by level."""
        if not result.layout.dtype.is_floating_point:
            return
        for level in levels_of(operands):
            tangents = [tangent_of(operand, level) for operand in operands]
            inputs = [below(operand, level) for operand in operands]
            set_tangent(
                result,
                self.tangent(inputs, tangents, attributes, plan, below(result, level)),
                level,
            )

    def tangent(
        self,
        inputs: Sequence[Any],
        tangents: Sequence[Any],
        attributes: tuple[Any, ...],
        plan: Any,
        out: Tensor,
    ) -> Tensor | None:
        """Return the tangent of out."""
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
                f"{n}_layout": i.layout
                for n, i in zip(self.tensors, inputs, strict=True)
                if i is not None
            }
        )
        known.update(out=out, plan=plan)
        tangent: Tensor | None = self._jvp(**{name: known[name] for name in self._jvp_needs})
        return tangent


_NUMBER = frozenset({int, float, bool})
# Attributes of these types say all about a plan, and hold no memory worth freeing.
_PLAIN_ATTRIBUTES = frozenset({int, float, bool, str, tuple, type(None), DType})


class StructuredNode(Node):
    """A recorded structured op; its gradients are Tensor expressions, recorded or not."""

    __slots__ = ("attributes", "layouts", "out", "plan", "saved")
    op: StructuredOp
    layouts: tuple[Any, ...]
    saved: Any  # name -> (tensor, version), None once released
    fresh = False

    def save(
        self, operands: Sequence[Any], attributes: tuple[Any, ...], plan: Any, out: Tensor
    ) -> None:
        """Keep what the vjps of the inputs with an edge ask for."""
        op = self.op
        needed: set[str] = set()
        for name, edge in zip(op.tensors, self.edges, strict=True):
            if edge is not None:
                needed.update(op._vjps[name][1])
        self.layouts = tuple([getattr(o, "layout", None) for o in operands])
        self.saved = {
            name: (o, 0 if o.storage is None else o.storage.version)
            for name, o in zip(op.tensors, operands, strict=True)
            if name in needed and o is not None
        }
        self.attributes = attributes
        self.plan = plan
        self.out: Any = None
        if "out" in needed:
            from ..tensor.storage import storage_of

            storage = storage_of(out)
            self.out = (out.array, storage, storage.version, out.extra)

    def _known(self) -> dict[str, Any]:
        op = self.op
        saved = self.saved
        if saved is None:
            from ..graph.node import raise_released

            raise_released(self)
        known: dict[str, Any] = dict(zip(op.attributes, self.attributes, strict=True))
        for name, edge, layout in zip(op.tensors, self.edges, self.layouts, strict=True):
            known[f"{name}_layout"] = layout
            if name in saved:
                tensor, version = saved[name]
                known[name] = unpack_input(self, tensor, version, edge)
            else:
                known[name] = None
        if self.out is not None:
            known["out"] = unpack_output(self, self.out)
        known["plan"] = self.plan
        return known

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients as Tensors; whether they record is the thread's grad mode."""
        known = self._known()
        known["g"] = g
        found: list[Any] = []
        for name, edge, layout in zip(self.op.tensors, self.edges, self.layouts, strict=True):
            if edge is None:
                found.append(None)
                continue
            function, needs = self.op._vjps[name]
            found.append(reduce_recorded(function(**{need: known[need] for need in needs}), layout))
        if not keep:
            self.release()
        return tuple(found)

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients as raw arrays."""
        found = self.apply_recorded(wrap(g, layout_of(g, self.layout.device)), keep)
        return tuple(
            [
                None if t is None else _on(t, layout)
                for t, layout in zip(found, self.layouts, strict=True)
            ]
        )

    def release(self) -> None:
        """Forget what was saved."""
        if self.saved or self.out is not None:
            self.saved = self.out = None


def _on(tensor: Tensor, layout: Any) -> Any:
    if tensor.layout.device is layout.device:
        return tensor.array
    return cast_array(tensor.array, tensor.layout, layout)


def structured(
    kernel: str, *, linear: bool = False, has_out: bool = True, fresh: bool = False
) -> Callable[[Callable[..., Any]], StructuredOp]:
    """Declare a structured op: the decorated function gives name, signature and docstring.

    fresh=True promises that no vjp returns g, a view of it, or anything saved: gradients may then
    be taken over.
    """

    def declare(function: Callable[..., Any]) -> StructuredOp:
        op = StructuredOp(function, kernel, linear, has_out, fresh)
        register(op)
        return op

    return declare


__all__ = ["Plan", "StructuredNode", "StructuredOp", "set_grad_mode", "structured"]
