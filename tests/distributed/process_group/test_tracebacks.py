"""Errors of the public functions and methods of process groups show no frame of fastdist."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.core.errors import CollectiveError, CollectiveTimeoutError
from fastdist.core.folded_frames import OUR_FOLDER
from fastdist.distributed import distributed_c10d, rpc
from fastdist.distributed.process_group import debug_level
from fastdist.distributed.process_group.work import Work
from fastdist.distributed.rendezvous import from_env
from fastdist.utils import fold_tracebacks
from tests.distributed.process_group.thread_members import run_members

# These functions and methods raise no error.
NEVER_RAISE = {
    *("get_pg_count", "is_gloo_available", "is_initialized", "is_mpi_available"),
    *("is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available"),
    *(
        "get_debug_level",
        "set_debug_level_from_env",
        "supports_complex",
        "abort",
        "get_group_store",
        "name",
        "rank",
        "set_timeout",
    ),
    *("shutdown", "size", "close", "has_extended_api", "list_keys", "num_keys", "refused"),
    *("clone", "query_host"),
}
# Calls of functions that other wrong arguments do not make fail.
SPECIAL: dict[str, Callable[[], object]] = {
    "new_group": lambda: dist.new_group([7]),
}


class Wrong:
    """An object that no function accepts."""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(debug_level, "_debug_level", None)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    before = fold_tracebacks(True)
    yield
    dist.destroy_process_group()
    fold_tracebacks(before)


def functions() -> dict[str, Callable[..., Any]]:
    named = {name: getattr(distributed_c10d, name) for name in distributed_c10d.REAL}
    return {name: one for name, one in named.items() if inspect.isfunction(one)}


def methods(of: Any) -> dict[str, Callable[..., Any]]:
    names = [name for name in dir(type(of)) if not name.startswith("_")]
    return {
        name: getattr(of, name) for name in names if inspect.isfunction(getattr(type(of), name))
    }


def wrong_arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """Return wrong values for the required arguments, and for the group if there is one."""
    return {
        name: Wrong()
        for name, one in inspect.signature(function).parameters.items()
        if one.default is one.empty or name in ("group", "parent_pg", "opts", "timeout")
    }


def our_frames(call: Callable[[], object]) -> int | None:
    """Return the number of fastdist's frames in an error and its causes; None without an error."""
    try:
        call()
    except Exception as error:
        shown = traceback.TracebackException.from_exception(error)
        parts = [shown, *(one for one in (shown.__cause__, shown.__context__) if one is not None)]
        return sum(one.filename.startswith(OUR_FOLDER) for part in parts for one in part.stack)
    return None


def frames_by_name(named: dict[str, Callable[..., Any]]) -> dict[str, int | None]:
    return {
        name: our_frames(SPECIAL.get(name, lambda one=one: one(**wrong_arguments(one))))
        for name, one in named.items()
    }


def requires_no_frames(found: dict[str, int | None]) -> None:
    assert {name: count for name, count in found.items() if count} == {}
    silent = {name for name, count in found.items() if count is None}
    assert silent - NEVER_RAISE == set()


def test_functions_without_a_group_show_none_of_our_frames() -> None:
    found = frames_by_name(functions())
    assert len(found) > 50
    requires_no_frames(found)


def test_functions_and_methods_of_a_group_show_none_of_our_frames() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    requires_no_frames(frames_by_name(functions()))
    found = frames_by_name(methods(dist.group.WORLD))
    assert len(found) > 20
    requires_no_frames(found)


def test_methods_of_a_store_show_none_of_our_frames() -> None:
    store = dist.PrefixStore("room", dist.HashStore())
    store.set_timeout(0.001)
    found = frames_by_name(methods(store))
    assert len(found) > 20 and found["get"] == 0
    requires_no_frames(found)
    assert our_frames(lambda: store.get("missing")) == 0
    assert our_frames(lambda: store.wait(["missing"])) == 0
    assert our_frames(lambda: dist.TCPStore("nowhere", -1)) == 0
    assert our_frames(lambda: dist.FileStore("/no/folder/file", 1)) == 0


@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "broadcast", "reduce", "send"])
def test_an_argument_that_is_no_tensor_shows_none_of_our_frames(name: str) -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    function: Any = getattr(dist, name)
    more = {"all_gather": ([Wrong()], Wrong()), "broadcast": (Wrong(), 0), "reduce": (Wrong(), 0)}
    assert our_frames(lambda: function(*more.get(name, (Wrong(),)))) == 0


@pytest.mark.parametrize("call", [dist.get_debug_level, dist.set_debug_level_from_env])
def test_a_wrong_debug_level_shows_none_of_our_frames(
    call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "unknown")
    assert our_frames(call) == 0


def test_other_calls_than_those_of_the_members_show_none_of_our_frames() -> None:
    def member(rank: int) -> list[int | None]:
        x = fd.ones(2 + rank)
        shown = [our_frames(lambda: dist.all_reduce(x))]
        work: Any = dist.all_reduce(x, async_op=True)
        future = work.get_future()
        return shown + [our_frames(call) for call in (work.wait, future.wait, future.value)]

    assert run_members(2, member) == [[0, 0, 0, 0]] * 2


@pytest.mark.parametrize(
    "call",
    [
        dist.init_process_group,
        lambda: dist.init_process_group("gloo", "env://"),
        lambda: dist.init_device_mesh("cpu", (2,)),
        lambda: dist.rendezvous("env://"),
        from_env,
        lambda: rpc.init_rpc("worker0"),
    ],
)
def test_a_program_that_no_launcher_started_learns_how_to_start_it(
    call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/programs/spans.py"])
    monkeypatch.setattr("__main__.__spec__", None)
    with pytest.raises(
        ValueError, match=r"RANK is not set; .* `fastdist run -n 2 spans.py`, .*rank="
    ):
        call()
    assert our_frames(call) == 0


def test_a_wait_that_ends_too_early_shows_none_of_our_frames() -> None:
    work = Work()
    assert our_frames(lambda: work.wait(timedelta(microseconds=1))) == 0
    with pytest.raises(CollectiveTimeoutError, match="Operation timed out"):
        work.wait(timedelta(microseconds=1))
    work._finish(CollectiveError("lost"))
    assert our_frames(work.wait) == 0


def test_all_frames_are_shown_if_they_are_requested() -> None:
    fold_tracebacks(False)
    assert (our_frames(lambda: dist.all_reduce(Wrong())) or 0) > 2  # type: ignore[arg-type]


def test_a_warning_names_the_line_of_the_program() -> None:
    def member(rank: int) -> Any:
        group = dist.new_group([0])
        if rank == 0:
            return None
        with pytest.warns(UserWarning, match="Running all_reduce on global rank 1") as found:
            dist.all_reduce(fd.ones(1), group=group)
        return os.path.basename(found[0].filename)

    assert run_members(2, member) == [None, "test_tracebacks.py"]
