"""Models and batches for tests of data-parallel training, and results of one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist as fd
from fastdist import nn

DDP = nn.parallel.DistributedDataParallel


class Mlp(nn.Module):
    """Three layers in float64."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, width), nn.Linear(width, width)
        self.last = nn.Linear(width, 2)
        self.double()

    def forward(self, x: Any) -> Any:
        return self.last(self.second(self.first(x).tanh()).tanh())


class TwoHeads(nn.Module):
    """Two layers; the argument `uses` of a forward pass names the layers to run."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: Any, uses: str = "ab") -> Any:
        return [getattr(self, name)(x) for name in uses]


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> Any:
    """Return a model whose weights are the same in each call with the same seed."""
    model = make()
    draw = np.random.default_rng(seed)
    with fd.no_grad():
        for parameter in model.parameters():
            numbers = draw.standard_normal(tuple(parameter.shape))
            parameter.copy_(fd.tensor(numbers).to(parameter.dtype))
    return model


def batch(rank: int, rows: int = 4, columns: int = 3) -> fd.Tensor:
    """Return the inputs of one rank."""
    numbers = np.random.default_rng(100 + rank).standard_normal((rows, columns))
    return fd.tensor(numbers)


def grads(model: nn.Module) -> list[Any]:
    """Return the gradients as lists; None for a parameter without a gradient."""
    return [None if one.grad is None else one.grad.tolist() for one in model.parameters()]


def grads_of_whole(make: Callable[[], nn.Module], size: int, loss: Callable[..., Any]) -> list[Any]:
    """Return the gradients of one process that computes with the batches of all ranks."""
    model = seeded(make)
    loss(model(fd.cat([batch(rank) for rank in range(size)]))).backward()
    return grads(model)


def close(ours: list[Any], expected: list[Any], rtol: float = 1e-12) -> None:
    """Check that two lists of numbers are close."""
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol, 1e-15)


def mean_square(y: Any) -> Any:
    """Return a loss that is a mean over the rows."""
    return y.square().mean()


def frozen(rank: int) -> nn.Module:
    """Return a layer whose weight requires a gradient only on rank 0."""
    model = nn.Linear(2, 2)
    model.weight.requires_grad_(rank == 0)
    return model


def with_buffers(rank: int) -> nn.Module:
    """Return a layer with `rank + 1` buffers."""
    model = nn.Linear(2, 2)
    for index in range(rank + 1):
        model.register_buffer(f"b{index}", fd.zeros(1))
    return model
