"""The loops of averages.py, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit.compiler import compiled


# Memory is the bottleneck for small windows. A row of sums stays in the L1 cache: for each offset
# in the window, the loop adds one element of x to each sum of the row, to adjacent sums together.
@compiled("avg_pool")
def average(x: Any, into: Any, counts: Any, window: Any, of_integers: bool) -> None:
    kernel, stride, padding = window
    length, outputs = x.shape[1], into.shape[1]
    for r in range(x.shape[0]):
        row, sums = x[r], into[r]
        sums[:] = 0
        # Skip offsets of the window that only read padding: a huge window is mostly in the padding.
        for k in range(max(padding - (outputs - 1) * stride, 0), min(kernel, padding + length)):
            shift = k - padding
            begin = max((stride - 1 - shift) // stride, 0)
            for i in range(begin, min((length - 1 - shift) // stride + 1, outputs)):
                sums[i] += row[i * stride + shift]
        if of_integers:
            for i in range(outputs):
                quotient = sums[i] // counts[i]  # integer division rounds down; PyTorch truncates
                sums[i] = quotient + (sums[i] < 0 and quotient * counts[i] != sums[i])
        else:
            for i in range(outputs):
                sums[i] /= counts[i]


@compiled("the gradient of avg_pool")
def spread(x: Any, into: Any, counts: Any, window: Any) -> None:
    kernel, stride, padding = window
    outputs, length = x.shape[1], into.shape[1]
    shares = np.empty(outputs, x.dtype)
    for r in range(x.shape[0]):
        row, sums = x[r], into[r]
        for i in range(outputs):
            shares[i] = row[i] / counts[i]
        sums[:] = 0
        # Skip offsets of the window that only read padding: a huge window is mostly in the padding.
        for k in range(max(padding - (outputs - 1) * stride, 0), min(kernel, padding + length)):
            shift = k - padding
            begin = max((stride - 1 - shift) // stride, 0)
            for i in range(begin, min((length - 1 - shift) // stride + 1, outputs)):
                sums[i * stride + shift] += shares[i]
