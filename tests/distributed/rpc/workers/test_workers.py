"""Other workers are looked up, connected, replaced and lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from fastdist.core.errors import (
    FastdistError,
    GivenUpError,
    RpcError,
    StaleIncarnationError,
    WorkerLostError,
)
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.workers import workers as workers_module
from fastdist.distributed.rpc.workers.directory import StoreDirectory
from fastdist.distributed.rpc.workers.group import GIVEN_UP, Group
from fastdist.distributed.rpc.workers.record import Record, WorkerInfo, did_you_mean
from fastdist.distributed.rpc.workers.session import Event
from fastdist.distributed.store import HashStore, PrefixStore, Store
from tests.distributed.rpc.workers.by_hand import (
    ME,
    OTHER,
    SilentLane,
    kinds_sent,
    present,
    static,
    strike_out,
    workers_of,
)

EARLIER = replace(OTHER, world_size=0)
LATER = replace(EARLIER, incarnation=201)
DYNAMIC = replace(ME, world_size=0)


@pytest.fixture(autouse=True)
def nobody_above(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove other packages' loss handlers: autograd may be loaded, but is in no group here."""
    monkeypatch.setattr("fastdist.distributed.rpc.workers.workers.lost_hooks", [])


class NoDescriptorLeft:
    """A context that fails to create a lane; by then another thread could have found the worker."""

    def __init__(self) -> None:
        self.workers: Any = None
        self.pipe: Any = None

    def choose(self, *_: Any, **__: Any) -> str:
        return "uv"

    def connect(self, *_: Any, **__: Any) -> Any:
        self.pipe = self.workers.known(OTHER.rank).pipe
        raise FastdistError("no descriptor is left for a socket")


def test_an_unknown_name_in_a_job_of_one_worker_says_how_to_start_more() -> None:
    workers = workers_of(static(replace(ME, world_size=1)))
    hint = "; world_size is 1: `fastdist run -n 2 PROGRAM` starts two workers"
    with pytest.raises(RpcError, match=f"the group has: {ME.name}{hint}$"):
        workers.get("other")


def test_a_worker_that_could_not_be_met_is_met_anew_by_the_next_who_wants_it() -> None:
    context = NoDescriptorLeft()
    context.workers = workers = workers_of(static(ME, OTHER), context)
    for _ in range(2):
        with pytest.raises(FastdistError, match="no descriptor is left"):
            workers.reach(OTHER.rank)
        # The worker that was found must fail too: nobody would read the answers to calls on it.
        with pytest.raises(FastdistError, match="no descriptor is left"):
            context.pipe.add_pending(1, None)
    assert workers.met() == []


def enter(store: Store, record: Record) -> None:
    """Register a worker in a dynamic group, and remove all workers with the same rank or name."""
    for other in present(store):
        if other.rank == record.rank or other.name == record.name:
            strike_out(store, other.incarnation)
    assert StoreDirectory(store).claim(record)[0] is None


@pytest.fixture
def store() -> Store:
    store = HashStore()
    for record in (DYNAMIC, EARLIER):
        enter(store, record)
    return store


def meet(workers: Any, rank: int) -> Any:
    worker = workers.reach(rank)
    worker._step(Event.CONNECTED)
    return worker


def test_who_has_the_rank_now_is_met_though_the_end_of_who_had_it_is_not_noticed_yet(
    store: Store,
) -> None:
    workers = workers_of(Group(store, DYNAMIC))
    before = meet(workers, 1)
    assert not before.is_dead
    enter(store, LATER)
    workers.all()
    now = workers.reach(1)
    assert before.is_dead and now is not before and now is workers.reach(1)
    assert now.record.incarnation == LATER.incarnation
    now.close(RpcError("the test is over"))


