"""Random calls between simulated workers, with random faults meanwhile; a seed determines both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastdist.concurrency.future import Future
from fastdist.core.errors import WorkerLostError
from fastdist.distributed.rpc.functions import async_execution
from fastdist.distributed.sockets.liveness_timeouts import FROZEN_S
from tests.distributed.rpc.simulation.simulated_group import Group, Kind, Worker, here, unexpected
from tests.distributed.rpc.simulation.simulated_world import Crashed

BUSY_S = 20.0
HORIZON_S = 120.0
# The margin for a timeout: one bucket of the timeouts, and the delays of one or two threads.
LATE_S = 0.05
# The longest wait for a dead worker: the limit for a frozen peer, and a margin.
DEATH_S = 11.0


@dataclass
class Op:
    """One call, its outcome, and the life that it called."""

    key: int
    worker: Worker
    callee: Worker  # the life of the rank when the call began
    timeout_s: float
    began: float
    frozen_s_before: float = 0.0
    made: float = 0.0  # slightly after `began`: when a thread makes the call
    ended: list[tuple[float, Any]] = field(default_factory=list)


class Calls:
    """The group, calls and faults of one seed."""

    num_begun = 4, 16
    num_begun_in_storm = 8
    kinds: tuple[Kind, ...] = ("static", "restarts", "dynamic")

    def __init__(
        self, seed: int, *, size: int = 3, kind: Kind | None = None, quiet: bool = False
    ) -> None:
        self.group = Group(
            seed,
            size,
            kind=kind or ("static" if quiet else self.kinds[seed % len(self.kinds)]),
            on_one_host=seed % 2 == 0,
            has_fixed_addresses=seed % 4 < 2,
            has_arenas=seed % 8 == 0,
        )
        self.world = self.group.world
        self.ops: list[Op] = []
        self.runs: dict[int, list[Worker]] = defaultdict(list)
        self.broke: list[str] = []
        rng = self.world.rng
        start = self.world.now
        if quiet:
            return
        self.group.network.comes_twice = rng.choice((0.0, 0.0, 0.03, 0.2))
        # Faults should occur during calls, so some scenarios are short.
        self.busy_s = busy_s = rng.choice((BUSY_S, 3.0, 0.5))
        for _ in range(rng.randint(*self.num_begun)):
            self.world.at(start + rng.random() * busy_s, None, self.begin_one)
        for _ in range(rng.choice((0, 1, 1, 2, 3, 4))):
            self.world.at(start + rng.random() * busy_s, None, self.break_something)
        if rng.random() < 0.5:
            self.world.at(start + rng.random() * busy_s, None, self.storm)

    def run(self) -> None:
        self.world.run_until(self.world.now + BUSY_S + HORIZON_S)
        self.greet_each_other()

    def begin_one(self) -> None:
        rng = self.world.rng
        worker = rng.choice(self.group.workers)
        if worker.dead or worker.left:
            return
        if worker.frozen:
            self.world.at(self.world.now + 0.5, None, self.begin_one)
            return
        timeout_s = rng.choice((0.0, 0.0, 0.3, 2.0, 8.0, 30.0))
        callee = self.life_of(rng.choice(self.group.ranks()))
        op = Op(len(self.ops), worker, callee, timeout_s, self.world.now, worker.frozen_s)
        self.ops.append(op)
        seconds = rng.choice((0.0, 0.0, 0.01, 1.0, 5.0, 15.0))
        function = rng.choice((call, call, call_that_answers_later, call_back))
        if rng.random() < 0.07:
            function = call_that_raises
        if rng.random() < 0.4:
            self.world.soon(worker, self.block_on, op, function, seconds)
        else:
            self.world.soon(worker, self.start, op, function, seconds)

    def life_of(self, rank: int) -> Worker:
        """Return the latest life of a rank that others can know."""
        group = self.group
        return group.workers[rank] if group.kind == "static" else group.present(rank)

    def start(self, op: Op, function: Any, seconds: float) -> None:
        agent, op.made = op.worker.agent, self.world.now
        try:
            info = agent.get_worker_info(op.callee.rank)
            future = agent.call_async(info, function, (op.key, seconds), {}, op.timeout_s)
        except Exception as error:
            self.end(op, error)
        else:
            future.add_done_callback(lambda done: self.end(op, done.exception()))

    def block_on(self, op: Op, function: Any, seconds: float) -> None:
        agent, op.made = op.worker.agent, self.world.now
        try:
            info = agent.get_worker_info(op.callee.rank)
            agent.call(info, function, (op.key, seconds), {}, op.timeout_s)
        except Crashed:
            raise
        except Exception as error:
            self.end(op, error)
        else:
            self.end(op, None)

    def end(self, op: Op, error: BaseException | None) -> None:
        op.ended.append((self.world.now, error))

    def break_something(self) -> None:
        rng, group = self.world.rng, self.group
        worker = rng.choice(group.living() or group.workers)
        kinds = ["freeze", "freeze", "cut", "cut", "link", "link", "crash", "leave"]
        if group.kind != "static":
            kinds += ["crash", "crash"]
        if group.kind == "dynamic":
            kinds += ["leave", "join", "join"]
        kind = rng.choice(kinds)
        self.broke.append(kind)
        if kind == "freeze":
            seconds = rng.choice((0.5, 2.2, 3.0, 6.0, 15.0))
            worker.freeze(seconds)
            if seconds > FROZEN_S and group.kind != "static":
                self.maybe_comes_back(worker)
        elif kind == "cut":
            other = rng.choice(group.workers)
            group.network.cut(worker, other, rng.choice((0.5, 2.2, 3.0, 6.0, 15.0)))
        elif kind == "link":
            group.network.break_one()
        elif kind == "join":
            group.start(max(group.ranks()) + 1)
        elif kind == "leave":
            worker.leave(graceful=group.kind == "dynamic" and rng.random() < 0.7)
            self.maybe_comes_back(worker)
        else:
            self.crash(worker)

    def crash(self, worker: Worker) -> None:
        """Crash a process. Its host may report the end or not; the rank may come back later."""
        worker.crash()
        if self.world.rng.random() < 0.5:
            self.group.tell_that_process_ended(worker)
        self.maybe_comes_back(worker)

    def maybe_comes_back(self, worker: Worker) -> None:
        """Start another life of the worker's rank some time after this life has ended, or never."""
        rng, when = self.world.rng, self.world.now
        if self.group.kind == "static":
            if worker.dead and rng.random() < 0.5:
                when += rng.choice((0.0, 0.5, 5.0))
                self.world.at(when, None, self.group.start_alone, worker.rank)
        elif rng.random() < 0.8:
            when += rng.choice((0.0, 0.05, 0.5, 5.0, 12.0)) * (0.5 + rng.random())
            self.world.at(when, None, self.come_back, worker)

    def come_back(self, worker: Worker) -> None:
        is_over = not (worker.dead or worker.left or worker.frozen)
        if is_over or self.group.present(worker.rank) is not worker:
            return  # the worker has woken up, or was replaced
        if self.group.leaves_its_place(worker):
            self.came_back(self.group.start(worker.rank))
        else:
            self.world.at(self.world.now + 0.5, None, self.come_back, worker)

    def came_back(self, worker: Worker) -> None:
        """Run a scenario's load on a worker that has come back; here there is none."""

    def storm(self) -> None:
        """Break connections repeatedly while many calls begin, on a slow network."""
        self.broke.append("storm")
        rng, network = self.world.rng, self.group.network
        network.delays_s = (0.0002, 0.05, 0.3)
        for _ in range(self.num_begun_in_storm):
            self.world.at(self.world.now + rng.random() * 2, None, self.begin_one)
        for _ in range(rng.randint(3, 12)):
            self.world.at(self.world.now + rng.random() * 3, None, network.break_one)

    def greet_each_other(self) -> None:
        """Let each remaining worker call the next worker, and check the results."""
        group = self.group
        others = [
            one for one in group.living() if not one.is_out and one is group.present(one.rank)
        ]
        if group.kind == "static":
            others = [worker for worker in others if worker.life == 0]
        greeted = list[str]()
        pairs = [
            (one, other)
            for one, other in zip(others, others[1:] + others[:1])
            if one is not other and not (one.gave_up(other) or other.gave_up(one))
        ]
        for one, other in pairs:
            self.world.soon(one, self.greet, one, other, greeted)
        self.world.run_until(self.world.now + DEATH_S)
        names = [f"{one.name} {other.name}" for one, other in pairs]
        assert sorted(greeted) == sorted(names), f"{sorted(names)} should call, did {greeted}"

    def greet(self, one: Worker, other: Worker, greeted: list[str]) -> None:
        heard = one.agent.call(one.agent.get_worker_info(other.rank), name_of, (), {}, 0.0)
        greeted.append(f"{one.name} {heard}")

    def check(self) -> None:
        for key, lives in self.runs.items():
            assert len(lives) == 1, f"call {key} ran at {[life.name for life in lives]}"
        for op in self.ops:
            if op.worker.dead:
                assert len(op.ended) <= 1
            else:
                self.check_end(op)
        for worker in self.group.living():
            self.check_that_nothing_is_left(worker)

    def check_end(self, op: Op) -> None:
        assert len(op.ended) == 1, f"call {op.key} ended {len(op.ended)} times"
        (when, error), callee = op.ended[0], op.callee
        ran_at = self.runs.get(op.key, [callee])[0]
        if ran_at is not callee:
            # The call reached a later life, so it must have been made after that life began.
            assert ran_at.began <= op.made, f"call {op.key} of before reached {ran_at.name}"
        elif callee.died_at is not None and op.worker is not callee and callee.died_at < when:
            after_s = when - max(callee.died_at, op.began) - op.worker.frozen_s
            assert after_s < DEATH_S, f"call {op.key} ended {after_s:.1f} s after a death"
        if op.timeout_s:
            frozen_s = op.worker.frozen_s - op.frozen_s_before
            late_s = when - op.began - op.timeout_s - frozen_s
            assert late_s < LATE_S, f"call {op.key} ended {late_s:.3f} s late"
        if error is None or isinstance(error, KeyError):
            assert op.key in self.runs, f"call {op.key} succeeded without running"
        is_own = not getattr(error, "__notes__", ())  # not the error of a nested call by the callee
        if isinstance(error, WorkerLostError) and is_own and not error.may_have_run:
            assert op.key not in self.runs, f"call {op.key} had run"

    def check_that_nothing_is_left(self, worker: Worker) -> None:
        agent = worker.agent
        assert not worker.num_lent(), f"{worker.name} has lent {worker.num_lent()} blocks"
        assert agent._server.num_rubbish == 0
        assert len(agent.progress.timeouts) == 0
        assert agent.counts.activity()[0] == 0, agent.get_metrics()
        for peer in agent.workers.met():
            assert peer.pipe.num_pending() == 0
            assert peer.pipe._lanes_out == 0
            assert peer.credit.under_way() == (0, 0)


