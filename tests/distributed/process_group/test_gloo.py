"""ProcessGroupGloo: a group created from a store, without a default group."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist


def test_members_meet_in_a_store_and_reduce() -> None:
    store, found = dist.HashStore(), [fd.zeros(0)] * 2

    def member(rank: int) -> None:
        group = dist.ProcessGroupGloo(store, rank, 2, timedelta(seconds=20))
        x = fd.full((3,), rank + 1.0)
        group.allreduce(x).wait()
        found[rank] = x
        group.shutdown()

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [one.tolist() for one in found] == [[3.0] * 3] * 2


def test_options_hold_the_timeout_in_seconds_or_as_a_timedelta() -> None:
    options: Any = dist.ProcessGroupGloo._Options()
    options._timeout = 50.0
    options._devices = [dist.ProcessGroupGloo.create_device(interface="lo")]
    group = dist.ProcessGroupGloo(dist.HashStore(), 0, 1, options)
    assert group.options._timeout == timedelta(seconds=50) == group._timeout
    assert "lo" in repr(options._devices[0])
    group._set_default_timeout(timedelta(seconds=23))
    assert group.options._timeout == timedelta(seconds=23) == group._timeout
    with pytest.raises(ValueError, match="rank 1 is not one of a group of 1"):
        dist.ProcessGroupGloo(dist.HashStore(), 1, 1)
    group.shutdown()
