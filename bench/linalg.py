"""Linear algebra of matrices and batches, float32, also with backward passes, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import Case, Row, compare, peer_torch, stopwatch

# a is positive definite; b has as many rows as a, and a quarter of a's columns.
STATEMENTS = {
    "cholesky": "L.cholesky(a)",
    "solve": "L.solve(a, b)",
    "solve_triangular": "L.solve_triangular(a, b, upper=False)",
    "inv": "L.inv(a)",
    "slogdet": "L.slogdet(a).logabsdet",
    "eigvalsh": "L.eigvalsh(a)",
    "svdvals": "L.svdvals(b)",
    "qr": "L.qr(b).R",
    "matrix_exp": "L.matrix_exp(a)",
}
SHAPES = ((8, 8), (128, 128), (256, 8, 8))
TARGET = 1.5


def run(rounds: int) -> list[Row]:
    """Compare each call without grad, and with its backward pass; ours against torch."""
    import fastdist

    torch = peer_torch()
    cases = []
    for shape in SHAPES:
        for name, statement in STATEMENTS.items():
            for backward in (False, True):
                ours = stopwatch(_work(fastdist, statement, shape, backward))
                peer = stopwatch(_work(torch, statement, shape, backward)) if torch else None
                title = f"{name} of {shape}{', backward' if backward else ''}"
                cases.append(Case(title, ours, peer, TARGET))
    return compare(cases, rounds)


def _work(
    library: Any, statement: str, shape: tuple[int, ...], backward: bool
) -> Callable[[], Any]:
    import numpy as np

    random = np.random.default_rng(0)
    n = shape[-1]
    x = random.standard_normal(shape).astype(np.float32) / n**0.5
    right = random.standard_normal((*shape[:-1], n // 4)).astype(np.float32)
    names = {
        "L": library.linalg,
        "a": library.tensor(x @ x.mT + np.eye(n, dtype=np.float32), requires_grad=backward),
        "b": library.tensor(right, requires_grad=backward),
    }
    function: Callable[[], Any] = eval(f"lambda: {statement}", names)
    if not backward:
        return function
    return lambda: function().sum().backward()
