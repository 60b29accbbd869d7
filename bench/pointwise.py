"""Pointwise ops over 1e5 to 5e7 float32, beside PyTorch and the memory.

Behind the times stands the share of the machine's triad (reading two arrays and writing a third)
that an op's reads and writes come to: those of large results wait for pages, as everybody's do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bench.harness import Amount, Case, Row, compare, peer_torch, stopwatch
from bench.optimizers import machine, triad

__all__ = ["machine", "run"]

SIZES = (100_000, 1_000_000, 10_000_000, 50_000_000)
LARGE = 10_000_000
TARGET = 0.8


class Kernel(NamedTuple):
    """An expression over x and y, and how many arrays of their size it reads and writes."""

    expression: str
    arrays: int


KERNELS = {
    "add": Kernel("x + y", 3),
    "mul by a number": Kernel("x * 0.7", 2),
    "where": Kernel("x.where(x > y, y)", 3),
    "exp": Kernel("x.exp()", 2),
    "sigmoid": Kernel("x.sigmoid()", 2),
    "gelu": Kernel("gelu(x)", 2),
}


def run(rounds: int) -> list[Row]:
    """Compare each op at each size; ours beside torch."""
    rate, rows = triad(), []
    for size in SIZES:
        rows += of_size(size, rounds if size < LARGE else min(rounds, 7), rate)
    return rows


def of_size(size: int, rounds: int, rate: float) -> list[Row]:
    """Compare each op over so many elements; rate is the triad, in bytes a second."""
    import fastdist

    torch = peer_torch()
    cases = []
    for name, (expression, arrays) in KERNELS.items():
        ours, peer = (
            None if one is None else stopwatch(_work(one, expression, size))
            for one in (fastdist, torch)
        )
        assert ours is not None
        amount = Amount(4.0 * arrays * size / rate * 1e9, "of triad")
        cases.append(Case(f"{name}, {size:.0e}", ours, peer, TARGET, amount=amount))
    return compare(cases, rounds)


def _work(library: Any, expression: str, size: int) -> Callable[[], Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    x, y = (library.tensor(rng.standard_normal(size, dtype=np.float32)) for _ in range(2))
    names = {"x": x, "y": y, "gelu": library.nn.functional.gelu}
    function: Callable[[], Any] = eval(f"lambda: {expression}", names)
    return function
