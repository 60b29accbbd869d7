"""Two ranks learn how heat spreads along a rod from the equation, each at separate points.

    fastdist run -n 2 -m fastdist.examples.data_parallel.pinn

The loss contains second derivatives of the network by its inputs, so the gradient of the loss is of
third order. The loss is differentiated through the mean over the ranks.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import fastdist as torch
from fastdist import Tensor
from fastdist.autograd import grad
from fastdist.examples.data_parallel.group import CLOSE, WORKERS, furthest, mine, shared, take_part
from fastdist.examples.demo import Demo
from fastdist.examples.pinn import DIFFUSIVITY, Rod, true_heat
from fastdist.func import functional_call

NAME, STEPS = "data-parallel-pinn", 150
INSIDE, BORDER = 128, 32
__all__ = ["NAME", "STEPS", "WORKERS", "main"]


def points() -> tuple[Tensor, ...]:
    """Return points (place, time), and places at time 0; all ranks draw the same points."""
    x, t = torch.rand(2, INSIDE, dtype=torch.float64).unbind(0)
    return x, t, torch.rand(BORDER, dtype=torch.float64)


def loss_of(rod: Rod, given: Sequence[Tensor], share: Callable[..., list[Tensor]]) -> Tensor:
    """Return a weighted sum of squared errors: in the equation, at time 0, and at the cold ends."""
    names, parameters = zip(*rod.named_parameters())
    weights = dict(zip(names, share(parameters)))
    x, t = (part.clone().requires_grad_() for part in given[:2])
    u = functional_call(rod, weights, (x, t))
    u_x, u_t = grad(u.sum(), (x, t), create_graph=True)
    (u_xx,) = grad(u_x.sum(), x, create_graph=True)
    begin = given[2]
    start = functional_call(rod, weights, (begin, torch.zeros_like(begin)))
    known = start - true_heat(begin, torch.zeros_like(begin))
    left, right = (functional_call(rod, weights, (torch.full_like(t, at), t)) for at in (0.0, 1.0))
    inside = (u_t - DIFFUSIVITY * u_xx).square().mean()
    return inside + 10 * (known.square().mean() + left.square().mean() + right.square().mean())


def train(demo: Demo) -> int:
    """Train, and compare every gradient with that of one process."""
    rod = Rod().double()
    parameters = list(rod.parameters())
    optimizer = torch.optim.Adam(parameters, lr=5e-3)
    distance = 0.0
    for _ in demo.steps():
        given = points()
        gradients = grad(loss_of(rod, [mine(part) for part in given], shared), parameters)
        alone = loss_of(rod, given, list)
        distance = max(distance, furthest(gradients, grad(alone, parameters)))
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        demo.record(loss=math.log10(alone.item()))
    return demo.finish("furthest gradient from one process", distance, at_most=CLOSE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this process's rank of the job."""
    return take_part(NAME, __doc__, arguments, STEPS, train)


if __name__ == "__main__":
    sys.exit(main())
