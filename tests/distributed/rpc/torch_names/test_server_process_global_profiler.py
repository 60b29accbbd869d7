"""Open profiles of a worker include its work for any other worker."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist.distributed import rpc
from fastdist.distributed.rpc.calls.serving import Incoming
from fastdist.distributed.rpc.torch_names.server_process_global_profiler import (
    _server_process_global_profile,
)
from tests.distributed.members import init
from tests.distributed.workers import run_group


def events_there(profile: Any) -> list[list[Any]]:
    """Return a profile's events, grouped by request; called on the worker that owns it."""
    events: list[list[Any]] = profile.local_value().process_global_function_events
    return events


def names_of(requests: list[list[Any]]) -> list[list[str]]:
    """Return the names of the outermost events of each request, without requests that ran no op."""
    found = [[one.name for one in events if one.cpu_parent is None] for events in requests]
    return [names for names in found if names]


def subtract_here(x: fd.Tensor) -> fd.Tensor:
    return x - 1.0


def profile_w1() -> None:
    if init() == 0:
        x = fd.ones(2)
        outer = rpc.remote("w1", rpc._server_process_global_profile)
        outer.rpc_sync().__enter__()
        rpc.rpc_sync("w1", fd.add, (x, x))
        inner = rpc.remote("w1", rpc._server_process_global_profile)
        inner.rpc_sync().__enter__()
        # These calls may run in other threads than `__enter__`; each request has its own events.
        both = [rpc.rpc_async("w1", subtract_here, (x,)) for _ in range(2)]
        fd.futures.wait_all(both)
        inner.rpc_sync().__exit__(None, None, None)
        rpc.rpc_sync("w1", fd.mul, (x, x))
        outer.rpc_sync().__exit__(None, None, None)
        rpc.rpc_sync("w1", fd.add, (x, x))
        found = [names_of(rpc.rpc_sync("w1", events_there, (one,))) for one in (outer, inner)]
        add, sub, mul = "aten::add", "aten::sub", "aten::mul"
        assert found == [[[add], [sub], [sub], [mul]], [[sub], [sub]]], found
        averages = outer.rpc_sync().key_averages()
        assert {one.key: one.count for one in averages} == {add: 1, sub: 2, mul: 1}
        assert rpc.rpc_sync("w1", is_unwatched)
    rpc.shutdown()


def is_unwatched() -> bool:
    return Incoming.run.__module__ == Incoming.__module__


@pytest.mark.one_in(4)
def test_open_profiles_have_what_a_worker_does_for_requests_of_others() -> None:
    run_group(profile_w1, 2)


def test_a_profile_is_entered_once_and_one_that_is_off_records_nothing() -> None:
    with _server_process_global_profile() as profile:
        with pytest.raises(RuntimeError, match="autograd profiler traces are not reentrant"):
            profile.__enter__()
        fd.ones(2) * 2.0
    assert profile.process_global_function_events == [] and not profile.function_events
    with _server_process_global_profile(enabled=False):
        assert is_unwatched()
    assert is_unwatched()
