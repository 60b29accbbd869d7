"""The Python overhead of calls on `cuda`, with kernels that only count launches (free_cupy.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.gpus import free_cupy
from bench.harness import Case, Stopwatch, stopwatch

SUM_S, CALL_S, NODE_S, PRODUCT_S, PARAMETER_S = 3e-6, 5e-6, 15e-6, 18e-6, 2e-6
"""The bounds of x + y, of other calls, of a further Node forward and backward, of one that makes
two products on its way back, and of a parameter in a step.
"""

_CALLS = {
    "x + y": ("x + y", SUM_S),
    "x * 2": ("x * 2.0", CALL_S),
    "x + row": ("x + row", SUM_S),
    "x.T + y.T": ("s + t", CALL_S),
    "x @ y": ("x @ y", CALL_S),
    "linear with a bias": ("linear(x, y, row)", CALL_S),
    "sum": ("x.sum()", SUM_S),
    "softmax": ("x.softmax(-1)", SUM_S),
    "view": ("x.t()", CALL_S),
    "in place": ("x.add_(y)", SUM_S),
    "x * y, recorded": ("w * v", CALL_S),
}
_NODES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mul": lambda t, w, y: t * y,
    "mul of two that require grad": lambda t, w, y: t * w,
    "tanh": lambda t, w, y: t.tanh(),
    "matmul": lambda t, w, y: t @ y,
    "matmul of two that require grad": lambda t, w, y: t @ w,
    "linear": lambda t, w, y: linear(t, y),
    "linear of two that require grad": lambda t, w, y: linear(t, w),
}
_PRODUCTS = {"matmul of two that require grad", "linear of two that require grad"}
_FURTHER, _PARAMETERS = 50, 200


def cases() -> list[Case]:
    """Return the cases of 8x8 float32 ops on the simulated CuPy, each with its bound.

    Titles show the number of kernel launches.
    """
    free_cupy.take_cupy_s_place()
    names = operands()
    found = []
    for title, (statement, bound_s) in _CALLS.items():
        ours = stopwatch(statement, **names)
        found.append(_beside_bound(title, ours, launches_of(ours), bound_s))
    for title, op in _NODES.items():
        few, many = (stopwatch(chain(op, names, length)) for length in (2, 2 + _FURTHER))
        bound_s = PRODUCT_S if title in _PRODUCTS else NODE_S
        found.append(_further(f"one more Node: {title}", few, many, bound_s, _FURTHER))
    for kind, options in (("SGD", {"lr": 0.1}), ("Adam", {"lr": 1e-3})):
        few, many = (stopwatch(step(kind, count, options)) for count in (8, 8 + _PARAMETERS))
        title = f"one more parameter: {kind}, foreach"
        found.append(_further(title, few, many, PARAMETER_S, _PARAMETERS))
    return found


def linear(x: Any, weight: Any) -> Any:
    """Return x @ weight.T."""
    import fastdist

    return fastdist.nn.functional.linear(x, weight)


def operands() -> dict[str, Any]:
    """Return tensors on the device: x and y, two leaves w and v, and a row."""
    import numpy as np

    import fastdist

    def tensor(*shape: int, grad: bool = False) -> Any:
        return fastdist.tensor(np.zeros(shape, np.float32), device="cuda", requires_grad=grad)

    leaves = {name: tensor(8, 8, grad=True) for name in ("w", "v")}
    x, y = tensor(8, 8), tensor(8, 8)
    return {
        "linear": fastdist.nn.functional.linear,
        "x": x,
        "y": y,
        "s": x.t(),
        "t": y.t(),
        "row": tensor(8),
        **leaves,
    }


def chain(
    op: Callable[[Any, Any, Any], Any], names: dict[str, Any], length: int
) -> Callable[[], None]:
    """Return a function with a forward pass through `length` Nodes, and the backward pass."""

    def work() -> None:
        t = names["v"]
        for _ in range(length):
            t = op(t, names["w"], names["y"])
        t.sum().backward()

    return work


def step(kind: str, count: int, options: dict[str, Any]) -> Callable[[], None]:
    """Return a step of an optimiser over `count` parameters."""
    import fastdist

    parameters = []
    for _ in range(count):
        made = operands()
        made["w"].grad = made["x"]
        parameters.append(made["w"])
    work: Callable[[], None] = getattr(fastdist.optim, kind)(
        parameters, foreach=True, **options
    ).step
    return work


def launches_of(watch: Stopwatch) -> int:
    """Return the number of kernel launches per turn, after two turns that warm up."""
    watch(2)
    before = next(free_cupy.launches)
    watch(1)
    return next(free_cupy.launches) - before - 1


def _further(title: str, few: Stopwatch, many: Stopwatch, bound_s: float, parts: int) -> Case:
    """Return the case that times the `parts` parts by which `many` exceeds `few`."""

    def difference(turns: int) -> float:
        return many(turns) - few(turns)

    launches = launches_of(many) - launches_of(few)
    return _beside_bound(title, difference, launches, bound_s, parts)


def _beside_bound(
    title: str, ours: Stopwatch, launches: int, bound_s: float, parts: int = 1
) -> Case:
    def bound(turns: int) -> float:
        return bound_s * turns * parts

    words = f"{title} ({launches / parts:.3g} launches)"
    return Case(words, ours, bound, 1.0, parts=parts)