@pytest.mark.parametrize("is_first_to_call", [False, True])
def test_who_has_a_rank_now_does_not_wait_until_all_have_heard_the_end_of_who_had_it(
    store: Store, is_first_to_call: bool
) -> None:
    jobs, told = list[Any](), list[object]()
    workers = workers_of(Group(store, DYNAMIC), submit=lambda *job: jobs.append(job) or True)
    workers.lost_callbacks.append(told.append)
    workers.lost_callbacks.append(told.append)
    before = meet(workers, 1)
    before.said_goodbye()
    enter(store, LATER)
    if is_first_to_call:
        now = workers.admit(LATER.rank, LATER.incarnation, f"{DYNAMIC.incarnation:x}")
    else:
        workers.all()
        now = workers.reach(LATER.rank)
    assert before.is_dead and now.record.incarnation == LATER.incarnation and told == []
    run(jobs)
    assert told == [before, before] and before.end_handled.done()
    now.close(RpcError("the test is over"))


def run(jobs: list[Any]) -> None:
    """Run the pool's jobs, the last one first."""
    while jobs:
        function, *arguments = jobs.pop()
        function(*arguments)


def test_what_is_for_a_life_does_not_go_to_the_next(store: Store) -> None:
    workers = workers_of(Group(store, DYNAMIC))
    never_met = workers.get(1)
    enter(store, LATER)
    with pytest.raises(WorkerLostError, match="has left: its rank is that of worker 'w1' now"):
        workers.reach(never_met)
    before = meet(workers, 1)
    enter(store, replace(LATER, incarnation=LATER.incarnation + 1))
    workers.all()
    now = meet(workers, 1)
    assert workers.reach(before) is before and before.is_dead and not now.is_dead
    now.close(RpcError("the test is over"))


def test_a_life_that_was_followed_is_refused_and_so_is_one_that_is_lost(store: Store) -> None:
    workers = workers_of(Group(store, DYNAMIC))
    meant_for = f"{DYNAMIC.incarnation:x}"
    assert workers.admit(1, EARLIER.incarnation, meant_for) is workers.known(1)
    with pytest.raises(StaleIncarnationError, match="from or for a process that was replaced"):
        workers.admit(1, EARLIER.incarnation, "0")
    enter(store, LATER)
    later = workers.admit(1, LATER.incarnation, meant_for)
    # The former process may have been frozen, and may run again now.
    with pytest.raises(GivenUpError, match="a new process of its rank has joined") as told:
        workers.admit(1, EARLIER.incarnation, meant_for)
    with pytest.raises(GivenUpError) as again:
        workers.admit(1, EARLIER.incarnation, meant_for)
    # Raising the stored error itself would add traceback entries to it at each attempt.
    assert again.value is not told.value
    assert told.value.incarnation == again.value.incarnation == EARLIER.incarnation
    meet(workers, 1)._step(Event.REJECTED, "it speaks another language")
    with pytest.raises(GivenUpError, match="was declared lost by worker 'w0'"):
        workers.admit(1, LATER.incarnation, meant_for)
    assert later.is_dead and workers.lost() == ["'w1' (rank 1): it speaks another language"]


def test_one_that_went_before_it_was_met_is_lost_to_who_calls_it_then() -> None:
    workers = workers_of(static(ME, OTHER))
    workers.get(1).said_goodbye()
    with pytest.raises(
        WorkerLostError, match="left before this worker could connect to it"
    ) as lost:
        workers.reach(1)
    assert not lost.value.may_have_run


def test_one_that_was_lost_does_not_seem_new_as_long_as_the_group_has_it_and_is_then_forgotten(
    store: Store,
) -> None:
    workers = workers_of(Group(store, DYNAMIC))
    lost = meet(workers, 1)
    lost._step(Event.REJECTED, "it speaks another language")
    assert workers.find("w1") is lost and lost.is_dead
    assert [worker.name for worker in workers.all()] == ["w0", "w1"]
    strike_out(store, EARLIER.incarnation)
    assert workers.find("w1") is None and workers.find(1) is None
    assert [worker.name for worker in workers.all()] == ["w0"]
    gone = r"the group has: w0; 'w1' \(rank 1\) was lost, and has not come back$"
    for to in ("w1", 1, WorkerInfo("w1", 1)):
        with pytest.raises(RpcError, match=rf"could not find destination .*1.*; {gone}"):
            workers.get(to)
    with pytest.raises(RpcError, match=r"could not find destination name w7; the group has: w0$"):
        workers.get("w7")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("trianer1", "; did you mean trainer1?"),
        ("Trainer2", "; did you mean trainer2?"),
        ("trainer3", ""),  # a different number is not a typing mistake
        ("nobody", ""),
        (7, ""),
    ],
)
def test_name_with_a_typing_mistake_is_corrected(name: object, hint: str) -> None:
    assert did_you_mean(name, ["server", "trainer1", "trainer2"]) == hint


