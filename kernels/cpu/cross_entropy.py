"""Cross entropy of rows of logits with class indices, and its gradient, on the CPU.

What a classifier's last layer calls: one pass over (rows, classes) in place of the three of
log_softmax, nll and their sums. Bound by memory for many classes, by the calls for few.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .silence import silent
from .softmax import log_softmax

Array = np.ndarray[Any, Any]


@silent
def rows(x: Array, target: Array, out: Array, likely: Array, reduction: int) -> None:
    """Write log_softmax(x) into likely and -likely[i, target[i]] into out, reduced.

    x and likely: (rows, classes); target: (rows,), every class inside. reduction is 0 for none, 1
    for the mean, 2 for the sum. NaN and inf as softmax.log_softmax has them.
    """
    if not x.size:
        # The mean of nothing is NaN, its sum 0.
        out.fill(np.nan if reduction == 1 else 0)
        return
    log_softmax(x, likely, 1)
    chosen = likely[np.arange(len(target)), target]
    if reduction == 0:
        np.negative(chosen, out=out)
        return
    total = np.add.reduce(chosen)
    np.copyto(out, -total / len(target) if reduction == 1 else -total)


@silent
def rows_gradient(g: Array, target: Array, likely: Array, out: Array, reduction: int) -> None:
    """Write the gradient of rows by x into out: (exp(likely) - one at the class) * g."""
    np.exp(likely, out=out)
    out[np.arange(len(target)), target] -= 1
    if reduction == 0:
        np.multiply(out, g[:, None], out=out)
    else:
        np.multiply(out, g / len(target) if reduction == 1 and len(target) else g, out=out)
