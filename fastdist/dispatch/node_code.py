"""Writes the Node classes of pointwise ops: what to save, and how a gradient passes.

Two classes an op, of one name. The tiny one is for results and operands of one layout on the CPU:
its gradients are one NumPy call each. The general one may have broadcast, promoted or left the CPU,
and undoes that. Both are written out as source, because an unrolled `save` and `apply` cost half of
a loop over names. Classes are made at an op's first recorded call: writing all of them at import
would take longer than importing NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..core.scalar import Body
from ..graph.node import Node, raise_changed, raise_released
from ..tensor.storage import Storage, storage_of
from ..tensor.tensor import Tensor, wrap
from .gradients import gradient_array, in_used_order, reduce_recorded


class Recordable(Protocol):
    """What this file reads off a pointwise op."""

    name: str
    node_name: str
    tensors: tuple[str, ...]
    number_names: tuple[str, ...]
    body_names: tuple[str, ...]
    gradient_bodies: tuple[Body | None, ...]

    @property
    def vjps(self) -> tuple[Any, ...]:
        """The Tensor expressions of the gradients."""

    def small_gradient(self, i: int) -> Callable[..., Any]:
        """Return the NumPy function of the gradient by input i."""


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
        out = []
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
    storage = tensor.storage
    if storage is not None and storage.version != version:
        raise_changed(node, tensor, tensor.layout, version, storage.version)
    if tensor.edge is edge:
        return tensor
    alias = wrap(tensor.array, tensor.layout)
    alias.edge, alias.extra, alias.storage = edge, tensor.extra, storage
    return alias


def unpack_output(node: Node, saved: tuple[Any, Storage, int, Any] | None) -> Tensor:
    """Return the saved output, checked, with this Node as its edge."""
    if saved is None:
        raise_released(node)
    assert saved is not None
    array, storage, version, tangents = saved
    if storage.version != version:
        raise_changed(node, None, node.layout, version, storage.version)
    alias = wrap(array, node.layout)
    alias.edge, alias.extra, alias.storage = node, tangents, storage
    return alias


def node_classes(op: Recordable) -> tuple[type[PointwiseNode], type[PointwiseNode]]:
    """Return the tiny and the general Node class of op."""
    return _write(op, tiny=True), _write(op, tiny=False)


def _write(op: Recordable, *, tiny: bool) -> type[PointwiseNode]:
    inputs = op.tensors
    needed = [
        op.gradient_bodies[i].used - {"g"} if op.gradient_bodies[i] else set()
        for i in range(len(inputs))
    ]
    saved = [name for name in inputs if any(name in names for names in needed)]
    saves_out = any("out" in names for names in needed)
    numbers = [name for name in op.number_names if any(name in names for names in needed)]
    slots = [*saved, *(f"{name}_version" for name in saved), *numbers]
    slots += ["out"] if saves_out else []
    slots += [] if tiny else ["layouts"]
    edges = [f"e{i}" for i in range(len(inputs))]

    def wanting(name: str) -> str:
        return " or ".join(f"e{i} is not None" for i, names in enumerate(needed) if name in names)

    unpack_edges = f"        {', '.join(edges)}, = self.edges\n"
    save = [f"    def save(self, {', '.join([*inputs, *op.number_names])}, out):\n"]
    if slots and (saved or saves_out):
        save.append(unpack_edges)
    for name in saved:
        save.append(
            f"        if {wanting(name)}:\n"
            f"            self.{name} = {name}; s = {name}.storage\n"
            f"            self.{name}_version = 0 if s is None else s.version\n"
            f"        else: self.{name} = None\n"
        )
    for name in numbers:
        save.append(f"        self.{name} = {name}\n")
    if saves_out:
        save.append(
            f"        if {wanting('out')}:\n"
            "            s = out.storage\n"
            "            if s is None: s = storage_of(out)\n"
            "            self.out = (out.array, s, s.version, out.extra)\n"
            "        else: self.out = None\n"
        )
    if not tiny:
        save.append(f"        self.layouts = ({''.join(f'{name}.layout, ' for name in inputs)})\n")
    save.append("        pass\n" if len(save) == 1 else "")
    source = [
        f"class {op.node_name}(PointwiseNode):\n",
        f"    __slots__ = {tuple(slots)!r}\n",
        *save,
        _apply_source(op, needed, saved, saves_out, tiny),
        _saved_source(op, saved, numbers, saves_out, wanting),
        "    def release(self):\n",
        *(f"        self.{name} = None\n" for name in saved),
        "        self.out = None\n" if saves_out else "",
        "        pass\n",
    ]
    names: dict[str, Any] = {
        "__name__": None,  # see fastdist/kernels/cpu/silence.py
        "PointwiseNode": PointwiseNode,
        "storage_of": storage_of,
        "released": raise_released,
        "changed": raise_changed,
        "unpack_input": unpack_input,
        "unpack_output": unpack_output,
        "gradient_array": gradient_array,
    }
    for i, body in enumerate(op.gradient_bodies):
        if body is not None:
            names[f"B{i}"] = in_used_order(body)
            names[f"G{i}"] = op.small_gradient(i) if tiny else None
    exec(compile("".join(source), f"<fastdist Node of {op.name}>", "exec"), names)
    made: type[PointwiseNode] = names[op.node_name]
    made.op = op
    # A gradient that is g itself is also held by whoever gave it.
    made.fresh = tiny and all(body is None or body.text != "g" for body in op.gradient_bodies)
    made.__module__ = "fastdist.graph"
    return made


def _apply_source(
    op: Recordable, needed: list[Any], saved: list[str], saves_out: bool, tiny: bool
) -> str:
    inputs = op.tensors
    edges = [f"e{i}" for i in range(len(inputs))]
    lines = ["    def apply(self, g, keep):", f"        {', '.join(edges)}, = self.edges"]
    for name in saved:
        lines += [
            "        if "
            f"{' or '.join(f'e{i} is not None' for i, names in enumerate(needed) if name in names)}:",
            f"            {name} = self.{name}",
            f"            if {name} is None: released(self)",
            f"            s = {name}.storage",
            f"            if s is not None and s.version != self.{name}_version:",
            f"                changed(self, {name}, {name}.layout, self.{name}_version, s.version)",
            f"            {name} = {name}.array",
            f"            if not keep: self.{name} = None",
        ]
    if saves_out:
        lines += [
            "        if "
            f"{' or '.join(f'e{i} is not None' for i, names in enumerate(needed) if 'out' in names)}:",
            "            if self.out is None: released(self)",
            "            out, s, version, _ = self.out",
            "            if s.version != version: changed(self, None, self.layout, version, "
            "s.version)",
            "            if not keep: self.out = None",
        ]
    results = []
    for i, body in enumerate(op.gradient_bodies):
        if body is None:
            results.append("None")
            continue
        numbers = op.number_names
        arguments = [f"self.{n}" if n in numbers else n for n in body.names if n in body.used]
        if body.text == "g":
            value = "g"
        elif tiny:
            value = f"G{i}({', '.join(arguments)})"
        else:
            value = ""
        if not tiny:
            value = f"gradient_array(B{i}, ({''.join(a + ', ' for a in arguments)}), self.layout, self.layouts[{i}])"
        results.append(f"{value} if e{i} is not None else None" if len(inputs) > 1 else value)
    lines.append(f"        return ({''.join(value + ', ' for value in results)})")
    return "\n".join(lines) + "\n"


def _saved_source(
    op: Recordable,
    saved: list[str],
    numbers: list[str],
    saves_out: bool,
    wanting: Callable[[str], str],
) -> str:
    edges = [f"e{i}" for i in range(len(op.tensors))]
    lines = [
        "    def saved_tensors(self):",
        f"        {', '.join(edges)}, = self.edges",
        "        found = {}",
    ]
    for name in saved:
        i = op.tensors.index(name)
        lines.append(
            f"        if {wanting(name)}: "
            f"found[{name!r}] = unpack_input(self, self.{name}, self.{name}_version, e{i})"
        )
    lines += [f"        found[{name!r}] = self.{name}" for name in numbers]
    if saves_out:
        lines.append(f"        if {wanting('out')}: found['out'] = unpack_output(self, self.out)")
    lines.append("        return found")
    return "\n".join(lines) + "\n"
