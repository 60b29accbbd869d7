"""Who else wants a call, asked by every op at the start of its general path.

In this order: a batch of calls, a profile, autocast, which casts the operands, and a recorder. They
live in the room `listeners`.
"""

from __future__ import annotations

from typing import Any

from ..core.overriding import NOT_TAKEN
from ..listeners.autocast import cast_operands
from ..listeners.batched_tensor import levels
from ..listeners.batching import offer_batch
from ..listeners.timing import to_be_timed, told
from ..listeners.tracing import listener, shown_as, traced
from .way import are_keys


def heard(
    op: Any, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: Any = None
) -> tuple[Any, tuple[Any, ...]]:
    """Return what who listens makes of a call of op, NOT_TAKEN where the call is to run, and its
    operands as autocast has them.

    Note    called where modes.tracers is not zero; who takes a call comes back with it, once
    """
    if levels.depth:
        batch = offer_batch(op, operands, attributes, out)
        if batch is not NOT_TAKEN:
            return batch, operands
    if to_be_timed(op):
        event, given = op.event(operands, attributes), (operands, attributes, out)
        return told(event, op.general, given, op=op, entering=op), operands
    operands = cast_operands(op.name, operands)
    recorder = listener()
    if recorder is None or (op.kind == "structured" and not are_keys(attributes)):
        return NOT_TAKEN, operands
    shown = shown_as(recorder, op, operands, attributes)
    return traced(recorder, shown, op.general, (operands, attributes, out)), operands
