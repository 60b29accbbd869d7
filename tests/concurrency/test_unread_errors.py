"""A Future logs an unread error once, when it is dropped; a read error is never logged."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastdist.concurrency.future import InternalFuture
from fastdist.concurrency.thread_pool import ThreadPool
from fastdist.futures import Future, collect_all, wait_all

Log = pytest.LogCaptureFixture


def raised(text: str) -> ValueError:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def failed(error: str | Exception = "mine") -> Future[int]:
    future = Future[int]()
    future.set_exception(ValueError(error) if isinstance(error, str) else error)
    return future


def warnings_of(caplog: Log) -> list[logging.LogRecord]:
    return [one for one in caplog.records if one.name == "fastdist.unread_errors"]


def test_an_error_that_nobody_reads_is_logged_once_with_its_traceback(caplog: Log) -> None:
    failed(raised("mine"))
    gc.collect()
    (one,) = warnings_of(caplog)
    assert one.levelno == logging.WARNING
    assert "the work of a Future failed, and nobody has read its error" in one.getMessage()
    assert one.exc_info is not None and str(one.exc_info[1]) == "mine"
    assert "in raised" in caplog.text and "raise ValueError(text)" in caplog.text


def test_the_text_of_an_error_cannot_pose_as_a_line_of_the_log(caplog: Log) -> None:
    failed(raised("x\n2026-01-01 ERROR forged\r\x1b[2J"))
    gc.collect()
    assert "\\r\\x1b[2J" in caplog.text and "\n2026-01-01" not in caplog.text


def read_by_wait(future: Future[int]) -> None:
    with pytest.raises(ValueError, match="mine"):
        future.wait()


def read_by_value(future: Future[int]) -> None:
    with pytest.raises(ValueError, match="mine"):
        future.value()


def read_by_asyncio(future: Future[int]) -> None:
    async def read() -> None:
        with pytest.raises(ValueError, match="mine"):
            await future

    asyncio.run(read())


def read_by_wait_all(future: Future[int]) -> None:
    with pytest.raises(ValueError, match="mine"):
        wait_all([future])


READERS: list[Callable[[Future[int]], object]] = [
    read_by_wait,
    read_by_value,
    read_by_asyncio,
    lambda future: future.exception(),
    lambda future: future.then(lambda done: 5),
    lambda future: future.add_done_callback(lambda done: None),
    read_by_wait_all,
    lambda future: collect_all([future]).exception(),
]


@pytest.mark.parametrize("read", READERS)
def test_an_error_that_was_read_is_not_logged(
    read: Callable[[Future[int]], object], caplog: Log
) -> None:
    read(failed())
    gc.collect()
    assert warnings_of(caplog) == []


def test_a_callback_that_was_there_before_the_error_is_a_reader(caplog: Log) -> None:
    future = Future[int]()
    future.add_done_callback(lambda done: None)
    future.set_exception(ValueError("mine"))
    del future
    assert warnings_of(caplog) == []


def test_what_only_asks_whether_it_is_done_reads_nothing(caplog: Log) -> None:
    future = failed()
    assert future.done() and future.wait_until_done() and future.peek_error() is not None
    future.when_done(lambda done: None)
    del future
    assert len(warnings_of(caplog)) == 1


def raise_it(done: Future[int]) -> int:
    return done.wait()


def test_a_callback_of_then_that_raises_is_named_once(caplog: Log) -> None:
    failed().then(raise_it).then(raise_it)
    gc.collect()
    (one,) = warnings_of(caplog)
    assert one.getMessage().startswith("the callback raise_it of then() failed")


def test_the_child_of_then_is_freed_at_once_though_it_failed(caplog: Log) -> None:
    gc.disable()
    try:
        future = Future[int]()
        future.set_result(1)
        future.then(lambda done: 1 // 0)
        assert len(warnings_of(caplog)) == 1
    finally:
        gc.enable()


def test_an_error_that_came_too_late_to_complete_it_is_not_logged(caplog: Log) -> None:
    future = Future[int]()
    future.set_result(1)
    assert not future.try_complete(error=ValueError("mine"))
    del future
    assert warnings_of(caplog) == []


def test_futures_of_our_own_and_those_that_follow_them_are_not_logged(caplog: Log) -> None:
    InternalFuture[int]().set_exception(ValueError("mine"))
    future = InternalFuture[int]()
    future.set_exception(ValueError("mine"))
    future.then(raise_it)
    gc.collect()
    assert warnings_of(caplog) == []


@pytest.mark.parametrize("variable", ["0", "1", ""])
def test_a_variable_of_the_environment_silences_all_of_it(
    variable: str, caplog: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDIST_UNREAD_ERRORS", variable)
    failed()
    assert len(warnings_of(caplog)) == (variable != "0")


def test_each_is_logged_once_though_many_threads_complete_read_and_drop_them(caplog: Log) -> None:
    pool = ThreadPool("fastdist-test-pool", max_counted=4)

    def one(number: int) -> None:
        future = Future[int](executor=pool)
        if number % 2:
            future.add_done_callback(lambda done: None)
        completes = threading.Thread(target=future.set_exception, args=(ValueError(str(number)),))
        completes.start()
        future.wait_until_done()
        completes.join()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(one, range(100)))
    assert pool.stop(10) == []
    gc.collect()
    told = sorted(int(str(one.exc_info[1])) for one in warnings_of(caplog) if one.exc_info)
    assert told == list(range(0, 100, 2))


def test_nothing_is_logged_while_the_interpreter_ends() -> None:
    program = (
        "from fastdist.futures import Future\n"
        "kept = [Future() for _ in range(100)]\n"
        "for one in kept: one.set_exception(ValueError('mine'))\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_errors_of_collected_futures_that_nobody_reads_are_one_warning_with_all(
    caplog: Log,
) -> None:
    members = [failed(raised(text)) for text in ("first", "second", "third")]
    members[1].describe_failure("the call of the second")
    collect_all(members)
    del members
    gc.collect()
    (one,) = warnings_of(caplog)
    assert "each of 3 Futures (the call of the second, the work of a Future) failed" in (
        one.getMessage()
    )
    assert all(f"ValueError: {text}" in caplog.text for text in ("first", "second", "third"))


def test_later_errors_are_logged_where_only_the_first_was_read(caplog: Log) -> None:
    members = [failed("mine"), failed("second"), Future[int](), Future[int]()]
    with pytest.raises(ValueError, match="mine"):
        wait_all(members)
    members[2].set_result(5)
    members[3].set_exception(ValueError("last"))
    del members
    gc.collect()
    (one,) = warnings_of(caplog)
    assert one.exc_info is not None and isinstance(one.exc_info[1], ExceptionGroup)
    assert [str(error) for error in one.exc_info[1].exceptions] == ["second", "last"]


def test_an_error_that_is_read_from_its_own_future_is_not_logged_with_the_collected(
    caplog: Log,
) -> None:
    members = [failed("mine"), failed("second"), failed("third")]
    together = collect_all(members)
    assert together.exception() is not None and members[1].exception() is not None
    del members, together
    gc.collect()
    (one,) = warnings_of(caplog)
    assert one.exc_info is not None and str(one.exc_info[1]) == "third"
