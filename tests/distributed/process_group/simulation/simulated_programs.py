"""A seed's program of collectives on simulated members, with random faults."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fastdist.core.errors import (
    CollectiveError,
    CollectiveLostError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
    StoreTimeoutError,
)
from fastdist.distributed import distributed_c10d as dist
from tests.distributed.process_group.simulation.simulated_members import (
    Job,
    Member,
    end_job,
    unexpected,
)
from tests.distributed.process_group.simulation.simulated_plan import (
    Buffers,
    Step,
    bits_of,
    call_step,
    draw_plan,
    with_mistake,
)
from tests.distributed.rpc.simulation.simulated_world import Crashed

TIMEOUT_S = 6.0
# Under any fault, all members end within this time.
HORIZON_S = 400.0
# Members that wait for an ended member learn of the loss within this time.
LOSS_S = 1.5
_MOST_ROUNDS = 12
_KEPT = re.compile(r"process_group\.(inits\.\d+|latest)$")
_NAMED = re.compile(r"rank (\d+) \(pid (\d+) on")


@dataclass
class Outcome:
    """The result of one step, or of init, on one member."""

    member: Member
    generation: int
    step: int
    began: float
    ended: float
    error: BaseException | None = None
    bits: tuple[bytes, ...] = ()


INIT, END = -1, 10_000


class Groups:
    """The job of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = self.rng = random.Random(seed)
        self.size = rng.choice((2, 2, 3, 3, 4, 5, 6))
        self.job = Job(seed, reuses_pids=rng.random() < 0.3)
        names = rng.choice(("a", "a", "ab", "ab", "abc", "abcdef"))
        self.machines = [rng.choice(names) for _ in range(self.size)]
        self.job.network.delays_s = rng.choice(((0.0001, 0.001), (0.0001, 0.02), (0.04, 0.0002)))
        self.job.network.connects_s = rng.choice(((0.0001, 0.01), (0.0001, 0.01), (0.001, 0.4)))
        self.job.network.is_tcp_only = rng.random() < 0.2
        self.job.maps_fail = rng.choice((0.0, 0.0, 0.0, 0.2))
        self.plan = draw_plan(rng, self.size)
        self.restarts = rng.random() < 0.5
        self.outcomes: list[Outcome] = []
        self.done: list[Member] = []
        self.job.on_death = self._died
        self.deaths: list[tuple[float, Member]] = []
        # Time of the call, by (process, generation, step).
        self.begun: dict[tuple[int, int, int], float] = {}
        self.num_killed = 0
        self.is_late = False
        self._num_to_kill = rng.choice((0, 0, 1, 1, 1, 2, 3))
        for rank in range(self.size):
            when = rng.choice((0.0, 0.001, 0.05, 2.0)) * rng.random()
            self.job.world.at(self.job.world.now + when, None, self._start, rank)
        fault = rng.random()
        if fault < 0.12:
            self._at_some_time(self._cut)
        elif fault < 0.24:
            self._at_some_time(self._freeze)
        elif fault < 0.32:
            victim, step = rng.randrange(self.size), rng.choice(self.plan)
            step.late[victim] = TIMEOUT_S * 2

    def _at_some_time(self, function: Callable[[], None]) -> None:
        when = self.job.world.now + self.rng.choice((0.02, 0.2, 1.0)) * self.rng.random()
        self.job.world.at(when, None, function)

    def _start(self, rank: int) -> None:
        member = self.job.start(rank, self.machines[rank], self.program)
        if self.num_killed < self._num_to_kill:
            self.num_killed += 1
            if self.rng.random() < 0.7:
                member.dies_at = int(2 ** self.rng.uniform(0, 9))
            else:
                self._at_some_time(member.crash)

    def _died(self, member: Member) -> None:
        self.deaths.append((self.job.world.now, member))
        if self.restarts and not self.done:
            when = self.job.world.now + self.rng.choice((0.001, 0.05, 1.0)) * self.rng.random()
            self.job.world.at(when, None, self._start, member.rank)

    def _cut(self) -> None:
        living = self.job.living()
        if len(living) > 1:
            pair = self.rng.sample(living, 2)
            for member in pair:
                member.was_cut = True
            self.job.network.cut(*pair)

    def _freeze(self) -> None:
        living = self.job.living()
        if living:
            self.rng.choice(living).freeze(self.rng.choice((0.5, 4.0, 14.0)))

    # The program of each member.

    def program(self, member: Member) -> None:
        for _ in range(_MOST_ROUNDS):
            try:
                self._round(member)
            except (CollectiveError, StoreTimeoutError):
                dist.destroy_process_group()
                # A finished member joins no further group.
                if not self.restarts or self.done:
                    return
            else:
                self.done.append(member)
                return

    def _round(self, member: Member) -> None:
        self._note(member, INIT, lambda: self._init(member))
        groups = [dist.GroupMember.WORLD]
        pending: list[tuple[Step, Buffers, Any, float]] = []
        for step in self.plan:
            # Only once: a restarted member is not late again.
            if late_s := step.late.pop(member.rank, 0.0):
                self.is_late = self.is_late or late_s > TIMEOUT_S
                member.was_late = member.was_late or late_s > 1.0
                member.pause(late_s)
            self._do(member, step, groups, pending)
            if pending and member.world.rng.random() < 0.5:
                self._finish(member, pending)
        self._finish(member, pending)
        self._note(member, END, dist.destroy_process_group)

    def _init(self, member: Member) -> None:
        dist.init_process_group(
            "gloo",
            store=member.store,
            rank=member.rank,
            world_size=self.size,
            timeout=timedelta(seconds=TIMEOUT_S),
        )

    def _do(self, member: Member, step: Step, groups: list[Any], pending: list[Any]) -> None:
        if step.kind == "new_group":
            self._note(member, step.number, lambda: groups.append(dist.new_group(step.ranks)))
            return
        if step.kind == "monitored_barrier":
            self._finish(member, pending)
            self._note(member, step.number, dist.monitored_barrier)
            return
        group = groups[step.group]
        if group == dist.GroupMember.NON_GROUP_MEMBER:
            return
        if step.kind == "destroy":
            self._finish(member, pending)
            self._note(member, step.number, lambda: dist.destroy_process_group(group))
            return
        rank, size = group.rank(), group.size()
        shown = with_mistake(step) if rank == step.wrong else step
        buffers = Buffers(shown, rank, size, member.groups.num_inits)
        began = member.world.now
        self.begun[member.pid, member.groups.num_inits, step.number] = began
        try:
            work = call_step(shown, group, buffers, rank, size)
        except CollectiveError as error:
            self._failed(member, step, buffers, began, error)
            return
        if work is not None:
            pending.append((step, buffers, work, began))
        else:
            self._succeeded(member, step, buffers, began)

    def _finish(self, member: Member, pending: list[Any]) -> None:
        while pending:
            step, buffers, work, began = pending.pop(0)
            try:
                work.wait()
            except CollectiveError as error:
                self._failed(member, step, buffers, began, error)
            else:
                self._succeeded(member, step, buffers, began)

    def _succeeded(self, member: Member, step: Step, buffers: Buffers, began: float) -> None:
        # Despite a mistake, a message succeeds for members that do not take part, and for its
        # sender if it is so small that it is sent before its receiver calls.
        is_message = step.kind == "message" and not buffers.outs
        assert step.wrong < 0 or is_message, f"{step} succeeded at {member.name}"
        buffers.require_expected()
        bits = tuple(bits_of(out) for out in buffers.outs) if buffers.is_shared else ()
        self._add(member, step.number, began, None, bits)

    def _failed(
        self, member: Member, step: Step, buffers: Buffers, began: float, error: CollectiveError
    ) -> None:
        buffers.require_unchanged()
        self._add(member, step.number, began, error)
        if isinstance(error, CollectiveMismatchError) and step.wrong >= 0:
            return
        raise error

    def _note(self, member: Member, number: int, function: Callable[[], Any]) -> None:
        began = member.world.now
        try:
            function()
        except (CollectiveError, StoreTimeoutError) as error:
            self._add(member, number, began, error)
            raise
        self._add(member, number, began)

    def _add(
        self,
        member: Member,
        step: int,
        began: float,
        error: BaseException | None = None,
        bits: tuple[bytes, ...] = (),
    ) -> None:
        generation, now = member.groups.num_inits, member.world.now
        self.outcomes.append(Outcome(member, generation, step, began, now, error, bits))

    # Invariants.

    def run(self) -> None:
        world = self.job.world
        try:
            world.run_until(world.now + HORIZON_S)
        except Crashed as error:
            raise AssertionError("a thread of the simulation crashed") from error

    def check(self) -> None:
        """Check all invariants of a run."""
        for member in self.job.living():
            assert member.ended, f"{member.name} hangs"
        assert not unexpected, unexpected
        for outcome in self.outcomes:
            if outcome.error is not None:
                self._check_error(outcome, str(outcome.error))
        self._check_same_bits()
        self._check_that_all_goes_well()
        self._check_that_nothing_is_left()

    def _check_error(self, outcome: Outcome, text: str) -> None:
        error, step = outcome.error, outcome.step
        if isinstance(error, CollectiveMismatchError):
            planned = next((one for one in self.plan if one.number == step), None)
            assert planned is not None and planned.wrong >= 0, f"{outcome.member.name}: {text}"
            self._check_mismatch(planned, text)
            return
        if "has begun to make its groups again" in text:
            rank = int(text.split()[1])
            later = [one for one in self.outcomes if one.member.rank == rank]
            assert any(one.generation > outcome.generation for one in later), text
            return
        named = [int(pid) for _, pid in _NAMED.findall(text)]
        if isinstance(error, CollectiveLostError | CollectiveTimeoutError):
            assert named, f"{text} names nobody"
            assert any(self._is_excused(pid, outcome) for pid in named), (
                f"{outcome.member.name}: {text}, though they do well"
            )
        deaths = [when for when, one in self.deaths if one.pid in named]
        is_quiet = any(one.was_frozen or one.was_late for one in self.job.members)
        if deaths and not is_quiet:
            # If the dead member had not joined yet, the others do not know which process it was.
            is_making = step == INIT or self.plan[step].kind == "new_group"
            others = [one.began for one in self.outcomes if one.step == step]
            began = max(others) if is_making else outcome.began
            took_s = outcome.ended - max(min(deaths), began)
            assert took_s < LOSS_S, f"{outcome.member.name}: {text} after {took_s:.2f} s"

    def _check_mismatch(self, step: Step, text: str) -> None:
        if step.kind == "all_to_all" and step.mistake == "size":
            assert len(_NAMED.findall(text)) == 2, text
            return
        wrong = with_mistake(step)
        if step.kind == "message":
            assert "sent" in text and "expected" in text and len(_NAMED.findall(text)) == 2, text
            return
        if step.mistake == "name":
            names = {"all_to_all": "all_to_all", "reduce_scatter": "reduce_scatter_tensor"}
            both = (names.get(step.kind, step.kind), wrong.kind)
        elif step.mistake == "dtype":
            both = step.dtype, wrong.dtype
        else:
            both = "simulated_plan.py", "simulated_plan.py"
        assert all(one in text for one in both), f"{text} does not name {both}"
        assert "called" in text and len(_NAMED.findall(text)) >= 2, text

    def _is_excused(self, pid: int, outcome: Outcome) -> bool:
        """Return whether a process was lost or late, or had failed itself."""
        if outcome.member.was_frozen and isinstance(outcome.error, CollectiveTimeoutError):
            # The member's deadline passed while it was frozen, before it could read messages.
            return True
        for one in self.job.members:
            if one.pid == pid and (one.dead or one.was_cut or one.was_frozen or one.was_late):
                return True
        its = [one for one in self.outcomes if one.member.pid == pid]
        if any(one.generation > outcome.generation for one in its) or any(
            one.error is not None and one.generation == outcome.generation for one in its
        ):
            return True
        # The process has not begun this call: it waits in another call for a missing member.
        begun = self.begun.get((pid, outcome.generation, outcome.step), HORIZON_S * 1000)
        return isinstance(outcome.error, CollectiveTimeoutError) and begun >= outcome.ended

    def _check_same_bits(self) -> None:
        found: dict[tuple[int, int], tuple[bytes, ...]] = {}
        for one in self.outcomes:
            if one.error is None and one.bits:
                other = found.setdefault((one.generation, one.step), one.bits)
                assert other == one.bits, f"step {one.step}: bits differ"

    def _check_that_all_goes_well(self) -> None:
        """Check that without faults only planned errors occur, and restarted members finish."""
        broke = (
            self.deaths
            or self.is_late
            or any(one.was_cut or one.was_frozen for one in self.job.members)
        )
        if not broke:
            errors = [one for one in self.outcomes if one.error is not None]
            wrong = [one for one in errors if not isinstance(one.error, CollectiveMismatchError)]
            assert not wrong, f"{wrong[0].member.name}: {wrong[0].error!r}"
            assert len(self.done) == self.size
        elif self.restarts:
            # A member that is killed after the first member has finished is not restarted.
            assert self.done, "no member has finished"

    def _check_that_nothing_is_left(self) -> None:
        for member in self.job.living():
            assert not member.hubs, f"{member.name} keeps {member.hubs}"
            assert not member.groups.by_name and member.groups.default is None
        is_first = not any(one.generation for one in self.outcomes)
        if is_first and len(self.done) == self.size == len(self.job.members):
            state = self.job.store._state
            # The store still has a name per group, a counter per rank, and a barrier's last answer.
            assert all(name.endswith(b"/ready") for name in state._groups), list(state._groups)
            others = [key for key in state._values if not _KEPT.search(key.decode())]
            assert len(others) <= any(one.kind == "monitored_barrier" for one in self.plan), others


scenarios: list[Groups] = []


def try_seeds(seeds: range) -> None:
    """Run the program of each seed, and check its invariants."""
    for seed in seeds:
        unexpected.clear()
        try:
            scenarios[:] = [Groups(seed)]
            scenarios[-1].run()
            scenarios[-1].check()
        except Exception as error:
            again = f"again: python -m tests.distributed.simulate Groups {seed}"
            raise AssertionError(f"seed {seed}: {error!r}; {again}") from error
        finally:
            scenarios.clear()
            end_job()
