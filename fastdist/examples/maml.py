"""A network learns initial weights and learning rates, and fits any sine wave from ten points."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import fastdist as torch
from fastdist import Tensor, nn
from fastdist.autograd import grad
from fastdist.examples.demo import Demo
from fastdist.examples.line_plot import Curve, line_plot

TASKS, POINTS, HIDDEN = 32, 10, 40
INNER_STEPS, FIRST_RATE = 3, 0.02
TRIED_TASKS = 200
Weights = list[Tensor]


class Waves:
    """Sine waves of random amplitude and phase, one for each task."""

    def __init__(self, tasks: int) -> None:
        self.height = 0.1 + 4.9 * torch.rand(tasks, 1, 1)
        self.phase = math.pi * torch.rand(tasks, 1, 1)

    def at(self, x: Tensor) -> Tensor:
        """Return the waves at points x (tasks, points, 1)."""
        return self.height * (x - self.phase).sin()

    def points(self) -> tuple[Tensor, Tensor]:
        """Return POINTS random x for each wave, and the values of the wave at these x."""
        x = 10 * torch.rand(len(self.height), POINTS, 1) - 5
        return x, self.at(x)


def first_weights() -> nn.ParameterList:
    """Return weights and biases of a network 1 -> HIDDEN -> HIDDEN -> 1."""
    layers = [nn.Linear(1, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)]
    return nn.ParameterList(p for layer in layers for p in (layer.weight, layer.bias))


def predict(weights: Weights, x: Tensor) -> Tensor:
    """Return the output of each task's network at x (tasks, points, 1)."""
    for i in range(0, len(weights), 2):
        x = torch.baddbmm(weights[i + 1][:, None], x, weights[i].transpose(1, 2))
        x = x.tanh() if i + 2 < len(weights) else x
    return x


def error(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
    """Return the mean squared error of each task."""
    return (predict(weights, x) - y).square().mean((1, 2))


def adapted(weights: Weights, rates: nn.ParameterList, x: Tensor, y: Tensor) -> Weights:
    """Return the weights of each task after INNER_STEPS steps of gradient descent on the task's
    points.

    `create_graph=True` keeps the graph of the descent, because the meta-gradient differentiates the
    result with respect to the initial weights and the rates.
    """
    for _ in range(INNER_STEPS):
        # A task's error depends only on that task's weights, so one gradient of the sum contains
        # the gradients of all tasks.
        gradients = grad(error(weights, x, y).sum(), weights, create_graph=True)
        weights = [w - rate * g for w, rate, g in zip(weights, rates, gradients)]
    return weights


def of_each_task(meta: nn.ParameterList, tasks: int) -> Weights:
    """Return the initial weights, repeated for each task."""
    return [p.expand(tasks, *p.shape) for p in meta]


def trial(meta: nn.ParameterList, rates: nn.ParameterList) -> tuple[float, float]:
    """Return the error on new waves, before and after adapting to POINTS points of each wave."""
    waves = Waves(TRIED_TASKS)
    weights = of_each_task(meta, TRIED_TASKS)
    learnt = adapted(weights, rates, *waves.points())
    x = torch.linspace(-5, 5, 101)[:, None].expand(TRIED_TASKS, -1, 1)
    before, after = (error(each, x, waves.at(x)).mean().item() for each in (weights, learnt))
    return before, after


def drawn(meta: nn.ParameterList, rates: nn.ParameterList) -> str:
    """Return a picture of a new wave, its points, and the network before and after adapting."""
    wave = Waves(1)
    weights = of_each_task(meta, 1)
    points, y = wave.points()
    x = torch.linspace(-5, 5, 101)[None, :, None]
    lines = {
        "wave": wave.at(x),
        "before": predict(weights, x),
        f"after {INNER_STEPS} steps": predict(adapted(weights, rates, points, y), x),
    }
    curves = [Curve(n, torch.cat([x, line], 2)[0].tolist()) for n, line in lines.items()]
    curves.append(Curve("points", torch.cat([points, y], 2)[0].tolist(), is_joined=False))
    return line_plot(
        curves, title="A new wave, learnt from ten points", x_label="x", y_label="height"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Train on new waves at every step, and report the error on further waves."""
    demo = Demo("maml", __doc__, arguments, steps=700)
    meta = first_weights()
    rates = nn.ParameterList(torch.full_like(p, FIRST_RATE) for p in meta)
    optimizer = torch.optim.Adam([*meta, *rates], lr=4e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=demo.last_step)
    for _ in demo.steps():
        waves = Waves(TASKS)
        weights = adapted(of_each_task(meta, TASKS), rates, *waves.points())
        loss = error(weights, *waves.points()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        demo.record(loss=loss)
    before, after = trial(meta, rates)
    print(f"error on new waves before any step {before:.3f}, after {INNER_STEPS} steps {after:.3f}")
    picture = drawn(meta, rates)
    return demo.finish("error on new waves", after, at_most=0.3, picture=picture)


if __name__ == "__main__":
    sys.exit(main())