scenarios: list[Calls] = []


def name_of() -> str:
    return here().name


def call(key: int, seconds: float) -> int:
    scenarios[-1].runs[key].append(here())
    return key


def call_that_raises(key: int, seconds: float) -> None:
    call(key, seconds)
    raise KeyError(key)


@async_execution
def call_that_answers_later(key: int, seconds: float) -> Future[int]:
    call(key, seconds)
    answer: Future[int] = Future()
    world = scenarios[-1].world
    world.at(world.now + seconds, world.current, answer.set_result, key)
    return answer


@async_execution
def call_back(key: int, seconds: float) -> Future[Any]:
    call(key, seconds)
    agent, ranks = here().agent, scenarios[-1].group.ranks()
    to = agent.get_worker_info(ranks[(ranks.index(here().rank) + 1) % len(ranks)])
    inner = agent.call_async(to, call_that_answers_later, (1000 + key, seconds), {}, 20.0)
    answer: Future[Any] = Future()
    inner.add_done_callback(lambda done: answer.try_complete(key, done.exception()))
    return answer


_S = TypeVar("_S", bound=Calls)


def try_seeds(make: Callable[[int], _S], current: list[_S], seeds: range) -> None:
    """For each seed, make its scenario current, run it, and check its invariants."""
    for seed in seeds:
        unexpected.clear()
        try:
            current[:] = [make(seed)]
            current[-1].run()
            current[-1].check()
            assert not unexpected, unexpected
        except Exception as error:
            again = f"again: python -m tests.distributed.simulate {make.__name__} {seed}"
            raise AssertionError(f"seed {seed}: {error!r}; {again}") from error
