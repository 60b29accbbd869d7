"""Two ranks find the largest curvature of a loss by products with its Hessian.

    fastdist run -n 2 -m fastdist.examples.data_parallel.hessian

A product with the Hessian is forward mode over reverse mode. The tangents of the parameters and of
the gradients are averaged over the ranks, like the parameters and the gradients themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import fastdist as torch
import fastdist.nn.functional as F
from fastdist import Tensor
from fastdist.examples.data_parallel.group import CLOSE, WORKERS, furthest, mine, shared, take_part
from fastdist.examples.data_parallel.penalty import make_model
from fastdist.examples.demo import Demo
from fastdist.examples.digits_data import load_digits
from fastdist.func import functional_call, grad, jvp

NAME, STEPS = "data-parallel-hessian", 40
IMAGES = 256
__all__ = ["NAME", "STEPS", "WORKERS", "main"]

Product = Callable[[Sequence[Tensor]], tuple[Tensor, ...]]


def hessian_product(
    images: Tensor, labels: Tensor, share: Callable[..., list[Tensor]]
) -> tuple[Product, list[Tensor]]:
    """Return a function that multiplies the Hessian by a direction; also return the parameters."""
    torch.manual_seed(0)
    model = make_model()
    names = [name for name, _ in model.named_parameters()]
    parameters = [parameter.detach() for parameter in model.parameters()]

    def loss(parameters: Sequence[Tensor]) -> Tensor:
        scores = functional_call(model, dict(zip(names, share(parameters))), (images,))
        return F.cross_entropy(scores, labels)

    gradient = grad(lambda *given: loss(given), argnums=tuple(range(len(parameters))))
    return lambda direction: jvp(gradient, tuple(parameters), tuple(direction))[1], parameters


def train(demo: Demo) -> int:
    """Run power iteration with the Hessian, and compare with one process."""
    images, labels = (part[:IMAGES] for part in load_digits(demo.seed).training.tensors)
    ours, parameters = hessian_product(mine(images), mine(labels), shared)
    alone, _ = hessian_product(images, labels, list)
    torch.manual_seed(demo.seed)
    direction = [torch.randn_like(parameter) for parameter in parameters]
    distance = 0.0
    for _ in demo.steps():
        length = torch.cat([part.flatten() for part in direction]).norm()
        direction = [part / length for part in direction]
        product = ours(direction)
        distance = max(distance, furthest(product, alone(direction)))
        # The curvature along a unit direction; it converges to the largest curvature.
        curvature = sum((p * d).sum() for p, d in zip(product, direction, strict=True))
        direction = list(product)
        demo.record(curvature=curvature)
    return demo.finish("furthest product from one process", distance, at_most=CLOSE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this process's rank of the job."""
    return take_part(NAME, __doc__, arguments, STEPS, train)


if __name__ == "__main__":
    sys.exit(main())
