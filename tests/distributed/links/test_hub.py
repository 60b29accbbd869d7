"""When members end, freeze or leave, the others notice it in time, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.distributed.links import processes
from tests.distributed.workers import Group
from tests.standstill import freeze

# Processes wake late on a loaded machine; otherwise no wait takes this long.
SOON_S = 2.0
TOPOLOGIES = ("aaa", "aab", "abc")


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    group = Group(processes.__file__, 3, getattr(request, "param", None))
    try:
        yield group
        alive = [worker for worker in group.workers if worker.process.poll() is None]
        for worker in alive:
            worker.start(processes.end)
        for worker in alive:
            worker.result()
            assert worker.end() == 0
    finally:
        group.kill()


def join(group: Group, machines: str) -> None:
    group.run_all(processes.join, machines)
    assert [found[0] for found in group.run_all(processes.sum_up, 1000)] == [""] * 3


def require_lost(found: tuple[str, str, float, bool], victim: int, since: float) -> None:
    kind, text, at, is_as_before = found
    assert kind == "CollectiveLostError"
    assert f"pid {victim} " in text
    assert text.startswith("rank 1 ")
    assert at - since < SOON_S
    assert is_as_before


@pytest.mark.parametrize("machines", TOPOLOGIES)
def test_a_member_that_is_killed_is_named_to_all_that_wait_for_it(
    group: Group, machines: str
) -> None:
    join(group, machines)
    victim = group[1].run(processes.pid)
    for rank in (0, 2):
        group[rank].start(processes.sum_up, 1000)
    since = group[1].kill()
    for rank in (0, 2):
        require_lost(group[rank].result(), victim, since)
    # A second call fails immediately, since the group has ended.
    for rank in (0, 2):
        require_lost(group[rank].run(processes.sum_up, 10), victim, time.monotonic())


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("machines", "step"),
    [("aaa", 1), ("aaa", 2), ("aaa", 9), ("aab", 3), ("aab", 9), ("abc", 2), ("abc", 3)],
)
def test_a_member_that_is_killed_in_each_phase_of_a_sum(
    group: Group, machines: str, step: int
) -> None:
    join(group, machines)
    victim = group[1].run(processes.pid)
    since = time.monotonic()
    for rank in (0, 2):
        group[rank].start(processes.sum_for_ever, processes.LARGE)
    group[1].start(processes.sum_and_die, processes.LARGE, step)
    for rank in (0, 2):
        require_lost(group[rank].result(), victim, since)
    # The killed process may still be releasing its memory.
    group[1].process.wait(30)


def test_a_member_that_does_not_come_is_named_at_the_deadline_to_all(group: Group) -> None:
    for machines in ("aab",):
        join(group, machines)
        began = time.monotonic()
        for rank in (0, 2):
            group[rank].start(processes.sum_up, 1000, 0.3)
        for rank in (0, 2):
            kind, text, at, is_as_before = group[rank].result()
            assert kind == "CollectiveTimeoutError"
            assert "rank 1 (pid " in text
            assert "had not come after 0.3" in text
            assert 0.29 < at - began < SOON_S
            assert is_as_before
        # The late member gets the reason why the others no longer wait.
        kind, text, _, _ = group[1].run(processes.sum_up, 1000, 0.3)
        assert kind == "CollectiveTimeoutError"
        assert "rank 1 (pid " in text


@pytest.mark.parametrize(
    ("group", "place"),
    [({}, "_sleep"), ({"FASTDIST_TRANSPORTS": "uv"}, "wait")],
    indirect=["group"],
)
def test_a_signal_ends_a_send_to_a_member_that_is_frozen(group: Group, place: str) -> None:
    join(group, "abc")
    victim = group[1].run(processes.pid)
    freeze(victim)
    try:
        names, seconds = group[0].run(processes.send_until_a_signal, 1, 0.5)
    finally:
        os.kill(victim, signal.SIGCONT)
    # The send waited, because the connection is full or the member requests no more data.
    assert names[-2:] == [place, "interrupt"], names
    assert seconds < SOON_S
    # No message was cut off, and the group still works.
    assert [found[0] for found in group.run_all(processes.sum_up, 1000)] == [""] * 3


@pytest.mark.one_in(3)
def test_a_frozen_member_is_named_at_the_deadline(group: Group) -> None:
    join(group, "aaa")
    victim = group[1].run(processes.pid)
    freeze(victim)
    try:
        for rank in (0, 2):
            group[rank].start(processes.sum_up, processes.LARGE, 0.2)
        for rank in (0, 2):
            kind, text, _, is_as_before = group[rank].result()
            assert (kind, is_as_before) == ("CollectiveTimeoutError", True)
            assert f"rank 1 (pid {victim} " in text
    finally:
        os.kill(victim, signal.SIGCONT)


@pytest.mark.parametrize(
    "group", [{"FASTDIST_TRANSPORTS": "uv", "FASTDIST_FROZEN_S": "3"}], indirect=True, ids=["tcp"]
)
def test_a_frozen_member_that_is_reached_by_sockets_alone_is_lost_in_time(group: Group) -> None:
    join(group, "aaa")
    victim, since = group[1].run(processes.pid), time.monotonic()
    freeze(victim)
    try:
        for rank in (0, 2):
            group[rank].start(processes.sum_up, processes.LARGE)
        for rank in (0, 2):
            kind, text, at, is_as_before = group[rank].result()
            assert (kind, is_as_before) == ("CollectiveLostError", True)
            assert text.startswith(f"rank 1 (pid {victim} ")
            assert "no sign of life for 3 s" in text
            assert at - since < 3.0 + 2.0 + SOON_S
    finally:
        os.kill(victim, signal.SIGCONT)


@pytest.mark.one_in(3)
def test_members_that_give_different_sizes_or_reductions_differ(group: Group) -> None:
    join(group, "aab")
    found = group.run_all(processes.sum_different_sizes)
    assert [kind for kind, _ in found] == ["CollectiveMismatchError"] * 3
    for _, text in found:
        assert "rank 2 (pid " in text
        assert "called all_reduce (sum of 160000 bytes), number " in text
        assert "called all_reduce (sum of 40 bytes), number " in text


@pytest.mark.parametrize("machines", TOPOLOGIES)
def test_calls_that_differ_are_an_error_on_all_within_a_tenth_of_a_second(
    group: Group, machines: str
) -> None:
    join(group, machines)
    kinds = {0: "float32, 3 numbers", 1: "float32, 3 numbers", 2: "barrier"}
    for _ in range(2):
        found = group.run_all(processes.mix_up, kinds)
        assert [kind for kind, _, _ in found] == ["CollectiveMismatchError"] * 3
        for _, text, _ in found:
            assert "rank 0 (pid " in text
            assert "called all_reduce (float32, 3 numbers, sum of 24 bytes), number " in text
            assert "at program0.py:" in text
            assert "called barrier, number " in text
            assert "at program2.py:" in text
        assert min(seconds for _, _, seconds in found) < 0.1
    # The group still works.
    assert [found[0] for found in group.run_all(processes.sum_up, 1000)] == [""] * 3


@pytest.mark.one_in(3)
@pytest.mark.parametrize("machines", TOPOLOGIES)
def test_nothing_is_left_open_by_members_that_leave(group: Group, machines: str) -> None:
    shared = set(os.listdir("/dev/shm")) if Path("/dev/shm").is_dir() else set()
    join(group, machines)
    group.run_all(processes.sum_up, processes.LARGE)
    for left in group.run_all(processes.leave):
        assert not left
    if shared:
        assert set(os.listdir("/dev/shm")) <= shared


def test_one_that_has_left_is_named_to_those_that_still_call(group: Group) -> None:
    for machines in ("aab",):
        join(group, machines)
        group[1].run(processes.leave)
        for rank in (0, 2):
            group[rank].start(processes.sum_up, 10, 10.0)
        for rank in (0, 2):
            kind, text, _, _ = group[rank].result()
            assert kind == "CollectiveLostError"
            assert "rank 1 (pid " in text
            assert "left the group" in text
