"""References in messages that are never read do not keep their values alive."""

from __future__ import annotations

import functools
import gc
import os
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fastdist.core.errors import RpcError, RpcTimeoutError, WorkerLostError
from fastdist.distributed import rpc
from tests.distributed.workers import Group, open_gate, wait_at


class Value:
    pass


def init(num_worker_threads: int = 1) -> None:
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=num_worker_threads)
    rpc.init_rpc(f"w{os.environ['RANK']}", rpc_backend_options=options)


def leave() -> None:
    rpc.shutdown()


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group(__file__, 3, {"FASTDIST_JOB_SECRET": "5e" * 32})
    try:
        group.run_all(init)
        yield group
    finally:
        group.kill()


def hold(seconds: float) -> None:
    threading.Event().wait(seconds)


has_begun = threading.Event()


def keep_busy(to: str) -> None:
    """Occupy a worker's only thread; return once it is occupied, so that no later call runs."""
    rpc.rpc_async(to, tell_and_wait)
    assert has_begun.wait(10)


def tell_and_wait() -> None:
    rpc.rpc_async("w0", has_begun_there)
    wait_at("gate")


def has_begun_there() -> None:
    has_begun.set()


def keep(*rrefs: Any) -> None:
    kept.extend(rrefs)


kept: list[Any] = []


def wait_for_calls(number: int) -> None:
    """Wait until `number` calls have arrived at this worker and not ended."""
    deadline = time.monotonic() + 12
    while (active := int(rpc._get_debug_info()["agent.server_active_calls"])) < number:
        assert time.monotonic() < deadline, active


SHORT_S = 0.05
# This time suffices to make two connections, also on a busy machine.
IN_TIME_S = 1.0


def open_gate_too_late(num_calls: int, late_s: float = SHORT_S) -> None:
    """Open the gate after `num_calls` calls have arrived, too late for a timeout of `late_s`."""
    wait_for_calls(num_calls)
    hold(2 * late_s)
    open_gate("gate")


def give_at_gate() -> Any:
    wait_at("gate")
    return rpc.RRef(Value())


def raise_one() -> None:
    raise ValueError("never made")


def what_is_left() -> list[str]:
    gc.collect()
    info = rpc._get_debug_info()
    left = [f"{name} {info[name]}" for name in COUNTS if info[name] != "0"]
    # The query itself is a call.
    if (active := info["agent.server_active_calls"]) != "1":
        left.append(f"{active} calls")
    return left


COUNTS = ("num_owner_rrefs", "num_pending_users", "num_pending_children", "num_users")


def wait_until_none_is_left(*workers: str) -> None:
    deadline = time.monotonic() + 12
    for worker in workers:
        while left := rpc.rpc_sync(worker, what_is_left):
            assert time.monotonic() < deadline, (worker, left)


class Unpicklable:
    def __reduce__(self) -> Any:
        raise TypeError("not this one")


def with_something_that_does_not_pickle() -> None:
    for call in (rpc.rpc_sync, rpc.rpc_async):
        with pytest.raises(RpcError, match="not this one"):
            call("w1", keep, (rpc.RRef(Value()), Unpicklable()))


def of_a_function_that_is_not_there() -> None:
    ghost = types.FunctionType(keep.__code__, globals(), "ghost")
    ghost.__module__, ghost.__qualname__ = keep.__module__, "ghost"
    globals()["ghost"] = ghost
    for call in (rpc.rpc_sync, lambda *request: rpc.rpc_async(*request).wait()):
        with pytest.raises(AttributeError, match="ghost"):
            call("w1", ghost, (rpc.RRef(Value()),))


def that_waits_until_its_time_is_over() -> None:
    keep_busy("w1")
    for call in (rpc.rpc_sync, lambda *to, timeout: rpc.rpc_async(*to, timeout=timeout).wait()):
        with pytest.raises(RpcTimeoutError):
            call("w1", keep, (rpc.RRef(Value()),), timeout=SHORT_S)


def whose_answer_comes_late() -> None:
    with pytest.raises(RpcTimeoutError):
        rpc.rpc_sync("w1", give_at_gate, timeout=SHORT_S)


def whose_answer_comes_late_for_a_future() -> None:
    with pytest.raises(RpcTimeoutError):
        rpc.rpc_async("w1", give_at_gate, timeout=SHORT_S).wait()


def whose_answer_does_not_pickle() -> None:
    with pytest.raises(RpcError, match="not this one"):
        rpc.rpc_sync("w1", give_with_rubbish)


def give_with_rubbish() -> Any:
    return rpc.RRef(Value()), Unpicklable()


class Known:
    """A class that other workers cannot find after they have forgotten it."""


def forget_known() -> None:
    del globals()["Known"]


def give_with_unknown() -> Any:
    return Known(), rpc.RRef(Value())


def whose_answer_cannot_be_read() -> None:
    forget_known()
    for call in (rpc.rpc_sync, lambda *to: rpc.rpc_async(*to).wait()):
        with pytest.raises(AttributeError, match="Known"):
            call("w1", give_with_unknown)


