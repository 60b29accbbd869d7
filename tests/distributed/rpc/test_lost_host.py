"""A group survives the death of the worker that hosts its store, or reports why it cannot."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fastdist import distributed
from fastdist.core.errors import RpcError, StoreError
from fastdist.distributed import TCPStore, rpc
from tests.distributed.workers import Group, Worker
from tests.standstill import Standstill

# A restarted worker must find within this time that no peer is left.
TOLD_WITHIN_S = 12.0

returned: list[str] = []


def join(world_size: int | None, init_timeout: float = 50.0) -> None:
    rank = int(os.environ["RANK"])
    options = rpc.TensorPipeRpcBackendOptions(
        restarts=bool(world_size), rpc_timeout=30, init_timeout=init_timeout
    )
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)


def note_returns() -> None:
    distributed.on_restart(lambda worker: returned.append(worker.name))


def wait_for_return_of(name: str) -> None:
    wait_until(lambda: name in returned)


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 50
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def whoami() -> tuple[str, int]:
    return rpc.get_worker_info().name, os.getpid()


def call(name: str) -> tuple[str, int]:
    answer: tuple[str, int] = rpc.rpc_sync(name, whoami)
    return answer


def wait_to_know(name: str) -> None:
    """Wait until the worker's next check has registered the worker in the new store."""

    def is_known() -> bool:
        try:
            return rpc.get_worker_info(name) is not None
        except RpcError:
            return False

    wait_until(is_known)


def leave() -> None:
    rpc.shutdown(timeout=40)


def host_nothing() -> None:
    """Simulate a worker on another machine than the store."""

    def host_instead(store: TCPStore) -> bool:
        raise StoreError("its address is that of another machine")

    TCPStore.host_instead = host_instead  # type: ignore[method-assign]


@pytest.fixture
def start() -> Iterator[Callable[[int], Group]]:
    groups: list[Group] = []

    def start(size: int) -> Group:
        groups.append(Group(__file__, size))
        return groups[-1]

    yield start
    for group in groups:
        group.kill()
    # The next host of a store removes the files of killed hosts.
    TCPStore("127.0.0.1", 0, is_master=True).close()


def kill(group: Group, rank: int) -> None:
    group[rank].kill(signal.SIGKILL)
    assert group[rank].end() == -signal.SIGKILL


def bring_back(group: Group, rank: int, world_size: int) -> None:
    group.workers[rank] = group.another(rank)
    group[rank].run(join, world_size)


def require_all_reach_all(group: Group) -> None:
    pids = {f"w{worker.rank}": worker.process.pid for worker in group.workers}
    for worker in group.workers:
        for name, pid in pids.items():
            assert worker.run(call, name) == (name, pid)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("world_size", [3, 0], ids=["static", "dynamic"])
def test_the_store_of_a_group_goes_on_without_its_host(
    start: Callable[[int], Group], world_size: int
) -> None:
    group = start(3)
    group.run_all(join, world_size)
    require_all_reach_all(group)
    group.run_all(note_returns)
    kill(group, 0)
    kill(group, 2)
    # First bring back rank 2, which does not host the store, while rank 0 is away. Then bring back
    # rank 0, which no longer hosts the store.
    bring_back(group, 2, world_size)
    assert group[1].run(call, "w2") == ("w2", group[2].process.pid)
    bring_back(group, 0, world_size)
    group[1].run(wait_for_return_of, "w2")
    group[1].run(wait_for_return_of, "w0")
    require_all_reach_all(group)
    # Then kill the current host of the store.
    kill(group, 1)
    bring_back(group, 1, world_size)
    group[1].run(wait_to_know, "w0")
    group[1].run(wait_to_know, "w2")
    require_all_reach_all(group)
    group.run_all(leave)
    # The next group has a new host.
    group.run_all(join, world_size)
    require_all_reach_all(group)
    group.run_all(leave)


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("world_size", [3, 0], ids=["static", "dynamic"])
def test_a_host_that_is_back_is_told_of_its_group_by_those_who_could_not_host_it(
    start: Callable[[int], Group], world_size: int
) -> None:
    group = start(3)
    group.run_all(host_nothing)
    group.run_all(join, world_size)
    require_all_reach_all(group)
    group.run_all(note_returns)
    kill(group, 0)
    bring_back(group, 0, world_size)
    for rank in (1, 2):
        group[rank].run(wait_for_return_of, "w0")
    require_all_reach_all(group)
    kill(group, 2)
    bring_back(group, 2, world_size)
    require_all_reach_all(group)
    group.run_all(leave)


# ---- where no host is left -----------------------------------------------------------------------


def join_alone(is_known_to_be_back: bool, path: str) -> tuple[str, float]:
    """Return the outcome of init_rpc, and its time in this process; stderr goes to `path`."""
    if is_known_to_be_back:
        os.environ |= {"FASTDIST_ALLOW_RESTART": "worker", "FASTDIST_RESTART_COUNT": "1"}
    began, told = time.monotonic(), "in"
    with open(path, "w") as sys.stderr, Standstill() as stood:
        try:
            join(2)
        except StoreError as error:
            told = f"{type(error).__name__}: {error}"
    return told, time.monotonic() - began - stood.seconds


def lose_both(group: Group) -> Worker:
    """Kill both workers of a group, and return a new process of rank 1."""
    group.run_all(join, 2)
    for rank in (0, 1):
        kill(group, rank)
    group.workers[1] = group.another(1)
    return group[1]


@pytest.mark.one_in(8)
def test_who_comes_back_to_nobody_is_told_at_once(
    start: Callable[[int], Group], tmp_path: object
) -> None:
    again = lose_both(start(2))
    told, took_s = again.run(join_alone, True, f"{tmp_path}/told")
    assert told.startswith("StoreLostError: the store of this job, at 127.0.0.1:"), told
    assert "is gone with its host, rank 0" in told
    assert "start rank 0 again, or all workers" in told
    assert took_s < TOLD_WITHIN_S


@pytest.mark.one_in(8)
def test_who_may_be_the_first_is_told_and_waits_for_rank_0(
    start: Callable[[int], Group], tmp_path: object
) -> None:
    group = start(2)
    again = lose_both(group)
    path = f"{tmp_path}/told"
    again.start(join_alone, False, path)
    wait_until(lambda: os.path.exists(path) and "nobody listens there" in Path(path).read_text())
    bring_back(group, 0, 2)
    assert again.result()[0] == "in"
    require_all_reach_all(group)
    group.run_all(leave)
