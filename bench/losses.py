"""The CTC loss, forward and with its backward pass, for short and long texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import Case, Row, compare, peer_torch, stopwatch

# Steps, samples, classes, target length.
SIZES = ((50, 16, 20, 20), (400, 32, 80, 100))


def run(rounds: int) -> list[Row]:
    """Compare the loss alone, and with its gradient; ours against torch."""
    import fastdist

    torch = peer_torch()
    cases = []
    for size in SIZES:
        for backward in (False, True):
            ours = stopwatch(_work(fastdist, size, backward))
            peer = stopwatch(_work(torch, size, backward)) if torch else None
            title = f"ctc_loss of {size}{', backward' if backward else ''}"
            cases.append(Case(title, ours, peer, 1.0))
    return compare(cases, rounds)


def _work(library: Any, size: tuple[int, ...], backward: bool) -> Callable[[], Any]:
    import numpy as np

    steps, samples, classes, letters = size
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((steps, samples, classes)).astype(np.float32)
    likely = library.tensor(logits).log_softmax(2).requires_grad_(backward)
    texts = library.tensor(rng.integers(1, classes, (samples, letters)))
    lengths = library.full((samples,), steps), library.full((samples,), letters)

    def work() -> None:
        loss = library.nn.functional.ctc_loss(likely, texts, *lengths)
        if backward:
            likely.grad = None
            loss.backward()

    return work
