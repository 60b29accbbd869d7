"""An actor learns to balance poles on carts, with a critic that estimates returns."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import fastdist as torch
import fastdist.nn.functional as F
from fastdist import Tensor, nn
from fastdist.examples.cart_pole import LONGEST, CartPoles
from fastdist.examples.demo import Demo

CARTS, TICKS, HIDDEN = 32, 16, 64
DISCOUNT = 0.99


class ActorCritic(nn.Module):
    """An actor network and a critic network with the same input, the state of a cart."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = self.net(2), self.net(1)

    @staticmethod
    def net(outputs: int) -> nn.Sequential:
        """Return a network whose input is the four numbers of a cart's state."""
        return nn.Sequential(nn.Linear(4, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, outputs))

    def log_policy(self, state: Tensor) -> Tensor:
        """Return the log-probabilities (..., 2) of pushing to the left and to the right."""
        return F.log_softmax(self.actor(state), dim=-1)

    def value(self, state: Tensor) -> Tensor:
        """Return the expected (discounted) number of ticks for which the pole stays up."""
        expected: Tensor = self.critic(state)[..., 0]
        return expected


class Played(NamedTuple):
    """Observations, actions and returns; the first axes of each tensor are (TICKS, CARTS)."""

    states: Tensor
    actions: Tensor
    returns: Tensor


@torch.no_grad()
def play(model: ActorCritic, carts: CartPoles) -> tuple[Played, list[float]]:
    """Play for TICKS ticks; return the records and the lengths of the games that ended."""
    states, actions, ends, lengths = [], [], [], []
    for _ in range(TICKS):
        states.append(carts.state)
        action = torch.multinomial(model.log_policy(carts.state).exp(), 1)[:, 0]
        fell, over = carts.push(action == 1)
        actions.append(action)
        ends.append((fell, over))
        lengths += carts.lengths.tolist()
    ahead = model.value(carts.state)
    returns = []
    for (fell, over), state in zip(reversed(ends), reversed(states)):
        # The reward of a tick is 1. If a game ends at the limit of ticks, the critic's estimate
        # replaces the rewards that would have followed.
        cut = over & ~fell
        ahead = 1 + DISCOUNT * torch.where(fell, 0.0, torch.where(cut, model.value(state), ahead))
        returns.append(ahead)
    return Played(torch.stack(states), torch.stack(actions), torch.stack(returns[::-1])), lengths


def loss_of(model: ActorCritic, played: Played) -> Tensor:
    """Return the loss: it rewards actions with high returns, and a critic that predicts returns."""
    log_policy, value = model.log_policy(played.states), model.value(played.states)
    better = played.returns - value
    chosen = log_policy.gather(-1, played.actions[..., None])[..., 0]
    entropy = -(log_policy.exp() * log_policy).sum(-1)
    # The advantage is divided by its standard deviation, so that updates have the same size early
    # and late in the training.
    advantage = better.detach() / (better.detach().std() + 1e-3)
    actor = -(chosen * advantage).mean() - 0.01 * entropy.mean()
    return actor + 0.05 * F.smooth_l1_loss(value, played.returns)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and report how long poles stay up on new carts."""
    demo = Demo("actor-critic", __doc__, arguments, steps=400)
    model, carts = ActorCritic(), CartPoles(CARTS)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, demo.last_step)
    recent: list[float] = []
    for _ in demo.steps():
        played, lengths = play(model, carts)
        loss = loss_of(model, played)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        recent = (recent + lengths)[-50:]
        if recent:
            demo.record(ticks_upright=sum(recent) / len(recent))
    return demo.finish("mean ticks upright, of 500", trial(model), at_least=200)


@torch.no_grad()
def trial(model: ActorCritic) -> float:
    """Return how many ticks the poles of 100 new carts stay up on average; the more likely push is
    always chosen.
    """
    carts, first = CartPoles(100), torch.full((100,), float(LONGEST))
    for tick in range(1, LONGEST):
        fell, _ = carts.push(model.log_policy(carts.state).argmax(-1) == 1)
        first = torch.where(fell & (first == LONGEST), float(tick), first)
    return first.mean().item()


if __name__ == "__main__":
    sys.exit(main())
