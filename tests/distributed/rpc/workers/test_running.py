"""A computing process does not count as stopped, and a stopped one does."""

from __future__ import annotations

import ctypes
import math
import signal
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.distributed.rpc.workers import progress as progress_module
from fastdist.distributed.rpc.workers import running
from fastdist.distributed.rpc.workers.progress import AwakeClock, Progress
from fastdist.distributed.rpc.workers.running import Meter
from tests.distributed.workers import Group


class Machine:
    """A clock, and the counters of the kernel; the test sets both."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.meter = 100.0, Meter(0, 0.0, 0.0)
        times = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(progress_module, "time", times)
        monkeypatch.setattr(Meter, "read", lambda: self.meter)
        self.clock = AwakeClock()
        self.clock.look(due=math.inf)

    def late(self, seconds: float, **meter: Any) -> AwakeClock:
        """Run an alarm `seconds` late, with these counters; return the clock."""
        due = self.now + 0.5
        self.now = due + seconds
        self.meter = self.meter._replace(**meter)
        self.clock.look(due)
        return self.clock


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_waiting_for_the_interpreter_lock_is_no_standing_still(machine: Machine) -> None:
    clock = machine.late(17.0, num_wakes=2500)
    assert not clock.stood_still_lately()
    # While the thread waited for the lock it read no messages, so peers are not considered silent.
    assert clock.now() == 100.5 and clock.woke_at() == 100.5


@pytest.mark.parametrize("wakes", [0, 1, 9])
def test_a_stop_is_noticed_whatever_few_turns_for_the_lock_came_behind_it(
    machine: Machine, wakes: int
) -> None:
    assert machine.late(4.0, num_wakes=wakes).stood_still_lately()


@pytest.mark.parametrize(
    ("late_s", "frozen_s", "is_noticed"),
    [(1.2, 3.0, True), (0.9, 3.0, False), (1.2, 10.0, False), (2.6, 10.0, True), (2.2, 4.0, True)],
)
def test_a_stop_that_lost_a_worker_to_peers_of_a_low_limit_is_noticed(
    machine: Machine, late_s: float, frozen_s: float, is_noticed: bool
) -> None:
    assert machine.late(late_s).stood_still_lately(frozen_s) is is_noticed


def test_a_short_stop_does_not_hide_the_longer_one_before_it(machine: Machine) -> None:
    machine.late(4.0)
    assert machine.late(1.5).stood_still_lately()
    machine.now += 10.0
    assert not machine.late(1.5).stood_still_lately()


def test_a_busy_machine_does_not_make_a_stop_of_a_held_lock(machine: Machine) -> None:
    # The thread woke up only an eighth as often as normal.
    assert not machine.late(10.0, num_wakes=10_000 // 40).stood_still_lately()


def test_a_suspended_machine_stood_still_though_its_clock_did_as_well(machine: Machine) -> None:
    clock = machine.late(0.0, suspended_s=60.0)
    assert clock.stood_still_lately()
    assert clock.now() == 100.5 and clock.woke_at() == 100.5


def test_the_turns_before_a_stop_are_not_taken_for_running(machine: Machine) -> None:
    for turn in range(1, 40):  # too few calls of `look` for another reading of the counters
        machine.now += 0.01
        machine.meter = Meter(2 * turn, 0.0, 0.0)
        machine.clock.look(due=math.inf)
    assert machine.late(4.0, num_wakes=2 * 40 + 5).stood_still_lately()


def test_waits_for_the_lock_before_a_stop_are_not_taken_for_running(machine: Machine) -> None:
    for turn in range(1, 17):
        machine.now += 0.05
        machine.meter = Meter(10 * turn, 0.0, 0.0)
        machine.clock.look(due=machine.now - 0.05)
    assert machine.late(4.0, num_wakes=10 * 16 + 5).stood_still_lately()


def test_a_busy_thread_measures_now_and_then_and_an_idle_one_each_few_seconds(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[float] = []
    monkeypatch.setattr(Meter, "read", lambda: reads.append(machine.now) or machine.meter)
    for _ in range(1000):
        machine.now += 0.001
        machine.clock.look(due=math.inf)
    assert len(reads) == 1000 // progress_module._MEASURE_LOOKS
    reads.clear()
    for _ in range(40):
        machine.now += 0.5
        machine.clock.look(due=math.inf)
    assert 3 <= len(reads) <= 5


def test_where_threads_are_not_counted_the_processor_time_of_the_process_tells(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.meter = Meter(-1, 0.0, 0.0)
    machine.clock.look(due=math.inf)
    assert not machine.late(4.0, processor_s=3.9).stood_still_lately()
    assert machine.late(4.0, processor_s=4.0).stood_still_lately()
    monkeypatch.undo()
    monkeypatch.setattr(running, "_OF_THREAD", None)
    assert Meter.read().num_wakes == -1 and Meter.read().processor_s > 0.0


# ---- with a process ------------------------------------------------------------------------------

SHORT_S = 0.1


class Ticking:
    """A progress thread with a regular tick, whose clock detects stops of the process."""

    def __init__(self) -> None:
        progress_module._LATE_S, progress_module._SILENT_S = SHORT_S, 3 * SHORT_S
        progress_module._LATELY_S = 60.0
        self.progress, self.ticks = Progress("progress of the test"), threading.Semaphore(0)
        self.progress.start()
        self.progress.post(self.tick)

    def tick(self) -> None:
        self.ticks.release()
        self.progress.call_at(time.monotonic() + 0.01, self.tick)

    def stood_still(self) -> bool:
        """Return `stood_still_lately` after two more ticks."""
        while self.ticks.acquire(blocking=False):
            pass
        for _ in range(2):
            assert self.ticks.acquire(timeout=20)
        return self.progress.stood_still_lately()


ticking: list[Ticking] = []


def begin() -> None:
    ticking.append(Ticking())
    ticking[0].stood_still()


def keeps_the_lock_unnoticed() -> bool:
    """Return whether holding the GIL is not detected as a stop; retry in case the machine stops."""
    for _ in range(5):
        ticking[0].progress._clock._silent_at = -math.inf
        # The sleep uses no CPU time, so a CPU clock could not distinguish it from a stop.
        ctypes.PyDLL(None).usleep(700_000)
        if not ticking[0].stood_still():
            return True
    return False


def forget() -> None:
    ticking[0].progress._clock._silent_at = -math.inf


def stood_still() -> bool:
    return ticking[0].stood_still()


def test_a_process_knows_a_call_that_kept_the_lock_from_a_stop() -> None:
    group = Group(__file__, 1)
    try:
        worker = group[0]
        worker.run(begin)
        assert worker.run(keeps_the_lock_unnoticed)
        worker.run(forget)
        worker.kill(signal.SIGSTOP)
        threading.Event().wait(6 * SHORT_S)
        worker.kill(signal.SIGCONT)
        assert worker.run(stood_still)
    finally:
        group.kill()
