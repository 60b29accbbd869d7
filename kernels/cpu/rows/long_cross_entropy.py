"""Cross entropy of many rows, and its gradient, by compiled loops: see long_rows.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..index.indices import ALL_INSIDE, INSIDE, refuse_class
from ..jit.array_objects import ARRAY, gapless
from ..memory import maker_of
from ..small.call_facts import CallFacts, Run
from .long_rows import DTYPES, bound, result_by

Array = np.ndarray[Any, Any]


def cross_entropy(facts: CallFacts, *, is_alone: bool = False) -> Run | None:
    """Return the function for the cross entropy of rows. Its results are the loss, exp(x) up to a
    factor per row, and the sum of these powers for each row. If is_alone, the loss is the only
    result.
    """
    if not _is_cross_entropy(facts):
        return None
    (rows, classes), dtype, (reduction,) = facts.shapes[0], facts.dtype, facts.numbers  # type: ignore[misc]
    in_order, empty, array_type = all(facts.contiguous), np.empty, ARRAY
    large, launch, copy_of = maker_of((rows, classes), dtype), None, np.ndarray.copy
    loop = "cross_entropy_losses" if is_alone else "cross_entropy"
    add = result_by("sum_of_rows", (), dtype, 1, rows, 1.0 / rows if reduction == 1 else 1.0)

    def many_rows(x: Array, target: Array) -> Any:
        nonlocal launch
        losses = empty(rows, dtype)
        kept = () if is_alone else (large((rows, classes), dtype), empty(rows, dtype))
        if not (in_order and type(x) is type(target) is array_type):
            x, target = gapless(x, target)
        if launch is None:
            launch = bound(loop, dtype, rows, classes)
        wrong = copy_of(ALL_INSIDE)
        launch((x, target, losses, *kept, wrong))
        if (found := wrong.item()) != INSIDE:
            refuse_class(found, classes)
        loss = losses if reduction == 0 else add(losses)
        return loss if is_alone else (loss, *kept)

    return many_rows


def cross_entropy_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return the function for the gradient of cross entropy by its input."""
    if not _is_cross_entropy(facts):
        return None
    (rows, classes), dtype, (reduction,) = facts.shapes[0], facts.dtype, facts.numbers  # type: ignore[misc]
    large, empty, copy_of = maker_of((rows, classes), dtype), np.empty, np.ndarray.copy
    scale, launch = 1.0 / rows if reduction == 1 else 1.0, None
    in_order, array_type = all(facts.contiguous), ARRAY

    def by_input(g: Array, others: Any, x: Array, target: Array) -> Array:
        nonlocal launch
        made, (weights, totals) = large((rows, classes), dtype), others
        if g.ndim:
            (g,) = gapless(g)
        else:  # np.broadcast_to would take 4 us
            one, g = g.item(), empty(rows, dtype)
            g.fill(one)
        if not (in_order and type(target) is type(weights) is type(totals) is array_type):
            target, weights, totals = gapless(target, weights, totals)
        if launch is None:
            launch = bound("cross_entropy_gradient", dtype, rows, classes, scale)
        wrong = copy_of(ALL_INSIDE)
        launch((g, target, weights, totals, made, wrong))
        if (found := wrong.item()) != INSIDE:
            refuse_class(found, classes)
        return made

    return by_input, None


def _is_cross_entropy(facts: CallFacts) -> bool:
    shape, dtype = facts.shapes[0], facts.dtypes[0]
    return shape is not None and dtype.name in DTYPES and math.prod(shape) > 0
