"""The short way of pointwise in-place ops, for what leaves no trace in a graph: `x.add_(y)`.

A call that the general way has done once, without a cast, finds the function that writes into the
target with the layouts, as other calls find their Way: see Note [The short way] in calls.py.
Whatever may have to be recorded, carried or refused goes to the general way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.device import CPU
from ..devices.backend import backend_of
from ..graph.modes import modes, tls
from ..kernels.cpu.pointwise import kernel_for
from ..kernels.cpu.silence import define_silent
from ..tensor.layout import Layout
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor
from .calls import NAMES
from .gradients import CONDITIONS
from .op import PLAIN
from .pointwise_form import PointwiseForm


def may_write_at_once(target: Tensor, source: Any = None) -> bool:
    """Return whether an in-place op on a CPU tensor may write without a further look: nothing will
    be recorded, carried or refused, whatever Tensor it reads.
    """
    if target.__class__ not in PLAIN or modes.special:
        return False
    if not modes.grad_off or tls.grad:
        extra = target.extra
        if (
            target.edge is not None
            or (source is not None and source.edge is not None)
            or (extra is not None and extra.base is not None and extra.base.edge is not None)
        ):
            return False
    array = target.array
    return array.__class__ is np.ndarray and array.flags.writeable


def remember_writer(
    op: PointwiseForm, operands: Sequence[Any], numbers: tuple[Any, ...], compute: Any
) -> None:
    """Let later calls on such layouts write at once; called after one that went well."""
    if op.usual is not None and op.usual is not op:
        defaults = [p.default for p in op.parameters if p.name in op.number_names]
        if all(one is usual for one, usual in zip(numbers, defaults, strict=True)):
            op = op.usual
    layouts = []
    for name, operand in zip(op.tensors, operands, strict=True):
        if not isinstance(operand, Tensor):
            return  # a number: the short way makes it a constant, which then comes here
        layout = operand.facts
        if layout.dtype is not compute and name not in CONDITIONS:
            return
        layouts.append(layout)
    target, others = layouts[0], layouts[1:]
    if target.device is CPU:
        if any(layout.device is not CPU for layout in others):
            return
        write = _on_cpu(op, target)
    else:
        write = _OnDevice(op, target)
    if all(layout is target for layout in others):
        target.ways[_known_as(op)] = write
    else:
        target.plans.remember((_known_as(op), *others), write)


def _known_as(op: PointwiseForm) -> str:
    """Return by what a layout knows how op, or op with its numbers at their defaults, writes."""
    return f"{op.name}_ of {len(op.number_names)} numbers"


def _on_cpu(op: PointwiseForm, target: Layout) -> Callable[..., Any]:
    kernel, is_half = kernel_for(op.run_body), target.dtype.is_half
    if target.numel <= kernel.limit and isinstance(kernel.small, np.ufunc) and not is_half:
        return kernel.small  # whose last positional argument is `out`
    run = kernel.run if is_half else kernel.compute

    def write(*arrays: Any) -> None:
        run(arrays[:-1], arrays[-1])

    return write


class _OnDevice:
    """A function that writes on a device, where no memory is read-only."""

    def __init__(self, op: PointwiseForm, target: Layout) -> None:
        self._body, self._run = op.run_body, backend_of(target.device.type).pointwise

    def __call__(self, *arrays: Any) -> None:
        self._run(self._body, arrays[:-1], arrays[-1])


def _may_overlap(array: Any, target: Any) -> bool:
    """Return whether views of one tensor may overlap; on a device the general way looks closer."""
    return target.__class__ is not np.ndarray or np.may_share_memory(array, target)


_UNWRITTEN = compile(
    "def inplace(self, *args, **kwargs): return _first(self, *args, **kwargs)",
    "<fastdist in-place op>",
    "exec",
)


def inplace_way(op: PointwiseForm, slow: Callable[..., Tensor]) -> Any:
    """Return op as a function that writes into its first operand; `slow` does what is unusual.

    Note    its short way is written at the first call: most programs change few things in place
    """

    def first(*args: Any, **kwargs: Any) -> Tensor:
        short: Any = _short_way(op, slow)
        made.__globals__.update(short.__globals__)
        made.__defaults__ = short.__defaults__
        name = f"{op.name}_"
        made.__code__ = short.__code__.replace(co_name=name, co_qualname=name)
        return slow(*args, **kwargs)

    names: dict[str, Any] = {"__name__": None, "_first": first}
    exec(_UNWRITTEN, names)
    made: Any = names["inplace"]
    made.__wrapped__ = op.declared  # whose signature it has
    return made


def _short_way(op: PointwiseForm, slow: Callable[..., Tensor]) -> Any:
    names = {
        **NAMES,
        "_slow": slow,
        "storage_of": storage_of,
        "_OnDevice": _OnDevice,
        "_overlap": _may_overlap,
    }
    for parameter in op.parameters:
        names[f"_default_{parameter.name}"] = parameter.default
    return define_silent("\n".join(_lines(op)), "inplace", names)


def _lines(op: PointwiseForm) -> list[str]:
    first, others = op.tensors[0], op.tensors[1:]
    signature, given = ["self"], ["self"]
    for parameter in op.parameters:
        if parameter.name == first:
            continue
        has_default = parameter.default is not parameter.empty
        signature.append(
            f"{parameter.name}=_default_{parameter.name}" if has_default else parameter.name
        )
        given.append(f"{parameter.name}={parameter.name}" if has_default else parameter.name)
    lines = [f"def inplace({', '.join(signature)}):", "    if self.__class__ in _PLAIN:"]
    lines += [
        f"        if {name}.__class__ in _NUMBERS: {name} = _constant({name}, self)"
        for name in others
        if name not in op.tensors_only
    ]
    if op.usual is not None and op.usual is not op:
        # alpha=1 and its like: the op without numbers is one ufunc.
        usual = " and ".join(f"{name} is _default_{name}" for name in op.number_names)
        lines.append(f"        if {usual}:")
        lines += [f"            {line}" for line in _writing(op.usual)]
        lines.append("        else:")
        lines += [f"            {line}" for line in _writing(op)]
    else:
        lines += [f"        {line}" for line in _writing(op)]
    return [*lines, f"    return _slow({', '.join(given)})"]


def _writing(op: PointwiseForm) -> list[str]:
    """Return the lines that write at once, if all is as usual."""
    first, others = op.tensors[0], op.tensors[1:]
    arrays = {first: "self.array", **{name: f"{name}.array" for name in others}}
    arrays |= {name: f"_{name}.array" for name in op.number_names}
    used = [arrays[name] for name in op.body_names if name in op.run_body.used]
    plain = [f"{name}.__class__ in _PLAIN" for name in others]
    plain += [f"_{name}.__class__ is _Tensor" for name in op.number_names]
    edges = " and ".join(["self.edge is None", *(f"{name}.edge is None" for name in others)])
    find = f"_layout.ways.get({_known_as(op)!r})"
    if others:
        one = " and ".join(f"{name}.facts is _layout" for name in others)
        key = "".join(f", {name}.facts" for name in others)
        find += f" if {one} else _layout.plans.get(({_known_as(op)!r}{key}))"
    # No plan by layouts tells whether views of one tensor overlap: the general way looks closer.
    apart = "".join(
        f" and ({name}._storage is not self._storage or {name}._storage is None"
        f" or {name} is self or not _overlap({name}.array, self.array))"
        for name in others
    )
    return [
        *[
            f"_{name} = _constant({name}, self) if {name}.__class__ in _NUMBERS else None"
            for name in op.number_names
        ],
        f"if {' and '.join(['not _modes.special', *plain])} and (",
        "    (_modes.grad_off and not _tls.grad)",
        f"    or ({edges} and (self.extra is None or self.extra.base is None",
        "        or self.extra.base.edge is None))):",
        "    _layout = self.facts",
        f"    _write = {find}",
        "    if _write is not None and (",
        f"        _write.__class__ is _OnDevice or self.array.flags.writeable){apart}:",
        f"        _write({', '.join([*used, 'self.array'])})",
        "        _s = self._storage",
        "        if _s is None: _s = storage_of(self)",
        "        _s.bump()",
        "        return self",
    ]
