"""The thread pool: its leader, its waiters, its limits and its end."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest

from fastdist.concurrency import pool_watcher, thread_pool
from fastdist.concurrency.future import Future, collect_all
from fastdist.concurrency.pool_watcher import LOOK_EVERY_S
from fastdist.concurrency.thread_pool import (
    INITIAL_LIMIT,
    LAZY_LOOK_EVERY_S,
    LOOKS_IN_VAIN,
    ThreadPool,
    Waiting,
    Work,
    hand_on_lead,
    lend_slot,
    take_slot_back,
)

DEADLINE_S = 10


class QueueSource:
    """A source of work that the test fills."""

    def __init__(self) -> None:
        self.works: SimpleQueue[Work | None] = SimpleQueue()

    def take(self) -> Work | None:
        return self.works.get()

    def wake(self) -> None:
        self.works.put(None)

    def give(self, function: Callable[[], object], *, counted: bool = True) -> None:
        self.works.put(Work(lambda _: function(), None, counted))


@pytest.fixture
def source() -> QueueSource:
    return QueueSource()


@pytest.fixture
def pool(source: QueueSource) -> Iterator[ThreadPool]:
    pool = ThreadPool("fastdist-test-pool", max_counted=8, source=source)
    pool.start()
    yield pool
    assert pool.stop(DEADLINE_S) == []


def test_work_that_the_watcher_sees_but_once_stays_on_one_thread(
    pool: ThreadPool, source: QueueSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each unit of work calls `look` once; the watcher's own schedule depends on the machine's load.
    monkeypatch.setattr(pool._watcher, "attend", lambda *, hurry: None)
    names: SimpleQueue[str] = SimpleQueue()
    seen = 0

    def be_seen() -> None:
        nonlocal seen
        seen, is_watching, _ = pool.look(seen)
        names.put(threading.current_thread().name if is_watching else "nobody")

    for _ in range(20):
        source.give(be_seen)
    assert {names.get(timeout=DEADLINE_S) for _ in range(20)} == {"fastdist-test-pool-0"}


def test_looks_become_rare_where_leaders_are_at_work_and_never_stuck(
    pool: ThreadPool, source: QueueSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool._watcher, "attend", lambda *, hurry: None)
    naps_s: SimpleQueue[float] = SimpleQueue()
    seen = 0

    def be_seen(times: int) -> None:
        nonlocal seen
        for _ in range(times):
            seen, _, nap_s = pool.look(seen)
        naps_s.put(nap_s)

    def next_naps(count: int) -> list[float]:
        return [naps_s.get(timeout=DEADLINE_S) for _ in range(count)]

    for _ in range(LOOKS_IN_VAIN + 9):
        source.give(functools.partial(be_seen, 1))
    source.give(functools.partial(be_seen, 2))  # two checks see the same work, so it is stuck
    source.give(functools.partial(be_seen, 1))
    assert next_naps(LOOKS_IN_VAIN - 1) == [LOOK_EVERY_S] * (LOOKS_IN_VAIN - 1)
    # Every second nap is short, so that the check after it can find that the same work still runs.
    assert next_naps(10) == [LOOK_EVERY_S, LAZY_LOOK_EVERY_S] * 5
    assert next_naps(2) == [LOOK_EVERY_S] * 2


def test_the_source_is_read_on_while_a_work_is_stuck(pool: ThreadPool, source: QueueSource) -> None:
    release, second_ran = threading.Event(), threading.Event()
    source.give(lambda: release.wait(DEADLINE_S))
    source.give(second_ran.set)
    assert second_ran.wait(DEADLINE_S)
    release.set()


def test_work_that_says_it_will_block_gives_the_lead_away_at_once(
    pool: ThreadPool, source: QueueSource
) -> None:
    release, second_ran = threading.Event(), threading.Event()

    def block() -> None:
        hand_on_lead()
        release.wait(DEADLINE_S)

    source.give(block)
    source.give(second_ran.set)
    assert second_ran.wait(DEADLINE_S)
    release.set()


def test_counted_work_grows_to_its_maximum_and_not_beyond(
    pool: ThreadPool, source: QueueSource
) -> None:
    running = threading.Semaphore(0)
    release = threading.Event()
    most, now, lock = 0, 0, threading.Lock()

    def hold() -> None:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        running.release()
        release.wait(DEADLINE_S)
        with lock:
            now -= 1

    assert pool.limit() == INITIAL_LIMIT
    for _ in range(12):
        pool.submit(hold)
    for _ in range(8):
        assert running.acquire(timeout=DEADLINE_S)
    assert pool.limit() == 8
    assert not running.acquire(timeout=0.05)
    release.set()
    for _ in range(4):
        assert running.acquire(timeout=DEADLINE_S)
    assert most == 8


def test_uncounted_work_never_waits_behind_counted_work(
    pool: ThreadPool, source: QueueSource
) -> None:
    release = threading.Event()
    for _ in range(20):
        source.give(lambda: release.wait(DEADLINE_S))
    for submit in (pool.submit_uncounted, lambda f: source.give(f, counted=False)):
        ran = threading.Event()
        submit(ran.set)
        assert ran.wait(DEADLINE_S)
    release.set()


class _Idle(list[threading.Lock]):
    """The locks on which idle threads wait; sets an event once `number` threads are idle."""

    def __init__(self, number: int) -> None:
        self._number, self.are_there = number, threading.Event()

    def append(self, waiter: threading.Lock) -> None:
        super().append(waiter)
        if len(self) == self._number:
            self.are_there.set()


def _all_at_once(pool: ThreadPool, number: int) -> None:
    """Run `number` units of work that wait for each other; return when their threads are idle."""
    pool._idle, together = _Idle(number), threading.Barrier(number)
    for _ in range(number):
        pool.submit_uncounted(together.wait, DEADLINE_S)
    assert pool._idle.are_there.wait(DEADLINE_S)


def test_threads_that_one_step_needed_are_there_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert thread_pool.IDLE_S >= 1
    monkeypatch.setattr(thread_pool, "IDLE_S", 10.0 * DEADLINE_S)
    pool = ThreadPool("fastdist-test-pool", max_counted=1)
    _all_at_once(pool, 12)
    idle, together = pool._idle, threading.Barrier(12)
    assert len(idle) == 12
    for _ in range(12):
        pool.submit_uncounted(together.wait, DEADLINE_S)
    assert pool.stop(DEADLINE_S) == [] and not together.broken
    assert pool._threads_made == 12


def test_threads_that_nobody_needs_for_long_end_but_for_a_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_pool, "IDLE_S", 10.0 * DEADLINE_S)
    pool = ThreadPool("fastdist-test-pool", max_counted=1)
    _all_at_once(pool, 12)
    monkeypatch.setattr(thread_pool, "IDLE_S", 0.01)
    together = threading.Barrier(12)
    for _ in range(12):
        pool.submit_uncounted(together.wait, DEADLINE_S)
    with pool._lock:
        assert pool._all_left.wait_for(lambda: len(pool._threads) <= 4, DEADLINE_S)
    ran = threading.Event()
    assert pool.submit_uncounted(ran.set) and ran.wait(DEADLINE_S)
    assert pool.num_threads() == 4 and pool.stop(DEADLINE_S) == []


def test_a_pool_with_max_one_runs_one_user_function_at_a_time() -> None:
    pool = ThreadPool("fastdist-test-pool", max_counted=1)
    running, release = threading.Semaphore(0), threading.Event()

    def hold() -> None:
        running.release()
        release.wait(DEADLINE_S)

    pool.submit(hold), pool.submit(hold)
    assert running.acquire(timeout=DEADLINE_S)
    assert not running.acquire(timeout=0.05)
    release.set()
    assert pool.stop(DEADLINE_S) == []
    assert running.acquire(timeout=0)


def test_work_that_waits_for_other_work_lends_it_its_place() -> None:
    pool = ThreadPool("fastdist-test-pool", max_counted=1)
    ended, ran = threading.Event(), threading.Event()

    def wait_for_the_next() -> None:
        lent = lend_slot()
        assert lent is Waiting.LENT and lend_slot() is None
        ended.wait(DEADLINE_S)
        take_slot_back(lent)

    pool.submit(wait_for_the_next), pool.submit(ran.set)
    assert ran.wait(DEADLINE_S)
    ended.set()
    assert pool.stop(DEADLINE_S) == []
    assert pool.num_counted_running() == 0


def test_work_that_waits_for_a_future_lends_it_its_place() -> None:
    pool = ThreadPool("fastdist-test-pool", max_counted=1)
    futures = [Future[int]() for _ in range(20)]
    ended: SimpleQueue[int] = SimpleQueue()
    for future in futures:
        pool.submit(lambda future=future: ended.put(collect_all([future]).wait()[0].wait()))
    pool.submit(lambda: [future.set_result(number) for number, future in enumerate(futures)])
    assert sorted(ended.get(timeout=DEADLINE_S) for _ in futures) == list(range(20))
    assert pool.stop(DEADLINE_S) == []
    assert pool.num_counted_running() == 0


def test_uncounted_work_that_waits_lends_nothing() -> None:
    pool = ThreadPool("fastdist-test-pool", max_counted=1)
    lent: SimpleQueue[object] = SimpleQueue()
    pool.submit_uncounted(lambda: lent.put(lend_slot()))
    assert lent.get(timeout=DEADLINE_S) is None
    assert pool.stop(DEADLINE_S) == []


def test_places_are_lent_up_to_a_bound_and_then_it_is_told_that_all_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_pool, "MAX_LOANS", 6)
    pool = ThreadPool("fastdist-test-pool", max_counted=2)
    told: SimpleQueue[int] = SimpleQueue()
    pool.when_stuck = told.put
    go_on, waits = Future[None](), threading.Semaphore(0)

    def wait() -> None:
        waits.release()
        go_on.wait()

    for _ in range(8):  # 2 slots and 6 loans
        pool.submit(wait)
    for _ in range(8):
        assert waits.acquire(timeout=DEADLINE_S)
    late = threading.Event()
    pool.submit(late.set)
    assert told.get(timeout=DEADLINE_S) == 2 == pool.num_stuck()
    assert pool.num_counted_running() == 2 and not late.is_set()
    go_on.set_result(None)
    assert late.wait(DEADLINE_S) and told.empty()
    assert pool.stop(DEADLINE_S) == []
    assert pool.num_counted_running() == 0


def test_stop_runs_what_is_queued_and_refuses_what_comes_later() -> None:
    pool = ThreadPool("fastdist-test-pool", max_counted=2)
    ran: SimpleQueue[int] = SimpleQueue()
    for i in range(50):
        assert pool.submit(ran.put, i)
    assert pool.stop(DEADLINE_S) == []
    assert sorted(ran.get(timeout=0.1) for _ in range(50)) == list(range(50))
    assert not pool.submit(ran.put, 0)
    assert pool.num_threads() == 0


def test_stop_names_the_threads_that_do_not_end() -> None:
    pool = ThreadPool("fastdist-test-pool", max_counted=2)
    release, runs = threading.Event(), threading.Event()
    pool.submit(lambda: (runs.set(), release.wait(DEADLINE_S)))
    assert runs.wait(DEADLINE_S)
    assert pool.stop(0.01) == ["fastdist-test-pool-0"]
    release.set()
    assert pool.stop(DEADLINE_S) == []


def test_stop_waits_for_no_thread_that_could_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool = ThreadPool("fastdist-test-pool", max_counted=1)
    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(RuntimeError, match="can't start"):
        pool.start()
    assert pool.stop(DEADLINE_S) == []


def test_work_that_raises_is_logged_and_the_pool_lives_on(
    pool: ThreadPool, source: QueueSource, caplog: pytest.LogCaptureFixture
) -> None:
    ran = threading.Event()
    source.give(lambda: 1 / 0)
    source.give(ran.set)
    assert ran.wait(DEADLINE_S)
    # Another thread may have set `ran` before the first thread logged; `stop` waits for both.
    assert pool.stop(DEADLINE_S) == []
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("led", [True, False])
def test_work_that_exits_keeps_neither_its_place_nor_the_lead(
    pool: ThreadPool, source: QueueSource, led: bool
) -> None:
    for _ in range(2 * pool.max_counted):
        if led:
            source.give(sys.exit)
        else:
            pool.submit(sys.exit)
    ran = threading.Event()
    source.give(ran.set)
    assert ran.wait(DEADLINE_S)
    assert pool.stop(DEADLINE_S) == []
    assert pool.num_counted_running() == 0


@pytest.mark.parametrize("led", [True, False])
def test_what_a_work_was_about_does_not_outlive_it(
    pool: ThreadPool, source: QueueSource, led: bool
) -> None:
    class Thing:
        """An object that a unit of work holds."""

    for _ in range(3):
        thing, gone = Thing(), threading.Event()
        weakref.finalize(thing, gone.set)
        if led:
            source.works.put(Work(lambda _: None, thing, counted=True))
        else:
            pool.submit_uncounted(lambda _: None, thing)
        del thing
        assert gone.wait(DEADLINE_S)


def test_all_work_runs_once_under_many_submitters(pool: ThreadPool, source: QueueSource) -> None:
    ran: SimpleQueue[int] = SimpleQueue()

    def submitter(base: int) -> None:
        for i in range(base, base + 200):
            (pool.submit if i % 3 else pool.submit_uncounted)(ran.put, i)
            source.give(lambda i=i: ran.put(10_000 + i), counted=bool(i % 2))  # type: ignore[misc]

    threads = [threading.Thread(target=submitter, args=(1_000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    got = sorted(ran.get(timeout=DEADLINE_S) for _ in range(1600))
    expected = [1_000 * k + i for k in range(4) for i in range(200)]
    assert got == sorted(expected + [10_000 + i for i in expected])


def test_work_is_done_though_the_watcher_cannot_be_started_and_later_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start

    def refuse_watchers(thread: threading.Thread) -> None:
        if thread.name.endswith("-watch"):
            raise RuntimeError("can't start new thread")
        start(thread)

    pool, done = ThreadPool("fastdist-test-pool", 4), [threading.Event(), threading.Event()]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse_watchers)
        assert pool.submit(done[0].set)
        assert done[0].wait(DEADLINE_S) and not pool._watcher.awake
    assert pool.submit(done[1].set)
    assert done[1].wait(DEADLINE_S) and pool._watcher._thread is not None
    assert pool.stop(DEADLINE_S) == []


def test_a_look_that_fails_is_not_the_watchers_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Pool:
        """A pool whose method `look` raises at its first call."""

        name = "a pool of the test"
        num_looks = 0
        looked_again = threading.Event()

        def look(self, seen: int) -> tuple[int, bool, float]:
            self.num_looks += 1
            if self.num_looks == 1:
                raise RuntimeError("can't start new thread")
            self.looked_again.set()
            return seen, False, 0.001

    monkeypatch.setattr(pool_watcher, "_AFTER_FAILURE_S", 0.001)
    pool = Pool()
    watcher = pool_watcher.PoolWatcher(pool)
    watcher.attend()
    assert pool.looked_again.wait(DEADLINE_S)
    watcher.stop()
    assert "a pool of the test could not be checked for stuck threads" in caplog.text
