"""Writes the Node classes of structured ops: what to save, and how a gradient passes.

One class an op, made at its first recorded call. What a Node has in common with other calls of the
same layouts and attributes is its Way; beside it stand the tensors that the vjps name. Gradients
are made by the vjps, Tensor expressions, or on small CPU arrays by the Way's own functions, which
then take the same saved values as raw arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..graph.node import Node, raise_changed, raise_released
from ..tensor.layout import Layout
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, layout_of, wrap
from .gradients import cast_array, reduce_recorded
from .node_code import unpack_input, unpack_output
from .way import Way


class Recordable(Protocol):
    """What this file reads off a structured op."""

    name: str
    tensors: tuple[str, ...]
    attributes: tuple[str, ...]
    fresh: bool
    node_name: str
    tell_name: Callable[[Any], str] | None

    @property
    def vjps(self) -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
        """Input -> (its vjp, the names of what that takes)."""


class StructuredNode(Node):
    """Base of the generated Nodes."""

    __slots__ = ("way",)
    op: Recordable
    way: Way | None  # None once released

    def name(self) -> str:
        """Return the name that `grad_fn` shows."""
        tell = self.op.tell_name
        return self.op.node_name if tell is None else tell(self)

    def save(self, way: Way, *operands_out_others: Any) -> None:
        """Keep what the vjps of the inputs with an edge ask for."""
        raise NotImplementedError

    def apply_by_tensors(self, g: Any, way: Way, keep: bool) -> tuple[Any, ...]:
        """Return the gradients as raw arrays, by the Tensor expressions."""
        found = self.apply_recorded(wrap(g, gradient_layout(g, self.facts)), keep)
        return tuple(
            [
                None if t is None else _on(t, layout)
                for t, layout in zip(found, way.layouts, strict=True)
            ]
        )


def gradient_layout(g: Any, layout: Layout) -> Layout:
    """Return the layout of a raw gradient of a tensor of layout."""
    if (
        layout.contiguous
        and g.__class__ is np.ndarray
        and g.flags.c_contiguous
        and g.dtype is layout.dtype.numpy
        and g.shape == layout.shape
    ):
        return layout
    return layout_of(g, layout.device)


def _on(tensor: Tensor, layout: Any) -> Any:
    if tensor.facts.device is layout.device:
        return tensor.array
    return cast_array(tensor.array, tensor.facts, layout)


def node_class(op: Recordable) -> type[StructuredNode]:
    """Return the Node class of op."""
    name = op.node_name
    writer = NodeWriter(op)
    slots = (*writer.saved, *(f"{one}_version" for one in writer.saved), *writer.results)
    source = (
        f"class {name}(StructuredNode):\n    __slots__ = {slots!r}\n"
        f"{writer.save()}{writer.apply()}{writer.apply_recorded()}{writer.release()}"
    )
    names: dict[str, Any] = {
        "__name__": None,  # see fastdist/kernels/cpu/silence.py
        "StructuredNode": StructuredNode,
        "storage_of": storage_of,
        "_released": raise_released,
        "_changed": raise_changed,
        "_unpack_input": unpack_input,
        "_unpack_output": unpack_output,
        "_reduced": reduce_recorded,
    }
    for i, tensor in enumerate(op.tensors):
        if tensor in op.vjps:
            names[f"_vjp{i}"] = op.vjps[tensor][0]
            names[f"_maker{i}"] = (op.node_name, i, f"the vjp of {op.name} by {tensor}")
    exec(compile(source, f"<fastdist Node of {op.name}>", "exec"), names)
    made: type[StructuredNode] = names[name]
    made.op, made.fresh = op, op.fresh
    made.__module__ = "fastdist.graph"
    return made


class NodeWriter:
    """The text of one class; `saved` are the inputs that some vjp asks for, `results` `out` and
    `others` if one does.
    """

    def __init__(self, op: Recordable) -> None:
        self.op = op
        self.needed = [set(op.vjps[name][1]) if name in op.vjps else set() for name in op.tensors]
        asked = set().union(*self.needed)
        self.saved = [name for name in op.tensors if name in asked]
        self.results = [name for name in ("out", "others") if name in asked]
        self.edges = f"        {''.join(f'_e{i}, ' for i in range(len(op.tensors)))}= self.edges\n"

    def _wanting_any(self, names: list[str]) -> str:
        """Return the condition that the gradient by one of these inputs is asked for."""
        return " or ".join(f"_e{self.op.tensors.index(name)} is not None" for name in names)

    def _wanting(self, name: str) -> str:
        """Return the condition that some edge's gradient asks for name."""
        if len(self.op.tensors) == 1:
            return "True"  # or there would be no Node
        pairs = zip(self.op.tensors, self.needed, strict=True)
        return self._wanting_any([one for one, names in pairs if name in names])

    def save_lines(self, node: str) -> list[str]:
        """Return the statements that save, with the edges in _e0, _e1 ...; for the op's short way
        as well, which has them inline.
        """
        lines = [f"{node}.way = _way"]
        for name in self.saved:
            lines += [
                f"if ({self._wanting(name)}) and {name} is not None:",
                f"    {node}.{name} = {name}; _s = {name}._storage",
                f"    {node}.{name}_version = 0 if _s is None else _s.version",
                f"else: {node}.{name} = None",
            ]
        if "out" in self.results:
            lines += [
                f"if {self._wanting('out')}:",
                "    _s = out._storage",
                "    if _s is None: _s = storage_of(out)",
                f"    {node}.out = (out.array, _s, _s.version, out.extra)",
                f"else: {node}.out = None",
            ]
        if "others" in self.results:
            lines.append(f"{node}.others = others")
        return lines

    def save(self) -> str:
        """Return the method that keeps what is needed of a call."""
        body = "".join(f"        {line}\n" for line in self.save_lines("self"))
        tensors = ", ".join(self.op.tensors)
        return f"    def save(self, _way, {tensors}, out, others):\n{self.edges}{body}"

    def _begin(self) -> str:
        # The Way last, as release() takes it first: while it is there all that was read before is
        # what was saved, whatever a pass of another thread does meanwhile.
        held = "".join(f"        {name} = self.{name}\n" for name in (*self.saved, *self.results))
        return (
            f"{self.edges}{held}        _way = self.way\n        if _way is None: _released(self)\n"
        )

    def apply(self) -> str:
        """Return the method on raw arrays."""
        lines = [
            "    def apply(self, g, keep):\n",
            self._begin(),
            "        _gradients = _way.gradients\n",
            "        if _gradients is None: return self.apply_by_tensors(g, _way, keep)\n",
        ]
        for name in self.saved:
            lines.append(
                f"        if {name} is not None:\n"
                f"            _s = {name}._storage\n"
                f"            if _s is not None and _s.version != self.{name}_version:\n"
                f"                _changed(self, {name}, {name}.facts, self.{name}_version, "
                "_s.version)\n"
                f"            {name} = {name}.array\n"
            )
        if "out" in self.results:
            lines.append(
                "        if out is not None:\n"
                "            out, _s, _v, _ = out\n"
                "            if _s.version != _v: "
                "_changed(self, None, self.facts, _v, _s.version)\n"
            )
        if "others" in self.results:
            lines.append("        others = [_one.array for _one in others]\n")
        values = ["out", "others", *self.saved]
        results = []
        for i, names in enumerate(self.needed):
            given = "".join(f", {name}" for name in values if name in names)
            has_one = self.op.tensors[i] in self.op.vjps
            results.append(
                f"_gradients[{i}](g{given}) if _e{i} is not None else None, "
                if has_one
                else "None, "
            )
        lines.append(f"        _found = ({''.join(results)})\n")
        lines.append("        if not keep: self.release()\n        return _found\n")
        return "".join(lines)

    def apply_recorded(self) -> str:
        """Return the method on Tensors."""
        op = self.op
        layouts = "".join(f"{name}_layout, " for name in op.tensors)
        lines = ["    def apply_recorded(self, g, keep):\n", self._begin()]
        lines.append(f"        {layouts}= _way.layouts\n")
        asked = set().union(*self.needed)
        if asked.intersection(op.attributes):
            attributes = "".join(f"{name}, " for name in op.attributes)
            lines.append(f"        {attributes}= _way.attributes\n")
        for name in self.saved:
            i = op.tensors.index(name)
            lines.append(
                f"        if {name} is not None: {name} = _unpack_input("
                f"self, {name}, self.{name}_version, _e{i})\n"
            )
        if "out" in self.results:
            lines.append("        out = None if out is None else _unpack_output(self, out)\n")
        if "plan" in asked:
            lines.append("        plan = _way.plan\n")
        if "wanted" in asked:
            wanted = "".join(f"_e{i} is not None, " for i in range(len(op.tensors)))
            lines.append(f"        wanted = ({wanted})\n")
        results = ""
        for i, name in enumerate(op.tensors):
            if name not in op.vjps:
                results += "None, "
                continue
            function, needs = op.vjps[name]
            found = f"_vjp{i}({', '.join(needs)})"
            together = [other for other in op.tensors if op.vjps.get(other, (0,))[0] is function]
            if len(together) > 1:
                if name == together[0]:
                    some = self._wanting_any(together)
                    lines.append(f"        _all{i} = {found} if {some} else None\n")
                found = f"_all{op.tensors.index(together[0])}[{together.index(name)}]"
            results += (
                f"_reduced({found}, {name}_layout, _maker{i}) if _e{i} is not None else None, "
            )
        lines.append(f"        _found = ({results})\n")
        lines.append("        if not keep: self.release()\n        return _found\n")
        return "".join(lines)

    def release(self) -> str:
        """Return the method that forgets; what saved nothing may be run again."""
        held = [*self.saved, *self.results]
        forgotten = [f"self.{name} = None" for name in ("way", *held)] if held else ["pass"]
        return "    def release(self):\n" + "".join(f"        {line}\n" for line in forgotten)
