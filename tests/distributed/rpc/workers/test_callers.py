"""The connection that is used for a caller's lane when several are read in any order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.core.errors import RpcError
from fastdist.distributed.rpc.message.limits import Limits
from fastdist.distributed.rpc.workers.callers import Callers
from fastdist.distributed.rpc.workers.record import Record


class Life:
    """The attributes of a worker's life that Callers uses."""

    name = "w1"

    lender = None


class Listener:
    """A listener that knows every connection except those in `ended`."""

    def __init__(self) -> None:
        self.ended: set[bytes] = set()

    def knows(self, route: bytes) -> bool:
        return route not in self.ended


def callers_of(listener: Any) -> Callers:
    limits = Limits(connections=9)
    return Callers(listener, Record("w0", 0, 2, 100, {}, {}, "none", limits=limits))


@pytest.fixture
def caller() -> Any:
    return Life()


def test_a_later_connection_takes_the_place_of_the_earlier_one(caller: Any) -> None:
    callers = callers_of(Listener())
    callers.greeted(caller, 0, b"first", 1)
    lane = callers.by_route[b"first"]
    callers.greeted(caller, 0, b"second", 2)
    assert callers.by_route == {b"second": lane}
    assert lane.route == b"second"


def test_an_earlier_connection_that_is_read_later_is_not_listened_to(caller: Any) -> None:
    callers = callers_of(Listener())
    callers.greeted(caller, 0, b"second", 2)
    callers.greeted(caller, 0, b"first", 1)
    assert list(callers.by_route) == [b"second"]
    assert callers.by_route[b"second"].route == b"second"


def test_lanes_of_a_caller_have_connections_of_their_own(caller: Any) -> None:
    callers = callers_of(Listener())
    callers.greeted(caller, 0, b"shared", 2)
    callers.greeted(caller, 3, b"own", 1)
    assert set(callers.by_route) == {b"shared", b"own"}


def test_forget_drops_all_of_a_life_and_a_greeting_what_has_ended(caller: Any) -> None:
    listener = Listener()
    callers = callers_of(listener)
    callers.greeted(caller, 0, b"shared", 1)
    listener.ended.add(b"shared")
    callers.greeted(caller, 3, b"own", 2)
    assert list(callers.by_route) == [b"own"]
    callers.forget(Life())  # type: ignore[arg-type]
    assert callers.by_route
    callers.forget(caller)
    assert not callers.by_route


def test_a_caller_that_numbers_its_lanes_without_end_is_refused_and_not_remembered(
    caller: Any,
) -> None:
    callers = callers_of(Listener())
    for number in range(9):
        callers.greeted(caller, number, b"%d" % number, number)
    for number in (9, 10, 65_535):
        with pytest.raises(RpcError, match=f"'w1' greets by lane {number}; a member has 9"):
            callers.greeted(caller, number, b"%d" % number, number)
    assert len(callers.by_route) == len(callers._lanes[caller]) == 9


def test_a_thousand_connections_are_taken_in_by_looks_that_do_not_grow_with_their_square() -> None:
    class Counting(Listener):
        num_looks = 0

        def knows(self, route: bytes) -> bool:
            self.num_looks += 1
            return super().knows(route)

    looks = []
    for count in (1000, 2000):
        listener = Counting()
        callers = callers_of(listener)
        for number in range(count):
            callers.greeted(Life(), 0, b"%d" % number, 1)  # type: ignore[arg-type]
        looks.append(listener.num_looks)
    assert looks[1] <= 2.5 * looks[0] and looks[1] < 20 * 2000


def test_many_connections_that_have_ended_are_forgotten() -> None:
    listener = Listener()
    callers = callers_of(listener)
    for number in range(3000):
        route = b"%d" % number
        callers.greeted(Life(), 0, route, 1)  # type: ignore[arg-type]
        listener.ended.add(route)
    assert len(callers.by_route) < 200


def test_a_greeting_that_comes_twice_changes_nothing(caller: Any) -> None:
    broke: list[None] = []
    caller.lender = SimpleNamespace(connection_broke=lambda: broke.append(None))
    callers = callers_of(Listener())
    callers.greeted(caller, 0, b"first", 1)
    callers.greeted(caller, 0, b"second", 2)
    for route in (b"first", b"second", b"a third"):
        for count in (1, 2):
            callers.greeted(caller, 0, route, count)
    assert list(callers.by_route) == [b"second"] and len(broke) == 1
