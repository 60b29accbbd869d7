"""Other shapes of an op's own operands and results, where neither graph nor user sees a view.

A composite that needs a matrix takes its input's axes together and its result's apart. Views that
are recorded and tracked cost 1.3 us each; outside of the graph the arrays alone are enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.device import CPU
from ..graph.modes import modes, tls
from ..tensor.layout import Shape
from ..tensor.tensor import Tensor, wrap
from .op import PLAIN
from .view import view_layout


def may_reshape(input: Tensor, others: Iterable[Tensor | None] = ()) -> bool:
    """Return whether an op on these operands is neither recorded nor observed, and input lies
    without gaps on the CPU.
    """
    layout = input._layout
    if modes.special or modes.tracers or not layout.contiguous or layout.device is not CPU:
        return False
    if input.__class__ not in PLAIN or layout.is_sparse:
        return False
    if modes.grad_off and not tls.grad:
        return all(one is None or one.__class__ in PLAIN for one in others)
    return input.edge is None and all(
        one is None or (one.__class__ in PLAIN and one.edge is None) for one in others
    )


def reshaped_operand(input: Tensor, shape: Shape) -> Tensor:
    """Return a gapless tensor's elements as another tensor, which is not a view to the graph: for
    an op that reads them, and does not return them.
    """
    array = input.array.reshape(shape)
    return wrap(array, view_layout(input._layout, array))


def reshape_result(result: Any, shape: Shape) -> Any:
    """Give a gapless result that nobody else has seen another shape, and return it."""
    array = result.array.reshape(shape)
    result._layout = view_layout(result._layout, array)
    result.array = array
    return result