def whose_answer_comes_late_and_cannot_be_read() -> None:
    forget_known()
    with pytest.raises(RpcTimeoutError):
        rpc.rpc_sync("w1", give_with_unknown_at_gate, timeout=SHORT_S)


def give_with_unknown_at_gate() -> Any:
    wait_at("gate")
    return give_with_unknown()


def that_waits_until_its_time_is_over_and_cannot_be_read() -> None:
    rpc.rpc_sync("w1", forget_known)
    keep_busy("w1")
    rref = rpc.RRef(Value())
    for arguments in ((Known(), rref), (rpc.remote("w2", Value), {"key": {Known()}})):
        with pytest.raises(RpcTimeoutError):
            rpc.rpc_sync("w1", keep, arguments, timeout=SHORT_S)
    with pytest.raises(RpcTimeoutError):
        rpc.rpc_sync("w1", Known, (rref,), timeout=SHORT_S)
    rpc.rpc_sync("w2", forget_known)
    with pytest.raises(AttributeError, match="Known"):
        rpc.rpc_sync("w2", keep, (Known(), rref))


def that_is_for_a_third() -> None:
    """Pass on a value of w2 in a call to w1 that expires before it runs."""
    rref = rpc.remote("w2", Value)
    rref.to_here()
    keep_busy("w1")
    with pytest.raises(RpcTimeoutError):
        rpc.rpc_sync("w1", keep, (rref,), timeout=SHORT_S)


@pytest.mark.one_in(10)
@pytest.mark.parametrize(
    ("call", "num_calls"),
    [
        (with_something_that_does_not_pickle, 0),
        (of_a_function_that_is_not_there, 0),
        (that_waits_until_its_time_is_over, 3),
        (whose_answer_comes_late, 0),
        (whose_answer_comes_late_for_a_future, 0),
        (whose_answer_does_not_pickle, 0),
        (whose_answer_cannot_be_read, 0),
        (whose_answer_comes_late_and_cannot_be_read, 0),
        (that_waits_until_its_time_is_over_and_cannot_be_read, 4),
        (that_is_for_a_third, 2),
    ],
)
def test_no_value_outlives_a_call(group: Group, call: Callable[[], None], num_calls: int) -> None:
    group[0].run(call)
    group[1].run(open_gate_too_late, num_calls)
    group[0].run(wait_until_none_is_left, "w0", "w1", "w2")
    group.run_all(leave)


def fetch_what_is_never_made() -> None:
    """Let w2 fetch a value at w1 whose creating call waits there until the call expires."""
    keep_busy("w1")
    rref = rpc.remote("w1", Value, timeout=IN_TIME_S)
    rpc.rpc_sync("w2", begin_to_fetch, (rref,))
    with pytest.raises(RpcTimeoutError):
        rref._creation.wait()


untold: list[Callable[[], None]] = []


def tell_of_forks_late() -> None:
    rrefs = rpc._get_current_rpc_agent().rrefs
    tell = rrefs._tell_forks
    rrefs._tell_forks = lambda *forks: untold.append(functools.partial(tell, *forks))


def lend_what_is_never_made(to: str) -> None:
    keep_busy("w1")
    rref = rpc.remote("w1", Value, timeout=SHORT_S)
    rpc.rpc_sync(to, keep, (rref,))
    with pytest.raises(RpcTimeoutError):
        rref._creation.wait()


def wait_until_it_is_given_up() -> None:
    owned = rpc._get_current_rpc_agent().rrefs.owned
    deadline = time.monotonic() + 12
    while not owned._dropped:
        assert time.monotonic() < deadline


def fetch_then_tell_of_forks() -> None:
    with pytest.raises(RpcTimeoutError, match="worker 'w1' did not run the remote call of worker"):
        kept.pop().to_here(timeout=20)
    untold.pop()()


def begin_to_fetch(rref: Any) -> None:
    def fetch() -> None:
        try:
            rref.to_here(timeout=20)
        except Exception as error:
            outcomes.append(f"{type(error).__name__}: {error}")

    fetchers.append(threading.Thread(target=fetch))
    fetchers[-1].start()


outcomes: list[str] = []
fetchers: list[threading.Thread] = []


def end_of_fetch() -> list[str]:
    fetchers.pop().join(15)
    return outcomes


@pytest.mark.one_in(8)
def test_who_waits_for_a_value_hears_that_the_call_which_makes_it_came_too_late(
    group: Group,
) -> None:
    # Start to count calls first: once the remote call has expired, w2's fetch is answered, and is
    # not counted.
    group[1].start(open_gate_too_late, 3, IN_TIME_S)
    group[0].run(fetch_what_is_never_made)
    group[1].result()
    (outcome,) = group[2].run(end_of_fetch)
    assert outcome.startswith("RpcTimeoutError: worker 'w1' did not run the remote call of worker")
    group[0].run(wait_until_none_is_left, "w0", "w1", "w2")
    group.run_all(leave)


@pytest.mark.one_in(8)
def test_who_hears_of_a_value_after_its_call_was_given_up_hears_why(group: Group) -> None:
    group[2].run(tell_of_forks_late)
    group[0].run(lend_what_is_never_made, "w2")
    group[1].run(wait_until_it_is_given_up)
    group[2].run(fetch_then_tell_of_forks)
    group[1].run(open_gate, "gate")
    group[0].run(wait_until_none_is_left, "w0", "w1", "w2")
    group.run_all(leave)


