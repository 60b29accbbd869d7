"""The loops of ctc.py, compiled."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..index.bounds import copy_inside, outside
from ..index.indices import INSIDE
from ..jit.compiler import compiled
from ..jit.machine import select
from ..pointwise.vector_math import functions

_exp: Final = functions("float64")["exp"]
_log: Final = functions("float64")["log"]
_NEVER: Final = -np.inf


@compiled(alone=False)
def _bar(letters: Any, barred: Any) -> None:
    """Write the log-factor of paths that skip the previous letter: -inf for blanks and repeats."""
    barred[:2] = _NEVER
    for s in range(2, len(letters)):
        barred[s] = _NEVER if s % 2 == 0 or letters[s] == letters[s - 2] else 0.0


@compiled(alone=False)
def _move(before: Any, barred: Any, moved: Any) -> None:
    """Write the log-sums over the paths to each letter: from itself, from the previous letter, or
    from the letter before that.

    `before` has two more elements at the front. Arithmetic is the bottleneck: three exponentials
    and a logarithm per letter, vectorized.
    """
    for s in range(len(moved)):
        a, b, c = before[s + 2], before[s + 1], before[s] + barred[s]
        top = select(a > b, a, b)
        top = select(top > c, top, c)
        top = select(top == _NEVER, 0.0, top)
        moved[s] = top + _log(_exp(a - top) + _exp(b - top) + _exp(c - top))


@compiled(alone=False)
def _log_chance(alpha: Any) -> Any:
    last = alpha[-1]
    before = alpha[-2] if len(alpha) > 1 else _NEVER
    top, low = max(last, before), min(last, before)
    return top + np.log1p(np.exp(low - top)) if top > _NEVER else top


# These functions return the first invalid number and a code of its kind: 1 for a letter, 2 for a
# number of steps, 3 for a number of letters. The code is 0 if all numbers are valid. See Note
# [Indices that change] in bounds.py. Letters are copied, and only the copy is used.
@compiled("ctc_loss")
def losses(log_probs: Any, letters: Any, sizes: Any, into: Any, alpha: Any, blot: Any) -> Any:
    most = letters.shape[1]
    before, barred, moved = np.empty(most + 2), np.empty(most + 2), np.empty(most)
    texts = np.empty(most, np.int64)
    for n in range(len(into)):
        steps, width = sizes[n, 0], sizes[n, 1]
        if np.uint64(steps) > np.uint64(log_probs.shape[0]):
            return outside(np.uint64(steps)), 2
        if np.uint64(width - 1) >= np.uint64(most):
            return outside(np.uint64(width)), 3
        text = texts[:width]
        found = copy_inside(letters[n, :width], log_probs.shape[2], text)
        if found != INSIDE:
            return found, 1
        _bar(text, barred)
        before[:] = _NEVER
        before[2] = 0.0
        for t in range(steps):
            _move(before, barred, moved[:width])
            row = log_probs[t, n]
            for s in range(width):
                before[s + 2] = moved[s] + row[text[s]]
                alpha[n, t, s] = before[s + 2]
        if steps:
            loss = -_log_chance(alpha[n, steps - 1, :width])
        else:
            loss = 0.0 if width == 1 else np.inf
        into[n] = 0.0 if blot and loss == np.inf else loss
    return INSIDE, 0


@compiled("the gradient of ctc_loss")
def gradient(
    g: Any, log_probs: Any, letters: Any, sizes: Any, alpha: Any, into: Any, blot: Any
) -> Any:
    most = letters.shape[1]
    before, barred, moved = np.empty(most + 2), np.empty(most + 2), np.empty(most)
    texts = np.empty(most, np.int64)
    for n in range(len(g)):
        steps, width = sizes[n, 0], sizes[n, 1]
        if np.uint64(steps) > np.uint64(log_probs.shape[0]):
            return outside(np.uint64(steps)), 2
        if np.uint64(width - 1) >= np.uint64(most):
            return outside(np.uint64(width)), 3
        found = copy_inside(letters[n, :width], log_probs.shape[2], texts)
        if found != INSIDE:
            return found, 1
        loss = -_log_chance(alpha[n, steps - 1, :width]) if steps else 0.0
        into[steps:, n] = 0
        if not np.isfinite(loss):
            into[:steps, n] = 0.0 if blot and loss == np.inf else np.nan
            continue
        # The backward variable is the forward variable of the reversed text.
        text = texts[:width][::-1].copy()
        _bar(text, barred)
        before[:] = _NEVER
        before[2] = 0.0
        for t in range(steps - 1, -1, -1):
            _move(before, barred, moved[:width])
            row, to = log_probs[t, n], into[t, n]
            for c in range(len(row)):
                to[c] = _exp(np.float64(row[c]))
            for s in range(width):
                before[s + 2] = moved[s] + row[text[s]]
                moved[s] = alpha[n, t, width - 1 - s] + moved[s]
            for s in range(width):
                moved[s] = _exp(moved[s] + loss)
            for s in range(width):
                to[text[s]] -= moved[s]
            for c in range(len(row)):
                to[c] *= g[n]
    return INSIDE, 0
