"""Connections break under calls: each call still runs once, and its caller gets the answer."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.core.errors import WorkerLostError
from fastdist.distributed import rpc
from fastdist.distributed.pipe.ring import meeting
from tests.distributed.workers import Group


def init(transport: str = "ipc") -> None:
    rpc.init_rpc(
        f"w{os.environ['RANK']}",
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(_transports=[transport]),
    )


def leave() -> None:
    rpc.shutdown()


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group(__file__, 2)
    try:
        yield group
    finally:
        group.kill()


runs: Counter[int] = Counter()
runs_lock = threading.Lock()


def run(key: int, seconds: float) -> int:
    with runs_lock:
        runs[key] += 1
    threading.Event().wait(seconds)
    return key


def reset_runs() -> None:
    runs.clear()


def get_runs() -> dict[int, int]:
    with runs_lock:
        return dict(runs)


# ---- in the caller ------------------------------------------------------------------------------


def break_connections(share: float = 1.0, seed: int = 0) -> int:
    """Break connections of this process to w1's listener, as a firewall would; return how many."""
    addresses = rpc._get_current_rpc_agent().workers.get("w1").record.addresses  # type: ignore[attr-defined]
    wanted: set[Any] = set()
    for transport, address in addresses.items():
        if transport == "ipc":
            wanted.add(address.removeprefix("ipc://"))
        elif transport == "shm":
            wanted.add(meeting.path_of(address))
        elif transport == "uv":
            host, _, port = address.removeprefix("tcp://").rpartition(":")
            wanted.add((host, int(port)))
    rng, broken = random.Random(seed), 0
    for name in os.listdir("/proc/self/fd"):
        try:
            own = os.dup(int(name))
        except OSError:
            continue  # the descriptor of the listing, closed by now
        try:
            connection = socket.socket(fileno=own)
        except OSError:
            os.close(own)
            continue
        with connection:
            try:
                peer = connection.getpeername()
            except OSError:
                continue
            if peer in wanted and rng.random() < share:
                connection.shutdown(socket.SHUT_RDWR)
                broken += 1
    return broken


class Calls:
    """Calls of several kinds to w1, each with its own key."""

    def __init__(self) -> None:
        self.outcomes: dict[int, object] = {}
        self.threads: list[threading.Thread] = []

    def begin(self, seconds: float) -> None:
        kinds: list[Callable[[int], object]] = [
            lambda key: rpc.rpc_sync("w1", run, (key, seconds)),
            lambda key: rpc.rpc_sync("w1", run, (key, seconds), timeout=0),
            lambda key: rpc.rpc_async("w1", run, (key, seconds), timeout=0).wait(),
            lambda key: rpc.remote("w1", run, (key, seconds)).to_here(timeout=0),
        ]
        for key, call in enumerate(kinds):
            self.threads.append(threading.Thread(target=self._make, args=(key, call)))
            self.threads[-1].start()
        deadline = time.monotonic() + 10
        while len(rpc.rpc_sync("w1", get_runs)) < len(kinds):
            assert time.monotonic() < deadline

    def _make(self, key: int, call: Callable[[int], object]) -> None:
        try:
            self.outcomes[key] = call(key)
        except Exception as error:
            self.outcomes[key] = repr(error)

    def end(self) -> dict[int, object]:
        for thread in self.threads:
            thread.join(30)
        return self.outcomes


calls = Calls()


def begin_calls(seconds: float) -> None:
    calls.begin(seconds)


def end_calls() -> dict[int, object]:
    return calls.end()


def nothing_is_left() -> None:
    # The query counts as a call too: once at w1, and twice at w0, which calls itself.
    for worker, expected in (("w0", 2), ("w1", 1)):
        deadline = time.monotonic() + 10
        while True:
            info = rpc.rpc_sync(worker, rpc._get_debug_info)
            active = int(info["agent.client_active_calls"]) + int(info["agent.server_active_calls"])
            if active == expected:
                break
            assert time.monotonic() < deadline, info


@pytest.mark.one_in(4)
@pytest.mark.parametrize("transport", ["shm", "ipc", "uv"])
def test_calls_outlive_the_connections_they_came_by(group: Group, transport: str) -> None:
    group.run_all(init, transport)
    group[0].run(begin_calls, 2.0)
    assert group[0].run(break_connections) >= 4
    assert group[0].run(end_calls) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert group[1].run(get_runs) == {0: 1, 1: 1, 2: 1, 3: 1}
    group[0].run(nothing_is_left)
    group.run_all(leave)


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("transport", ["shm", "ipc"])
def test_calls_outlive_a_freeze_that_broke_their_connections(group: Group, transport: str) -> None:
    group.run_all(init, transport)
    group[0].run(begin_calls, 1.0)
    group[1].kill(signal.SIGSTOP)
    threading.Timer(5.0, group[1].kill, (signal.SIGCONT,)).start()
    assert group[0].run(end_calls) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert group[1].run(get_runs) == {0: 1, 1: 1, 2: 1, 3: 1}
    group[0].run(nothing_is_left)
    group.run_all(leave)


