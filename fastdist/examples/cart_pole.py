"""Many carts in one tensor, each with a pole that is kept upright by pushing the cart.

The physics and the limits of a game are those of the task CartPole-v1, after Barto, Sutton and
Anderson 1983, "Neuronlike adaptive elements that can solve difficult learning control problems".
"""

from __future__ import annotations

import fastdist as torch
from fastdist import Tensor

GRAVITY, FORCE, TICK_S = 9.8, 10.0, 0.02
MASS_OF_POLE, MASS_IN_ALL, HALF_LENGTH = 0.1, 1.1, 0.5
FARTHEST, STEEPEST = 2.4, 0.2095
LONGEST = 500


class CartPoles:
    """n carts. `state` is (n, 4): position, speed, angle and angular velocity of each."""

    def __init__(self, n: int) -> None:
        self.state = self._fresh(n)
        self.ages = torch.zeros(n)

    @staticmethod
    def _fresh(n: int) -> Tensor:
        return torch.rand(n, 4) * 0.1 - 0.05

    def push(self, to_the_right: Tensor) -> tuple[Tensor, Tensor]:
        """Push each cart for one tick; return which poles fell, and which games ended.

        A game ends when its pole falls, or after 500 ticks; then a new game starts.
        """
        _, speed, angle, turning = self.state.unbind(1)
        force = torch.where(to_the_right, FORCE, -FORCE)
        sine, cosine = angle.sin(), angle.cos()
        push = (force + MASS_OF_POLE * HALF_LENGTH * turning.square() * sine) / MASS_IN_ALL
        inertia = HALF_LENGTH * (4 / 3 - MASS_OF_POLE * cosine.square() / MASS_IN_ALL)
        turn = (GRAVITY * sine - cosine * push) / inertia
        gain = push - MASS_OF_POLE * HALF_LENGTH * turn * cosine / MASS_IN_ALL
        rates = torch.stack([speed, gain, turning, turn], dim=1)
        moved = self.state + TICK_S * rates
        fell = (moved[:, 0].abs() > FARTHEST) | (moved[:, 2].abs() > STEEPEST)
        self.ages = self.ages + 1
        over = fell | (self.ages >= LONGEST)
        self.lengths = self.ages[over]
        self.state = torch.where(over[:, None], self._fresh(len(over)), moved)
        self.ages = torch.where(over, 0.0, self.ages)
        return fell, over