@pytest.mark.parametrize("event", [Event.PROCESS_ENDED, Event.REJECTED])
def test_one_whose_end_is_certain_is_taken_out_of_the_group_by_who_notices(
    store: Store, event: Event
) -> None:
    jobs: list[Any] = []
    workers = workers_of(Group(store, DYNAMIC), submit=lambda *job: jobs.append(job) or True)
    meet(workers, 1)._step(event, "it speaks another language")
    for function, *arguments in jobs:
        function(*arguments)
    assert [one.name for one in present(store)] == (
        ["w0"] if event is Event.PROCESS_ENDED else ["w0", "w1"]
    )


def test_a_static_group_that_takes_lives_back_leads_to_the_one_that_came(store: Store) -> None:
    store = HashStore()
    workers = workers_of(Group(store, ME, [ME, OTHER], restarts=True))
    before = meet(workers, 1)
    before._step(Event.PROCESS_ENDED)
    assert workers.reach(1) is before  # the worker has not rejoined yet
    again = replace(OTHER, incarnation=301)
    for one in (ME, OTHER):
        StoreDirectory(store).claim(one)
    assert StoreDirectory(store).claim(again, OTHER) == (None, 0)
    now = workers.reach(1)
    assert now.record.incarnation == 301 and not now.is_dead and workers.get("w1") is now
    now.close(RpcError("the test is over"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("is_looked_for_meanwhile", "event", "name", "told"),
    [
        (False, Event.PROCESS_ENDED, "w1", ["w1"]),
        (True, Event.PROCESS_ENDED, "w1", ["w1"]),
        (True, Event.PROCESS_ENDED, "other", []),
        (True, Event.LEFT, "w1", []),
    ],
)
def test_of_who_was_lost_and_comes_back_all_hear_also_who_looked_for_it_in_vain(
    monkeypatch: pytest.MonkeyPatch,
    store: Store,
    is_looked_for_meanwhile: bool,
    event: Event,
    name: str,
    told: list[str],
) -> None:
    module, returned, jobs = "fastdist.distributed.rpc.workers.hooks", list[Any](), list[Any]()
    heard: list[object] = []

    def run_hooks(info: Any) -> None:
        assert heard or is_looked_for_meanwhile  # the former life's state is removed before this
        returned.append(info)

    monkeypatch.setattr(f"{module}.run_restart_hooks", run_hooks)
    workers = workers_of(Group(store, DYNAMIC), submit=lambda *job: jobs.append(job) or True)
    workers.lost_callbacks.append(heard.append)
    lost = meet(workers, 1)
    lost._step(event)
    if event is Event.LEFT:
        workers.progress.run_alarms()
    assert lost.is_dead
    if is_looked_for_meanwhile:
        strike_out(store, EARLIER.incarnation, was_lost=True)
        assert workers.find(1) is None
    enter(store, replace(LATER, name=name))
    assert workers.find(1).record.incarnation == LATER.incarnation
    run(jobs)
    assert heard == [lost] and [info.name for info in returned] == told


def test_who_leaves_waits_until_its_peers_have_read_what_it_sent_or_have_gone() -> None:
    workers = workers_of(static(ME, OTHER))
    worker = workers.reach(OTHER.rank)
    with ThreadPoolExecutor(1) as pool:
        parting = pool.submit(workers.part, 30)
        with pytest.raises(TimeoutError):
            parting.result(0.05)
        workers.note_goodbye_read(worker)
        parting.result(10)
        assert kinds_sent(worker).count(MessageType.BYE) == 1
    worker.close(RpcError("the test is over"))
    workers = workers_of(static(ME, OTHER))
    lost = workers.reach(OTHER.rank)
    with ThreadPoolExecutor(1) as pool:
        parting = pool.submit(workers.part, 30)
        lost._step(Event.PROCESS_ENDED)
        parting.result(10)


def test_a_life_that_was_never_met_is_looked_up_again_before_the_first_call_to_it(
    store: Store,
) -> None:
    workers = workers_of(Group(store, DYNAMIC))
    enter(store, LATER)
    now = workers.reach(1)
    assert now.record.incarnation == LATER.incarnation
    now.close(RpcError("the test is over"))


def test_a_call_to_a_name_does_not_go_to_another_that_has_its_rank_by_now(store: Store) -> None:
    workers = workers_of(Group(store, DYNAMIC))
    info = workers.info_of("w1")
    enter(store, replace(LATER, name="another"))
    with pytest.raises(WorkerLostError, match=r"'w1' .* has left: its rank is that of worker 'an"):
        workers.reach(info.id)
    assert workers.met() == []


@pytest.mark.parametrize("is_met", [True, False], ids=["met", "by the thread that reads for all"])
def test_the_store_is_not_asked_again_for_a_worker_that_is_met_or_where_it_would_hold_up_all(
    monkeypatch: pytest.MonkeyPatch, store: Store, is_met: bool
) -> None:
    workers = workers_of(Group(store, DYNAMIC))
    if is_met:
        meet(workers, 1)
    else:
        monkeypatch.setattr(workers.progress, "is_current_thread", lambda: True)
    assert workers.find(1) is not None
    monkeypatch.setattr(store, "_ask", None)
    worker = workers.reach(1)
    assert worker.record.incarnation == EARLIER.incarnation
    worker.close(RpcError("the test is over"))


def test_each_worker_is_made_once_when_the_group_is_met(
    monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    made: list[int] = []
    monkeypatch.setattr(
        workers_module,
        "Worker",
        lambda record, *_: made.append(record.rank) or record.info,
    )
    workers_of(Group(store, ME, [ME, OTHER]))
    assert sorted(made) == [0, 1]


class ClosedMeanwhile:
    """A context that creates a lane while another thread leaves the group."""

    def __init__(self) -> None:
        self.workers: Any = None
        self.is_closed = threading.Event()
        self.closer = threading.Thread(target=self.close)

    def choose(self, *_: Any, **__: Any) -> str:
        self.closer.start()
        assert not self.is_closed.wait(0.1)
        return "uv"

    def close(self) -> None:
        self.workers.close()
        self.is_closed.set()

    def connect(self, *_: Any, **__: Any) -> SilentLane:
        return SilentLane()


def test_who_leaves_finds_all_that_were_met_before() -> None:
    context = ClosedMeanwhile()
    context.workers = workers = workers_of(static(ME, OTHER), context)
    # The close must find this worker; otherwise its new lane would never be closed.
    workers.reach(OTHER.rank)
    context.closer.join(20)
    assert context.is_closed.is_set() and len(workers.met()) == 1


def test_nobody_tells_the_store_of_a_worker_that_has_left_that_it_was_given_up(
    store: Store,
) -> None:
    jobs = list[Any]()
    workers = workers_of(Group(store, DYNAMIC), submit=lambda *job: jobs.append(job) or True)
    other = meet(workers, 1)
    other.said_goodbye()
    other._step(Event.DISCONNECTED)
    assert other.is_dead and not other.why_lost
    run(jobs)
    assert not PrefixStore(GIVEN_UP, store).check([str(other.record.incarnation)])


def test_a_worker_in_touch_with_a_third_is_not_out_by_the_word_of_one() -> None:
    me, other, third = (
        replace(ME, name=f"w{rank}", rank=rank, world_size=3, incarnation=100 + rank)
        for rank in range(3)
    )
    workers: Any = workers_of(static(me, other, third))
    first, second = workers.reach(1), workers.reach(2)
    for _ in range(5):  # repeated rejections by one worker count once
        workers.were_given_up(first, GivenUpError("worker 'w1' has given up worker 'w0'"))
    assert workers.given_up is None
    workers.were_given_up(second, GivenUpError("worker 'w2' has given up worker 'w0'"))
    assert workers.given_up is not None
    with pytest.raises(GivenUpError, match="has given up") as told:
        workers.admit(1, 0, "0")
    assert told.value is not workers.given_up and workers.given_up.__traceback__ is None
