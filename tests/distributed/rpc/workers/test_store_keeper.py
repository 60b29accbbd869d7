"""The keeper of a group's store checks the store once for all lost members."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fastdist.core.errors import StoreError
from fastdist.distributed.rpc.workers.directory import keys_of_group
from fastdist.distributed.rpc.workers.group import Group
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.rpc.workers.store_keeper import StoreKeeper
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.store import HashStore, PrefixStore, TCPStore
from tests.standstill import Standstill

RECORDS = [Record(f"w{rank}", rank, 0, 100 + rank, {}, {}, "none") for rank in range(2)]
LOST: list[Any] = [SimpleNamespace(record=record, why_lost="killed") for record in RECORDS]


class Alarms(list[Callable[[], None]]):
    """A stand-in for Workers; the test runs the work that it delays."""

    group: Any = None
    me = RECORDS[1]

    def refresh(self) -> None:
        """Do nothing."""

    def call_after(self, seconds: float, function: Callable[[], None]) -> None:
        self.append(function)


def test_who_is_lost_during_a_look_is_looked_after_next_and_nobody_after_that() -> None:
    alarms = Alarms()
    keys = PrefixStore("group", HashStore())
    looks: list[int] = []

    def is_needed() -> bool:
        looks.append(len(looks))
        if len(looks) == 1:
            keeper.handle_lost(LOST[1])
        return False

    unused: Any = None
    keeper = StoreKeeper(keys, unused, alarms, is_needed)
    keeper.handle_lost(LOST[0])
    for expected in (1, 2):
        (look,) = alarms
        alarms.clear()
        look()
        assert len(looks) == expected
    assert not alarms
    keeper.handle_lost(LOST[0])
    assert len(alarms) == 1


@pytest.mark.one_in(4)
def test_where_nobody_can_host_the_store_yet_it_is_tried_again_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cannot(store: TCPStore) -> bool:
        raise StoreError("its port is that of a process that is still ending")

    alarms, secret = Alarms(), JobSecret.generate()
    host = TCPStore("127.0.0.1", 0, is_master=True, secret=secret)
    # The store's timeout is much longer than a check may last, since a restarted worker waits for
    # the next check.
    with closing(TCPStore("127.0.0.1", host.port, timeout=120, secret=secret)) as served:
        host.close()
        keys = keys_of_group(served, 0)
        alarms.group = group = Group(keys, RECORDS[1])
        keeper = StoreKeeper(keys, served, alarms, lambda: True)
        keeper.handle_lost(LOST[0])
        began = time.monotonic()
        with monkeypatch.context() as patch, Standstill() as stood:
            patch.setattr(TCPStore, "host_instead", cannot)
            alarms.pop()()
        assert time.monotonic() - began - stood.seconds < 30
        alarms.pop()()
        assert [member.name for member in group.read_members()] == ["w1"]


def test_a_look_that_fails_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise KeyError("a mistake of ours")

    alarms, unused = Alarms(), cast(Any, None)
    keeper = StoreKeeper(PrefixStore("group", HashStore()), unused, alarms, lambda: True)
    keeper.handle_lost(LOST[0])
    monkeypatch.setattr(keeper, "_keep", fail)
    with pytest.raises(KeyError):  # in a real worker the pool logs this error
        alarms.pop()()
    monkeypatch.setattr(keeper, "_keep", lambda lost: True)
    alarms.pop()()
    assert not alarms
    keeper.handle_lost(LOST[1])
    assert len(alarms) == 1
