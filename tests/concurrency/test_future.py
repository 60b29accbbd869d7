"""A Future's guarantees to its waiters and to the code that completes it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from fastdist.concurrency.future import outcomes
from fastdist.concurrency.thread_pool import ThreadPool
from fastdist.core.errors import FutureError
from fastdist.futures import Future, collect_all, wait_all
from tests.disturbances.interrupts import each_ctrl_c
from tests.standstill import Standstill


def test_future_gives_its_value_to_every_waiter() -> None:
    future: Future[int] = Future()
    got: list[int] = []
    threads = [threading.Thread(target=lambda: got.append(future.wait(5))) for _ in range(4)]
    for thread in threads:
        thread.start()
    future.set_result(3)
    for thread in threads:
        thread.join(5)
    assert got == [3, 3, 3, 3]


def test_future_raises_its_error_in_wait_and_value() -> None:
    future: Future[int] = Future()
    future.set_exception(KeyError("k"))
    with pytest.raises(KeyError):
        future.wait()
    with pytest.raises(KeyError):
        future.value()


def test_future_refuses_an_error_that_is_no_exception() -> None:
    with pytest.raises(AssertionError, match="is of type <class 'int'>, not an Exception"):
        Future().set_exception(3)  # type: ignore[arg-type]


def test_future_refuses_to_be_completed_twice() -> None:
    future: Future[int] = Future()
    future.set_result(1)
    with pytest.raises(
        RuntimeError, match=r"^Attempting to mark a completed Future as complete again"
    ):
        future.set_result(2)
    with pytest.raises(FutureError):
        future.set_exception(ValueError())
    assert future.wait() == 1


@pytest.mark.seed("T13")
def test_future_is_completed_by_exactly_one_of_many_threads() -> None:
    for _ in range(50):
        future: Future[int] = Future()
        start = threading.Barrier(4)
        won: list[bool] = []

        def race(
            i: int,
            start: threading.Barrier = start,
            future: Future[int] = future,
            won: list[bool] = won,
        ) -> None:
            start.wait(5)
            won.append(future.try_complete(i))

        threads = [threading.Thread(target=race, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        assert sorted(won) == [False, False, False, True]


def test_value_of_a_future_that_is_not_done_says_what_to_do() -> None:
    with pytest.raises(FutureError, match="call wait"):
        Future().value()


def test_wait_stops_at_its_timeout() -> None:
    with Standstill() as stood:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            Future().wait(0.02)
    waited_s = time.monotonic() - began
    assert waited_s >= 0.019 and waited_s - stood.seconds < 1


def test_then_passes_value_and_error_on() -> None:
    future: Future[int] = Future()
    doubled = future.then(lambda done: done.value() * 2)
    broken = doubled.then(lambda done: done.value() / 0)
    future.set_result(4)
    assert doubled.wait(1) == 8
    with pytest.raises(ZeroDivisionError):
        broken.wait(1)


def test_then_of_a_future_that_is_done_runs_at_once() -> None:
    future: Future[int] = Future()
    future.set_result(1)
    assert (
        future.then(lambda done: threading.current_thread()).value() is threading.current_thread()
    )


@pytest.mark.seed("T33")
def test_callbacks_run_in_the_pool_that_the_future_was_given() -> None:
    pool = ThreadPool("fastdist-test-pool", max_counted=4)
    try:
        future: Future[int] = Future(executor=pool)
        names = future.then(lambda _: threading.current_thread().name)
        grandchild = names.then(lambda _: threading.current_thread().name)
        future.set_result(1)
        assert names.wait(5).startswith("fastdist-test-pool")
        assert grandchild.wait(5).startswith("fastdist-test-pool")
    finally:
        assert pool.stop(5) == []


def test_callbacks_run_in_the_completing_thread_once_the_pool_is_closed() -> None:
    pool = ThreadPool("fastdist-test-pool", max_counted=4)
    pool.stop(5)
    future: Future[int] = Future(executor=pool)
    thread = future.then(lambda _: threading.current_thread())
    future.set_result(1)
    assert thread.value() is threading.current_thread()


def test_an_error_in_a_done_callback_is_logged_and_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    future: Future[int] = Future()
    after: list[int] = []
    future.add_done_callback(lambda done: 1 / 0)
    future.add_done_callback(lambda done: after.append(done.value()))
    with caplog.at_level(logging.ERROR):
        future.set_result(7)
    assert after == [7]
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.seed("E43")
def test_a_callback_that_exits_keeps_nobody_else_from_hearing() -> None:
    future: Future[int] = Future()
    future.add_done_callback(lambda _: sys.exit(3))
    child = future.then(lambda done: done.value() + 1)
    with pytest.raises(SystemExit):
        future.set_result(1)
    assert child.done() and child.value() == 2


def test_waiting_lets_other_threads_go_on() -> None:
    future: Future[int] = Future()
    counted = 0

    def count() -> None:
        nonlocal counted
        while counted < 20_000:
            counted += 1
        future.set_result(counted)

    thread = threading.Thread(target=count)
    thread.start()
    assert future.wait(20) == 20_000
    thread.join(5)


def test_collect_all_waits_for_all_and_keeps_their_order() -> None:
    futures = [Future[int]() for _ in range(3)]
    together = collect_all(futures)
    for i in (2, 0, 1):
        assert not together.done()
        futures[i].set_result(i)
    assert together.wait(1) == futures
    assert wait_all(futures) == [0, 1, 2]
    assert collect_all([]).wait(1) == []


def test_collect_all_ends_at_the_first_error() -> None:
    futures = [Future[int]() for _ in range(2)]
    together = collect_all(futures)
    futures[1].set_exception(KeyError("first"))
    with pytest.raises(KeyError):
        together.wait(1)
    futures[0].set_result(0)


def test_a_failed_future_goes_away_with_its_last_user() -> None:
    future: Future[int] = Future()
    gone = weakref.ref(future)
    future.set_exception(ValueError("x"))
    gc.disable()
    try:
        with pytest.raises(ValueError, match="x"):
            future.wait()
        del future
        assert gone() is None
    finally:
        gc.enable()


def test_future_cannot_be_pickled_and_says_why() -> None:
    with pytest.raises(
        RuntimeError, match=r"^Can not pickle torch\.futures\.Future\. It belongs to"
    ):
        pickle.dumps(Future())


@pytest.mark.parametrize("method", ["then", "add_done_callback"])
def test_what_cannot_be_called_is_refused_as_a_callback(method: str) -> None:
    future: Future[int] = Future()
    words = (
        rf"^{method}\(\): incompatible function arguments\. callback is None; expected a function"
    )
    with pytest.raises(TypeError, match=words):
        getattr(future, method)(None)
    future.set_result(1)
    with pytest.raises(TypeError, match=words):
        getattr(future, method)(None)


def test_what_is_no_future_or_no_device_of_a_number_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^collect_all\(\): incompatible .* got a int: 1"):
        collect_all([Future(), 1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"^Expected devices to have indices, got cpu"):
        Future(devices=["cuda:0", 1, "cpu"])


def test_future_can_be_awaited() -> None:
    future: Future[int] = Future()

    async def user() -> int:
        threading.Timer(0.01, future.set_result, (5,)).start()
        return await future

    assert asyncio.run(user()) == 5


def test_what_is_ours_runs_where_the_future_is_completed_and_users_callbacks_in_the_pool() -> None:
    submitted: list[tuple[object, ...]] = []

    class Executor:
        def submit(self, function: Callable[..., object], *arguments: object) -> bool:
            submitted.append(arguments)
            return True

    future: Future[int] = Future(executor=Executor())
    ours: list[int] = []
    future.when_done(lambda done: ours.append(done.value()))
    future.add_done_callback(print)
    future.set_result(5)
    assert ours == [5] and submitted == [(print, future)]
    future.when_done(lambda done: ours.append(done.value() + 1))
    assert ours == [5, 6]


def test_ctrl_c_in_whoever_completes_a_future_is_kept_from_those_who_wait() -> None:
    woken: list[int] = []
    threads: list[threading.Thread] = []
    futures: list[tuple[Future[int], Future[int]]] = []

    def prepare() -> Callable[[], object]:
        future: Future[int] = Future()
        threads.append(threading.Thread(target=lambda: woken.append(future.wait(20))))
        threads[-1].start()
        while future._waiters is None:
            threading.Event().wait(0.001)
        futures.append((future, future.then(Future.value)))
        return lambda: future.set_result(3)

    for place in each_ctrl_c(prepare):
        future, child = futures[-1]
        future.try_complete(3)  # in case the interrupt came before set_result began
        threads[-1].join(10.0)
        assert len(woken) == len(threads), f"place {place}"
        assert child.done(), f"place {place}"
    threads[-1].join(10.0)


def test_a_handler_of_a_signal_may_complete_the_future_that_its_thread_waits_for() -> None:
    futures: list[Future[int]] = []

    def prepare() -> Callable[[], object]:
        future: Future[int] = Future()
        futures.append(future)

        def use() -> None:
            future.add_done_callback(lambda _: None)
            with contextlib.suppress(TimeoutError):
                future.wait(0)

        return use

    for place in each_ctrl_c(prepare, lambda: futures[-1].try_complete(3)):
        assert futures[-1].wait(0) == 3, f"place {place}"


def test_outcomes_are_waited_for_after_an_error_which_comes_with_the_later_ones() -> None:
    futures: list[Future[int]] = [Future() for _ in range(4)]
    futures[0].set_result(0)
    futures[1].set_exception(ValueError("the first"))
    futures[2].set_exception(KeyError("another"))
    late = threading.Thread(target=lambda: futures[3].set_result(3))
    late.start()
    with pytest.raises(ValueError, match="the first") as raised:
        outcomes(futures)
    assert futures[3].done()
    assert raised.value.__notes__ == ["and another failed: KeyError: 'another'"]
    late.join()
    assert outcomes([futures[0], futures[3]]) == [0, 3]


def test_a_future_whose_init_is_skipped_says_so() -> None:
    class Silent(Future[int]):
        def __init__(self) -> None:
            pass

    for use in (Silent().done, lambda: Silent().set_result(1), lambda: Silent().then(len)):
        with pytest.raises(TypeError, match="must be called when overriding __init__"):
            use()
    assert not hasattr(Future(), "missing")
