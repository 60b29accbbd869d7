"""Messages of a member, or of an earlier life of the member, run no call twice when replayed."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from typing import Any

import pytest

from fastdist.core.errors import StaleIncarnationError
from fastdist.distributed import rpc
from fastdist.distributed.pipe.listener import Received
from fastdist.distributed.rpc.calls.serving import Server
from fastdist.distributed.rpc.message.body import serialize_call
from fastdist.distributed.rpc.message.message import Message
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.workers.reconciliation import Acknowledged, acknowledge, pack_query
from tests.distributed.rpc.calls.test_serving import CALLER, FakeListener, serve
from tests.distributed.workers import Group

SHARED, OWN = 0, 3
ROUTES = {SHARED: b"shared", OWN: b"own"}
runs: Counter[int] = Counter()


def run(key: int) -> int:
    runs[key] += 1
    return key


# ---- with a fake listener ------------------------------------------------------------------------


def hello(lane: int, count: int, *, to: str = "64") -> Any:
    words: Any = {"to": to, "greeting": count}
    return Message(MessageType.HELLO, source=1, incarnation=101, lane=lane, metadata=words).encode()


def call(key: int) -> Any:
    body, encoding = serialize_call(run, (key,), {}, [])
    return Message(MessageType.PYTHON_CALL, key, body=body, encoding=encoding).encode()


def session(rng: random.Random, *, first: int = 1) -> list[tuple[int, Any]]:
    """Return a caller's messages on two lanes; one of them carries calls in any order."""
    said = [(SHARED, hello(SHARED, first)), (OWN, hello(OWN, first + 1))]
    shared = [*range(10, 60)]
    for at in range(0, len(shared), 5):  # several threads number calls, and then send them
        part = shared[at : at + 5]
        rng.shuffle(part)
        shared[at : at + 5] = part
    for place, key in enumerate(shared):
        said.append((SHARED, call(key)))
        if place % 10 == 9:
            said.append((SHARED, acknowledge(Acknowledged(100, min(shared[place - 2 :])))))
        if place % 5 == 4:
            said.append((OWN, call(100 + place)))
    said.append((SHARED, pack_query(1, [59])))
    return said


def serve_all(server: Server, listener: FakeListener, said: list[Received]) -> None:
    listener.coming.extend(said)
    while listener.coming:
        work = server.take()
        if work is not None:
            work.function(work.argument)


@pytest.fixture
def caller() -> Any:
    CALLER.map_back = {}
    runs.clear()
    return CALLER


def try_replay(seed: int) -> None:
    rng, listener = random.Random(seed), FakeListener()
    server = serve(listener)
    said = [Received(ROUTES[lane], frames, 1) for lane, frames in session(rng)]
    serve_all(server, listener, said)
    expected = {**dict.fromkeys(range(10, 60), 1)}
    expected.update({100 + place: 1 for place in range(4, 50, 5)})
    assert runs == expected
    for _ in range(3):
        again = [*said, *rng.sample(said, 20)]
        if rng.random() < 0.7:
            rng.shuffle(again)
        if rng.random() < 0.5:  # over a second connection
            again = [one._replace(route=b"another") for one in again]
        serve_all(server, listener, again)
        assert runs == expected
    # The lane still works: a new call runs.
    serve_all(server, listener, [Received(b"shared", call(1000), 1)])
    assert runs == {**expected, 1000: 1}
    runs.clear()


@pytest.mark.one_in(8)
@pytest.mark.usefixtures("caller")
def test_what_was_said_and_is_said_again_in_any_order_runs_nothing_twice() -> None:
    for seed in range(40):
        try_replay(seed)


@pytest.mark.slow
@pytest.mark.usefixtures("caller")
def test_very_many_replays_run_nothing_twice() -> None:
    for seed in range(1_000, 5_000):
        try_replay(seed)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("acknowledges", [True, False])
