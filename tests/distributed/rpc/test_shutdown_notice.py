"""If a shutdown takes a long time, the log names the workers that it waits for."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.core.errors import RpcError, ShutdownIncomplete
from fastdist.distributed import rpc
from fastdist.distributed.rpc import constants, leaving
from fastdist.distributed.rpc.workers import store_keeper
from fastdist.distributed.rpc.workers.group import Group
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.rpc.workers.store_keeper import StoreKeeper
from fastdist.distributed.store import HashStore
from tests.distributed.workers import open_gate, run_group, wait_at, wait_for_arrivals

FIRST_S = 0.2


class Lines(logging.Handler):
    """Collects log lines, and sets the event `came` when enough lines have arrived."""

    def __init__(self, number: int = 1) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self.came = threading.Event()
        self.number = number
        leaving.notices.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if len(self.lines) >= self.number:
            self.came.set()


told = Lines(2)


def wait_until_told() -> list[str]:
    assert told.came.wait(20)
    return told.lines[:2]


def shut_down_early() -> list[str]:
    leaving.FIRST_S = leaving.FIRST_WITHOUT_LIMIT_S = FIRST_S
    rank = os.environ["RANK"]
    os.environ.pop("LOCAL_RANK", None)
    rpc.init_rpc(f"w{rank}")
    found = rpc.rpc_sync("w1", wait_until_told) if rank == "0" else []
    rpc.shutdown()
    return found


@pytest.mark.one_in(8)
def test_who_has_not_come_is_named_after_a_while_and_after_twice_as_long() -> None:
    (found, _) = run_group(shut_down_early, 2)
    # A wait in which w0 called w1 ends without a notice. It may be the first wait.
    first_s = FIRST_S if f"for {FIRST_S:g} s: " in found[0] else 2 * FIRST_S
    assert found == [
        f"worker 'w1' has waited in shutdown() for {seconds:g} s: these have not called theirs "
        "yet: 'w0'"
        for seconds in (first_s, 2 * first_s)
    ]


def shut_down_while_a_call_runs() -> list[str]:
    leaving.FIRST_S = leaving.FIRST_WITHOUT_LIMIT_S = FIRST_S
    rank = os.environ["RANK"]
    lines = Lines()
    rpc.init_rpc(f"w{rank}")
    if rank == "0":
        future = rpc.rpc_async("w1", wait_at, ("a gate",))
        rpc.rpc_sync("w1", wait_for_arrivals, ("a gate", 1))
        agent: Any = rpc._get_current_rpc_agent()
        deadline = time.monotonic() + 20
        while "w1" in agent.leaving.absent():
            assert time.monotonic() < deadline
        opener = threading.Thread(target=lambda: lines.came.wait(20) and open_gate_of_w1())
        opener.start()
        rpc.shutdown()
        opener.join()
        assert future.value() == "a gate"
    else:
        rpc.shutdown()
    return lines.lines[:1]


def open_gate_of_w1() -> None:
    rpc.rpc_sync("w1", open_gate, ("a gate",))


@pytest.mark.one_in(8)
def test_whose_answer_is_missing_is_named() -> None:
    (found, _) = run_group(shut_down_while_a_call_runs, 2)
    (line,) = found
    assert line.startswith(f"worker 'w0' has waited in shutdown() for {FIRST_S:g} s: ")
    assert line.endswith("its own calls have no answer yet, from 'w1'")


def serve_while_the_leader_works() -> list[str]:
    """Wait in the barrier for w0, the leader, which has not entered it but calls this worker."""
    leaving.FIRST_S = leaving.FIRST_WITHOUT_LIMIT_S = FIRST_S
    rank = os.environ["RANK"]
    os.environ.pop("LOCAL_RANK", None)
    rpc.init_rpc(f"w{rank}")
    found: list[str] = []
    if rank == "0":
        # Keep a call running on each worker, since a worker prints no notice while it runs a call.
        futures = [rpc.rpc_async(to, lines_told) for to in ("w1", "w2")]
        one_ended = threading.Event()
        for future in futures:
            future.add_done_callback(lambda _: one_ended.set())
        assert one_ended.wait(20)
        for to in ("w1", "w2"):
            rpc.rpc_sync(to, wait_no_longer)
        found = [line for future in futures for line in future.wait()]
    rpc.shutdown()
    return found


def wait_no_longer() -> None:
    told.came.set()


def lines_told() -> list[str]:
    assert told.came.wait(20)
    return told.lines


@pytest.mark.one_in(8)
def test_who_serves_is_told_of_the_leader_not_of_its_own_question() -> None:
    found = run_group(serve_while_the_leader_works, 3)[0]
    assert {line.rpartition(": ")[2] for line in found} == {"'w0'"}
    # One worker of a machine prints the notice for all workers of that machine.
    assert len({line.partition(" has waited")[0] for line in found}) == 1
    assert all("these have not called theirs yet" in line for line in found)


class Alarms:
    """Records the work that an agent delays; the test runs this work."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_after(self, seconds: float, function: Callable[[], None]) -> None:
        self.due.append(function)


