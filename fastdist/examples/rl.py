"""An agent learns from two observers, which have their own carts and call the agent for actions.

    fastdist run -n 3 -m fastdist.examples.rl

    agent                                    observer1, observer2
    starts games --------------------------> carts with poles
    policy <-------------------------------- states, tick by tick
    pushes to the left or right -----------> push the carts
    rewards <------------------------------- how long each pole stayed up

The autograd graph of all decisions stays with the agent, which learns from whole games (REINFORCE).
The observers draw all random numbers, each with a different seed, so the order in which the
observers call the agent does not change the result.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence

import fastdist as torch
from fastdist import Tensor, nn, optim
from fastdist.distributed import rpc
from fastdist.examples.cart_pole import CartPoles
from fastdist.examples.demo import Demo
from fastdist.examples.job import take_part

NAME, STEPS = "rl", 60
WORKERS = ("agent", "observer1", "observer2")
OBSERVERS = WORKERS[1:]
CARTS, TICKS, HIDDEN, DISCOUNT = 12, 100, 32, 0.97


def make_policy() -> nn.Sequential:
    """Return a network that maps the four numbers of a cart to the scores of both pushes."""
    return nn.Sequential(nn.Linear(4, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 2))


class Agent:
    """Chooses actions, records their log-probabilities, and learns from their returns.

    Thread  `choose` runs in the threads that serve RPC calls, one for each observer
    """

    def __init__(self) -> None:
        self.policy = make_policy()
        self.optimizer = optim.Adam(self.policy.parameters(), lr=0.01)
        self.chances: dict[str, list[Tensor]] = defaultdict(list)

    def choose(self, observer: str, states: Tensor, noise: Tensor) -> Tensor:
        """Return 1 for each cart to push to the right, else 0; Gumbel `noise` (n, 2) decides."""
        chances = torch.log_softmax(self.policy(states), dim=1)
        # The Gumbel-max trick: the argmax of log-probabilities plus Gumbel noise is a sample.
        choice = (chances.detach() + noise).argmax(1)
        self.chances[observer].append(chances.gather(1, choice[:, None])[:, 0])
        return choice

    def learn(self, upright: dict[str, Tensor]) -> Tensor:
        """Raise the probability of pushes after which poles stayed up. `upright` holds a tensor
        (TICKS, n) per observer: 1 while a pole is up. Return the mean ticks upright.
        """
        chances = torch.cat([torch.stack(self.chances.pop(name)) for name in OBSERVERS], dim=1)
        kept = torch.cat([upright[name] for name in OBSERVERS], dim=1)
        ahead, returns = torch.zeros(kept.shape[1]), []
        for tick in kept.flip(0):
            ahead = tick * (1 + DISCOUNT * ahead)
            returns.append(ahead)
        worth = torch.stack(returns[::-1])
        played = kept > 0
        better = (worth - worth[played].mean()) / (worth[played].std() + 1e-3)
        loss = -(chances * better)[played].mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return kept.sum(0).mean()


class Observer:
    """Has carts, and requests an action for each cart from the agent."""

    def __init__(self, agent: rpc.RRef[Agent], seed: int) -> None:
        self.agent = agent
        self.name = rpc.get_worker_info().name
        torch.manual_seed(seed)

    def play(self) -> Tensor:
        """Play one game with each cart, and return which poles were up at each tick."""
        carts, is_up, upright = CartPoles(CARTS), torch.ones(CARTS), []
        for _ in range(TICKS):
            upright.append(is_up)
            noise = -(-torch.rand(CARTS, 2).log()).log()
            choice = self.agent.rpc_sync().choose(self.name, carts.state, noise)
            fell, _ = carts.push(choice == 1)
            is_up = torch.where(fell, 0.0, is_up)
        return torch.stack(upright)


def lead(demo: Demo) -> int:
    """Run the agent."""
    return play_and_learn(demo, Agent())


def play_and_learn(demo: Demo, agent: Agent) -> int:
    """Run the observers' games, and let the agent learn, step by step."""
    reference = rpc.RRef(agent)
    observers = {
        name: rpc.remote(name, Observer, (reference, demo.seed + number))
        for number, name in enumerate(OBSERVERS, start=1)
    }
    lengths = []
    for _ in demo.steps():
        games = {name: each.rpc_async().play() for name, each in observers.items()}
        length = agent.learn({name: game.wait() for name, game in games.items()})
        lengths.append(length.item())
        demo.record(ticks_upright=length)
    latest = lengths[-5:]
    return demo.finish("mean ticks upright, of 100", sum(latest) / len(latest), at_least=80)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this process's rank of the job."""
    return take_part(WORKERS, Demo(NAME, __doc__, arguments, steps=STEPS), lead)


if __name__ == "__main__":
    sys.exit(main())