@pytest.mark.usefixtures("caller")
def test_a_call_of_long_ago_runs_no_second_time(acknowledges: bool) -> None:
    listener, last = FakeListener(), 1500
    server = serve(listener)
    said = [hello(SHARED, 1), *map(call, range(last))]
    if acknowledges:
        said.append(acknowledge(Acknowledged(10, last - 5)))
    serve_all(server, listener, [Received(b"shared", one, 1) for one in said])
    replayed = [call(key) for key in range(0, last, 7)]
    serve_all(server, listener, [Received(b"shared", one, 1) for one in replayed])
    assert runs == dict.fromkeys(range(last), 1)


@pytest.mark.usefixtures("caller")
def test_an_acknowledgement_of_before_does_not_let_a_call_in_again() -> None:
    listener = FakeListener()
    server = serve(listener)
    early = acknowledge(Acknowledged(10, 11, (10,)))
    said = [hello(SHARED, 1), early, call(10), call(11), acknowledge(Acknowledged(10, 12))]
    replayed = [early, call(10), call(11), early, call(10)]
    serve_all(server, listener, [Received(b"shared", one, 1) for one in [*said, *replayed]])
    assert runs == {10: 1, 11: 1}


@pytest.mark.usefixtures("caller")
def test_what_an_earlier_life_has_said_is_not_listened_to() -> None:
    def admit(rank: int, incarnation: int, meant_for: str) -> Any:
        if meant_for != "64":
            raise StaleIncarnationError("of an earlier life")
        return CALLER

    listener = FakeListener()
    server = serve(listener, admit)
    recorded = [hello(SHARED, 7, to="63"), call(10), call(11)]
    serve_all(server, listener, [Received(b"a connection", one, 1) for one in recorded])
    assert not runs
    kinds = [answer.type for _, answer in listener.replies]
    assert kinds == [MessageType.EXCEPTION, MessageType.GREET_FIRST, MessageType.GREET_FIRST]


# ---- between processes ---------------------------------------------------------------------------

recorded: list[Received] = []


def join(transport: str) -> None:
    options = rpc.TensorPipeRpcBackendOptions(_transports=[transport], security="none")
    rpc.init_rpc(f"w{os.environ['RANK']}", rpc_backend_options=options)
    server = rpc._get_current_rpc_agent()._server  # type: ignore[attr-defined]
    sort = server._sort

    def sort_and_record(received: Received) -> Any:
        recorded.append(received)
        return sort(received)

    server._sort = sort_and_record


def say_all_again(seed: int) -> int:
    """Deliver all recorded messages of this worker again in random order; return their number."""
    again = list(recorded)
    random.Random(seed).shuffle(again)
    rpc._get_current_rpc_agent()._server._inbox.extend(again)  # type: ignore[attr-defined]
    return len(again)


def make_calls() -> None:
    futures = [rpc.rpc_async("w1", run, (key,)) for key in range(40)]
    threads = [threading.Thread(target=rpc.rpc_sync, args=("w1", run, (50 + i,))) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [future.wait() for future in futures] == [*range(40)]


def get_runs() -> dict[int, int]:
    return dict(runs)


def replay() -> list[dict[int, int]]:
    make_calls()
    found = []
    for seed in range(3):
        assert rpc.rpc_sync("w1", say_all_again, (seed,)) > 40
        found.append(rpc.rpc_sync("w1", get_runs))
    assert rpc.rpc_sync("w1", run, (99,)) == rpc.rpc_async("w1", run, (98,)).wait() + 1
    return [*found, rpc.rpc_sync("w1", get_runs)]


def leave() -> None:
    rpc.shutdown()


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("transport", ["shm", "ipc"])
def test_a_recorded_session_that_is_played_again_runs_nothing_twice(transport: str) -> None:
    group = Group(__file__, 2)
    try:
        group.run_all(join, transport)
        found = group[0].run(replay)
        group.run_all(leave)
    finally:
        group.kill()
    once = dict.fromkeys([*range(40), *range(50, 54)], 1)
    assert found == [once, once, once, {**once, 98: 1, 99: 1}]
