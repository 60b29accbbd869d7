"""The agent of rl.py chooses for all observers together: one pass of its policy per tick.

    fastdist run -n 3 -m fastdist.examples.batch_rl

    agent                                    observer1, observer2
    waits for all observers <--------------- states, tick by tick
    one pass of the policy for all
    answers all of them -------------------> push the carts

The agent's method returns a Future immediately (async_execution), so no thread of the agent waits
for observers. The agent's decisions and weights equal those of rl.py except for rounding.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

import fastdist as torch
from fastdist import Tensor
from fastdist.distributed import rpc
from fastdist.examples import rl
from fastdist.examples.demo import Demo
from fastdist.examples.job import take_part
from fastdist.futures import Future

NAME, STEPS = "batch-rl", rl.STEPS
WORKERS = rl.WORKERS


class Agent(rl.Agent):
    """Chooses the actions of all observers when the last observer has called.

    Thread  `choose` runs in several threads at a time, one for each call
    """

    def __init__(self) -> None:
        super().__init__()
        self.passes = 0
        # Guards the two attributes below and the pass. Answers are sent without holding the lock.
        self._lock = threading.Lock()
        self._asked: dict[str, tuple[Tensor, Tensor]] = {}
        self._chosen: Future[dict[str, Tensor]] = Future()

    # RPC sends the value of the Future, so observers get a tensor, as from the Agent of rl.py.
    @rpc.functions.async_execution
    def choose(  # type: ignore[override]
        self, observer: str, states: Tensor, noise: Tensor
    ) -> Future[Tensor]:
        """Return a Future of a mask: which carts of this observer to push to the right."""
        with self._lock:
            chosen = self._chosen
            self._asked[observer] = states, noise
            is_last = len(self._asked) == len(rl.OBSERVERS)
            if is_last:
                choices = self._choose_for_all()
                self._chosen = Future()
        answer = chosen.then(lambda done: done.wait()[observer])
        if is_last:
            chosen.set_result(choices)
        return answer

    def _choose_for_all(self) -> dict[str, Tensor]:
        asked = [self._asked.pop(name) for name in rl.OBSERVERS]
        states, noise = (torch.cat(each) for each in zip(*asked))
        chances = torch.log_softmax(self.policy(states), dim=1)
        self.passes += 1
        choice = (chances.detach() + noise).argmax(1)
        likely = chances.gather(1, choice[:, None])[:, 0]
        for name, its_own in zip(rl.OBSERVERS, likely.split(rl.CARTS)):
            self.chances[name].append(its_own)
        return dict(zip(rl.OBSERVERS, choice.split(rl.CARTS)))


def lead(demo: Demo) -> int:
    """Run the agent."""
    agent = Agent()
    status = rl.play_and_learn(demo, agent)
    asked = demo.last_step * rl.TICKS * len(rl.OBSERVERS)
    print(f"{agent.passes:,} passes of the policy for {asked:,} questions")
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this process's rank of the job."""
    return take_part(WORKERS, Demo(NAME, __doc__, arguments, steps=STEPS), lead)


if __name__ == "__main__":
    sys.exit(main())
