"""The short way of pointwise ops for what fast.py leaves: three tensors, numbers, other dtypes.

A call that needs no cast and runs on the CPU finds its PointwiseWay in the plans of the first
operand's layout, where the general path left it: a function from raw arrays to the result, the
result's layout, and which Node records it. Whether NumPy gives a result the layout that the general
path gives it is tried once for each way, not reasoned out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.device import CPU
from ..core.dtypes import float32, float64
from ..graph.node import next_sequence_number
from ..kernels.cpu.pointwise import kernel_for
from ..kernels.cpu.silence import define_silent, silent
from ..tensor.layout import TINY_LIMIT, Layout
from ..tensor.tensor import Tensor, empty_shell, layout_of
from .gradients import CONDITIONS
from .op import recoded
from .short_way import SHORT_WAY_NAMES, Pointwise

TINY, GENERAL, PLAIN_NODE, SPREAD = range(4)


class PointwiseWay(NamedTuple):
    """How one pointwise op runs on CPU tensors of known layouts; `run` is None where it does not.

    `node` is the place among the op's Node classes of the one that records it.
    """

    run: Callable[..., Any] | None
    layout: Layout
    node: int


@silent  # type: ignore[untyped-decorator]
def _large(loop: Callable[..., None], layout: Layout) -> Callable[..., Any]:
    shape, dtype, empty = layout.shape, layout.dtype.numpy, np.empty

    def run(*arrays: Any) -> Any:
        out = empty(shape, dtype)
        loop(arrays, out)
        return out

    return run


@silent  # type: ignore[untyped-decorator]
def _wrapped(small: Callable[..., Any]) -> Callable[..., Any]:
    """Return small for inputs without axes, of which NumPy makes scalars."""
    asarray = np.asarray
    return lambda *arrays: asarray(small(*arrays))


@silent  # type: ignore[untyped-decorator]
def _way(op: Pointwise, layouts: Any, arrays: Any, layout: Layout) -> PointwiseWay:
    kernel = kernel_for(op.run_body)
    if layout.numel > kernel.limit:
        if not layout.contiguous:
            return PointwiseWay(None, layout, GENERAL)
        run = _large(kernel.run_large, layout)
    else:
        run = kernel.small if layout.shape else _wrapped(kernel.small)
        tried = run(*arrays)
        if tried.dtype != layout.dtype.numpy or layout_of(tried) is not layout:
            return PointwiseWay(None, layout, GENERAL)
    node = GENERAL
    if layout.shape and (layout.dtype is float32 or layout.dtype is float64):
        # The gradient of an operand that was broadcast must be summed.
        node = TINY if layout.numel <= TINY_LIMIT else PLAIN_NODE
        for name, one in zip(op.tensors, layouts, strict=True):
            if name not in CONDITIONS and one is not layout:
                node = SPREAD
    return PointwiseWay(run, layout, node)


def remember_way(op: Pointwise, operands: Sequence[Any], arrays: Any, result: Tensor) -> None:
    """Let calls of op on such layouts find their way; arrays are what the kernel was given."""
    if op.written is not None and not op.is_quick:
        op.is_quick = True
        _quicken(op)
    layouts = []
    for operand in operands:
        if not isinstance(operand, Tensor):
            return  # a number: the closure makes it a constant, which then comes here
        layouts.append(operand.facts)
        if operand.facts.device is not CPU:
            return
    plans, key = layouts[0].plans, (op, *layouts[1:])
    if key in plans:
        return
    values = set(op.tensors) - CONDITIONS
    compute = {array.dtype for name, array in arrays if name in values}
    same = all(
        layout.dtype.numpy in compute
        for name, layout in zip(op.tensors, layouts, strict=True)
        if name not in CONDITIONS
    )
    way = PointwiseWay(None, result.facts, GENERAL)
    if len(compute) == 1 and same and result.facts.device is CPU:
        way = _way(op, layouts, [array for _, array in arrays], result.facts)
    plans.remember(key, way)


def _quicken(op: Pointwise) -> None:
    """Let the function that users call, as op.py wrote it, try the short way first."""
    function, head, tail = op.written
    function.__globals__["_nary"] = nary(op, function.__globals__["_general"])
    given = ", ".join([*op.tensors, *op.number_names])
    recoded(function, f"{head}    if out is None: return _nary({given})\n{tail}", op.name)


def nary(op: Pointwise, general: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return op as a function of its tensors and then its numbers; what has no way goes the
    general one.
    """
    names = {
        **SHORT_WAY_NAMES,
        "_op": op,
        "_general": general or op.general,
        "_shell": empty_shell,
        "_next": next_sequence_number,
    }
    made: Callable[..., Any] = define_silent("\n".join(_lines(op)), "nary", names)
    return made


