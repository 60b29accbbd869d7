"""Reshaping of an op's own operands and results, where neither the graph nor the user sees a view.

A composite that needs a matrix merges axes of its input and splits axes of its result. A view that
is recorded, and that stores its base, takes 1.3 us. Without recording, the arrays can be reshaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.device import CPU
from ..dispatch.op import PLAIN
from ..graph.modes import modes, tls
from ..tensor.layout import Layout, Shape
from ..tensor.tensor import Tensor, wrap


def plain_layout(input: Any) -> Layout | None:
    """Return the layout of a plain dense tensor on the CPU, None for other operands and while an
    interpreter is open.
    """
    if input.__class__ not in modes.plain:
        return None
    layout: Layout = input._layout
    return None if layout.device is not CPU or layout.is_sparse else layout


def may_reshape(input: Tensor, others: Sequence[Tensor | None] = ()) -> bool:
    """Return whether an op on these operands is not recorded, not seen by any interpreter, and has
    a contiguous input on the CPU.
    """
    if input.__class__ not in modes.plain:
        return False
    layout = input._layout
    if not layout.contiguous or layout.device is not CPU or layout.is_sparse:
        return False
    # A loop is used, because all() with a generator takes 0.3 us.
    is_off = modes.grad_off > 0 and not tls.grad
    for one in others:
        if one is not None and (one.__class__ not in PLAIN or not (is_off or one._edge is None)):
            return False
    return is_off or input._edge is None


def reshaped_operand(input: Tensor, shape: Shape) -> Tensor:
    """Return a new tensor over the elements of a contiguous tensor. The graph does not treat the
    new tensor as a view, so pass it only to an op that reads it and does not return it.
    """
    return wrap(input._array.reshape(shape), _gapless(input._layout, shape))


def reshape_result(result: Tensor, shape: Shape) -> Tensor:
    """Change the shape of a contiguous result that has no other references; return the result."""
    result._layout = _gapless(result._layout, shape)
    result._array = result._array.reshape(shape)
    return result


def _gapless(layout: Layout, shape: Shape) -> Layout:
    """Return the layout of `shape` in C order, with the dtype and device of `layout`. The new
    layout is cached in the routes of `layout`.
    """
    key = (_gapless, shape)
    found: Layout | None = layout.routes.get(key)
    if found is None:
        found = layout.routes.remember(key, Layout.of(layout.dtype, layout.device, shape))
    return found
