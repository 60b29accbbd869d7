"""Writes the Node classes of ops: the values that they save, and how gradients are computed.

Each op has one Node class, made at the op's first recorded call: writing all classes at import
would take longer than importing NumPy. A Node shares its Route with all calls on the same layouts,
and stores the values that the gradients need. A function of the Route computes a gradient from raw
arrays. If the Route has no such function, or if the gradients are recorded, the op's derivative, a
Tensor expression, computes the gradient. All code is generated as source, because an unrolled
`save` and `apply` take half the time of a loop over names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from ..core.generated_code import compile_text
from ..graph.call_node import PLACES, CallNode
from ..graph.modes import modes, tls
from ..graph.node import Edge, Node, raise_changed, raise_released
from ..graph.recording import begin_node
from ..graph.saved_tensors import pack_saved
from ..graph.unbroadcast import cast_array, reduce_recorded, zeros_of
from ..graph.unpacking import (
    as_fresh,
    require_fresh,
    unpack_input,
    unpack_output,
    unpack_spare,
)
from ..interpreters.batched_tensor import Batched, unbatched
from ..tensor.constants import number_of
from ..tensor.layout import Layout
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, from_array, layout_near, wrap
from .declaration import node_named
from .derive import Form
from .op import OPS, PLAIN, Op, P, R
from .route import Route


class Gradient(NamedTuple):
    """How the gradient by one input is computed.

    `raw_args` names the arguments of the Route's function on raw arrays, `tensor_args` the
    arguments of the derivative, and `saved_args` the arguments that a call must save. `together`
    names the inputs whose gradients the derivative returns as a tuple, in this order. `may_be_g`
    means that the gradient can be g itself; a Route then has None instead of a function.
    """

    raw_args: tuple[str, ...]
    tensor_args: tuple[str, ...]
    saved_args: frozenset[str]
    together: tuple[str, ...] = ()
    may_be_g: bool = False


class RecordedOp(Op[P, R]):
    """An op whose calls may be recorded, with the data from which its Node class is written.

    A Node saves the op's numeric arguments as raw arrays; all other attributes are in the Route.
    `fresh` promises that the gradient functions return neither g, nor a view of g, nor a saved
    value. The derivative of a `piecewise` op is piecewise constant: see Note [Functions in steps].
    """

    number_names: tuple[str, ...] = ()
    may_record = False  # whether a gradient may flow through the op
    fresh: bool
    piecewise: bool
    # The two forms of a pointwise op; equal for an op without numbers. In `usual`, all numbers have
    # their defaults. `usual` is None if a default is not a number.
    form: Form | None = None
    usual: Form | None = None

    @property
    def spare_names(self) -> frozenset[str]:
        """The inputs that are saved only for `tails`. If such an input is overwritten later, it is
        read as None.
        """
        return frozenset() if self.form is None else self.form.spare_names

    @cached_property
    def gradients(self) -> tuple[Gradient | None, ...]:
        """How the gradient by each input is computed; None for an input without a gradient."""
        raise NotImplementedError(self.name)

    def gradient_makers(self, route: Route) -> tuple[Callable[..., Any] | None, ...]:
        """Return, for each input, the Tensor expression that computes its gradient for a Route."""
        raise NotImplementedError(self.name)

    @cached_property
    def node_class(self) -> type[OpNode]:
        """The Node class that records this op, made at its first recorded call."""
        writer, names = NodeWriter(self), {**_NAMES, "_op": self}
        source = (
            f"class {self.node_name}(OpNode):\n"
            f"    __slots__, saved_names, op = (), {(*writer.place,)!r}, _op\n"
            f"{writer.save()}{writer.apply()}{writer.apply_recorded()}{writer.release()}"
        )
        exec(compile_text(f"Node of {self.name}", source), names)
        made: type[OpNode] = names[self.node_name]
        # If a gradient may be g itself, it is not fresh: the Node that produced g also holds g.
        made.fresh = self.fresh and not any(one and one.may_be_g for one in self.gradients)
        made.__module__ = "fastdist.graph"
        return made


class OpNode(CallNode):
    """Base of the generated Nodes."""

    __slots__ = ()
    op: RecordedOp
    route: Route | None  # None after release()
    naming_route: Route  # kept after release(); only for ops with a node_namer

    def name_of_call(self) -> str:
        tell = None if hasattr(self, "_called") else self.op.node_namer
        return CallNode.name_of_call(self) if tell is None else node_named(tell(self))

    def has_number(self, name: str) -> bool:
        """Return whether the call had a number instead of a tensor for the operand `name`.

        If the Node has released the operand, or never saved it, return whether the operand can have
        been a number. Only ops whose Node names depend on the call use this method.
        """
        saved = getattr(self, name, None)
        if saved is not None:
            return number_of(saved) is not None
        i = self.op.tensors.index(name)
        layout = self.naming_route.layouts[i]
        return self.edges[i] is None and (layout is None or not layout.shape)

    def record(
        self,
        route: Route,
        edges: tuple[Any, ...],
        operands: Sequence[Any],
        numbers: Sequence[Any],
        results: Sequence[Tensor],
        attach: Callable[[Tensor, Node], None] | None = None,
    ) -> None:
        """Record a call of the general path. If `attach` is given, it sets the edge of the first
        result.
        """
        several = self.op.several
        layouts = tuple([result._layout for result in results])
        begin_node(self, edges, layouts if several else layouts[0])
        self.save(route, *operands, *numbers, results)
        if attach is not None:
            attach(results[0], self)
        elif several:
            for i, result in enumerate(results):
                result._edge = self.edge_of(i)
        else:
            results[0]._edge = self
        if modes.tracers:
            pack_saved(self, self.op.tensors, operands)

    def edge_of(self, i: int) -> Edge | None:
        """Return the edge of the result with index i, for an op with several results."""
        return Edge(self, i) if self.output_layout[i].dtype.may_have_gradient else None

    def save(self, route: Route, *operands_numbers_results: Any) -> None:
        """Save the values that are needed for the gradients by inputs with an edge."""
        raise NotImplementedError

    def along(self, edges: tuple[Any, ...]) -> OpNode:
        """Return a copy of this Node, with its saved values, that computes gradients along only
        those edges that are not None in `edges`.
        """
        part: OpNode = object.__new__(type(self))
        if self.is_shown:
            part.kind = self.kind
        part.seq, part.hooks, part.edges = self.seq, None, edges
        part.output_layout = self.output_layout
        for place in PLACES:
            setattr(part, place, getattr(self, place, None))
        part.route = self.route  # copied last, because release() clears it first: see _begin
        return part

    def apply_by_tensors(self, g: Any, route: Route, keep: bool) -> tuple[Any, ...]:
        """Return the gradients as raw arrays, computed by the Tensor expressions."""
        if self.op.several:
            given: Any = tuple(map(_wrapped, g, self.output_layout))
        else:
            given = _wrapped(g, self.output_layout)
        found = self.apply_recorded(given, keep)
        pairs: Any = zip(found, route.layouts, strict=True)
        return tuple(
            [None if t is None else cast_array(t._array, t._layout, at) for t, at in pairs]
        )


def _wrapped(g: Any, layout: Layout) -> Tensor | None:
    """Return a raw gradient as a Tensor; `layout` is the layout of the op's result."""
    return None if g is None else wrap(g, layout_near(g, layout))


