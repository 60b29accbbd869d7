"""The negative log likelihood of few rows, with few NumPy calls."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..nn import loss
from .call_facts import CallFacts, Run, number, ones, row_starts, small

Array = np.ndarray[Any, Any]
_ROWS: Final = 128


@small("nn.loss.nll")
def _nll(facts: CallFacts) -> Run | None:
    shape, (ignored, reduction), dtype = facts.shapes[0], facts.numbers, facts.dtype
    is_plain = facts.small and facts.contiguous[1] and facts.dtypes[1] == np.int64
    if shape is None or len(shape) != 2 or facts.shapes[2] is not None or not is_plain:
        return None
    if shape[0] > _ROWS:
        return None
    rows, classes = shape
    starts, one, count = row_starts(rows, classes), ones(rows, dtype), number(rows, dtype)
    final, empty, negative, add, divide = facts.shape, np.empty, np.negative, np.add, np.divide
    asarray, never = np.asarray, 0 <= ignored < classes

    def run(x: Array, target: Array, weight: None) -> tuple[Array, Array]:
        # A private copy, because NumPy reads an index again after its check. See Note [Indices
        # that change].
        own = target.copy()
        if never or own.item(own.argmin()) < 0 or own.item(own.argmax()) >= classes:
            out, total = empty(final, dtype), empty((), dtype)
            loss.nll(x, target, None, out, total, ignored, reduction)
            return out, total
        losses = x.ravel()[add(own, starts, own)]
        negative(losses, losses)
        if not reduction:
            return losses, count.copy()
        total = losses.dot(one)
        return asarray(divide(total, count) if reduction == 1 else total), count.copy()

    return run