@pytest.mark.parametrize("is_over", [True, False])
def test_nothing_is_told_of_a_shutdown_that_is_over(
    is_over: bool, caplog: pytest.LogCaptureFixture
) -> None:
    way, alarms = object.__new__(leaving.Leaving), Alarms()
    way._workers, way._group = alarms, SimpleNamespace(me=SimpleNamespace(name="w0"))
    way._counts = SimpleNamespace(activity=lambda: (0, 0))
    way.for_whom_it_waits = lambda: "for w1"
    way._waits_since = 5.0
    way._tell_after(5.0, 0.1)
    if not is_over:
        alarms.due.pop()()
    way._waits_since = 0.0
    for alarm in list(alarms.due):
        alarm()
    assert len(caplog.records) == (not is_over)


def test_a_worker_that_others_call_meanwhile_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    way, alarms = object.__new__(leaving.Leaving), Alarms()
    way._workers, way._group = alarms, SimpleNamespace(me=SimpleNamespace(name="w0"))
    begun = [3]
    way._counts = SimpleNamespace(activity=lambda: (0, begun[0]))
    way.for_whom_it_waits = lambda: "for w1"
    way._waits_since = 5.0
    way._tell_after(5.0, 0.1)
    for _ in range(3):
        begun[0] += 1
        alarms.due.pop()()
    assert not caplog.records
    alarms.due.pop()()
    assert "has waited in shutdown() for 0.8 s: for w1" in caplog.text


def leave_a_dynamic_group(path: str) -> str:
    constants.SHUTDOWN_TIMEOUT_S = 0.3  # type: ignore[misc]
    del os.environ["WORLD_SIZE"]
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{path}")
    rpc.init_rpc("w0", rank=0, rpc_backend_options=options)
    future = rpc.rpc_async("w0", wait_at, ("a gate",))
    with pytest.raises(ShutdownIncomplete) as found:
        rpc.shutdown()
    open_gate("a gate")
    with pytest.raises(RpcError):
        future.wait()
    return str(found.value)


@pytest.mark.one_in(8)
def test_how_long_it_waited_is_told_where_nobody_said_how_long(tmp_path: object) -> None:
    (text,) = run_group(leave_a_dynamic_group, 1, f"{tmp_path}/store")
    assert text.startswith("worker 'w0' has calls under way after 0.3 s: ")


def test_a_notice_that_fails_is_not_the_last_one(caplog: pytest.LogCaptureFixture) -> None:
    way, alarms = object.__new__(leaving.Leaving), Alarms()
    way._workers, way._group = alarms, SimpleNamespace(me=SimpleNamespace(name="w0"))
    way._counts = SimpleNamespace(activity=lambda: (0, 0))
    whom: list[Any] = [RuntimeError("it cannot be found out now"), "for w1"]

    def find_out() -> Any:
        found = whom.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    way.for_whom_it_waits = find_out
    way._waits_since = 5.0
    way._tell_after(5.0, 0.1)
    with pytest.raises(RuntimeError):
        alarms.due.pop()()
    alarms.due.pop()()
    assert "has waited in shutdown() for 0.2 s: for w1" in caplog.text and len(alarms.due) == 1


asked: list[int] = []
due: list[int] = []
have_been_due = threading.Event()


def serve_on_one_node() -> list[int]:
    """Run one of three workers of a node. w0, which is late, returns the others' query counts."""
    leaving.FIRST_S = leaving.FIRST_WITHOUT_LIMIT_S = FIRST_S / 4.0
    os.environ["LOCAL_RANK"] = rank = os.environ["RANK"]
    rpc.init_rpc(f"w{rank}")
    way = rpc._get_current_rpc_agent().leaving  # type: ignore[attr-defined]
    find_out, not_in_shutdown = way.for_whom_it_waits, way._group.not_in_shutdown

    def note_question() -> Any:
        asked.append(1)
        return not_in_shutdown()

    def note_due() -> str:
        if not way.barrier.is_waiting_for_others:
            return ""  # the worker does not know yet which worker of its node queries the store
        found = str(find_out())
        due.append(1)
        if len(due) == 3:
            have_been_due.set()
        return found

    way.for_whom_it_waits, way._group.not_in_shutdown = note_due, note_question
    found = []
    if rank == "0":
        found = [rpc.rpc_sync(to, num_asked) for to in ("w1", "w2")]
    rpc.shutdown()
    return found


def num_asked() -> int:
    assert have_been_due.wait(20)
    return len(asked)


@pytest.mark.one_in(8)
def test_one_worker_of_a_node_asks_the_store_who_has_not_come() -> None:
    silent, speaker = sorted(run_group(serve_on_one_node, 3)[0])
    assert silent == 0 and speaker >= 3


def test_who_has_come_tells_a_store_that_has_another_host_again() -> None:
    group = Group(HashStore(), Record("w1", 1, 2, 101, {}, {}, "none"))
    assert not group.is_in_shutdown
    group.tell_shutdown()
    group._store = HashStore()
    keeper: Any = object.__new__(StoreKeeper)
    keeper._keys, keeper._has_reported = group._store, False
    keeper._served = SimpleNamespace(host_instead=lambda: False)
    keeper._workers = SimpleNamespace(group=group, refresh=lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_keeper, "note_again", lambda keys: None)
        patch.setattr(store_keeper, "be_in_again", lambda *known: None)
        assert keeper._keep([])
    assert group.not_in_shutdown() == ([0], 0)
