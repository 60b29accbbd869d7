"""Values live as long as a reference to them is in a message, whichever message arrives first."""

from __future__ import annotations

import functools
import gc
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fastdist.core.errors import OwnerLostError, RpcTimeoutError, WorkerLostError
from fastdist.distributed import rpc
from tests.distributed.workers import Group, run_group


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, n: int) -> int:
        self.count += n
        return self.count


def init(**faults: Any) -> None:
    rpc.init_rpc(
        f"w{os.environ['RANK']}",
        backend=rpc.BackendType.FAULTY_TENSORPIPE,
        rpc_backend_options=rpc.faulty_agent.FaultyTensorPipeRpcBackendOptions(
            messages_to_fail=[], num_worker_threads=1, **faults
        ),
    )


def hold(seconds: float) -> None:
    threading.Event().wait(seconds)


def use(rref: Any) -> int:
    return int(rref.local_value().add(1))


def num_busy() -> int:
    return int(rpc._get_debug_info()["agent.server_active_calls"])


def values_here() -> int:
    gc.collect()
    return int(rpc._get_debug_info()["num_owner_rrefs"])


def wait_until_no_value_is_here() -> None:
    deadline = time.monotonic() + 10
    while values_here():
        assert time.monotonic() < deadline


def send_the_last_reference_to_oneself() -> None:
    init()
    # The message waits for the only thread; meanwhile it holds the last reference to the value.
    first = rpc.rpc_async("w0", hold, (0.5,))
    second = rpc.rpc_async("w0", use, (rpc.RRef(Counter()),))
    gc.collect()
    assert first.wait() is None
    assert second.wait() == 1
    wait_until_no_value_is_here()
    rpc.shutdown()


@pytest.mark.one_in(8)
def test_a_reference_on_its_way_to_its_own_worker_keeps_the_value() -> None:
    run_group(send_the_last_reference_to_oneself, 1)


def accept_and_look() -> None:
    init()
    context = rpc._get_current_rpc_agent().rrefs
    accept, held = context._accept, []

    def look(parent: int, fork_id: int) -> None:
        held.append([owned.num_local for owned in context.owned.values()])
        accept(parent, fork_id)

    context._accept = look
    rref = rpc.RRef(Counter())
    assert rpc.rpc_sync("w0", use, (rref,)) == 1
    assert held == [[2]]
    rpc.shutdown()


@pytest.mark.one_in(8)
def test_a_reference_is_held_before_its_sender_may_drop_its_own() -> None:
    run_group(accept_and_look, 1)


def use_before_it_is_made() -> None:
    init()
    if os.environ["RANK"] == "0":
        held = hold_calls(rpc.MessageType.PYTHON_REMOTE_CALL)
        # The only user thread waits for a value that another call creates.
        rref = rpc.remote("w1", Counter)
        used = rref.rpc_async(timeout=10).add(1)
        deadline = time.monotonic() + 10
        while rpc.rpc_sync("w1", num_busy) < 2:
            assert time.monotonic() < deadline
        let_go(held)
        assert used.wait() == 1
        # A call that has timed out does not keep a thread waiting at the owner.
        late = rpc.remote("w1", Counter)
        with pytest.raises(RpcTimeoutError):
            late.rpc_sync(timeout=0.05).add(1)
        while rpc.rpc_sync("w1", num_busy) > 1:
            assert time.monotonic() < deadline
        let_go(held)
        assert late.to_here(timeout=10).count == 0
        del rref, late, used
        gc.collect()
        while rpc.rpc_sync("w1", values_here):
            assert time.monotonic() < deadline
    rpc.shutdown()


def hold_calls(kind: Any) -> list[Any]:
    """Hold back all outgoing messages of a kind, and return the list that collects them."""
    client, held = rpc._get_current_rpc_agent().client, []
    write = client.write

    def hold_or_write(call: Any, frames: Any) -> None:
        if call.message.type == kind:
            held.append(functools.partial(write, call, frames))
        else:
            write(call, frames)

    client.write = hold_or_write
    return held


