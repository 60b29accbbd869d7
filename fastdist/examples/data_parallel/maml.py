"""Two ranks learn initial weights that fit a sine wave after one step on the points of both.

    fastdist run -n 2 -m fastdist.examples.data_parallel.maml

Each rank has half of the points of each wave, so the step for a wave needs the mean of two
gradients. The meta-gradient is differentiated through that step, and so through the mean.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import fastdist as torch
from fastdist import Tensor, nn
from fastdist.autograd import grad
from fastdist.examples.data_parallel.group import CLOSE, WORKERS, furthest, mine, shared, take_part
from fastdist.examples.demo import Demo

NAME, STEPS = "data-parallel-maml", 150
TASKS, POINTS, HIDDEN, INNER_RATE = 16, 10, 24, 0.05
Weights = list[Tensor]
__all__ = ["NAME", "STEPS", "WORKERS", "main"]


def first_weights() -> Weights:
    """Return weights and biases of a network 1 -> HIDDEN -> 1, in float64."""
    layers = nn.Linear(1, HIDDEN).double(), nn.Linear(HIDDEN, 1).double()
    return [parameter for layer in layers for parameter in layer.parameters()]


def waves() -> tuple[Tensor, ...]:
    """Return random waves at points to learn from and at new points, the same on all ranks."""
    height = 0.1 + 4.9 * torch.rand(TASKS, 1, 1, dtype=torch.float64)
    phase = math.pi * torch.rand(TASKS, 1, 1, dtype=torch.float64)
    places = 10 * torch.rand(2, TASKS, POINTS, 1, dtype=torch.float64) - 5
    known, new = places.unbind(0)
    return known, height * (known - phase).sin(), new, height * (new - phase).sin()


def errors(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
    """Return the mean squared error of each wave; the first axis of each weight is the wave."""
    into, bias, out, last = weights
    hidden = (x @ into.transpose(-1, -2) + bias.unsqueeze(-2)).tanh()
    found = hidden @ out.transpose(-1, -2) + last.unsqueeze(-2)
    return (found - y).square().mean((1, 2))


def meta_loss(first: Weights, data: Sequence[Tensor], share: Callable[..., Weights]) -> Tensor:
    """Return the error at this rank's new points, after one gradient step for each wave."""
    known, heights, new, expected = data
    weights = [weight.expand(TASKS, *weight.shape) for weight in first]
    # `share` is part of the loss, so each wave's weights have the same gradient on all ranks.
    inner = grad(errors(share(weights), known, heights).sum(), weights, create_graph=True)
    stepped = [weight - INNER_RATE * g for weight, g in zip(weights, inner, strict=True)]
    return errors(share(stepped), new, expected).mean()


def train(demo: Demo) -> int:
    """Train, and compare every meta-gradient with that of one process."""
    first = first_weights()
    optimizer = torch.optim.Adam(first, lr=0.01)
    distance = 0.0
    for _ in demo.steps():
        data = waves()
        ours = [mine(part.transpose(0, 1)).transpose(0, 1) for part in data]
        loss = meta_loss(first, ours, shared)
        gradients = grad(loss, first)
        alone = meta_loss(first, data, list)
        distance = max(distance, furthest(gradients, grad(alone, first)))
        for weight, gradient in zip(first, gradients, strict=True):
            weight.grad = gradient
        optimizer.step()
        demo.record(loss=alone)
    return demo.finish("furthest meta-gradient from one process", distance, at_most=CLOSE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this process's rank of the job."""
    return take_part(NAME, __doc__, arguments, STEPS, train)


if __name__ == "__main__":
    sys.exit(main())
