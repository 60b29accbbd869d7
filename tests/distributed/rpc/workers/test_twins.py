"""Two processes that claim one rank each learn the other's identity and address in time."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from fastdist.core.errors import FastdistError
from fastdist.distributed import rpc
from tests.distributed.rpc.test_init import Heard
from tests.distributed.workers import Group, Worker
from tests.standstill import Standstill

# Within this time each of the two workers must have received a message from the other.
HEARD_S = 5.0

heard: list[Heard] = []


def listen() -> None:
    heard.append(Heard())


def warning() -> str:
    """Wait for the first warning of this process, and return it."""
    with heard[0].is_told:
        assert heard[0].is_told.wait_for(lambda: bool(heard[0].lines), 30)
        return heard[0].lines[0]


def init(name: str) -> tuple[str, float]:
    """Return "ok" or init_rpc's error, and how long the call took without stops of this process."""
    began, told = time.monotonic(), "ok"
    with Standstill() as stood:
        try:
            rpc.init_rpc(name)
        except FastdistError as error:
            told = f"{type(error).__name__}: {error}"
    return told, time.monotonic() - began - stood.seconds


def leave() -> None:
    rpc.shutdown()


def leave_alone() -> None:
    rpc.shutdown(graceful=False)


def who() -> str:
    return rpc.get_worker_info().name


def ask(to: str) -> str:
    return rpc.rpc_sync(to, who, timeout=10)


def process_of(worker: Worker) -> str:
    return f"process {worker.process.pid} on {socket.gethostname()}"


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[Group, Worker]]]:
    """Yield a function that starts a group, and a second worker for one of its ranks."""
    groups: list[Group] = []
    others: list[Worker] = []

    def start(
        world_size: int, twice: int, environment: dict[str, str] | None = None
    ) -> tuple[Group, Worker]:
        groups.append(Group(__file__, world_size, environment))
        variables = {
            "WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(groups[0].port.number),
            "RANK": str(twice),
            **(environment or {}),
        }
        others.append(Worker(__file__, twice, variables))
        return groups[0], others[0]

    yield start
    for other in others:
        assert other.end() == 0
    for group in groups:
        # A test may have killed a worker.
        assert set(group.end()) <= {0, -signal.SIGKILL}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("w1", {}),
        ("another", {"FASTDIST_TRANSPORTS": "uv"}),
        ("w1", {"FASTDIST_TRANSPORTS": "uv", "FASTDIST_JOB_SECRET": "ab" * 32}),
    ],
)
def test_a_second_worker_of_a_rank_that_works_is_refused_and_the_first_hears_of_it_and_goes_on(
    start: Callable[..., tuple[Group, Worker]], name: str, environment: dict[str, str]
) -> None:
    group, second = start(2, 1, environment)
    for worker in group.workers:
        worker.run(listen)
        worker.start(init, f"w{worker.rank}")
    assert [worker.result()[0] for worker in group.workers] == ["ok", "ok"]
    told, took_s = second.run(init, name)
    assert took_s < HEARD_S
    assert told.startswith("RankTakenError") and "rank 1 of 2 joined twice" in told
    assert process_of(group[1]) in told and "the first was notified of this one" in told
    for worker in group.workers:
        heard = worker.run(warning)
        assert process_of(second) in heard and process_of(group[1]) in heard
        assert re.search(r"at (tcp|ipc)://", heard), heard
    assert [group[0].run(ask, "w1"), group[1].run(ask, "w0")] == ["w1", "w0"]
    group.run_all(leave)


@pytest.mark.one_in(8)
def test_two_workers_of_one_rank_that_wait_are_told_both_and_so_are_the_others(
    start: Callable[..., tuple[Group, Worker]],
) -> None:
    group, second = start(3, 1)
    group[0].start(init, "w0")
    group[1].start(init, "w1")
    second.start(init, "w1")
    for worker in (group[0], group[1], second):
        told, took_s = worker.result()
        assert told.startswith("RankTakenError") and "rank 1 of 3 joined twice" in told
        assert process_of(group[1]) in told and process_of(second) in told
        assert took_s < 20  # the first process waits until the second one joins


@pytest.mark.one_in(8)
def test_a_second_rank_0_and_the_first_hear_of_each_other(
    start: Callable[..., tuple[Group, Worker]],
) -> None:
    group, second = start(2, 0)
    group[0].run(listen)
    group[0].start(init, "w0")
    group[1].run(init, "w1")
    assert group[0].result()[0] == "ok"
    told, took_s = second.run(init, "w0")
    assert took_s < HEARD_S and told.startswith("StoreError")
    assert "is taken" in told and process_of(group[0]) in told
    heard = group[0].run(warning)
    assert "a second worker that says it is rank 0" in heard and process_of(second) in heard
    group.run_all(leave)


@pytest.mark.one_in(8)
def test_a_first_that_has_ended_without_a_word_is_told_as_such(
    start: Callable[..., tuple[Group, Worker]],
) -> None:
    group, second = start(2, 1)
    for worker in group.workers:
        worker.start(init, f"w{worker.rank}")
    assert [worker.result()[0] for worker in group.workers] == ["ok", "ok"]
    group[1].kill()
    group[1].process.wait()
    told, took_s = second.run(init, "w1")
    assert took_s < HEARD_S and "the first does not answer" in told
    group[0].run(leave_alone)
