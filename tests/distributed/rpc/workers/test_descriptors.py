"""When descriptors run out, strangers are disconnected, errors say why, and no worker dies."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fastdist.core.errors import RpcError
from fastdist.distributed import rpc
from fastdist.distributed.pipe.ring import meeting
from fastdist.distributed.rpc.workers import record as descriptors
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.sockets import split_tcp_endpoint
from tests.distributed.rpc.workers.by_hand import OTHER, static, workers_of
from tests.distributed.workers import Group

ME = Record("w0", 0, 3, 100, {}, {}, "curve", descriptors=65_536)


@pytest.mark.parametrize(
    ("world_size", "limit", "expected"),
    [(3, 65_536, 8), (3, 256, 8), (40, 1024, 1), (500, 20_000, 3), (100, 256, 0), (1, 64, 7)],
)
def test_a_group_opens_half_of_what_either_end_may_open(
    world_size: int, limit: int, expected: int
) -> None:
    me, other = replace(ME, world_size=world_size), replace(ME, descriptors=limit)
    assert descriptors.own_lanes_between(me, other) == expected
    assert descriptors.own_lanes_between(replace(me, descriptors=limit), ME) == expected


def test_a_group_for_which_the_limit_is_too_low_is_told_the_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(descriptors, "descriptor_limit", lambda: 256)
    monkeypatch.setattr(descriptors, "_num_open", lambda: 20)
    descriptors.require_descriptors(24)
    text = "40 workers takes 333 descriptors in each.*may have 256: raise the limit with `ulimit -n"
    with pytest.raises(RpcError, match=text):
        descriptors.require_descriptors(40)


def test_a_large_group_is_joined_where_not_all_of_it_could_be_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(descriptors, "descriptor_limit", lambda: 1024)
    num_open = [20]
    monkeypatch.setattr(descriptors, "_num_open", lambda: num_open[0])
    descriptors.require_descriptors(10_000)
    others = [replace(OTHER, rank=rank, name=f"w{rank}") for rank in range(1, 120)]
    workers = workers_of(static(replace(ME, world_size=120), *others))
    refused = ""
    for met in range(1, 120):
        num_open[0] = 20 + 9 * met
        try:
            workers.reach(met)
        except RpcError as error:
            refused = str(error)
            break
    assert "to meet one more worker takes" in refused and "may have 1024: raise" in refused
    assert 108 <= len(workers.met()) <= 111
    for worker in workers.met():
        worker.close(RpcError("the test is over"))


@pytest.mark.one_in(3)
def test_the_soft_limit_is_raised_with_the_first_socket() -> None:
    program = (
        "import resource, zmq; from fastdist.distributed.sockets import make_socket;"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE);"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard));"
        "make_socket(zmq.PAIR, 'test').close();"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 65536))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout == "True\n"


# ---- over processes -----------------------------------------------------------------------------


def init() -> None:
    rpc.init_rpc(f"w{os.environ['RANK']}")


def leave() -> None:
    rpc.shutdown()


def port() -> int:
    address = rpc._get_current_rpc_agent().me.addresses["uv"]  # type: ignore[attr-defined]
    return split_tcp_endpoint(address)[1]


def leave_descriptors(count: int) -> None:
    """Limit this worker to 1,024 descriptors, as on many systems, with only `count` free."""
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    while os.open(os.devnull, os.O_RDONLY) < 1024 - count:
        pass


def hold(seconds: float) -> str:
    threading.Event().wait(seconds)
    return "held"


def call_from_many_threads() -> list[str]:
    """Call w1 from eight threads at the same time, so that new lanes are opened."""
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append(rpc.rpc_sync("w1", hold, (0.3,))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return answers


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group(__file__, 2)
    try:
        group.run_all(init)
        yield group
    finally:
        group.kill()


@pytest.mark.one_in(3)
def test_strangers_that_take_all_descriptors_do_not_end_the_worker(group: Group) -> None:
    where = ("127.0.0.1", group[1].run(port))
    group[1].run(leave_descriptors, 330)  # as many as the reserve, 256, and a few more
    strangers = []
    for _ in range(450):
        strangers.append(socket.create_connection(where, timeout=5))
    # Silent connections are closed, oldest first, as soon as descriptors become scarce.
    for stranger in strangers[:40]:
        stranger.settimeout(3)
        while stranger.recv(4096):
            pass
    # Without the reserve, libzmq would abort: "Too many open files (src/ipc_listener.cpp)".
    assert group[0].run(call_from_many_threads) == ["held"] * 8
    for stranger in strangers:
        stranger.close()
    group.run_all(leave)


def num_open() -> int:
    return len(os.listdir("/proc/self/fd"))


def call(other: str) -> str:
    return rpc.rpc_sync(other, hold, (0.0,))  # type: ignore[no-any-return]


@pytest.mark.one_in(4)
def test_a_peer_that_calls_and_is_called_takes_six_descriptors(group: Group) -> None:
    before = group[0].run(num_open)
    assert [group[0].run(call, "w1"), group[1].run(call, "w0")] == ["held"] * 2
    # Over TCP a peer takes nine descriptors: ZeroMQ sockets and a monitor in place of rings.
    assert group[0].run(num_open) - before <= (9 if meeting.why_not_viable() else 6)
    group.run_all(leave)
