"""Updates of a tensor by one pointwise body, in one pass over the arrays, on every device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import compress
from typing import Any

from numpy import asarray

from ..devices.backend import backend_of
from ..dispatch.op import OPS
from ..graph.modes import is_grad_enabled
from ..language.scalar import Body, Call, Name, parse, walk
from ..ops.create.creation import tensor
from ..tensor.layout import Layout
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor


@functools.cache
def fused(text: str, *names: str) -> Callable[..., None]:
    """Return a function update(target, *operands) that writes the result of the body `text` to
    target.

    The first of `names` stands for target in `text`, and the others for the operands. An operand is
    a Tensor of target's shape, dtype and device, a number, or a Tensor of one element. `text` need
    not use all names. With grad mode on, the update is recorded for autograd.
    """
    used = parse(text, names).used
    needed = tuple(name in used for name in names)
    body: Body = parse(text, [name for name in names if name in used])

    def update(target: Tensor, *operands: Any) -> None:
        given = compress((target, *operands), needed)
        if is_grad_enabled():
            target.copy_(_recorded(body, list(given), target))
            return
        # The backend is called directly. An op would also check for a graph, tangents and
        # broadcasting, and these checks take as long as updating a thousand elements.
        layout = target._layout
        dtype = layout.dtype.numpy
        arrays = [
            asarray(operand, dtype) if operand.__class__ is float else _array_of(operand, layout)
            for operand in given
        ]
        try:
            backend_of(layout.device.type).pointwise(body, arrays, target._array)
        finally:
            storage_of(target).bump()

    return update


def _array_of(operand: Any, target: Layout) -> Any:
    if isinstance(operand, Tensor):
        layout = operand._layout
        if layout is target or _is_alike(layout, target):
            return operand._array
        if layout.device is target.device and layout.device.type != "cpu":
            # The operand stays on the device, so the host does not wait for it.
            one = operand.detach().to(target.dtype).reshape([1] * len(target.shape))
            return one.expand(target.shape)._array
        operand = operand.item()
    return asarray(operand, target.dtype.numpy)


def _is_alike(one: Layout, other: Layout) -> bool:
    return (one.shape, one.dtype, one.device) == (other.shape, other.dtype, other.device)


def _recorded(body: Body, operands: list[Any], target: Tensor) -> Tensor:
    """Return the result of the body for the operands, computed by recorded ops.

    Note    copies of the operands are recorded, because later updates change the operands in place
            and a backward pass needs the old values
    """
    made: dict[Any, Tensor] = {}
    by_name = dict(zip(body.names, operands, strict=True))
    for piece in walk(body.tree):
        if isinstance(piece, Call):
            args = [made[arg] for arg in piece.args]
            made[piece] = OPS[piece.primitive](*args)
            continue
        value = by_name[piece.id] if isinstance(piece, Name) else piece.value  # type: ignore[attr-defined]
        if not isinstance(value, Tensor):
            made[piece] = tensor(value, dtype=target.dtype, device=target.device)
        elif value.shape == target.shape:
            made[piece] = value.clone()
        else:
            made[piece] = value.squeeze().to(target.device)
    return made[body.tree]


def direction(*, maximize: bool, weight_decay: Any) -> str:
    """Return the text of an expression for the gradient that a step uses.

    The expression is g, or -g if maximize is true; `decay * p` is added if there is weight decay.
    """
    g = "-g" if maximize else "g"
    return f"({g} + decay * p)" if weight_decay else f"({g})"
