"""Reads, writes and reductions at indices, without and with gradients.

Indices select along an axis of a tensor with 1,000,000 elements, or pairs x[i, j]. Each statement
accesses 10,000 to 1,000,000 elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import Case, Row, chosen, compare, peer_torch, stopwatch

SIDE = 1000
STATEMENTS = {
    **{f"{name} along {dim}": f"x.{name}({dim}, index{rest})"
       for name, rest in (("gather", ""), ("scatter", ", y"), ("scatter_add", ", y"))
       for dim in (0, 1)},
    **{f"scatter_reduce {reduce} along 1": f"x.scatter_reduce(1, index, y, '{reduce}')"
       for reduce in ("prod", "mean", "amax", "amin")},
    "index_add along 0": "x.index_add(0, index[0], y)",
    "index_add along 1": "x.index_add(1, index[0], y)",
    "index_select along 1": "x.index_select(1, index[0])",
    "index_reduce amax along 0": "x.index_reduce(0, index[0], y, 'amax')",
    "index_reduce mean along 1": "x.index_reduce(1, index[0], y, 'mean')",
}  # fmt: skip
# Statements on vectors of indices and values, and whether the statement is differentiable.
AT_PLACES = {
    "x[i, j]": ("x[i, j]", True),
    "x[i] of negative places": ("x.reshape(-1)[i - SIDE]", True),
    "x[:, i]": ("x[:, i[:1000]]", True),
    "index_put": ("x.index_put((i, j), y)", True),
    "index_put that adds": ("x.index_put((i, j), y, True)", True),
    "nll_loss": ("F.nll_loss(y.view(-1, 10), labels)", True),
    "bincount": ("i.bincount()", False),
    "bincount with weights": ("i.bincount(y)", False),
}
COUNTS = (10_000, 100_000, 1_000_000)


def run(rounds: int) -> list[Row]:
    """Compare each statement without backward and with it, for x and y; ours against torch."""
    import fastdist

    torch = peer_torch()
    wanted = [
        (f"{name}{', backward' if backward else ''}", statement, backward, None)
        for name, statement in STATEMENTS.items()
        for backward in (False, True)
    ]
    wanted += [
        (f"{name}{', backward' if backward else ''}, {count:.0e}", statement, backward, count)
        for count in COUNTS
        for name, (statement, has_gradient) in AT_PLACES.items()
        for backward in (False, True)[: 1 + has_gradient]
    ]
    cases = []
    for title, *work in wanted:
        if chosen() in title:
            ours = stopwatch(_work(fastdist, *work))
            peer = stopwatch(_work(torch, *work)) if torch else None
            cases.append(Case(title, ours, peer, 1.0))
    return compare(cases, min(rounds, 11))


def _work(
    library: Any, statement: str, backward: bool, count: int | None = None
) -> Callable[[], Any]:
    """Return a function that runs a statement on the matrices x, y and index.

    With `count`, y is a vector of `count` numbers, one for each pair i, j of indices into x.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    x, y = (
        library.tensor(rng.standard_normal(shape).astype(np.float32)).requires_grad_(backward)
        for shape in ((SIDE, SIDE), count or (SIDE, SIDE))
    )
    names: dict[str, Any] = {"x": x, "y": y, "SIDE": SIDE}
    for name, shape in (("index", (SIDE, SIDE)), ("i", count or 1), ("j", count or 1)):
        names[name] = library.tensor(rng.integers(0, SIDE, shape))
    names["F"], names["labels"] = library.nn.functional, names["i"][: (count or 1) // 10] % 10
    function: Callable[[], Any] = eval(f"lambda: {statement}", names)
    if not backward:
        return function
    g = library.ones_like(function().detach())

    def work() -> None:
        x.grad = y.grad = None
        function().backward(g)

    return work
