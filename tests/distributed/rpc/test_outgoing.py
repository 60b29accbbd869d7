"""A call ends once, whoever comes first, and its time is in whole milliseconds."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fastdist.core.errors import RpcError
from fastdist.core.future import Future
from fastdist.distributed.rpc.outgoing import Call, whole_ms


def call_under_way() -> tuple[Call, list[bool]]:
    """Return a call of which nothing is known but how it ends, and the ends that were told."""
    call, ends = object.__new__(Call), list[bool]()
    call.token, call.future = [True], Future()
    call.finish = lambda _, received_bytes, failed: ends.append(failed)
    return call, ends


@pytest.mark.seed("T13")
def test_of_an_answer_and_a_timeout_the_first_counts_and_is_told_alone() -> None:
    call, ends = call_under_way()
    assert call.end("answer", None) and not call.end(None, RpcError("too late"))
    assert call.future.value() == "answer" and ends == [False]
    call, ends = call_under_way()
    call.fail(RpcError("gone"))
    assert not call.end("too late", None) and ends == [True]
    with pytest.raises(RpcError, match="gone"):
        call.future.value()


@pytest.mark.seed("T13")
def test_threads_that_end_a_call_at_once_end_it_once() -> None:
    for _ in range(50):
        (call, ends), together, won = call_under_way(), threading.Barrier(4), list[bool]()

        def race(call: Any = call, together: Any = together, won: Any = won) -> None:
            together.wait(10)
            won.append(call.end(1, None))

        threads = [threading.Thread(target=race) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert sorted(won) == [False, False, False, True] and ends == [False]


@pytest.mark.seed("T20")
@pytest.mark.parametrize(
    ("timeout_s", "ms"), [(0, 0), (1e-9, 1), (0.0019, 1), (0.57, 570), (60, 60_000)]
)
def test_a_timeout_is_in_whole_milliseconds(timeout_s: float, ms: int) -> None:
    assert whole_ms(timeout_s) == ms
