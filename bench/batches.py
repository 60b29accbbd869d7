"""vmap over 64 calls, Jacobians and Hessians, against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import Case, Row, compare, peer_torch, stopwatch

CALLS, SIZE = 64, 64


def _net(t: Any, x: Any, first: Any, second: Any) -> Any:
    return (second @ (first @ x).tanh()).sin()


def _lstm(t: Any, x: Any, *weights: Any) -> Any:
    state = t.zeros(1, 1, 16)
    return t.lstm(x, (state, state), list(weights), True, 1, 0.0, False, False, False)[0]


# The function to call, the batched axis of each argument (None if it is not batched), the shapes of
# the arguments, and whether PyTorch has a batching rule for the function.
VMAPS: dict[str, tuple[Callable[..., Any], Any, tuple[tuple[int, ...], ...], bool]] = {
    "a net's gradients, each sample's": (
        lambda t, x, *w: t.func.grad(lambda x, *w: _net(t, x, *w).square().sum(), (1, 2))(x, *w),
        (0, None, None), ((CALLS, SIZE), (32, SIZE), (8, 32)), True,
    ),
    "LSTM of 20 steps": (
        _lstm, (0, None, None, None, None),
        ((CALLS, 20, 1, 16), (64, 16), (64, 16), (64,), (64,)), False,
    ),
    "masked_scatter of 100": (
        lambda t, x, y: x.masked_scatter(x > 0, y), (0, 0), ((CALLS, 100), (CALLS, 100)), False,
    ),
}  # fmt: skip
DERIVATIVES: dict[str, Callable[..., Any]] = {
    "jacrev": lambda t, f, x: t.func.jacrev(f)(x),
    "jacfwd": lambda t, f, x: t.func.jacfwd(f)(x),
    "hessian": lambda t, f, x: t.func.hessian(lambda x: f(x).sum())(x),
}


def run(rounds: int) -> list[Row]:
    """Compare vmaps, and derivatives of a two-layer network with equal numbers of inputs and
    outputs.
    """
    import fastdist

    torch = peer_torch()
    cases = []
    for name, (function, dims, shapes, has_peer) in VMAPS.items():
        ours = stopwatch(_vmap(fastdist, function, dims, shapes))
        peer = stopwatch(_vmap(torch, function, dims, shapes)) if torch and has_peer else None
        cases.append(Case(f"vmap, {name}", ours, peer, 4.0))
    for name, derive in DERIVATIVES.items():
        ours = stopwatch(_derivative(fastdist, derive))
        peer = stopwatch(_derivative(torch, derive)) if torch else None
        cases.append(Case(f"{name}, {SIZE} to {SIZE}", ours, peer, 4.0))
    return compare(cases, rounds)


def _tensors(library: Any, shapes: tuple[tuple[int, ...], ...]) -> list[Any]:
    import numpy as np

    random = np.random.default_rng(0)
    return [library.tensor(random.standard_normal(one).astype(np.float32)) for one in shapes]


def _vmap(
    library: Any, function: Callable[..., Any], dims: Any, shapes: tuple[tuple[int, ...], ...]
) -> Callable[[], Any]:
    given = _tensors(library, shapes)
    call = library.func.vmap(lambda *one: function(library, *one), dims)
    return lambda: call(*given)


def _derivative(library: Any, derive: Callable[..., Any]) -> Callable[[], Any]:
    x, first, second = _tensors(library, ((SIZE,), (32, SIZE), (SIZE, 32)))
    return lambda: derive(library, lambda x: _net(library, x, first, second), x)
