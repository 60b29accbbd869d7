"""Updates of a tensor as one pointwise body: each array is read once, on every device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.backend import backend_of
from ..core.scalar import Body, parse
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor


@functools.cache
def fused(text: str, *names: str) -> Callable[..., None]:
    """Return update(target, *operands), which writes the body of text over target.

    The first name stands for target itself; operands are Tensors of target's shape, dtype and
    device, or numbers. Names that text does not use may be there all the same.
    """
    used = parse(text, names).used
    needed = [name in used for name in names]
    body: Body = parse(text, [name for name in names if name in used])

    def update(target: Tensor, *operands: Any) -> None:
        # Straight to the backend: an op would look for a graph, for tangents and for broadcasts,
        # which costs as much as updating a thousand elements.
        layout = target.layout
        dtype = layout.dtype.numpy
        arrays = [
            operand.array if isinstance(operand, Tensor) else np.asarray(operand, dtype)
            for operand, is_needed in zip((target, *operands), needed, strict=True)
            if is_needed
        ]
        backend_of(layout.device.type).pointwise(body, arrays, target.array)
        storage_of(target).bump()

    return update


def direction(*, maximize: bool, weight_decay: float) -> str:
    """Return the text of where a step goes: the gradient g, turned round to maximize, and with
    `decay * p` on top if there is any.
    """
    g = "-g" if maximize else "g"
    return f"({g} + decay * p)" if weight_decay else f"({g})"
