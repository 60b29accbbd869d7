"""Connectionist temporal classification on the CPU: sums over all alignments of a text in time.

log_probs is (time, samples, classes). A row of letters is a text with a blank before, between and
after its classes. sizes has the number of time steps and the number of letters of each sample.
Probabilities are added as logarithms in float64: over a thousand steps float32 loses the last third
of the digits of a gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..index.indices import OutOfBounds
from ..jit.background import is_numpys_turn
from ..jit.kernel_cache import Loops
from ..silence import silent

Array = np.ndarray[Any, Any]
_loops = Loops("nn.ctc_loops")


def _compile(name: str, log_probs: Any, letters: Any, sizes: Any, out: Any) -> None:
    likely, texts = np.zeros((1, 1, 1), log_probs), np.zeros((1, 1), letters)
    # The sample has no time steps, and its text is one blank.
    given = likely, texts, np.array([[0, 1]], sizes)
    one, alpha = np.zeros(1, out), np.zeros((1, 1, 1))
    if name == "losses":
        _loops.losses(*given, one, alpha, False)
    else:
        _loops.gradient(one, *given, alpha, likely.copy(), False)


# The NumPy version advances all samples by one step at a time. Values after the end of a text do
# not affect the letters of the text, because paths only lead from a letter to later letters.


def _bars(letters: Array) -> Array:
    """Return the log-factor of paths that skip the previous letter: -inf for blanks and repeats."""
    barred = np.full(letters.shape, -np.inf)
    skips = (np.arange(2, letters.shape[1]) % 2 == 1) & (letters[:, 2:] != letters[:, :-2])
    barred[:, 2:][skips] = 0.0
    return barred


@silent
def _move(before: Array, barred: Array) -> Array:
    """Return the log-sums over the paths to each letter: from itself, from the previous letter, or
    from the letter before that.

    `before` has two more elements at the front.
    """
    ways = np.stack([before[:, 2:], before[:, 1:-1], before[:, :-2] + barred])
    return np.logaddexp.reduce(ways)  # type: ignore[no-any-return]


def _beginning(letters: Array) -> Array:
    before = np.full((len(letters), letters.shape[1] + 2), -np.inf)
    before[:, 2] = 0.0
    return before


@silent
def _losses(alpha: Array, sizes: Array, zero_infinity: bool) -> Array:
    """Return the negative log-likelihood of each text."""
    samples, steps, width = np.arange(len(sizes)), sizes[:, 0], sizes[:, 1]
    found = np.where(width == 1, 0.0, np.inf)
    if alpha.shape[1]:
        ends = alpha[samples, steps - 1]
        last, before = ends[samples, width - 1], ends[samples, np.maximum(width - 2, 0)]
        chance = np.where(width > 1, np.logaddexp(last, before), last)
        found = np.where(steps > 0, -chance, found)
    return np.where(found == np.inf, 0.0, found) if zero_infinity else found


@silent
def _losses_by_numpy(
    log_probs: Array, letters: Array, sizes: Array, out: Array, alpha: Array, zero_infinity: bool
) -> None:
    before, barred = _beginning(letters), _bars(letters)
    for t, rows in enumerate(log_probs):
        before[:, 2:] = _move(before, barred) + np.take_along_axis(rows, letters, 1)
        alpha[:, t] = before[:, 2:]
    np.copyto(out, _losses(alpha, sizes, zero_infinity), casting="unsafe")


@silent
def _gradient_by_numpy(
    g: Array,
    log_probs: Array,
    letters: Array,
    sizes: Array,
    alpha: Array,
    out: Array,
    zero_infinity: bool,
) -> None:
    loss, (steps, width) = _losses(alpha, sizes, False), sizes.T
    loss[steps == 0] = 0.0
    # The backward variable is the forward variable of the reversed text.
    places = width[:, None] - 1 - np.arange(letters.shape[1])
    is_inside, places = places >= 0, np.maximum(places, 0)
    turned = np.take_along_axis(letters, places, 1)
    before, barred = _beginning(turned), _bars(turned)
    out.fill(0)
    for back in range(int(steps.max(initial=0))):
        n = np.flatnonzero(steps > back)
        t = steps[n] - 1 - back
        rows = log_probs[t, n].astype(np.float64)
        moved = _move(before[n], barred[n])
        before[n, 2:] = moved + np.take_along_axis(rows, turned[n], 1)
        passed = np.take_along_axis(alpha[n, t], places[n], 1) + moved
        chances = np.where(is_inside[n], np.exp(passed + loss[n, None]), 0.0)
        slopes = np.exp(rows)
        np.subtract.at(slopes, (np.arange(len(n))[:, None], turned[n]), chances)
        slopes *= g[n, None]
        never = 0.0 if zero_infinity else np.nan
        slopes[~np.isfinite(loss[n])] = np.nan
        slopes[loss[n] == np.inf] = never
        out[t, n] = slopes


def losses(
    log_probs: Array, letters: Array, sizes: Array, out: Array, alpha: Array, zero_infinity: bool
) -> None:
    """Write each text's negative log-likelihood into out. For each step and letter, write the
    log-probability that the path is at the letter after the step into alpha, (samples, time,
    letters), float64.

    With zero_infinity, the loss of an impossible text is 0.

    Raises  IndexError for a letter that is not a class, or sizes that do not fit
    """
    given = [np.ascontiguousarray(one) for one in (log_probs, letters, sizes)]
    kind = *[one.dtype for one in given], out.dtype
    if is_numpys_turn(_compile, "losses", *kind):
        own = _own_texts(*given)
        _losses_by_numpy(given[0], *own, out, alpha, zero_infinity)
        return
    found, what = _loops.losses(*given, out, alpha, zero_infinity)
    if what:
        _refuse(found, what, log_probs.shape, letters.shape[1])


def gradient(
    g: Array,
    log_probs: Array,
    letters: Array,
    sizes: Array,
    alpha: Array,
    out: Array,
    zero_infinity: bool,
) -> None:
    """Write g times the gradient of losses into out. The gradient is by the input of the
    log_softmax that made log_probs: the probabilities minus the probabilities given the text.

    Raises  IndexError for a letter that is not a class, or sizes that do not fit
    """
    given = [np.ascontiguousarray(one) for one in (g, log_probs, letters, sizes, alpha)]
    kind = *[one.dtype for one in given[1:4]], g.dtype
    if is_numpys_turn(_compile, "gradient", *kind):
        own = _own_texts(*given[1:4])
        _gradient_by_numpy(given[0], given[1], *own, given[4], out, zero_infinity)
        return
    found, what = _loops.gradient(*given, out, zero_infinity)
    if what:
        _refuse(found, what, log_probs.shape, letters.shape[1])


def _own_texts(log_probs: Array, letters: Array, sizes: Array) -> tuple[Array, Array]:
    """Return private copies of letters and sizes, for NumPy's loops.

    Raises  IndexError for a letter that is not a class, or sizes that do not fit
    """
    letters, sizes = letters.copy(), sizes.copy()
    (steps, _, classes), most = log_probs.shape, letters.shape[1]
    columns = (letters.reshape(-1), 0, classes - 1), (sizes[:, 0], 0, steps), (sizes[:, 1], 1, most)
    for what, (numbers, low, high) in enumerate(columns, 1):
        wrong = numbers[(numbers < low) | (numbers > high)]
        if wrong.size:
            _refuse(int(wrong[0]), what, log_probs.shape, most)
    return letters, sizes


def _refuse(found: int, what: int, shape: tuple[int, ...], most: int) -> None:
    """Raise the error for an invalid number that a loop found. `what` is 1 for a letter, 2 for the
    number of steps, 3 for the number of letters.
    """
    if what == 1:
        raise OutOfBounds(f"ctc_loss: targets are in 0 ... {shape[2] - 1}, got {found}")
    if what == 2:
        end = "least 0" if found < 0 else f"most {shape[0]}"
        raise OutOfBounds(f"Expected input_lengths to have value at {end}, but got value {found}")
    raise OutOfBounds(f"ctc_loss: a text has 1 to {most} letters, got {found}")
