"""A worker keeps less than 1 MiB of answers for a caller that has read them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fastdist.distributed import rpc
from tests.distributed.members import members
from tests.distributed.workers import DEADLINE_S, Group, open_gate, wait_at


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 2) as group:
        yield group


def make(size: int) -> bytes:
    return bytes(size)


def lanes() -> list[Any]:
    callers = rpc._get_current_rpc_agent()._callers  # type: ignore[attr-defined]
    return [lane for one in callers._lanes.values() for lane in one.values()]


def kept() -> tuple[int, int]:
    """Return the bytes of answers kept here, and the number of calls that are remembered."""
    return sum(lane._bytes for lane in lanes()), sum(len(lane._over) for lane in lanes())


def kept_soon(most: int) -> tuple[int, int]:
    """Wait until w1 keeps at most `most` bytes, or until time is up; return `kept()` of w1."""
    deadline = time.monotonic() + DEADLINE_S / 3
    while True:
        found: tuple[int, int] = rpc.rpc_sync("w1", kept)
        if found[0] <= most or time.monotonic() > deadline:
            return found


def call_often() -> tuple[int, int]:
    for _ in range(4):
        futures = [rpc.rpc_async("w1", make, (100_000,)) for _ in range(40)]
        assert all(len(future.wait()) == 100_000 for future in futures)
    threads = [
        threading.Thread(target=rpc.rpc_sync, args=("w1", make, (1_500_000,))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return kept_soon(1 << 20)


def test_answers_that_were_read_take_less_than_a_mebibyte(group: Group) -> None:
    size_bytes, _ = group[0].run(call_often)
    assert size_bytes <= 1 << 20


def call_beside_a_long_one() -> tuple[int, int]:
    long = rpc.rpc_async("w1", wait_at, ("a long call",))
    for _ in range(4):
        for future in [rpc.rpc_async("w1", make, (10,)) for _ in range(600)]:
            future.wait()
    found = kept_soon(1 << 20)
    rpc.rpc_sync("w1", open_gate, ("a long call",))
    long.wait()
    return found


@pytest.mark.one_in(8)
def test_one_call_that_runs_for_long_keeps_nothing_of_the_others(group: Group) -> None:
    _, num_over = group[0].run(call_beside_a_long_one)
    assert num_over <= 1200  # of 2,400 calls; the other calls were acknowledged
