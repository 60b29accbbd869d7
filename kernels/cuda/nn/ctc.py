"""Connectionist temporal classification on CUDA arrays: sums over all alignments of a text in time.

log_probs is (time, samples, classes). A row of `letters` is the text of one sample, with a blank
before, between and after its classes. `sizes` has the number of time steps and the number of
letters (with blanks) of each sample.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..launch import C_TYPES, THREADS, Launch, Scratch, headers_for, int64_fields, launch, text_of
from ..layout import element_strides


def losses(
    log_probs: Any, letters: Any, sizes: Any, out: Any, alpha: Any, zero_infinity: bool
) -> None:
    """Write each text's negative log-likelihood into out. Write into alpha, (samples, time,
    letters), float64, the log-probability that at each step the text has been read up to each
    letter.

    With zero_infinity, the loss of a text that no alignment can produce is 0.
    """
    launch(plan_losses(log_probs, letters, sizes, out, alpha, zero_infinity))


def plan_losses(
    log_probs: Any, letters: Any, sizes: Any, out: Any, alpha: Any, zero_infinity: bool
) -> list[Launch]:
    """Return the launch of `losses`; no launch without samples.

    Note    all arrays except log_probs are contiguous
    """
    if not out.size:
        return []
    task = _task(log_probs, letters, zero_infinity)
    source = source_of_ctc(log_probs.dtype)
    arguments = (log_probs, letters, sizes, out, alpha, task)
    return [Launch(source, "losses", (letters.shape[0], 1), arguments)]


def gradient(
    g: Any, log_probs: Any, letters: Any, sizes: Any, alpha: Any, out: Any, zero_infinity: bool
) -> None:
    """Write g times the gradient of `losses` into out. The gradient is by the input of the
    log_softmax that made log_probs. It is the probability of each class minus the posterior
    probability of the class, given the text.
    """
    launch(plan_gradient(g, log_probs, letters, sizes, alpha, out, zero_infinity))


def plan_gradient(
    g: Any, log_probs: Any, letters: Any, sizes: Any, alpha: Any, out: Any, zero_infinity: bool
) -> list[Launch]:
    """Return the launches of `gradient`; no launch if out is empty.

    Note    all arrays except g and log_probs are contiguous
    """
    if not out.size:
        return []
    source = source_of_ctc(log_probs.dtype)
    task = _task(log_probs, letters, zero_infinity, element_strides(g)[0])
    samples, most = letters.shape
    next_ = Scratch(letters.shape, np.dtype(np.int64))
    chances = Scratch(alpha.shape, np.dtype(np.float64))
    rows = Scratch((samples, 2, most), np.dtype(np.float64))

    def step(name: str, blocks: int, *arguments: Any) -> Launch:
        return Launch(source, name, (blocks, 1), (*arguments, task))

    def shared(size: int) -> int:
        return -(-size // THREADS)

    walked = (log_probs, letters, sizes, alpha, chances)
    whole = (g, log_probs, letters, sizes, alpha, chances, next_, out)
    return [
        step("links", shared(letters.size), letters, sizes, next_),
        step("posterior", samples, *walked, rows),
        step("gradient", shared(out.size), g, log_probs, sizes, alpha, out),
        step("less_posterior", shared(alpha.size), *whole),
    ]


def _task(log_probs: Any, letters: Any, zero_infinity: bool, step_g: int = 0) -> Any:
    time, samples, classes = log_probs.shape
    steps = element_strides(log_probs)
    return int64_fields(samples, time, classes, letters.shape[1], zero_infinity, *steps, step_g)


@functools.lru_cache(maxsize=16)
def source_of_ctc(dtype: np.dtype[Any]) -> str:
    """Return the CUDA source for log_probs of a floating dtype."""
    return f"""{headers_for([dtype])}
typedef {C_TYPES[dtype]} Stored;
{text_of("nn/ctc.cu")}"""
