"""Reading a Future's device tensors makes them visible on the reader's streams, without a wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import fastdist
from fastdist.concurrency.future import Future
from fastdist.core.device import Device
from fastdist.devices import backend_of
from fastdist.devices.sim import SimBackend
from fastdist.devices.staging import copy_to_devices
from fastdist.distributed import rpc
from fastdist.distributed.rpc.message.tensors import arrival_of
from fastdist.tensor.tensor import layout_of, wrap
from tests.device_kinds import KINDS, Waits, backend_on, kind_here, told
from tests.distributed.members import init
from tests.distributed.workers import Group


@pytest.fixture(params=KINDS)
def late(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a backend that defers all work until a wait, if it can."""
    for backend in backend_on(request.param, monkeypatch):
        if isinstance(backend, SimBackend):
            backend.behaviour.lazy = True
        yield backend


def arrive(late: Any, future: Future[fastdist.Tensor]) -> None:
    """Complete a Future like the thread that unpacks an answer."""
    device = Device(late.type, 0)
    (array,), _ = copy_to_devices([fastdist.arange(4.0).numpy()], [device])
    came = wrap(array, layout_of(array, device))
    follow = arrival_of([fastdist.ones(2), came])
    assert follow is not None
    future.let_follow(follow)
    future.set_result(came)


def test_the_value_is_there_on_the_stream_of_who_takes_it(
    late: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    future: Future[fastdist.Tensor] = Future()
    opener = threading.Thread(target=arrive, args=(late, future))
    opener.start()
    opener.join(20)
    waits = Waits(monkeypatch)
    with late.stream(0):
        twice = future.wait() * 2.0
        assert waits.count == 0
        assert twice.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_the_memory_of_a_value_is_kept_for_the_stream_of_who_took_it(late: Any) -> None:
    future: Future[fastdist.Tensor] = Future()
    arrive(late, future)
    named: list[Any] = []
    record = late.record_stream
    late.record_stream = lambda array, stream: (named.append(stream), record(array, stream))
    with late.stream(0) as stream:
        future.wait()
    del late.record_stream
    assert named == [stream]


def test_tensors_of_the_cpu_have_nothing_to_follow(late: Any) -> None:
    assert arrival_of([fastdist.ones(2)]) is None and arrival_of([]) is None


# ---- between processes --------------------------------------------------------------------------


def join() -> int:
    kind = kind_here()
    is_first = os.environ["RANK"] == "0"
    maps = {"w1": {f"{kind}:0": f"{kind}:1"}} if is_first else {}
    return init(rpc_timeout=60, device_maps=maps)


@pytest.fixture(params=KINDS)
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    group = Group(__file__, 2, told(request.param))
    try:
        group.run_all(join)
        yield group
        group.run_all(rpc.shutdown)
        assert group.end() == [0, 0]
    finally:
        group.kill()


def plus(x: fastdist.Tensor, y: float) -> fastdist.Tensor:
    return x + y


def use_on_a_side_stream() -> list[list[float]]:
    backend: Any = backend_of(kind_here())
    x = fastdist.ones(3, device=f"{backend.type}:0")
    backend.synchronize(0)
    if isinstance(backend, SimBackend):
        backend.behaviour.lazy = True
    found = []
    with backend.stream(0):
        futures = [rpc.rpc_async("w1", plus, (x, float(i))) for i in range(5)]
        for future in futures:
            found.append((future.wait() * 2.0).tolist())
        found.append(futures[0].then(lambda done: (done.value() * 3.0).cpu()).wait().tolist())
    return found


@pytest.mark.one_in(7, each=True)
def test_answers_are_used_on_streams_other_than_those_they_came_on(group: Group) -> None:
    found = group[0].run(use_on_a_side_stream)
    assert found == [*[[2.0 * (1 + i)] * 3 for i in range(5)], [3.0] * 3]
