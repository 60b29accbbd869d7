"""A normalising flow of affine couplings maps a normal distribution to two moons."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import fastdist as torch
from fastdist import Tensor, nn
from fastdist.examples.demo import Demo
from fastdist.examples.line_plot import Curve, line_plot

BATCH_SIZE, COUPLINGS, HIDDEN, SHOWN = 256, 8, 32, 500


def two_moons(n: int) -> Tensor:
    """Return (n, 2) points on two interleaved half circles."""
    angle = math.pi * torch.rand(n)
    is_lower = torch.rand(n) < 0.5
    x = torch.where(is_lower, 1 - angle.cos(), angle.cos()) - 0.5
    y = torch.where(is_lower, 0.5 - angle.sin(), angle.sin()) - 0.25
    return torch.stack([x, y], dim=1) + 0.1 * torch.randn(n, 2)


class Coupling(nn.Module):
    """Scales and shifts one coordinate by amounts that depend on the other coordinate.

    Source  Dinh et al. 2017, "Density estimation using Real NVP"
    """

    def __init__(self, kept: int) -> None:
        super().__init__()
        self.kept = kept
        self.net = nn.Sequential(
            nn.Linear(1, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh(),
            nn.Linear(HIDDEN, 2),
        )  # fmt: skip

    def amounts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the kept coordinate, the moved coordinate, and its log-scale and shift."""
        kept, moved = x[:, self.kept, None], x[:, 1 - self.kept, None]
        log_stretch, shift = self.net(kept).chunk(2, dim=1)
        return kept, moved, log_stretch.tanh(), shift

    def joined(self, kept: Tensor, moved: Tensor) -> Tensor:
        """Return the two coordinates in their original order."""
        return torch.cat([kept, moved] if self.kept == 0 else [moved, kept], dim=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x mapped towards the normal distribution, and the log-determinant."""
        kept, moved, log_stretch, shift = self.amounts(x)
        return self.joined(kept, moved * log_stretch.exp() + shift), log_stretch[:, 0]

    def inverse(self, z: Tensor) -> Tensor:
        """Return the point that forward maps to z."""
        kept, moved, log_stretch, shift = self.amounts(z)
        return self.joined(kept, (moved - shift) * (-log_stretch).exp())


class Flow(nn.Module):
    """A sequence of couplings; each keeps the coordinate that the previous coupling moved."""

    def __init__(self) -> None:
        super().__init__()
        self.couplings = nn.ModuleList(Coupling(i % 2) for i in range(COUPLINGS))

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log-density of each point: the normal distribution's log-density plus the
        log-determinants.
        """
        log_stretch = torch.zeros(len(x))
        for coupling in self.couplings:
            x, more = coupling(x)
            log_stretch = log_stretch + more
        return log_stretch - 0.5 * x.square().sum(1) - math.log(2 * math.pi)

    @torch.no_grad()
    def sample(self, n: int) -> Tensor:
        """Return (n, 2) samples, computed by the couplings' inverses in reverse order."""
        x = torch.randn(n, 2)
        for coupling in reversed(self.couplings):
            x = coupling.inverse(x)
        return x


def main(arguments: Sequence[str] | None = None) -> int:
    """Train on new points at every step, draw samples, and report the loss on new points."""
    demo = Demo("flow", __doc__, arguments, steps=1000)
    flow = Flow()
    optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=demo.last_step)
    for _ in demo.steps():
        loss = -flow.log_prob(two_moons(BATCH_SIZE)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        demo.record(nats_a_point=loss)
    with torch.no_grad():
        nats = -flow.log_prob(two_moons(4000)).mean().item()
    clouds = [
        Curve("two moons", two_moons(SHOWN).tolist(), is_joined=False),
        Curve("sampled from the flow", flow.sample(SHOWN).tolist(), is_joined=False),
    ]
    picture = line_plot(clouds, title="Two moons, learnt by a flow", x_label="x", y_label="y")
    return demo.finish("nats a new point", nats, at_most=1.15, picture=picture)


if __name__ == "__main__":
    sys.exit(main())
