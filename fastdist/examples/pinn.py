"""A network learns from the heat equation alone how heat spreads along a rod."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import fastdist as torch
from fastdist import Tensor, nn
from fastdist.autograd import grad
from fastdist.examples.demo import Demo
from fastdist.examples.line_plot import Curve, line_plot

DIFFUSIVITY = 0.05
INSIDE, BORDER, HIDDEN = 256, 64, 32
TIMES = (0.0, 0.2, 1.0)


class Rod(nn.Module):
    """The heat at place x and time t, both from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(),
            nn.Linear(HIDDEN, 1),
        )  # fmt: skip

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Return the heat, one number for each entry of x and t."""
        heat: Tensor = self.net(torch.stack([2 * x - 1, 2 * t - 1], dim=1))[:, 0]
        return 4 * x * (1 - x) * heat  # the ends stay cold


def true_heat(x: Tensor, t: Tensor) -> Tensor:
    """Return the exact solution. A wave's decay rate is proportional to its squared wave number."""
    slow, fast = (
        (math.pi * n * x).sin() * (-DIFFUSIVITY * (math.pi * n) ** 2 * t).exp() for n in (1, 3)
    )
    return slow + 0.5 * fast


def residual(rod: Rod, x: Tensor, t: Tensor) -> Tensor:
    """Return u_t - DIFFUSIVITY u_xx, which is 0 if the equation holds."""
    x.requires_grad_(), t.requires_grad_()
    u = rod(x, t)
    u_x, u_t = grad(u.sum(), (x, t), create_graph=True)
    (u_xx,) = grad(u_x.sum(), x, create_graph=True)
    return u_t - DIFFUSIVITY * u_xx


def loss_of(rod: Rod) -> tuple[Tensor, Tensor]:
    """Return the mean squares of the residual at inner points, and of the initial heat's error."""
    inside = residual(rod, torch.rand(INSIDE), torch.rand(INSIDE)).square().mean()
    x, begin = torch.rand(BORDER), torch.zeros(BORDER)
    return inside, (rod(x, begin) - true_heat(x, begin)).square().mean()


@torch.no_grad()
def relative_error(rod: Rod) -> float:
    """Return the error relative to the exact solution, over the whole rod and time."""
    line = torch.linspace(0, 1, 51)
    x, t = (axis.flatten() for axis in torch.meshgrid(line, line, indexing="ij"))
    truth = true_heat(x, t)
    return ((rod(x, t) - truth).norm() / truth.norm()).item()


@torch.no_grad()
def drawn(rod: Rod) -> str:
    """Return a picture of the heat along the rod at three times, learned and exact."""
    x, dots = torch.linspace(0, 1, 101), torch.linspace(0, 1, 21)
    curves, points = [], []
    for time in TIMES:
        heat = rod(x, torch.full_like(x, time))
        curves.append(Curve(f"learnt, t {time:g}", list(zip(x.tolist(), heat.tolist()))))
        heat = true_heat(dots, torch.full_like(dots, time))
        points += list(zip(dots.tolist(), heat.tolist()))
    curves.append(Curve("true", points, is_joined=False))
    return line_plot(curves, title="Heat along a rod", x_label="place", y_label="heat")


def main(arguments: Sequence[str] | None = None) -> int:
    """Train on new random points at every step, and report the error."""
    demo = Demo("pinn", __doc__, arguments, steps=1200)
    rod = Rod()
    optimizer = torch.optim.Adam(rod.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=demo.last_step)
    for _ in demo.steps():
        inside, begun = loss_of(rod)
        loss = inside + 20 * begun
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        demo.record(loss=loss)
    error = relative_error(rod)
    return demo.finish("relative error", error, at_most=0.03, picture=drawn(rod))


if __name__ == "__main__":
    sys.exit(main())