def call_while_connections_break(num_threads: int, num_calls: int) -> tuple[dict[int, object], int]:
    """Return the result of each call, and the number of breaks that found an open connection."""
    outcomes: dict[int, object] = {}

    def call_many(first: int) -> None:
        for key in range(first, first + num_calls, 2):
            future = rpc.rpc_async("w1", run, (key, 0.001), timeout=0)
            outcomes[key + 1] = rpc.rpc_sync("w1", run, (key + 1, 0.001), timeout=0)
            outcomes[key] = future.wait()

    threads = [
        threading.Thread(target=call_many, args=(i * num_calls,)) for i in range(num_threads)
    ]
    for thread in threads:
        thread.start()
    breaks = 0
    # Spread the breaks over the calls, not over time, so that the speed does not matter.
    for seed in range(1, 8):
        while len(outcomes) < seed * num_threads * num_calls // 8:
            if not any(thread.is_alive() for thread in threads):
                break
            threads[seed % num_threads].join(0.001)
        breaks += break_connections(0.5, seed) > 0
    for thread in threads:
        thread.join()
    return outcomes, breaks


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("transport", ["shm", "ipc"])
def test_no_call_is_lost_or_run_twice_while_connections_break_again_and_again(
    group: Group, transport: str
) -> None:
    group.run_all(init, transport)
    outcomes, breaks = group[0].run(call_while_connections_break, 3, 300)
    assert outcomes == {key: key for key in range(900)}
    assert breaks >= 2
    assert group[1].run(get_runs) == dict.fromkeys(range(900), 1)
    group[0].run(nothing_is_left)
    group.run_all(leave)


def run_with_tensor(key: int, x: Any) -> Any:
    run(key, 0.01)
    return x


def send_tensors_while_connections_break(num_calls: int) -> dict[int, str]:
    outcomes: dict[int, str] = {}
    x = fastdist.tensor(np.ones((300, 300)))

    def note(key: int, call: Callable[[], Any]) -> None:
        try:
            assert call().sum().item() == 90_000
            outcomes[key] = "answered"
        except WorkerLostError as error:
            outcomes[key] = "may have run" if error.may_have_run else "has not run"

    for key in range(0, num_calls, 2):
        future = rpc.rpc_async("w1", run_with_tensor, (key, x), timeout=0)
        if key % 10 == 0:
            break_connections(1.0, key)
        note(key + 1, lambda key=key: rpc.rpc_sync("w1", run_with_tensor, (key + 1, x), timeout=0))
        note(key, future.wait)
    return outcomes


@pytest.mark.one_in(8)
def test_what_is_too_large_to_be_kept_fails_with_the_truth(group: Group) -> None:
    group.run_all(init)
    outcomes = group[0].run(send_tensors_while_connections_break, 60)
    runs_there = group[1].run(get_runs)
    assert set(outcomes) == set(range(60))
    for key, outcome in outcomes.items():
        if outcome == "answered":
            assert runs_there[key] == 1
        elif outcome == "has not run":
            assert key not in runs_there
        else:
            assert runs_there.get(key, 0) <= 1
    assert sum(outcome == "answered" for outcome in outcomes.values()) > 30
    group[0].run(nothing_is_left)
    group.run_all(leave)


def forget_connections() -> None:
    """Forget all connections, as if new ones had replaced them."""
    rpc._get_current_rpc_agent()._server._callers.by_route.clear()  # type: ignore[attr-defined]


def total(x: Any) -> float:
    return float(x.sum())


def send_by_connections_that_w1_does_not_know() -> list[bool]:
    x = fastdist.tensor(np.ones((300, 300)))
    lender = rpc._get_current_rpc_agent().workers.reach(1).lender  # type: ignore[attr-defined]
    deadline = time.monotonic() + 10
    while lender.describe() != "large tensors by arena":
        assert rpc.rpc_sync("w1", total, (x,)) == 90_000
        assert time.monotonic() < deadline
    renewed: list[bool] = []
    renew = lender.renew_if_untaken
    lender.renew_if_untaken = lambda message_id: renewed.append(renew(message_id)) or renewed[-1]
    for call in (rpc.rpc_sync, lambda *request: rpc.rpc_async(*request).wait()):
        rpc.rpc_sync("w1", forget_connections)
        assert call("w1", total, (x,)) == 90_000
    return renewed


@pytest.mark.one_in(8)
def test_requests_that_lie_in_the_arena_are_sent_again(group: Group) -> None:
    group.run_all(init)
    assert group[0].run(send_by_connections_that_w1_does_not_know) == [True, True]
    group[0].run(nothing_is_left)
    group.run_all(leave)


def overwrite_what_goes_by_a_connection_that_w1_does_not_know(linger_s: float) -> bool:
    """Send a tensor that never arrives, and pause the sender for `linger_s` after the write."""
    x = fastdist.tensor(np.ones((300, 300)))
    client = rpc._get_current_rpc_agent().client  # type: ignore[attr-defined]
    write = client.write
    # This call introduces the lane that later calls use. Their messages reach a peer that has
    # forgotten the lane.
    assert rpc.rpc_async("w1", total, (x,)).wait() == 90_000
    client.write = lambda *request: write(*request) or threading.Event().wait(linger_s)
    rpc.rpc_sync("w1", forget_connections)
    future = rpc.rpc_async("w1", total, (x,))
    x.zero_()
    with pytest.raises(WorkerLostError) as lost:
        future.wait()
    del client.write
    return lost.value.may_have_run


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("linger_s", [0.0, 0.3])
def test_what_its_owner_may_have_overwritten_is_not_sent_again(linger_s: float) -> None:
    group = Group(__file__, 2, {"FASTDIST_CHANNELS": "basic"})
    try:
        group.run_all(init)
        assert not group[0].run(overwrite_what_goes_by_a_connection_that_w1_does_not_know, linger_s)
        group[0].run(nothing_is_left)
        group.run_all(leave)
    finally:
        group.kill()
