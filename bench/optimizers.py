"""One step of each optimizer over four float32 parameters, small and large, beside torch's."""

from __future__ import annotations

from typing import Any

from bench.harness import Case, Row, Stopwatch, compare, peer_torch, stopwatch

SIZES = (64, 100_000)
COUNT = 4
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {}),
    "SGD, momentum": ("SGD", {"momentum": 0.9}),
    "Adam": ("Adam", {}),
    "AdamW": ("AdamW", {}),
    "Adadelta": ("Adadelta", {}),
    "Adafactor": ("Adafactor", {}),
    "Adagrad": ("Adagrad", {}),
    "Adamax": ("Adamax", {}),
    "ASGD": ("ASGD", {}),
    "NAdam": ("NAdam", {}),
    "RAdam": ("RAdam", {}),
    "RMSprop": ("RMSprop", {}),
    "RMSprop, centered, momentum": ("RMSprop", {"centered": True, "momentum": 0.9}),
    "Rprop": ("Rprop", {}),
    "Muon": ("Muon", {}),
}
TARGET = 1.0


def run(rounds: int) -> list[Row]:
    """Compare a step of each; ours beside torch."""
    import fastdist

    torch = peer_torch()
    cases = []
    for size in SIZES:
        for way in WAYS:
            peer = watch(torch, way, size) if torch else None
            cases.append(
                Case(f"{way}, {COUNT} x {size:,}", watch(fastdist, way, size), peer, TARGET)
            )
    return compare(cases, rounds)


def watch(library: Any, way: str, size: int) -> Stopwatch:
    """Return what times steps over matrices of so many numbers, with gradients that stay."""
    import numpy as np

    rng = np.random.default_rng(0)
    name, options = WAYS[way]
    shape = (8, size // 8)
    parameters = []
    for _ in range(COUNT):
        values, slopes = rng.standard_normal((2, *shape), dtype=np.float32)
        parameter = library.tensor(values, requires_grad=True)
        parameter.grad = library.tensor(slopes)
        parameters.append(parameter)
    # So slowly that nothing overflows, however many steps are timed.
    optimizer = getattr(library.optim, name)(parameters, lr=1e-6, **options)
    optimizer.step()
    return stopwatch("optimizer.step()", optimizer=optimizer)
