"""preempted() returns True on all workers in the same call, or names a worker without an answer."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastdist import distributed as dist
from fastdist.core.errors import StoreTimeoutError
from fastdist.distributed import HashStore, preemption
from fastdist.distributed.preemption import Agreement


@pytest.fixture
def store() -> Iterator[HashStore]:
    with HashStore() as store:
        yield store


@pytest.fixture
def unasked() -> Iterator[None]:
    """Restore the signal handlers after the test, and clear the request for preemption."""
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    yield
    for number, handler in zip((signal.SIGTERM, signal.SIGHUP), before):
        signal.signal(number, handler)
    preemption._is_requested = preemption._is_handling = False


def _calls_until_over(agreement: Agreement) -> int:
    calls = 1
    while not agreement.is_over():
        calls += 1
    return calls


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_workers_at_different_steps_end_in_the_same_call(store: HashStore, asked: int) -> None:
    members = [Agreement(store, rank, 3) for rank in range(3)]
    done = (5, 3, 0)
    for member, count in zip(members, done):
        assert not any(member.is_over() for _ in range(count))
    members[asked].request()
    # Wait until the store has the number of the last call. Otherwise the calls could go on forever.
    assert store.wait(["last_call"], 10.0) is None
    with ThreadPoolExecutor(3) as pool:
        more = list(pool.map(_calls_until_over, members))
    assert [count + one for count, one in zip(done, more)] == [6, 6, 6]
    # All later calls return True as well.
    assert all(member.is_over() for member in members)
    for member in members:
        member.leave()


def test_workers_that_go_on_meanwhile_agree(store: HashStore) -> None:
    members = [Agreement(store, rank, 4) for rank in range(4)]
    gate = threading.Barrier(4)

    def step(rank: int) -> int:
        calls = 1
        while not members[rank].is_over():
            if calls == 40 and rank == 2:
                members[rank].request()
            if calls % 10 == 0:
                gate.wait(10.0)  # a collective: no member passes it alone
            calls += 1
        return calls

    with ThreadPoolExecutor(4) as pool:
        ends = set(pool.map(step, range(4)))
    assert len(ends) == 1 and ends.pop() > 40
    for member in members:
        member.leave()


def test_a_worker_that_does_not_answer_is_named_to_all(store: HashStore) -> None:
    members = [Agreement(store, rank, 3, answer_s=0.3) for rank in range(2)]
    members[1].request()
    store.wait(["calls/0", "calls/1"], 10.0)
    with pytest.raises(StoreTimeoutError, match=r"rank 2 did not say within 0\.3 s at which step"):
        members[0].is_over()
    with pytest.raises(StoreTimeoutError):
        members[1].is_over()
    for member in members:
        member.leave()


def test_a_worker_that_has_left_is_not_waited_for(store: HashStore) -> None:
    members = [Agreement(store, rank, 2) for rank in range(2)]
    assert not members[1].is_over() and not members[1].is_over()
    members[1].leave()
    members[0].request()
    store.wait(["last_call"], 10.0)
    assert _calls_until_over(members[0]) == 3
    members[0].leave()
    assert all(one.name != "fastdist-preemption" or not one.is_alive() for one in _settled())


def _settled() -> list[threading.Thread]:
    threads = [one for one in threading.enumerate() if one.name == "fastdist-preemption"]
    for thread in threads:
        thread.join(5.0)
    return threads


def test_without_a_group_a_signal_counts_here_and_the_former_handler_runs(unasked: None) -> None:
    got: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
    assert not dist.preempted()
    os.kill(os.getpid(), signal.SIGTERM)
    assert dist.preempted() and dist.preempted()
    assert got == [signal.SIGTERM]


def test_a_group_of_one_needs_no_store(unasked: None, store: HashStore) -> None:
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert not dist.preempted()
        dist.request_preemption()
        assert dist.preempted()
    finally:
        dist.destroy_process_group()
    # The request is kept when the group is destroyed.
    assert dist.preempted()


def test_the_first_call_must_be_in_the_main_thread(unasked: None) -> None:
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(dist.preempted).exception()
    assert isinstance(told, RuntimeError) and "call it once in the main thread" in str(told)


def test_a_forked_child_ends_by_the_signal(unasked: None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert not dist.preempted()
    # Python drops a signal that reaches the child before `fork` has returned in the child.
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell, b"!")
        for _ in range(500):  # `signal.pause` would miss a signal that arrives just before it
            threading.Event().wait(0.01)
        os._exit(1)
    os.read(ready, 1)
    os.close(ready)
    os.close(tell)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
    assert not dist.preempted()