def fill_with_calls() -> None:
    """Queue remote calls and references at w1, whose only thread is busy."""
    keep_busy("w1")
    for _ in range(3):
        kept.append(rpc.remote("w1", Value))


def wait_until_dead(rank: int) -> None:
    deadline = time.monotonic() + 12
    while not is_dead(rank):
        assert time.monotonic() < deadline


@pytest.mark.one_in(8)
def test_calls_of_the_dead_that_still_wait_leave_nothing_behind(group: Group) -> None:
    group[0].run(fill_with_calls)
    group[1].run(wait_for_calls, 4)
    group[0].kill()
    group[1].run(wait_until_dead, 0)
    group[1].run(open_gate, "gate")
    group[2].run(wait_until_none_is_left, "w1", "w2")


def lengths_of_tracebacks() -> list[int]:
    """Fetch an error repeatedly, and return the length of its remote traceback each time."""
    rref = rpc.remote("w1", raise_one)
    lengths = []
    for _ in range(5):
        with pytest.raises(ValueError, match="never made") as caught:
            rref._context.fetch(rref, 10.0)
        lengths.append(len("".join(caught.value.__notes__)))
    return lengths


@pytest.mark.one_in(8)
def test_an_error_that_is_fetched_often_does_not_grow(group: Group) -> None:
    lengths = group[0].run(lengths_of_tracebacks)
    assert lengths[1:] == [lengths[1]] * 4
    group.run_all(leave)


def make_and_lose(owner: str) -> None:
    kept.append(rpc.remote(owner, Value))
    kept[0].to_here()


def ask_for_what_the_dead_should_have_made() -> None:
    """Ask w1 for a value that rank 0, which is dead, should have created there."""
    deadline = time.monotonic() + 10
    agent: Any = rpc._get_current_rpc_agent()
    while not rpc.rpc_sync("w1", is_dead, (0,)):
        assert time.monotonic() < deadline
    rref: Any = rpc.RRef._make(agent.rrefs, agent.worker(1), 12345, 2 << 48 | 99)
    with pytest.raises(WorkerLostError, match=r"worker 'w0' \(rank 0\), which should have made"):
        rref.to_here(timeout=10)


def is_dead(rank: int) -> bool:
    return bool(rpc._get_current_rpc_agent().workers.find(rank).is_dead)


@pytest.mark.one_in(8)
def test_a_value_that_a_dead_worker_should_have_made_is_not_waited_for(group: Group) -> None:
    group[0].run(make_and_lose, "w1")
    group[0].kill()
    group[2].run(ask_for_what_the_dead_should_have_made)
    group[2].run(wait_until_none_is_left, "w1", "w2")


def make_and_let_go() -> tuple[int, int]:
    """Return (owner, id) of a value on w1 without any references left."""
    rref = rpc.remote("w1", Value)
    rref.to_here()
    found = rref._owner.id, rref._id
    del rref
    gc.collect()
    return found


def take_what_arrives_late(owner_id: int, rref_id: int) -> str:
    """Receive a reference that w2 passed on, after the value has gone."""
    context = rpc.RRef(Value())._context
    agent: Any = rpc._get_current_rpc_agent()
    life = agent.worker(owner_id).record.incarnation
    late = context.arrive(owner_id, rref_id, (2 << 48) + 1_000_000, 2, life)
    try:
        late.to_here(timeout=20)
    except RpcError as error:
        return str(error)
    raise AssertionError("a value that is gone was found")


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("at", [0, 1])
def test_a_reference_that_comes_after_its_value_has_gone_is_told_so_and_keeps_nothing(
    group: Group, at: int
) -> None:
    made = group[0].run(make_and_let_go)
    group[0].run(wait_until_none_is_left, "w0", "w1")
    assert "is gone: all its other references ended" in group[at].run(take_what_arrives_late, *made)
    group[0].run(wait_until_none_is_left, "w0", "w1")
    group.run_all(leave)


# ---- references that return to their owner -------------------------------------------------------


def is_here(rref: Any) -> bool:
    return rref.is_owner()


def raise_with(rref: Any) -> None:
    raise ArithmeticError("on purpose")


def go_home() -> None:
    """Check that no notice is pending after a call that returned a reference to its owner."""
    rref = rpc.remote("w1", Value)
    calls: list[Callable[[], Any]] = [
        lambda: rpc.rpc_sync("w1", is_here, (rref,)),
        lambda: rpc.rpc_async("w1", is_here, (rref,)).wait(),
        lambda: rpc.rpc_sync("w1", raise_with, (rref,)),
    ]
    for call in calls:
        try:
            assert call()
        except ArithmeticError:
            pass
        assert rpc._get_debug_info()["num_pending_children"] == "0"


@pytest.mark.one_in(8)
def test_a_reference_that_went_home_has_come_when_its_call_is_answered(group: Group) -> None:
    group[0].run(go_home)
