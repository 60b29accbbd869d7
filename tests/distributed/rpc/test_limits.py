"""User-defined limits are sent to peers and checked by callers; each limit has a clear error."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

import fastdist
from fastdist.core.errors import MessageError, RpcError, RpcTimeoutError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.message.limits import DEFAULT
from fastdist.distributed.rpc.workers.record import Record
from tests.distributed.workers import Group, open_gate, wait_at, wait_for_arrivals

SMALL = {
    "message_bytes": 1_000_000,
    "header_bytes": 8192,
    "tensors": 5,
    "frame_bytes": 65_536,
    "wire_frame_bytes": 131_072,
    "connections": 3,
    "handshake_s": 1.5,
    "nesting": 6,
}


def init(limited_rank: int, limits: dict[str, Any], strict: bool = False) -> None:
    """Start a worker; only the worker of rank `limited_rank` gets the limits."""
    rank = int(os.environ["RANK"])
    mine = rpc.Limits(**(limits if rank == limited_rank else {}))
    options = rpc.TensorPipeRpcBackendOptions(limits=mine, _transports=["uv"], strict=strict)
    rpc.export(what_came)
    rpc.export(give)
    rpc.init_rpc(f"w{rank}", rpc_backend_options=options)


def leave() -> None:
    rpc.shutdown()


def what_came(*args: Any) -> int:
    return len(args)


def give(size: int) -> bytes:
    return bytes(size)


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group(__file__, 2)
    try:
        yield group
    finally:
        group.kill()


def refused(call: Any) -> str:
    with pytest.raises(MessageError) as caught:
        call()
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


def at_the_edges_of_w1() -> None:
    frame = bytes(60_000)
    for call in (rpc.rpc_sync, lambda *told: rpc.rpc_async(*told).wait()):
        assert call("w1", what_came, (frame, bytes(900_000))) == 2
        text = refused(lambda call=call: call("w1", what_came, (bytes(1_000_000),)))
        assert "the worker takes at most 1000000" in text
        tensors = tuple(fastdist.ones(1) for _ in range(6))
        assert call("w1", what_came, tensors[:5]) == 5
        text = refused(lambda call=call, six=tensors: call("w1", what_came, six))
        assert "6 tensors; a message to this worker carries at most 5" in text
    # The limits of w0, which are the defaults, apply to w1's answers.
    assert len(rpc.rpc_sync("w1", give, (900_000,))) == 900_000
    assert rpc.rpc_sync("w1", what_came) == 0


def larger_answers_go_where_they_are_taken() -> None:
    assert len(rpc.rpc_sync("w0", give, (990_000,))) == 990_000
    for call in (rpc.rpc_sync, lambda *told: rpc.rpc_async(*told).wait()):
        text = refused(lambda call=call: call("w0", give, (1_000_001,)))
        assert "a message of" in text and "On worker 'w0'" in text


@pytest.mark.one_in(8)
def test_a_sender_keeps_to_what_the_receiver_told(group: Group) -> None:
    group.run_all(init, 1, SMALL)
    group[0].run(at_the_edges_of_w1)
    group[1].run(larger_answers_go_where_they_are_taken)
    group.run_all(leave)


def connections_of_w0_to_w1() -> int:
    """Call from many threads at the same time, and return how many connections were used."""
    threads = [
        threading.Thread(target=rpc.rpc_sync, args=("w1", wait_at, ("together",)))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rpc.rpc_sync("w1", held_by_rank_0)


def held_by_rank_0() -> int:
    agent: Any = rpc._get_current_rpc_agent()
    return int(agent._listener._socket.connections.held_by("0"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("limits", "expected"), [({}, 9), ({"connections": 3}, 3)])
def test_callers_open_as_many_connections_as_the_callee_allows(
    group: Group, limits: dict[str, Any], expected: int
) -> None:
    group.run_all(init, 1, limits)
    group[0].start(connections_of_w0_to_w1)
    group[1].run(wait_for_arrivals, "together", 12)
    group[1].run(open_gate, "together")
    assert group[0].result() == expected
    group.run_all(leave)


def options_of_sockets() -> list[int]:
    agent: Any = rpc._get_current_rpc_agent()
    socket = agent._listener._socket
    return [socket.get(zmq.MAXMSGSIZE), socket.get(zmq.HANDSHAKE_IVL)]


def deep(levels: int) -> Any:
    value: Any = ()
    for _ in range(levels - 1):
        value = (value,)
    return value


def nest_towards_w1() -> None:
    # The arguments and their tuple are two levels of the body, so 4 more make 6.
    assert rpc.rpc_sync("w1", what_came, (deep(4),)) == 1
    with pytest.raises(MessageError, match="nests deeper than 6 levels"):
        rpc.rpc_sync("w1", what_came, (deep(5),))


@pytest.mark.one_in(8)
def test_sockets_and_bodies_of_a_strict_worker_keep_to_its_limits(group: Group) -> None:
    group.run_all(init, 1, SMALL, True)
    assert group[0].run(options_of_sockets) == [DEFAULT.wire_frame_bytes, 5000]
    assert group[1].run(options_of_sockets) == [131_072, 1500]
    group[0].run(nest_towards_w1)
    group.run_all(leave)


def under_way() -> tuple[int, int]:
    agent: Any = rpc._get_current_rpc_agent()
    return agent.workers.reach(1).credit.under_way()  # type: ignore[no-any-return]


def after_waiting_for_room(call: Callable[[], object]) -> object:
    """Return the result of a call that waits for room until the gate of the first calls opens."""
    agent: Any = rpc._get_current_rpc_agent()
    results: list[object] = []
    caller = threading.Thread(target=lambda: results.append(call()))
    caller.start()
    while not agent.workers.reach(1).credit._waiting:
        assert caller.is_alive(), "it did not wait"
    rpc.rpc_sync("w1", open_gate, ("first",))
    caller.join()
    (result,) = results
    return result


def bytes_wait_for_room() -> None:
    large = fastdist.ones(50_000)  # 200 kB: two fit within the limit, a third does not
    held = ("first", large)
    first = [rpc.rpc_async("w1", wait_at, held), rpc.remote("w1", wait_at, held)]
    assert under_way()[1] == 2 and 400_000 < under_way()[0] < 450_000
    for call in (rpc.rpc_sync, rpc.rpc_async):
        with pytest.raises(RpcTimeoutError):
            call("w1", what_came, (large,), timeout=0.1)
    # Small requests of blocking callers are sent even without room for them.
    assert rpc.rpc_sync("w1", what_came, (bytes(60_000),), timeout=5) == 1
    assert after_waiting_for_room(lambda: rpc.rpc_sync("w1", what_came, (large,))) == 1
    first[0].wait()
    deadline = time.monotonic() + 10
    while under_way() != (0, 0):
        assert time.monotonic() < deadline, under_way()


def calls_wait_for_room() -> None:
    first = [rpc.rpc_async("w1", wait_at, ("first",)) for _ in range(3)]
    with pytest.raises(RpcTimeoutError):
        rpc.rpc_async("w1", what_came, timeout=0.1)
    assert after_waiting_for_room(lambda: rpc.rpc_async("w1", what_came).wait()) == 0
    for call in first:
        call.wait()


@pytest.mark.one_in(8)
def test_what_is_under_way_to_a_peer_is_bounded_in_bytes(group: Group) -> None:
    group.run_all(init, 0, {"outstanding_bytes": 450_000})
    group[0].run(bytes_wait_for_room)
    group.run_all(leave)


@pytest.mark.one_in(8)
def test_what_is_under_way_to_a_peer_is_bounded_in_calls(group: Group) -> None:
    group.run_all(init, 0, {"outstanding_calls": 3})
    group[0].run(calls_wait_for_room)
    group.run_all(leave)


answers: list[Any] = []


def ask_for_answers_at_gate(number: int) -> None:
    answers.extend(rpc.rpc_async("w1", give_at_gate, (1 << 20,)) for _ in range(number))


def give_at_gate(size: int) -> bytes:
    wait_at("answers")
    return bytes(size)


def wait_for_calls(number: int) -> None:
    deadline = time.monotonic() + 20
    while int(rpc._get_debug_info()["agent.server_active_calls"]) < number:
        assert time.monotonic() < deadline


def read_nothing() -> None:
    rpc._get_current_rpc_agent().client.progress.post(wait_at, "reader")  # type: ignore[attr-defined]
    wait_for_arrivals("reader", 1)


def num_held_when_nothing_runs() -> int:
    deadline = time.monotonic() + 20
    while True:
        info = rpc._get_debug_info()
        held = int(info["agent.calls_held_until_answers_are_read"])
        if held and held == int(info["agent.server_active_calls"]):
            return held
        assert time.monotonic() < deadline, info


def num_answered() -> int:
    return len([answer.wait() for answer in answers])


@pytest.mark.one_in(8)
def test_answers_that_a_caller_does_not_read_are_bounded_in_bytes(group: Group) -> None:
    group.run_all(init, 1, {"outstanding_bytes": 4 << 20})
    group[0].run(ask_for_answers_at_gate, 40)
    group[1].run(wait_for_calls, 40)
    group[0].run(read_nothing)
    group[1].run(open_gate, "answers")
    # Up to sixteen calls may be running when the last answer that fits within the limit is sent.
    assert group[1].run(num_held_when_nothing_runs) >= 40 - 4 - 1 - 16
    group[0].run(open_gate, "reader")
    assert group[0].run(num_answered) == 40
    group.run_all(leave)


def test_options_take_limits_and_the_older_name_of_one() -> None:
    limits = rpc.Limits(tensors=7)
    options = rpc.TensorPipeRpcBackendOptions(limits=limits, max_outstanding_bytes=5)
    assert (options.limits.tensors, options.limits.outstanding_bytes) == (7, 5)
    assert options.max_outstanding_bytes == 5
    assert rpc.TensorPipeRpcBackendOptions().limits == DEFAULT
    with pytest.raises(TypeError, match=r"limits is a dict; expected an rpc\.Limits"):
        rpc.TensorPipeRpcBackendOptions(limits={"tensors": 7})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="outstanding_bytes is 0"):
        rpc.TensorPipeRpcBackendOptions(max_outstanding_bytes=0)


RECORD = Record("w1", 1, 2, 7, {"uv": "tcp://127.0.0.1:1"}, {}, "curve", limits=DEFAULT)


def test_a_record_tells_the_limits_of_its_member() -> None:
    limited = Record.decode(
        Record("w1", 1, 2, 7, {}, {}, "none", limits=rpc.Limits(tensors=7)).encode()
    )
    assert limited.limits == rpc.Limits(tensors=7)
    assert Record.decode(RECORD.encode()) == RECORD


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rank", "1"),
        ("rank", -1),
        ("name", 5),
        ("addresses", ["uv"]),
        ("addresses", {"uv": 5}),
        ("device_maps", {"w0": []}),
        ("device_maps", []),
        ("process_start", "long ago"),
        ("limits", {"tensors": "many"}),
        ("limits", {"unknown": 1}),
        ("limits", 5),
        ("restarts", "yes"),
        ("nonsense", 1),
    ],
)
def test_a_record_that_is_none_is_refused(field: str, value: Any) -> None:
    told = json.loads(RECORD.encode())
    told[field] = value
    with pytest.raises(RpcError, match="instead of the record of a worker"):
        Record.decode(json.dumps(told).encode())


def test_a_record_that_is_too_deep_to_be_read_is_refused() -> None:
    with pytest.raises(RpcError, match="instead of the record of a worker"):
        Record.decode(b"[" * 100_000)
