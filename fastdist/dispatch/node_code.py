"""Writes the Node classes of pointwise ops: what to save, and how a gradient passes.

Four classes an op, of one name. The tiny one is for results and operands of one tiny layout: its
gradients are one NumPy call each. The plain one is the same for larger ones, with compiled loops.
The spread one is for either size where an operand was broadcast. The general one may also have
promoted or left the CPU, and undoes that. All are written out as source, because an unrolled `save`
and `apply` cost half of a loop over names. Classes are made at an op's first recorded call: writing
all of them at import would take longer than importing NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from weakref import ref

from ..core.scalar import Body
from ..graph.modes import modes
from ..graph.node import Node, raise_changed, raise_released
from ..kernels.cpu.pointwise import PointwiseKernel
from ..tensor.storage import Storage, storage_of
from ..tensor.tensor import Tensor, wrap
from .gradients import (
    gathered,
    gradient_array,
    in_used_order,
    plain_gradient,
    reduce_recorded,
)


class Recordable(Protocol):
    """What this file reads off a pointwise op."""

    name: str
    node_name: str
    tensors: tuple[str, ...]
    number_names: tuple[str, ...]
    exact_names: frozenset[str]
    body_names: tuple[str, ...]

    @property
    def gradient_bodies(self) -> tuple[Body | None, ...]:
        """Per input, what its gradient is; None where it has none."""

    @property
    def vjps(self) -> tuple[Any, ...]:
        """The Tensor expressions of the gradients."""

    def gradient_kernel(self, i: int) -> PointwiseKernel:
        """Return the CPU kernel of the gradient by input i."""


class PointwiseNode(Node):
    """Base of the generated Nodes: what they share when a graph of gradients is recorded."""

    __slots__ = ()
    op: Recordable

    def saved_tensors(self) -> dict[str, Any]:
        """Return name -> Tensor (or number) of what was saved, with the edges it had when it was
        saved.
        """
        raise NotImplementedError

    def apply_recorded(self, g: Tensor, keep: bool) -> tuple[Any, ...]:
        """Return the gradients as Tensors that know how they were made."""
        saved = self.saved_tensors()
        layouts = getattr(self, "layouts", None)
        out: list[Tensor | None] = []
        for i, (edge, derivative) in enumerate(zip(self.edges, self.op.vjps, strict=True)):
            if edge is None:
                out.append(None)
                continue
            arguments = [saved.get(name) for name in self.op.body_names]
            gradient = derivative(*arguments, saved.get("out"), g)
            out.append(gradient if layouts is None else reduce_recorded(gradient, layouts[i]))
        if not keep:
            self.release()
        return tuple(out)


def unpack_input(node: Node, tensor: Tensor | None, version: int, edge: Any) -> Tensor:
    """Return a saved input, checked, as it stood in the graph when it was saved."""
    if tensor is None:
        raise_released(node)
    assert tensor is not None
    storage = tensor._storage
    if storage is not None and storage.version != version:
        raise_changed(node, tensor, tensor.facts, version, storage.version)
    if tensor.edge is edge:
        return tensor
    alias = wrap(tensor.array, tensor.facts)
    alias.edge, alias.extra, alias._storage = edge, tensor.extra, storage
    return alias


def unpack_output(node: Node, saved: tuple[Any, Storage, int, Any] | None) -> Tensor:
    """Return the saved output, checked, with this Node as its edge."""
    if saved is None:
        raise_released(node)
    assert saved is not None
    array, storage, version, tangents = saved
    if storage.version != version:
        raise_changed(node, None, node.facts, version, storage.version)
    alias = wrap(array, node.facts)
    alias.edge, alias.extra, alias._storage = node, tangents, storage
    if tangents.__class__ is SavedView:
        alias.edge, alias.extra = tangents.edge(), tangents.extra
    return alias


class SavedView:
    """Where an output stands in the graph that an in-place op wrote into a view.

    Its gradient goes to the base's CopySlices, which holds the op's Node: sent to the Node itself
    it would run that one twice. The CopySlices is held weakly, for it holds the Node.
    """

    __slots__ = ("array", "extra", "facts", "node", "replay", "steps")

    def __init__(self, base: Tensor, extra: Any, replay: Callable[..., Tensor]) -> None:
        self.array, self.facts = base.array, base.facts
        self.node, self.steps, self.replay = ref(base.edge), extra.replay, replay
        # With tangents it does hold a cycle, until they go with their level.
        self.extra = extra if modes.special else None

    def edge(self) -> Any:
        """Return the edge of the view, recorded anew over the base as it was."""
        base = wrap(self.array, self.facts)
        base.edge = self.node()
        return self.replay(base, self.steps).edge


def node_classes(op: Recordable) -> tuple[type[PointwiseNode], ...]:
    """Return the tiny, the general, the plain and the spread Node class of op."""
    writer = _Writer(op)
    return tuple([writer.write(kind) for kind in ("tiny", "general", "plain", "spread")])


class _Writer:
    """What the three classes of one op have in common, and the text of each."""

    def __init__(self, op: Recordable) -> None:
        self.op = op
        self.needed = [
            set() if body is None else set(body.used - {"g"}) for body in op.gradient_bodies
        ]
        self.saved = [name for name in op.tensors if any(name in n for n in self.needed)]
        self.numbers = [name for name in op.number_names if any(name in n for n in self.needed)]
        self.saves_out = any("out" in names for names in self.needed)
        self.edges = f"        {''.join(f'e{i}, ' for i in range(len(op.tensors)))}= self.edges\n"

    def write(self, kind: str) -> type[PointwiseNode]:
        """Return one class."""
        op = self.op
        slots = [*self.saved, *(f"{name}_version" for name in self.saved), *self.numbers]
        slots += ["out"] if self.saves_out else []
        slots += ["layouts"] if kind in ("general", "spread") else []
        source = (
            f"class {op.node_name}(PointwiseNode):\n    __slots__ = {tuple(slots)!r}\n"
            f"{self._save(kind)}{self._apply(kind)}{self._saved_tensors()}{self._release()}"
        )
        names: dict[str, Any] = {
            "__name__": None,  # see fastdist/kernels/cpu/silence.py
            "PointwiseNode": PointwiseNode,
            "storage_of": storage_of,
            "released": raise_released,
            "changed": raise_changed,
            "unpack_input": unpack_input,
            "unpack_output": unpack_output,
            "gradient_array": gradient_array,
            "plain_gradient": plain_gradient,
            "EXACT": op.exact_names,
            "gathered": gathered,
        }
        for i, body in enumerate(op.gradient_bodies):
            if body is not None:
                names[f"B{i}"] = in_used_order(body)
                kernel = op.gradient_kernel(i)
                names[f"G{i}"], names[f"L{i}"] = kernel.small, kernel.run
        exec(compile(source, f"<fastdist Node of {op.name}>", "exec"), names)
        made: type[PointwiseNode] = names[op.node_name]
        made.op = op
        # A gradient that is g itself is also held by whoever gave it.
        made.fresh = kind != "general" and all(
            body is None or body.text != "g" for body in op.gradient_bodies
        )
        made.__module__ = "fastdist.graph"
        return made

    def _wanting(self, name: str) -> str:
        """Return the condition that some edge's gradient asks for name."""
        return " or ".join(
            f"e{i} is not None" for i, names in enumerate(self.needed) if name in names
        )

    def _save(self, kind: str) -> str:
        op = self.op
        lines = [f"    def save(self, {', '.join([*op.tensors, *op.number_names])}, out):\n"]
        lines.append(self.edges if self.saved or self.saves_out else "        pass\n")
        lines += [
            f"        if {self._wanting(name)}:\n"
            f"            self.{name} = {name}; s = {name}._storage\n"
            f"            self.{name}_version = 0 if s is None else s.version\n"
            f"        else: self.{name} = None\n"
            for name in self.saved
        ]
        lines += [f"        self.{name} = {name}\n" for name in self.numbers]
        if self.saves_out:
            lines.append(
                f"        if {self._wanting('out')}:\n"
                "            s = out._storage\n"
                "            if s is None: s = storage_of(out)\n"
                "            self.out = (out.array, s, s.version, out.extra)\n"
                "        else: self.out = None\n"
            )
        if kind in ("general", "spread"):
            layouts = "".join(f"{name}.facts, " for name in op.tensors)
            lines.append(f"        self.layouts = ({layouts})\n")
        return "".join(lines)

    def _apply(self, kind: str) -> str:
        lines = ["    def apply(self, g, keep):\n", self.edges]
        lines += [
            f"        if {self._wanting(name)}:\n"
            f"            {name} = self.{name}\n"
            f"            if {name} is None: released(self)\n"
            f"            s = {name}._storage; v = self.{name}_version\n"
            f"            if s is not None and s.version != v:\n"
            f"                changed(self, {name}, {name}.facts, v, s.version)\n"
            f"            {name} = {name}.array\n"
            f"            if not keep: self.{name} = None\n"
            for name in self.saved
        ]
        if self.saves_out:
            lines.append(
                f"        if {self._wanting('out')}:\n"
                "            out = self.out\n"
                "            if out is None: released(self)\n"
                "            out, s, v, _ = out\n"
                "            if s.version != v: changed(self, None, self.facts, v, s.version)\n"
                "            if not keep: self.out = None\n"
            )
        results = "".join(f"{self._gradient(i, kind)}, " for i in range(len(self.op.tensors)))
        return f"{''.join(lines)}        return ({results})\n"

    def _gradient(self, i: int, kind: str) -> str:
        """Return the expression of the gradient by input i."""
        op = self.op
        body = op.gradient_bodies[i]
        if body is None:
            return "None"
        arguments = [
            f"self.{n}" if n in op.number_names else n for n in body.names if n in body.used
        ]
        operands = "".join(f"{argument}, " for argument in arguments)
        if kind == "general":
            value = f"gradient_array(B{i}, ({operands}), self.facts, self.layouts[{i}], EXACT)"
        elif body.text == "g":
            value = "g"
        elif kind == "tiny":
            value = f"G{i}({operands})"
        elif kind == "plain":
            value = f"plain_gradient(L{i}, ({operands}), self.facts)"
        else:
            value = (
                f"(G{i}({operands}) if self.facts.tiny else "
                f"plain_gradient(L{i}, ({operands}), self.facts))"
            )
        if kind == "spread":
            value = f"gathered({value}, self.layouts[{i}])"
        return value if len(op.tensors) == 1 else f"{value} if e{i} is not None else None"

    def _saved_tensors(self) -> str:
        lines = ["    def saved_tensors(self):\n", self.edges, "        found = {}\n"]
        lines += [
            f"        if {self._wanting(name)}: found[{name!r}] = unpack_input("
            f"self, self.{name}, self.{name}_version, e{self.op.tensors.index(name)})\n"
            for name in self.saved
        ]
        lines += [f"        found[{name!r}] = self.{name}\n" for name in self.numbers]
        if self.saves_out:
            lines.append(
                f"        if {self._wanting('out')}: found['out'] = unpack_output(self, self.out)\n"
            )
        return f"{''.join(lines)}        return found\n"

    def _release(self) -> str:
        cleared = [*self.saved, *(["out"] if self.saves_out else [])]
        lines = "".join(f"        self.{name} = None\n" for name in cleared)
        return f"    def release(self):\n{lines or '        pass' + chr(10)}"