# Note [Functions in steps]
# The gradient that relu or max_pool passes back is a piecewise constant function of the input, so
# the derivative of this gradient is 0. As PyTorch does, fastdist returns zeros for it instead of
# None, so that the second derivative of a network of such layers does not raise an error about
# unused inputs. This costs time only in passes with create_graph.


def with_zero_second_order(
    gradient: Any, g: Any, edges: tuple[Any, ...], layouts: tuple[Layout, ...]
) -> Any:
    """Return `gradient`, which was computed from `g`, with edges to the inputs on which it depends
    in steps.
    """
    if not tls.grad or (gradient.__class__ not in PLAIN and gradient.__class__ is not Batched):
        return gradient
    # A batch does not have an edge; the tensor in it has one.
    base = unbatched(gradient)
    found: Tensor = gradient
    if base is unbatched(g):
        found = OPS["clone"].public(gradient)
        base = unbatched(found)
    base._edge = ZeroSecondOrder(base, edges, layouts)
    return found


class ZeroSecondOrder(Node):
    """The Node between a gradient and the inputs on which it depends in steps. It passes zeros to
    these inputs.
    """

    __slots__ = ("layouts",)

    def __init__(
        self, gradient: Tensor, edges: tuple[Any, ...], layouts: tuple[Layout, ...]
    ) -> None:
        begin_node(self, (gradient._edge, *edges), gradient._layout)
        self.layouts = layouts

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        return g, *self._zeros()

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        pairs = zip(self._zeros(), self.layouts, strict=True)
        return g, *[z if z is None else from_array(z, layout.device) for z, layout in pairs]

    def _zeros(self) -> list[Any]:
        pairs = zip(self.edges[1:], self.layouts, strict=True)
        return [None if edge is None else zeros_of(layout) for edge, layout in pairs]


