"""Other shapes of an op's own operands and results, where neither graph nor user sees a view.

A composite that needs a matrix takes its input's axes together and its result's apart. Views that
are recorded and tracked cost 1.3 us each; outside of the graph the arrays alone are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.device import CPU
from ..dispatch.op import PLAIN
from ..graph.modes import modes, tls
from ..tensor.layout import Layout, Shape
from ..tensor.tensor import Tensor, wrap


def may_reshape(input: Tensor, others: Sequence[Tensor | None] = ()) -> bool:
    """Return whether an op on these operands is neither recorded nor observed, and input lies
    without gaps on the CPU.
    """
    layout = input._layout
    if not layout.contiguous or layout.device is not CPU:
        return False
    if input.__class__ not in modes.plain or layout.is_sparse:
        return False
    # Not all(): a generator takes 0.3 us.
    is_off = modes.grad_off > 0 and not tls.grad
    for one in others:
        if one is not None and (one.__class__ not in PLAIN or not (is_off or one._edge is None)):
            return False
    return is_off or input._edge is None


def reshaped_operand(input: Tensor, shape: Shape) -> Tensor:
    """Return a gapless tensor's elements as another tensor, which is not a view to the graph: for
    an op that reads them, and does not return them.
    """
    return wrap(input._array.reshape(shape), _gapless(input._layout, shape))


def reshape_result(result: Tensor, shape: Shape) -> Any:
    """Give a gapless result that nobody else has seen another shape, and return it."""
    result._layout = _gapless(result._layout, shape)
    result._array = result._array.reshape(shape)
    return result


def _gapless(layout: Layout, shape: Shape) -> Layout:
    """Return the layout of the same dtype and device of another shape in C order, which is kept
    with the one that it was made from.
    """
    key = (_gapless, shape)
    found: Layout | None = layout.routes.get(key)
    if found is None:
        found = layout.routes.remember(key, Layout.of(layout.dtype, layout.device, shape))
    return found
