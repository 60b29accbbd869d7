"""Pooling and resizing of images, float32, forward and with the backward pass, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import Case, Row, compare, peer_torch, stopwatch

STATEMENTS = {
    "max_pool2d 2, stride 2": "F.max_pool2d(x, 2)",
    "max_pool2d 3, stride 2": "F.max_pool2d(x, 3, 2, 1)",
    "avg_pool2d 2, stride 2": "F.avg_pool2d(x, 2)",
    "interpolate bilinear to 2 x": "F.interpolate(x, (112, 112), mode='bilinear')",
    "interpolate bilinear to 1/2": "F.interpolate(x, (28, 28), mode='bilinear')",
}
SHAPE = (8, 64, 56, 56)
TARGET = 1.0


def run(rounds: int) -> list[Row]:
    """Compare each call without grad, and with its backward pass; ours against torch."""
    import fastdist

    torch = peer_torch()
    cases = []
    for name, statement in STATEMENTS.items():
        for backward in (False, True):
            ours = _work(fastdist, statement, backward)
            peer = stopwatch(_work(torch, statement, backward)) if torch else None
            title = f"{name} of {SHAPE}{', backward' if backward else ''}"
            cases.append(Case(title, stopwatch(ours), peer, TARGET))
    return compare(cases, rounds)


def _work(library: Any, statement: str, backward: bool) -> Callable[[], Any]:
    import numpy as np

    values = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    x = library.tensor(values, requires_grad=backward)
    names = {"F": library.nn.functional, "x": x}
    function: Callable[[], Any] = eval(f"lambda: {statement}", names)
    if not backward:
        return function
    g = library.ones_like(function().detach())

    def work() -> None:
        function().backward(g)

    return work