def let_go(held: list[Any]) -> None:
    held.pop()()


@pytest.mark.one_in(8)
def test_a_value_may_be_asked_for_before_it_is_made() -> None:
    run_group(use_before_it_is_made, 2)


def drop_before_it_is_made() -> None:
    init(messages_to_delay={"PYTHON_REMOTE_CALL": 0.3})
    rref = rpc.remote("w0", Counter)
    assert values_here() == 1
    del rref
    wait_until_no_value_is_here()
    rpc.shutdown()


@pytest.mark.one_in(8)
def test_a_value_whose_last_reference_ends_before_it_is_made_goes() -> None:
    run_group(drop_before_it_is_made, 1)


# ---- workers that die ---------------------------------------------------------------------------

kept: list[Any] = []


def keep(rref: Any) -> None:
    kept.append(rref)


def forget_all() -> None:
    kept.clear()


def own_and_lend(to: str) -> None:
    kept.append(rpc.RRef(Counter()))
    assert rpc.rpc_sync(to, use_there, (kept[0],)) == 1


def use_there(rref: Any) -> int:
    return int(rref.rpc_sync(timeout=10).add(1))


def send_references_to_the_dead(worker: str) -> None:
    for _ in range(3):
        for call in (rpc.rpc_sync, lambda *request: rpc.rpc_async(*request).wait()):
            with pytest.raises(WorkerLostError):
                call(worker, keep, (kept[0],))


def get_reference_of(worker: str) -> None:
    kept.append(rpc.remote(worker, Counter))
    assert kept[-1].to_here().count == 0


held_calls: list[Any] = []


def pass_on_later(to: str) -> None:
    """Send a reference in a message that is held back until `let_it_arrive`."""
    held_calls.append(hold_calls(rpc.MessageType.PYTHON_CALL))
    held_calls.append(rpc.rpc_async(to, keep, (kept[-1],)))


def let_it_arrive() -> None:
    held, future = held_calls
    let_go(held)
    assert future.wait() is None


def wait_until_its_owner_is_lost() -> None:
    with pytest.raises(WorkerLostError):
        kept[-1].to_here(timeout=60)


def pass_on_what_is_known_to_be_lost(to: str) -> None:
    with pytest.raises(OwnerLostError, match="create it again"):
        rpc.rpc_sync(to, keep, (kept[-1],))


def nothing_is_pending() -> None:
    deadline = time.monotonic() + 10
    while True:
        info = rpc._get_debug_info()
        if info["num_pending_children"] == info["num_pending_users"] == "0":
            return
        assert time.monotonic() < deadline, info


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group(__file__, 3, {"FASTDIST_JOB_SECRET": "5e" * 32})
    try:
        group.run_all(init)
        yield group
    finally:
        group.kill()


@pytest.mark.one_in(8)
def test_references_sent_to_the_dead_hold_nothing(group: Group) -> None:
    group[0].run(own_and_lend, "w1")
    group[1].kill()
    group[0].run(send_references_to_the_dead, "w1")
    group[0].run(forget_all)
    group[0].run(wait_until_no_value_is_here)


@pytest.mark.one_in(8)
def test_references_to_what_died_with_its_owner_can_be_passed_on_and_dropped(group: Group) -> None:
    group[0].run(get_reference_of, "w1")
    group[0].run(pass_on_later, "w2")
    group[1].kill()
    group[0].run(wait_until_its_owner_is_lost)
    group[0].run(let_it_arrive)
    group[0].run(nothing_is_pending)
    group[2].run(nothing_is_pending)


@pytest.mark.one_in(8)
def test_a_reference_to_what_is_known_to_be_lost_is_not_passed_on(group: Group) -> None:
    group[0].run(get_reference_of, "w1")
    group[1].kill()
    group[0].run(wait_until_its_owner_is_lost)
    group[0].run(pass_on_what_is_known_to_be_lost, "w2")
    group[0].run(nothing_is_pending)