_CALLED: Final[Sequence[Any]] = (
    *(as_fresh, raise_changed, raise_released, reduce_recorded, require_fresh, storage_of),
    *(unpack_input, unpack_output, unpack_spare, with_zero_second_order),
)
# For `__name__` see kernels/cpu/silence.py.
_NAMES: Final = {f"_{one.__name__}": one for one in _CALLED} | {"__name__": None, "OpNode": OpNode}


class NodeWriter:
    """The source text of one Node class.

    `saved` are the inputs that some gradient needs, and `numbers` the numeric arguments that some
    gradient needs. `results` has the needed names among "out", "others" (the results after the
    first) and "outs" (all results).
    """

    def __init__(self, op: RecordedOp) -> None:
        self.op = op
        self.needed = [frozenset[str]() if one is None else one.saved_args for one in op.gradients]
        asked = set().union(*self.needed)
        self.saved = [name for name in op.tensors if name in asked]
        self.numbers = [name for name in op.number_names if name in asked]
        self.results = [name for name in ("out", "others", "outs") if name in asked]
        self.edges = f"{''.join(f'_e{i}, ' for i in range(len(op.tensors)))}= self.edges"
        self.held = [*self.saved, *self.results]
        kept = [*self.saved, *[f"{one}_version" for one in self.saved], *self.numbers]
        kept += self.results + ["num_outputs"] * op.several
        kept += ["naming_route"] * (op.node_namer is not None)
        # The attribute names of a Node: see Note [One Node class for a name].
        self.place = dict(zip(kept, PLACES[: len(kept)], strict=True))

    def _wanting_any(self, names: tuple[str, ...] | list[str]) -> str:
        """Return the source of the condition that the gradient by any of these inputs is needed."""
        return " or ".join(f"_e{self.op.tensors.index(name)} is not None" for name in names)

    def _if_wanted(self, name: str, lines: list[str], otherwise: str) -> list[str]:
        """Return the source of an `if`. Its `lines` run if some requested gradient needs `name`
        and, for an optional operand, if the caller passed it; otherwise `otherwise` runs.
        """
        conditions = []
        if len(self.needed) > 1:  # with one input, a Node exists only if its gradient is needed
            pairs = zip(self.op.tensors, self.needed, strict=True)
            wanting = self._wanting_any([one for one, names in pairs if name in names])
            conditions.append(f"({wanting})")
        if name in self.op.optional:
            conditions.append(f"{name} is not None")
        if name in self.op.spare_names:
            # If the input is `out`, an in-place op has overwritten the input with the result.
            conditions.append(f"_route.keeps_spare and {name} is not out")
        if not conditions:
            return lines
        condition = " and ".join(conditions)
        return [f"if {condition}:", *[f"    {line}" for line in lines], f"else: {otherwise}"]

    def save_lines(self, node: str, number: str, *, is_new: bool = False) -> list[str]:
        """Return the statements that save values; the edges are in _e0, _e1 and so on. The source
        of a short path has these statements inline.

        `number` is the template of the expression that saves a number, with `{}` for its name.
        `is_new` says that `out` is a new tensor, which has no Storage yet and which no other thread
        can access.
        """
        at = {name: f"{node}.{place}" for name, place in self.place.items()}
        naming = f"{at['naming_route']} = " if self.op.node_namer else ""
        lines = [f"{node}.route = {naming}_route"]
        for name in self.saved:
            keep = [
                f"{at[name]} = {name}; _s = {name}._storage",
                f"{at[f'{name}_version']} = 0 if _s is None else _s.version",
            ]
            lines += self._if_wanted(name, keep, f"{at[name]} = None")
        lines += [f"{at[name]} = {number.format(name)}" for name in self.numbers]
        if "out" in self.results:
            keep = [
                "_s = out._storage",
                "if _s is None: _s = _storage_of(out)",
                f"{at['out']} = (out._array, _s, _s.version, out._extra)",
            ]
            if is_new:
                keep = [
                    "_s = out._storage = _Storage()",
                    f"{at['out']} = (out._array, _s, 0, None)",
                ]
            lines += self._if_wanted("out", keep, f"{at['out']} = None")
        if "others" in self.results:
            lines.append(f"{at['others']} = others")
        if "outs" in self.results:
            keep = ["_found = [(_o, _storage_of(_o)) for _o in outs]"]
            one = "(_o._array, _s, _s.version, _o._extra)"
            keep.append(f"{at['outs']} = [{one} for _o, _s in _found]")
            lines += self._if_wanted("outs", keep, f"{at['outs']} = None")
        return lines

    def save(self) -> str:
        """Return the source of `save`, which saves the values of a call."""
        parts = {"out": "out = outs[0]", "others": "others = _as_fresh(outs[1:])"}
        lines = [parts[name] for name in self.results if name in parts]
        lines += [f"self.{self.place['num_outputs']} = len(outs)"] if self.op.several else []
        lines += self.save_lines("self", "{}")
        given = ", ".join([*self.op.tensors, *self.op.number_names])
        return _method(f"save(self, _route, {given}, outs)", [self.edges, *lines])

    def _begin(self) -> list[str]:
        # The Route is read last, because release() clears it first. If the Route was still there,
        # all values that were read before it were still saved, even if another thread runs a pass.
        kept = (*self.saved, *self.numbers, *self.results)
        held = [f"{name} = self.{self.place[name]}" for name in kept]
        return [
            self.edges,
            *held,
            "_route = self.route",
            "if _route is None: _raise_released(self)",
        ]

    def apply(self) -> str:
        """Return the source of `apply`, which computes raw gradients. For an op with several
        results, `apply` always uses Tensors, because Routes have no raw gradients for these ops.
        """
        lines, by_tensors = self._begin(), "return self.apply_by_tensors(g, _route, keep)"
        if self.op.several:
            return _method("apply(self, g, keep)", [*lines, by_tensors])
        lines += ["_gradients = _route.gradients", f"if _gradients is None: {by_tensors}"]
        for name in self.saved:
            version = f"self.{self.place[f'{name}_version']}"
            raising = f"_raise_changed(self, {name}, {name}._layout, {version}, _s.version)"
            is_spare = name in self.op.spare_names
            lines += [
                f"if {name} is not None:",
                f"    _s = {name}._storage",
                f"    if _s is not None and _s.version != {version}:",
                f"        {f'{name} = None' if is_spare else raising}",
                f"    {'else: ' if is_spare else ''}{name} = {name}._array",
            ]
        if "out" in self.results:
            lines += [
                "if out is not None:",
                "    out, _s, _v, _ = out",
                "    if _s.version != _v:",
                "        _raise_changed(self, None, self.output_layout, _v, _s.version)",
            ]
        if "others" in self.results:
            lines += [
                "for _one in others:",
                "    if _one._storage is not None: _require_fresh(self, others)",
                "others = [_one._array for _one in others]",
            ]
        lines += self._gradients(recorded=False)
        if self.held:
            holds = self._holds(local=True)
            unless = f"not keep and ({holds})" if holds else "not keep"
            lines.append(f"if {unless}: {self._forget()}")
        return _method("apply(self, g, keep)", [*lines, "return _found"])

    def _gradients(self, *, recorded: bool) -> list[str]:
        """Return the lines that compute the requested gradients: as Tensors if `recorded`, else as
        raw arrays. For gradients in `together`, one call of the first input's function returns all.
        """
        tensors, gradients = self.op.tensors, self.op.gradients
        by = "_by" if recorded else "_gradients"
        given = [
            None if one is None else one.tensor_args if recorded else one.raw_args
            for one in gradients
        ]
        lines, results = [], ""
        if any(names is not None and "wanted" in names for names in given):
            lines.append(f"wanted = ({''.join(f'_e{i} is not None, ' for i in range(len(given)))})")
        for i, (one, names) in enumerate(zip(gradients, given, strict=True)):
            if one is None or names is None:
                results += "None, "
                continue
            found = f"{by}[{i}]({', '.join(names)})"
            if one.together:
                first = tensors.index(one.together[0])
                if i == first:
                    some = self._wanting_any(one.together)
                    lines.append(f"_all{i} = {found} if {some} else None")
                found = f"_all{first}[{one.together.index(tensors[i])}]"
            if recorded:
                found = f"_reduce_recorded({found}, {tensors[i]}_layout, (_route.op, {i}))"
                if self.op.piecewise:
                    found = f"_with_zero_second_order({found}, g, self.edges, _route.layouts)"
            elif one.may_be_g:
                found = f"(g if _gradients[{i}] is None else {found})"
            # A single input needs no condition: if its gradient were not needed, there would be no
            # Node.
            unless = "" if len(given) == 1 else f" if _e{i} is not None else None"
            results += f"{found}{unless}, "
        return [*lines, f"_found = ({results})"]

    def apply_recorded(self) -> str:
        """Return the source of `apply_recorded`, which computes gradients as Tensors."""
        op, asked = self.op, set().union(*self.needed)
        layouts = "".join(f"{name}_layout, " for name in op.tensors)
        lines = [
            *self._begin(),
            f"{layouts}= _route.layouts",
            "_by = _route.op.gradient_makers(_route)",
        ]
        if not op.number_names and asked.intersection(op.attributes):
            lines.append(f"{''.join(f'{name}, ' for name in op.attributes)}= _route.attributes")
        for name in self.saved:
            version = self.place[f"{name}_version"]
            given = f"self, {name}, self.{version}, _e{op.tensors.index(name)}"
            unpack = "_unpack_spare" if name in op.spare_names else "_unpack_input"
            lines.append(f"if {name} is not None: {name} = {unpack}({given})")
        if "out" in self.results:
            unpacked = "_unpack_output(self, out, self.output_layout, self)"
            lines.append(f"if out is not None: out = {unpacked}")
        if "others" in self.results:
            lines.append("_require_fresh(self, others)")
        if "outs" in self.results:
            one = "_unpack_output(self, _o, self.output_layout[_i], self.edge_of(_i))"
            every = f"tuple([{one} for _i, _o in enumerate(outs)])"
            lines.append(f"if outs is not None: outs = {every}")
        if "grads" in asked:
            lines.append("grads = tuple(g)")
        if "plan" in asked:
            lines.append("plan = _route.plan")
        lines += [*self._gradients(recorded=True), "if not keep: self.release()", "return _found"]
        return _method("apply_recorded(self, g, keep)", lines)

    def _holds(self, *, local: bool) -> str:
        """Return the source of the condition that a Node has saved values. Return an empty string
        if every Node of the class saves values.
        """
        sure = {*self.held} - self.op.optional
        if "others" in sure or all(
            names & sure
            for one, names in zip(self.op.gradients, self.needed, strict=True)
            if one is not None
        ):
            return ""
        at = [name if local else f"self.{self.place[name]}" for name in self.held]
        return " or ".join(f"{one} is not None" for one in at)

    def _forget(self) -> str:
        return " = ".join(["self.route", *[f"self.{self.place[n]}" for n in self.held], "None"])

    def release(self) -> str:
        """Return the source of `release`. A Node without saved values may run again after
        `release`.
        """
        holds = self._holds(local=False)
        forget = f"if {holds}: {self._forget()}" if holds else self._forget()
        return _method("release(self)", [forget if self.held else "pass"])


def _method(head: str, lines: Sequence[str]) -> str:
    return "".join([f"    def {head}:\n", *[f"        {line}\n" for line in lines]])
