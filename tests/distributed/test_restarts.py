"""The functions that a restarted program calls before its main work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import fastdist.distributed as dist
from fastdist.distributed import restarts, rpc


@pytest.fixture(autouse=True)
def no_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "_hooks", [])
    monkeypatch.setattr(restarts, "_counted", 0)


@pytest.fixture
def options(tmp_path: Path) -> Iterator[rpc.TensorPipeRpcBackendOptions]:
    """Return options with which this process alone forms an RPC group; shut it down at the end."""
    rpc.init._init_counter = 0  # type: ignore[attr-defined]
    yield rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tmp_path}/store")
    if rpc.agent.is_current_agent_set():  # type: ignore[attr-defined]
        rpc.shutdown()


def test_hooks_run_in_their_order_with_the_worker_that_is_back() -> None:
    told = []
    dist.on_restart(lambda worker: told.append(("first", worker)))

    @dist.on_restart
    def second(worker: object) -> None:
        told.append(("second", worker))

    restarts.run_restart_hooks("worker")
    assert told == [("first", "worker"), ("second", "worker")]


def test_a_hook_that_fails_is_told_and_the_others_run() -> None:
    told = []
    dist.on_restart(lambda worker: 1 / 0)
    dist.on_restart(told.append)
    with pytest.raises(ZeroDivisionError):
        restarts.run_restart_hooks("worker")
    dist.on_restart(lambda worker: {}["missing"])
    with pytest.raises(ExceptionGroup, match="hooks of on_restart failed for 'worker'"):
        restarts.run_restart_hooks("worker")
    assert told == ["worker"] * 2


def test_what_cannot_be_called_is_no_hook() -> None:
    with pytest.raises(TypeError, match="hook is 3; expected a function of one argument"):
        dist.on_restart(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "times"), [("0", 0), ("2", 1)])
def test_init_rpc_runs_them_in_a_worker_that_was_started_again_with_rpc_at_hand(
    count: str,
    times: int,
    options: rpc.TensorPipeRpcBackendOptions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FASTDIST_RESTART_COUNT", count)
    assert dist.restart_count() == int(count)
    answers = []
    dist.on_restart(lambda worker: answers.append(rpc.rpc_sync(worker, pow, args=(2, 3))))
    for _ in range(2):  # later groups of the same process do not count as restarts
        rpc.init_rpc("me", rank=0, world_size=1, rpc_backend_options=options)
        rpc.shutdown()
    assert answers == [8] * times


@pytest.mark.parametrize(("told", "counted", "count"), [("1", 3, 3), ("4", 3, 4), ("", 3, 3)])
def test_the_larger_count_holds_of_the_launcher_s_and_the_store_s(
    told: str, counted: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDIST_RESTART_COUNT", told)
    restarts.note_restarts(counted)
    restarts.note_restarts(1)
    assert dist.restart_count() == count


def test_a_worker_whose_hook_fails_does_not_join(
    options: rpc.TensorPipeRpcBackendOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDIST_RESTART_COUNT", "1")
    dist.on_restart(lambda worker: {}["checkpoint"])
    with pytest.raises(KeyError, match="checkpoint"):
        rpc.init_rpc("me", rank=0, world_size=1, rpc_backend_options=options)
    assert not rpc.agent.is_current_agent_set()  # type: ignore[attr-defined]
