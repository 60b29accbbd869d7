"""Writes the short way through a structured op into the function that users call.

Each is the general path's five steps for operands of which nothing needs a look: plain Tensors, no
tracer or forward level open, and a Way found before for their layouts and the attributes. What
differs from op to op (how many tensors, what a Node saves) is written out as source, since loops
over names would take longer than the work. An op's text is written when its first Way is kept:
until then, and whenever something is unusual, its function goes to `general`.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..graph.modes import modes, tls
from ..graph.node import next_sequence_number
from ..tensor.storage import storage_of
from ..tensor.tensor import empty_shell
from .op import PLAIN, recoded
from .structured_node import NodeWriter, Recordable, StructuredNode
from .way import Way


class Quickened(Recordable, Protocol):
    """What this file reads off a structured op."""

    optional: frozenset[str]
    by_type: tuple[bool, ...]
    has_out: bool
    written: Any

    @property
    def node_class(self) -> type[StructuredNode]:
        """The Node class that records this op."""


def quicken(op: Quickened, way: Way) -> None:
    """Give op's public function its short way; way says how many results there are."""
    assert op.written is not None
    function, head, tail = op.written
    function.__globals__.update(
        {
            "_PLAIN": PLAIN,
            "_shell": empty_shell,
            "_modes": modes,
            "_tls": tls,
            "_next": next_sequence_number,
            "storage_of": storage_of,
            "_Node": op.node_class if op.vjps else None,
        }
    )
    body = "".join(f"    {line}\n" for line in _short_way(op, len(way.more)))
    recoded(function, f"{head}{body}{tail}", op.name)


def _short_way(op: Quickened, more: int) -> list[str]:
    """Return the lines of the short way; `more` results come after the first."""
    given, special = [], ["not _modes.tracers"]
    arrays, key = [], ["_op"]
    for i, name in enumerate(op.tensors):
        may_lack = name in op.optional
        unless = f"{name} is None or " if may_lack else ""
        none_if = f"None if {name} is None else " if may_lack else ""
        given.append(f"({unless}{name}.__class__ in _PLAIN)")
        special.append(f"({unless}{name}.extra is None)")
        arrays.append(f"{none_if}{name}.array")
        if i:
            key.append(f"{none_if}{name}.facts")
    for name, by_type in zip(op.attributes, op.by_type, strict=True):
        key += [name, f"{name}.__class__"] if by_type else [name]
    if op.has_out:
        given.append("out is None")
    first = op.tensors[0]
    found = ["out"] + [f"_r{i}" for i in range(more)]
    results = ", ".join(found) if more else "out"
    lines = [
        f"if {' and '.join(given)} and (not _modes.special or {' and '.join(special)}):",
        f"    try: _way = {first}.facts.plans.get(({', '.join(key)},))",
        "    except TypeError: _way = None",
        "    if _way is not None and _way.run is not None:",
        f"        {', '.join(f'_a_{one}' for one in found)} = _way.run({', '.join(arrays)})",
    ]
    if more:
        layouts = ", ".join(f"_l{i}" for i in range(more))
        lines.append(f"        {layouts}, = _way.more")
    for i, one in enumerate(found):
        lines += [
            f"        {one} = _shell(); {one}.array = _a_{one}",
            f"        {one}.facts = {'_way.facts' if not i else f'_l{i - 1}'}",
            f"        {one}.extra = {one}._storage = {'None' if not i else f'{one}.edge = None'}",
        ]
    lines += [f"        {line}" for line in _recording(op, results, more)]
    return lines


def _recording(op: Quickened, results: str, more: int) -> list[str]:
    """Return the lines that give the result an edge, and return."""
    if not op.vjps:
        return ["out.edge = None", f"return {results}"]
    lines, unrecorded = [], []
    for i, name in enumerate(op.tensors):
        if name not in op.vjps:
            lines.append(f"_e{i} = None")
            continue
        none_if = f"None if {name} is None else " if name in op.optional else ""
        lines.append(f"_e{i} = {none_if}{name}.edge")
        unrecorded.append(f"_e{i} is None")
    edges = "".join(f"_e{i}, " for i in range(len(op.tensors)))
    writer = NodeWriter(op)
    if "others" in writer.results:
        lines.append(f"others = ({''.join(f'_r{i}, ' for i in range(more))})")
    unwanted = "not _way.records or (_modes.grad_off and not _tls.grad)"
    return [
        *lines,
        f"if {' and '.join(unrecorded)} or {unwanted}:",
        "    out.edge = None",
        f"    return {results}",
        "out.edge = _node = _Node()",
        "_node.seq = _next()",
        f"_node.edges = ({edges})",
        "_node.hooks = None",
        "_node.facts = _way.facts",
        *writer.save_lines("_node"),
        f"return {results}",
    ]
