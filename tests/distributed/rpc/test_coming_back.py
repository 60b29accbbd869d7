"""A killed worker rejoins under its name and rank, while the others continue."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed
from fastdist.distributed import TCPStore, autograd, rpc
from tests.distributed.workers import Group, Worker
from tests.standstill import Standstill

# The time limit of init_rpc for a worker that rejoins.
IN_WITHIN_S = 2.0

kept: dict[str, Any] = {}
returned: list[rpc.WorkerInfo] = []
it_is_over = threading.Event()


def join(world_size: int | None) -> float:
    """Return how long init_rpc took, without the time in which this process was stopped."""
    began = time.monotonic()
    rank = int(os.environ["RANK"])
    options = rpc.TensorPipeRpcBackendOptions(restarts=bool(world_size), rpc_timeout=30)
    with Standstill() as stood:
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    return time.monotonic() - began - stood.seconds


def note_returns() -> None:
    distributed.on_restart(returned.append)


def own_returns() -> tuple[list[str], int]:
    """Return the workers for which restart hooks ran here, and the restart count of this worker."""
    return [info.name for info in returned], distributed.restart_count()


def returns() -> list[str]:
    deadline = time.monotonic() + 20
    while not returned:
        assert time.monotonic() < deadline
        it_is_over.wait(0.01)
    names = [info.name for info in returned]
    returned.clear()
    return names


def whoami() -> tuple[str, int]:
    return rpc.get_worker_info().name, os.getpid()


def call(name: str) -> tuple[str, int]:
    answer: tuple[str, int] = rpc.rpc_sync(name, whoami)
    return answer


def keep_relations_with(name: str) -> None:
    """Create a running call, a remote value and a context that all involve the worker."""
    kept["call"] = rpc.rpc_async(name, time_passes, timeout=0)
    kept["value"] = rpc.remote(name, fd.ones, args=((3,),))
    assert kept["value"].to_here().sum() == 3
    kept["block"] = block = autograd.context()
    kept["context"] = context_id = block.__enter__()
    kept["leaf"] = leaf = fd.ones((3,), requires_grad=True)
    kept["loss"] = rpc.rpc_sync(name, fd.mul, args=(leaf, 2.0)).sum()
    assert autograd._retrieve_context(context_id)._known_worker_ids()


def time_passes() -> None:
    it_is_over.wait(60)


def what_became_of_them(name: str) -> dict[str, str]:
    """Return, for each relation, the class and text of the error that ended it."""
    found: dict[str, str] = {}
    for relation, attempt in {
        "call": kept["call"].wait,
        "value": kept["value"].to_here,
        "late fetch": lambda: kept["value"]._context.fetch(kept["value"], 20),
        "sent value": lambda: rpc.rpc_sync("w0", take, args=(kept["value"],)),
        "method": lambda: kept["value"].rpc_sync().sum(),
        "context": lambda: autograd.backward(kept["context"], [kept["loss"]]),
    }.items():
        try:
            attempt()
            found[relation] = "no error"
        except Exception as error:
            found[relation] = f"{type(error).__name__}: {error}"
    kept.pop("block").__exit__(None, None, None)
    kept.clear()
    return found


def take(rref: Any) -> None:
    """Receive a reference."""


def run_a_pass_over(name: str) -> float:
    with autograd.context() as context_id:
        leaf = fd.ones((3,), requires_grad=True)
        autograd.backward(context_id, [rpc.rpc_sync(name, fd.mul, args=(leaf, 2.0)).sum()])
        gradient = autograd.get_gradients(context_id)[leaf]
    value: float = gradient.sum().item()
    return value


def leave() -> None:
    rpc.shutdown(timeout=20)


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group(__file__, 3)
    try:
        yield group
    finally:
        group.kill()


def start_again(group: Group, rank: int) -> Worker:
    worker = group.workers[rank] = group.another(rank)
    worker.run(whoami_there)  # by now the worker has finished its imports
    return worker


def whoami_there() -> int:
    return os.getpid()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("world_size", [3, 0], ids=["static", "dynamic"])
def test_who_was_killed_comes_back_under_its_name_and_the_others_go_on(
    group: Group, world_size: int
) -> None:
    group.run_all(join, world_size)
    group.run_all(note_returns)
    for life in range(2):
        group[1].run(keep_relations_with, "w2")
        group[0].run(call, "w2")
        group[2].kill(signal.SIGKILL)
        assert group[2].end() == -signal.SIGKILL
        again = start_again(group, 2)
        again.run(note_returns)
        assert again.run(own_returns) == ([], 0)  # the environment does not count restarts
        init_s = again.run(join, world_size)
        assert again.run(own_returns) == (["w2"], life + 1)
        # The others learn of the worker's return without a call, by a notice.
        assert [group[rank].run(returns) for rank in (0, 1)] == [["w2"]] * 2
        pids = [group[rank].run(call, "w2") for rank in (0, 1)]
        assert init_s < IN_WITHIN_S
        assert pids == [("w2", again.process.pid)] * 2, f"life {life}"
        found = group[1].run(what_became_of_them, "w2")
        assert found["call"].startswith("WorkerLostError: worker 'w2' (rank 2) was lost")
        for relation in ("value", "sent value", "method"):
            assert found[relation].startswith("OwnerLostError: the value of "), found
            assert "lived on worker 'w2' (rank 2), which was lost" in found[relation]
        # The error is the same as for a fetch just before the loss was noticed.
        assert found["late fetch"].startswith("WorkerLostError: worker 'w2' (rank 2) was lost")
        assert found["context"].startswith("WorkerLostError"), found
        for rank, name in ((1, "w2"), (2, "w1"), (0, "w1"), (0, "w2")):
            assert group[rank].run(run_a_pass_over, name) == 6.0
    group.run_all(leave)
    assert group.end() == [0, 0, 0]


@pytest.mark.one_in(8)
def test_who_waits_in_shutdown_waits_for_a_lost_worker_until_it_is_back(group: Group) -> None:
    group.run_all(join, 3)
    for rank in (0, 1):
        group[rank].start(rpc.shutdown)
    pids = [group[2].run(call, name) for name in ("w0", "w1")]
    group[2].kill(signal.SIGKILL)
    assert group[2].end() == -signal.SIGKILL
    again = start_again(group, 2)
    again.run(join, 3)
    assert [again.run(call, name) for name in ("w0", "w1")] == pids, "the serving workers have left"
    again.run(leave)
    for rank in (0, 1):
        group[rank].result(20.0)
    assert group.end() == [0, 0, 0]


@pytest.fixture
def store() -> Iterator[TCPStore]:
    """Yield a store that outlives the groups of workers."""
    with TCPStore("127.0.0.1", 0, is_master=True) as store:
        yield store


@pytest.fixture
def hosted_group(store: TCPStore) -> Iterator[Group]:
    hosted = {"FASTDIST_STORE_HOSTED": "1", "FASTDIST_STORE_PORT": str(store.port)}
    group = Group(__file__, 3, hosted)
    try:
        yield group
    finally:
        group.kill()


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("world_size", [3, 0], ids=["static", "dynamic"])
@pytest.mark.parametrize("kind", ["group", "hosted_group"])
def test_who_comes_back_finds_the_group_that_its_job_is_in_by_now(
    request: pytest.FixtureRequest, kind: str, world_size: int
) -> None:
    group: Group = request.getfixturevalue(kind)
    for _ in range(2):
        group.run_all(join, world_size)
        group.run_all(leave)
    group.run_all(join, world_size)
    assert group[0].run(call, "w2")[0] == "w2"
    group[2].kill(signal.SIGKILL)
    assert group[2].end() == -signal.SIGKILL
    again = start_again(group, 2)
    again.run(note_returns)
    again.run(join, world_size)
    pids = [group[rank].run(call, "w2") for rank in (0, 1)]
    assert pids == [("w2", again.process.pid)] * 2
    group.run_all(leave)
    # The restarted worker gives the next group the same number as the other workers do.
    group.run_all(join, world_size)
    assert again.run(own_returns) == (["w2"], 1)
    assert group[0].run(own_returns) == ([], 0)
    assert again.run(call, "w1") == ("w1", group[1].process.pid)
    group.run_all(leave)


@pytest.mark.one_in(8)
def test_who_was_killed_between_two_groups_comes_to_the_next(
    store: TCPStore, hosted_group: Group
) -> None:
    group = hosted_group
    group.run_all(join, 3)
    group.run_all(leave)
    for rank in (0, 1):
        group[rank].start(join, 3)
    deadline = time.monotonic() + 60
    while store.get("none.0/rpc_groups/newest") != b"1":
        assert time.monotonic() < deadline
        it_is_over.wait(0.01)
    group[2].kill(signal.SIGKILL)
    assert group[2].end() == -signal.SIGKILL
    again = start_again(group, 2)
    again.run(note_returns)
    again.run(join, 3)
    assert again.run(own_returns) == (["w2"], 1)
    for rank in (0, 1):
        group[rank].result()
    assert group[0].run(call, "w2") == ("w2", again.process.pid)
    group.run_all(leave)
