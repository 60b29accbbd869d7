"""Calls with device tensors return immediately; the thread pool waits for the copies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import fastdist
from fastdist.core.errors import DeviceError, MessageError, RpcTimeoutError, WorkerLostError
from fastdist.devices import backend_of
from fastdist.devices.sim import SimBackend
from fastdist.devices.staging import HostCopies
from fastdist.distributed import rpc
from tests.device_kinds import KINDS, kind_here, told
from tests.distributed.members import init
from tests.distributed.workers import Group

MOST_BYTES = 1 << 16


def join() -> None:
    kind = kind_here()
    is_first = os.environ["RANK"] == "0"
    init(
        rpc_timeout=60,
        device_maps={"w1": {f"{kind}:0": f"{kind}:1"}} if is_first else {},
        limits=rpc.Limits(message_bytes=MOST_BYTES),
        num_worker_threads=1,
        _channels=["basic", "arena", "cuda_basic"],
    )


@pytest.fixture(params=KINDS)
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    group = Group(__file__, 2, told(request.param))
    try:
        group.run_all(join)
        yield group
    finally:
        group.kill()


def end(group: Group) -> None:
    group.run_all(rpc.shutdown)
    assert group.end() == [0, 0]


_gate = threading.Event()
_waited: list[str] = []


def close_the_gate() -> None:
    """Hold all copies of this worker until the gate is opened."""
    wait = HostCopies.wait

    def wait_at_gate(copies: HostCopies) -> None:
        _waited.append(threading.current_thread().name)
        assert _gate.wait(20)
        wait(copies)

    _gate.clear()
    HostCopies.wait = wait_at_gate  # type: ignore[method-assign]


def ones(count: int = 3) -> fastdist.Tensor:
    backend = backend_of(kind_here())
    if isinstance(backend, SimBackend):
        backend.behaviour.lazy = True
    return fastdist.ones(count, device=f"{kind_here()}:0")


def same(*tensors: fastdist.Tensor) -> tuple[fastdist.Tensor, ...]:
    return tensors


_noted: list[float] = []


def note(tensor: fastdist.Tensor, *others: Any) -> None:
    _noted.append(float(tensor.sum()))


def noted() -> list[float]:
    return _noted


def go_on() -> list[Any]:
    close_the_gate()
    x, on_cpu = ones(), fastdist.ones(2)
    future = rpc.rpc_async("w1", same, (x, on_cpu, x[1:]))
    remote = rpc.remote("w1", same, (x,))
    x.mul_(5.0)
    on_cpu.mul_(7.0)
    is_done = future.done()
    _gate.set()
    came = [*future.wait(), *remote.to_here()]
    assert _waited and all(name.startswith("fastdist-rpc-pool") for name in _waited)
    return [is_done, *[tensor.tolist() for tensor in came], x.tolist()]


@pytest.mark.one_in(7, each=True)
def test_what_is_written_behind_a_call_does_not_travel_with_it(group: Group) -> None:
    found = group[0].run(go_on)
    assert found == [False, [1.0] * 3, [1.0] * 2, [1.0] * 2, [1.0] * 3, [5.0] * 3]
    end(group)


def call_many() -> None:
    close_the_gate()
    x = ones(1)
    futures = []
    for i in range(20):
        futures.append(rpc.rpc_async("w1", note, (x,) if i % 3 else (x, i)))
        x.add_(1.0)
    _gate.set()
    fastdist.futures.wait_all(futures)


@pytest.mark.one_in(7, each=True)
def test_calls_to_one_worker_leave_in_their_order(group: Group) -> None:
    group[0].run(call_many)
    assert group[1].run(noted) == [1.0 + i for i in range(20)]
    end(group)


def error_of(future: Any) -> Exception | None:
    try:
        future.wait()
    except Exception as error:
        return error
    return None


def learn_what_is_wrong() -> list[bool]:
    unmapped = fastdist.ones(2, device=f"{kind_here()}:1")
    with pytest.raises(DeviceError, match="for which the device map of this call has no entry"):
        rpc.rpc_async("w1", same, (unmapped,))
    too_large = rpc.rpc_async("w1", same, (ones(MOST_BYTES),))
    found = [isinstance(error_of(too_large), MessageError)]
    close_the_gate()
    late = rpc.rpc_async("w1", note, (ones(),), timeout=0.1)
    found.append(isinstance(error_of(late), RpcTimeoutError))
    rref = rpc.RRef(fastdist.ones(1))
    lost = rpc.rpc_async("w1", note, (ones(), rref), timeout=0.1)
    found.append(isinstance(error_of(lost), RpcTimeoutError))
    _gate.set()
    assert rpc.rpc_sync("w1", same, (ones(),))[0].tolist() == [1.0] * 3
    # The pool cancels the fork of the call that was never sent, after that call's copy.
    deadline, never = time.monotonic() + 20, threading.Event()
    while not (is_back := has_no_forks()) and time.monotonic() < deadline:
        never.wait(0.005)
    return [*found, is_back]


def has_no_forks() -> bool:
    return bool(rpc._get_debug_info()["num_pending_children"] == "0")


@pytest.mark.one_in(7, each=True)
def test_what_goes_wrong_is_told_by_the_future_or_at_once(group: Group) -> None:
    assert group[0].run(learn_what_is_wrong) == [True] * 4
    assert group[1].run(noted) == []  # a call that expired before it was sent did not arrive
    end(group)


def begin_a_call() -> None:
    close_the_gate()
    _calls.append(rpc.rpc_async("w1", same, (ones(),)))


_calls: list[Any] = []


def lose_the_worker() -> bool:
    error = error_of(_calls[0])
    _gate.set()
    deadline, never = time.monotonic() + 20, threading.Event()
    ring: Any = backend_of(kind_here()).host_ring  # type: ignore[attr-defined]
    while ring.usage()[0] and time.monotonic() < deadline:
        never.wait(0.01)
    rpc.shutdown(graceful=False)
    return isinstance(error, WorkerLostError) and ring.usage()[0] == 0


@pytest.mark.one_in(7, each=True)
def test_a_call_that_has_not_left_ends_with_its_worker(group: Group) -> None:
    group[0].run(begin_a_call)
    group[1].kill(signal.SIGKILL)
    assert group[0].run(lose_the_worker)
    assert group[0].end() == 0
