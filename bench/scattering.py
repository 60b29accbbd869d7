"""What is read, written and reduced at an index: 1,000,000 elements, alone and with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import Case, Row, compare, peer_torch, stopwatch

SIDE = 1000
STATEMENTS = {
    **{f"{name} along {dim}": f"x.{name}({dim}, index{rest})"
       for name, rest in (("gather", ""), ("scatter", ", y"), ("scatter_add", ", y"))
       for dim in (0, 1)},
    **{f"scatter_reduce {reduce} along 1": f"x.scatter_reduce(1, index, y, '{reduce}')"
       for reduce in ("prod", "mean", "amax", "amin")},
    "index_add along 1": "x.index_add(1, index[0], y)",
    "index_reduce amax along 0": "x.index_reduce(0, index[0], y, 'amax')",
    "index_reduce mean along 1": "x.index_reduce(1, index[0], y, 'mean')",
}  # fmt: skip


def run(rounds: int) -> list[Row]:
    """Compare each alone, and with the gradients of both operands; ours beside torch."""
    import fastdist

    torch = peer_torch()
    cases = []
    for name, statement in STATEMENTS.items():
        for backward in (False, True):
            ours = stopwatch(_work(fastdist, statement, backward))
            peer = stopwatch(_work(torch, statement, backward)) if torch else None
            cases.append(Case(f"{name}{', backward' if backward else ''}", ours, peer, 1.0))
    return compare(cases, min(rounds, 11))


def _work(library: Any, statement: str, backward: bool) -> Callable[[], Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    x, y = (
        library.tensor(rng.standard_normal((SIDE, SIDE)).astype(np.float32)).requires_grad_(
            backward
        )
        for _ in range(2)
    )
    index = library.tensor(rng.integers(0, SIDE, (SIDE, SIDE)))
    function: Callable[[], Any] = eval(f"lambda: {statement}", {"x": x, "y": y, "index": index})
    if not backward:
        return function
    g = library.ones(SIDE, SIDE)

    def work() -> None:
        x.grad = y.grad = None
        function().backward(g)

    return work