def _lines(op: Pointwise) -> list[str]:
    tensors, numbers = op.tensors, op.number_names
    values = [name for name in tensors if name not in CONDITIONS]
    like = values[0]
    for name in values[1:]:
        like = f"({like} if {like}.__class__ in _PLAIN else {name})"
    lines = [f"def nary({', '.join([*tensors, *numbers])}):", f"    _like = {like}"]
    lines.append("    if _like.__class__ in _PLAIN:")
    if len(values) > 1:
        lines += [
            f"        if {name}.__class__ in _NUMBERS: {name} = _constant({name}, _like)"
            for name in values
            if name not in op.tensors_only
        ]
    lines += [
        f"        _{name} = _constant({name}, _like) if {name}.__class__ in _NUMBERS else None"
        for name in numbers
    ]
    plain = [f"{name}.__class__ in _PLAIN" for name in tensors]
    plain += [f"_{name}.__class__ is _Tensor" for name in numbers]
    extra = " and ".join(["not _modes.tracers", *(f"{name}.extra is None" for name in tensors)])
    key = "".join(f", {name}.facts" for name in tensors[1:])
    used = [
        f"{name}.array" if name in tensors else f"_{name}.array"
        for name in op.body_names
        if name in op.run_body.used
    ]
    lines += [
        f"        if {' and '.join(plain)} and (not _modes.special or {extra}):",
        f"            _way = {tensors[0]}.facts.plans.get((_op{key or ','}))",
        "            if _way is not None and _way[0] is not None:",
        "                _run, _layout, _kind = _way",
        "                out = _shell()",
        f"                out.array = _run({', '.join(used)})",
        "                out.facts = _layout",
        "                out.extra = out._storage = None",
        *[f"                {line}" for line in _recording(op)],
    ]
    given = "".join(f"{name}, " for name in tensors)
    lines.append(f"    return _general(({given}), ({''.join(f'{n}, ' for n in numbers)}), None)")
    return lines


def _recording(op: Pointwise) -> list[str]:
    if not op.differentiable or op.dtype == "bool":
        return ["out.edge = None", "return out"]
    lines, unrecorded = [], []
    for i, (name, body) in enumerate(zip(op.tensors, op.gradient_bodies, strict=True)):
        if body is None:
            lines.append(f"_e{i} = None")
        else:
            lines.append(f"_e{i} = {name}.edge")
            unrecorded.append(f"_e{i} is None")
    edges = "".join(f"_e{i}, " for i in range(len(op.tensors)))
    saved = [*op.tensors, *(f"_{name}.array" for name in op.number_names), "out"]
    unwanted = "not _layout.dtype.is_floating_point or (_modes.grad_off and not _tls.grad)"
    return [
        *lines,
        f"if {' and '.join(unrecorded)} or {unwanted}:",
        "    out.edge = None",
        "    return out",
        "out.edge = _node = _op.nodes[_kind]()",
        "_node.seq = _next()",
        f"_node.edges = ({edges})",
        "_node.hooks = None",
        "_node.facts = _layout",
        f"_node.save({', '.join(saved)})",
        "return out",
    ]
