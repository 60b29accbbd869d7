"""Two ranks train on digits with a loss that includes the norm of the whole gradient.

    fastdist run -n 2 -m fastdist.examples.data_parallel.penalty

The penalty is the squared norm of the gradient over the digits of both ranks. The gradient of the
penalty is a product with the Hessian of the whole loss; it is computed by double backward through
the mean over the ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import fastdist as torch
import fastdist.nn.functional as F
from fastdist import Tensor, nn
from fastdist.autograd import grad
from fastdist.examples.data_parallel.group import CLOSE, WORKERS, furthest, mine, shared, take_part
from fastdist.examples.demo import Demo
from fastdist.examples.digits_data import CLASSES, PIXELS, load_digits
from fastdist.examples.job import endless
from fastdist.func import functional_call

NAME, STEPS = "data-parallel-penalty", 80
BATCH_SIZE, HIDDEN, RATE, PENALTY = 64, 32, 0.2, 0.05
__all__ = ["NAME", "STEPS", "WORKERS", "main"]


def make_model() -> nn.Module:
    """Return a network that reads digits, in float64."""
    layers = nn.Linear(PIXELS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES)
    return nn.Sequential(*layers).double()


def penalised(
    model: nn.Module, images: Tensor, labels: Tensor, share: Callable[..., list[Tensor]]
) -> Tensor:
    """Return the loss plus PENALTY times the squared norm of the gradient over all ranks."""
    names, parameters = zip(*model.named_parameters())
    scores = functional_call(model, dict(zip(names, share(parameters))), (images,))
    loss = F.cross_entropy(scores, labels)
    gradients = grad(loss, parameters, create_graph=True)
    return loss + PENALTY * sum(gradient.square().sum() for gradient in gradients)


def train(demo: Demo) -> int:
    """Train, and compare every gradient with that of one process."""
    model = make_model()
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=RATE)
    distance = 0.0
    for _, batch in zip(demo.steps(), endless(load_digits(demo.seed).training, BATCH_SIZE)):
        loss = penalised(model, mine(batch[0]), mine(batch[1]), shared)
        gradients = grad(loss, parameters)
        alone = penalised(model, *batch, list)
        distance = max(distance, furthest(gradients, grad(alone, parameters)))
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        demo.record(loss=alone)
    return demo.finish("furthest gradient from one process", distance, at_most=CLOSE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this process's rank of the job."""
    return take_part(NAME, __doc__, arguments, STEPS, train)


if __name__ == "__main__":
    sys.exit(main())
