"""A network learns the differential equation of a spiral from pieces of its path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import fastdist as torch
from fastdist import Tensor, nn
from fastdist.examples.demo import Demo
from fastdist.examples.line_plot import Curve, line_plot

LONG, SHORT, BATCH_SIZE, HIDDEN, TICK = 200, 10, 32, 50, 0.05
DRAWN = 4  # points per tick in the picture
Law = Callable[[Tensor], Tensor]


def true_law(y: Tensor) -> Tensor:
    """Return the spiral's velocity, a cubic function, at points y (..., 2).

    Source  Chen et al. 2018, "Neural Ordinary Differential Equations"
    """
    return y**3 @ torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])


class Motion(nn.Module):
    """A learned differential equation. Its network gets the cube of the state as input, because the
    true law is known to be cubic.
    """

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 2))

    def forward(self, y: Tensor) -> Tensor:
        """Return the velocity at points y (..., 2)."""
        velocity: Tensor = 4 * self.net(y**3 / 8)  # the cubes are at most 8
        return velocity


def path(law: Law, start: Tensor, ticks: int, tick: float = TICK) -> Tensor:
    """Return the points (ticks + 1, ..., 2) of the solution, one for each tick.

    Each tick is one step of the classical Runge-Kutta method. A step consists of tensor operations,
    so autograd differentiates the solver without further code.
    """
    places = [start]
    for _ in range(ticks):
        y = places[-1]
        k1 = law(y)
        k2 = law(y + tick / 2 * k1)
        k3 = law(y + tick / 2 * k2)
        k4 = law(y + tick * k3)
        places.append(y + tick / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return torch.stack(places)


def drawn(motion: Law, start: Tensor) -> str:
    """Return a picture of the true path and the learned one."""
    curves = [
        Curve(name, path(law, start, LONG * DRAWN, TICK / DRAWN).tolist())
        for name, law in (("true path", true_law), ("learnt path", motion))
    ]
    return line_plot(
        curves, title="A spiral and its learnt law", x_label="x", y_label="y", has_equal_axes=True
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Train on short pieces, solve for the whole path, and report the distance after ten ticks."""
    demo = Demo("neural-ode", __doc__, arguments, steps=600)
    start = torch.tensor([2.0, 0.0])
    truth = path(true_law, start, LONG)
    motion = Motion()
    optimizer = torch.optim.Adam(motion.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=demo.last_step)
    for _ in demo.steps():
        begins = torch.randint(0, LONG - SHORT, (BATCH_SIZE,))
        target = truth[begins + torch.arange(SHORT + 1)[:, None]]
        loss = (path(motion, target[0], SHORT) - target).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        demo.record(loss=loss)
    with torch.no_grad():
        # Along the whole path, small errors add up to a phase shift. So the test measures the
        # distance at the ends of short pieces.
        ends = path(motion, truth[:-SHORT], SHORT)[-1]
        picture = drawn(motion, start)
    distance = (ends - truth[SHORT:]).norm(dim=1).mean().item()
    return demo.finish("mean distance after ten ticks", distance, at_most=0.05, picture=picture)


if __name__ == "__main__":
    sys.exit(main())
