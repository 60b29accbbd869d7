"""One step of each optimizer on four float32 parameters, small and large, against torch's.

Optimizers for which torch has fused kernels are also timed with one parameter of ten million
numbers, and with a thousand parameters of a thousand numbers, against torch's fused optimizers. For
these the table shows the memory bandwidth as a share of the machine's triad (read two arrays and
write a third).

The `_foreach_` rows time functions on lists of fifty tensors, as third-party optimizers use them.
"""

from __future__ import annotations

from typing import Any

from bench.harness import Amount, Case, Row, Stopwatch, compare, peer_torch, stopwatch

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
# For each optimizer, how many arrays of a parameter's size a step reads or writes.
FUSED = {"SGD": 3, "SGD, momentum": 5, "Adam": 7, "AdamW": 7}
MANY = {"1 x 10,000,000": (1, (10_000_000,)), "1,000 x 1,000": (1_000, (1_000,))}
FUSED_TARGET = 0.9
# The arguments of each function; a, b and c are lists of tensors.
FOREACH = {
    "_foreach_add_": "add_(a, b, alpha=1e-9)",
    "_foreach_mul_": "mul_(a, 1.0)",
    "_foreach_addcmul_": "addcmul_(a, b, c, value=1e-9)",
    "_foreach_addcdiv_": "addcdiv_(a, b, c, value=1e-9)",
    "_foreach_lerp_": "lerp_(a, b, 1e-9)",
    "_foreach_sqrt": "sqrt(a)",
    "_foreach_div": "div(a, b)",
    "_foreach_norm": "norm(a)",
}
FOREACH_COUNT = 50
FOREACH_SIZES = (64, 4_096)
FOREACH_TARGET = 1.3
_TRIAD_LENGTH = 10_000_000


def run(rounds: int) -> list[Row]:
    """Compare a step of each optimizer; ours against torch."""
    import fastdist

    torch = peer_torch()
    cases = []
    for size in SIZES:
        for way in WAYS:
            peer = watch(torch, way, (8, size // 8)) if torch else None
            cases.append(
                Case(
                    f"{way}, {COUNT} x {size:,}", watch(fastdist, way, (8, size // 8)), peer, TARGET
                )
            )
    for size in FOREACH_SIZES:
        for name in FOREACH:
            cases.append(
                Case(
                    f"{name}, {FOREACH_COUNT} x {size:,}",
                    watch_lists(fastdist, name, size),
                    watch_lists(torch, name, size) if torch else None,
                    FOREACH_TARGET,
                )
            )
    rate = triad()
    for size_name, (count, shape) in MANY.items():
        for way, arrays in FUSED.items():
            peer = watch(torch, way, shape, count, fused=True) if torch else None
            moved = 4 * arrays * count * shape[0]
            cases.append(
                Case(
                    f"{way}, {size_name}",
                    watch(fastdist, way, shape, count, fused=True),
                    peer,
                    FUSED_TARGET,
                    amount=Amount(moved / rate * 1e9, "of triad"),
                )
            )
    return compare(cases, rounds)


def watch_lists(library: Any, name: str, size: int) -> Stopwatch:
    """Return the stopwatch of a call on lists of tensors with `size` elements each."""
    lists = {one: [library.ones(size) for _ in range(FOREACH_COUNT)] for one in "abc"}
    return stopwatch(f"library._foreach_{FOREACH[name]}", library=library, **lists)


def triad() -> float:
    """Return the bandwidth of NumPy's x + y into existing memory, in bytes per second."""
    import numpy as np

    x, y, out = (np.ones(_TRIAD_LENGTH, np.float32) for _ in range(3))
    watch = stopwatch("add(x, y, out)", add=np.add, x=x, y=y, out=out)
    watch(2)
    return 12 * _TRIAD_LENGTH / min(watch(1) for _ in range(10))


def machine() -> dict[str, Any]:
    """Return the bandwidth of the machine's triad, of which the table shows shares."""
    return {"triad": f"{triad() / 1e9:.1f} GB/s"}


def watch(
    library: Any, way: str, shape: tuple[int, ...], count: int = COUNT, **more: Any
) -> Stopwatch:
    """Return a stopwatch of steps on `count` parameters of a shape, with constant gradients."""
    import numpy as np

    rng = np.random.default_rng(0)
    name, options = WAYS[way]
    parameters = []
    for _ in range(count):
        values, slopes = rng.standard_normal((2, *shape), dtype=np.float32)
        parameter = library.tensor(values, requires_grad=True)
        parameter.grad = library.tensor(slopes)
        parameters.append(parameter)
    # A learning rate so small that nothing overflows, however many steps are timed.
    optimizer = getattr(library.optim, name)(parameters, lr=1e-6, **options, **more)
    optimizer.step()
    return stopwatch("optimizer.step()", optimizer=optimizer)
