"""A `_wait_all` block waits for the calls of its thread; nested blocks, and errors."""

from __future__ import annotations

import pytest

from fastdist.concurrency.future import Future
from fastdist.distributed.rpc import api


def note(future: Future[int]) -> None:
    """A stand-in for rpc_async: register a Future with the innermost block."""
    api._thread_local_var.future_list.append(future)


def done(error: Exception | None = None) -> Future[int]:
    future = Future[int]()
    future.try_complete(1, error)
    return future


def test_a_block_inside_another_waits_for_its_own_calls_and_gives_the_outer_one_back() -> None:
    with api._wait_all():
        outer = api._thread_local_var.future_list
        with pytest.raises(ValueError, match="inner"), api._wait_all():
            note(done(ValueError("inner")))
        assert api._thread_local_var.future_list is outer == []
    assert not hasattr(api._thread_local_var, "future_list")


def block(error: BaseException, *calls: Future[int]) -> None:
    with api._wait_all():
        for call in calls:
            note(call)
        raise error


def test_the_error_of_a_block_is_not_hidden_by_those_of_its_calls() -> None:
    with pytest.raises(KeyError, match="mine") as told:
        block(KeyError("mine"), done(ValueError("of a call")), done())
    assert told.value.__notes__ == ["and a call of the block failed: ValueError: of a call"]
    assert not hasattr(api._thread_local_var, "future_list")


def test_a_block_that_is_interrupted_waits_for_nothing() -> None:
    with pytest.raises(KeyboardInterrupt):
        block(KeyboardInterrupt(), Future())
    assert not hasattr(api._thread_local_var, "future_list")
