"""A failed call whose result is never read is logged once, at one of the two ends."""

from __future__ import annotations

import gc
import logging
import threading
from typing import Any

import pytest

from fastdist.distributed import rpc
from tests.distributed.members import init
from tests.distributed.workers import open_gate, run_group, wait_at, wait_for_arrivals


class Heard(logging.Handler):
    """Collects the unread errors of this process, as pairs of a log message and an error text."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.told: list[tuple[str, str]] = []
        self.changed = threading.Condition()
        logging.getLogger("fastdist.unread_errors").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        assert record.exc_info is not None
        with self.changed:
            self.told.append((record.getMessage(), str(record.exc_info[1])))
            self.changed.notify_all()

    def next_one(self) -> tuple[str, str]:
        with self.changed:
            assert self.changed.wait_for(lambda: self.told, 20)
            return self.told.pop(0)


heard: list[Heard] = []


def fail(text: str) -> None:
    raise ValueError(text)


@rpc.functions.async_execution
def fail_later(text: str) -> Any:
    return rpc.rpc_async("w0", fail, (text,))


def fail_when_nobody_waits(text: str) -> None:
    wait_at(text)
    raise ValueError(text)


def heard_here() -> tuple[str, str]:
    return heard[0].next_one()


def num_heard() -> int:
    gc.collect()
    return len(heard[0].told)


def drop_what_fails() -> None:
    heard.append(Heard())
    if init() == 0:
        dropped()
        read()
        given_up()
    rpc.shutdown()
    assert num_heard() == 0


def dropped() -> None:
    there = ("w1", heard_here)
    rpc.rpc_async("w1", fail, ("a call",)).wait_until_done()
    what, error = heard_here()
    assert what.startswith("the call fail on worker 'w1' (rank 1) failed") and "a call" in error
    rpc.rpc_async("w1", fail_later, ("an async call",)).wait_until_done()
    assert "an async call" in heard_here()[1]
    # A callback of then() that reads the error and raises it again is a new failure.
    rpc.rpc_async("w1", fail, ("then",)).then(lambda done: done.wait()).wait_until_done()
    what, error = heard_here()
    assert what.startswith("the callback dropped.<locals>.<lambda> of then() failed")
    for function in (fail, fail_later):
        rref: Any = rpc.remote("w1", function, ("a reference",))
        rref._get_future().wait()
        del rref
        what, error = rpc.rpc_sync(*there)
        assert what.startswith("a call of rpc.remote() of worker 'w0' that runs here failed")
        assert "a reference" in error
    late = rpc.remote("w1", wait_at, ("late",), timeout=0.05)
    creation = late._get_future()
    assert creation is not None and creation.wait_until_done(20)
    del late, creation
    what, error = heard_here()
    assert what.startswith("the call wait_at on worker 'w1' (rank 1) failed")
    rpc.rpc_sync("w1", open_gate, ("late",))


def read() -> None:
    """Read each error, at the caller or at another worker that holds the reference."""
    future = rpc.rpc_async("w1", fail, ("mine",))
    future.wait_until_done()
    assert isinstance(future.exception(), ValueError)
    future = rpc.rpc_async("w1", fail, ("mine",))
    future.then(lambda done: 1).wait()
    rref = rpc.remote("w1", fail, ("mine",))
    with pytest.raises(ValueError, match="mine"):
        rref.to_here()
    with pytest.raises(ValueError, match="mine"):
        rpc.rpc_sync("w1", use_reference, (rref,))


def use_reference(rref: Any) -> None:
    rref.local_value()


def given_up() -> None:
    """Let a call time out and fail later: the caller gets the timeout, not the later error."""
    future = rpc.rpc_async("w1", fail_when_nobody_waits, ("given up",), timeout=0.05)
    assert isinstance(future.exception() if future.wait_until_done(20) else None, TimeoutError)
    rpc.rpc_sync("w1", wait_for_arrivals, ("given up", 1))
    rpc.rpc_sync("w1", open_gate, ("given up",))
    what, error = rpc.rpc_sync("w1", heard_here)
    assert what.startswith("a call of worker 'w0', which no longer waits, failed")
    assert error == "given up"


@pytest.mark.one_in(4)
def test_what_fails_and_nobody_reads_is_logged_once_and_what_was_read_is_not() -> None:
    run_group(drop_what_fails, 2)
