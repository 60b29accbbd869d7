"""Messages from other machines: their order, how long they are kept, and dropped messages."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.core.errors import CollectiveError
from fastdist.distributed.links import wire
from fastdist.distributed.links.alarm import Alarm
from fastdist.distributed.links.inbox import Inbox
from fastdist.distributed.links.wire import Head


class Late(Exception):
    """Raised by a wait in which no message arrives."""


def look(missing: list[int], grace_s: float) -> float:
    raise Late(missing, grace_s)


NOW: Any = SimpleNamespace(look=look)


def put(inbox: Inbox, turn: int, body: bytes, sender: int = 1, step: int = 0) -> None:
    inbox.put(Head(wire.DATA, 7, sender, turn, step), [body])


def test_messages_of_one_sender_and_step_are_taken_in_the_order_of_their_arrival() -> None:
    inbox = Inbox(Alarm())
    inbox.begin(5)
    put(inbox, 5, b"first")
    put(inbox, 5, b"second")
    put(inbox, 5, b"of another", sender=2)
    put(inbox, 5, b"of a later step", step=1)
    assert inbox.has(1, 5, wire.DATA, 0) and not inbox.has(1, 5, wire.MEET, 0)
    for sender, step, body in ((1, 1, b"of a later step"), (1, 0, b"first"), (1, 0, b"second")):
        assert inbox.take(sender, 5, wire.DATA, step, NOW)[1] == [body]
    assert not inbox.has(1, 5, wire.DATA, 0)
    with pytest.raises(Late) as raised:
        inbox.take(1, 5, wire.DATA, 0, NOW, 0.25)
    assert raised.value.args == ([1], 0.25)
    head, body = inbox.take(2, 5, wire.DATA, 0, NOW)
    assert head.sender == 2 and body == [b"of another"]


@pytest.mark.parametrize(
    ("turn", "is_kept"), [(3, False), (4, False), (5, True), (6, True), (7, True), (8, False)]
)
def test_a_message_is_kept_for_this_turn_and_the_next_two(turn: int, is_kept: bool) -> None:
    inbox = Inbox(Alarm())
    inbox.begin(5)
    put(inbox, turn, b"it")
    assert inbox.has(1, turn, wire.DATA, 0) == is_kept


def test_a_new_turn_forgets_what_is_of_earlier_ones() -> None:
    inbox = Inbox(Alarm())
    for turn in (0, 1, 2):
        put(inbox, turn, b"it")
    inbox.begin(1)
    assert [inbox.has(1, turn, wire.DATA, 0) for turn in (0, 1, 2)] == [False, True, True]


def test_a_wait_ends_with_a_message_and_with_the_alarm() -> None:
    alarm = Alarm()
    inbox = Inbox(alarm)
    waits = threading.Event()

    def later(missing: list[int], grace_s: float) -> float:
        waits.set()
        return 10.0

    patient: Any = SimpleNamespace(look=later)
    for action, expected in (
        (lambda: put(inbox, 0, b"it"), b"it"),
        (lambda: alarm.set(CollectiveError("it ended")), None),
    ):
        waits.clear()
        thread = threading.Thread(target=lambda do=action: (waits.wait(5.0), do()))
        thread.start()
        if expected is None:
            with pytest.raises(CollectiveError, match="it ended"):
                inbox.take(1, 0, wire.DATA, 0, patient)
        else:
            assert inbox.take(1, 0, wire.DATA, 0, patient)[1] == [expected]
        thread.join()
    # Messages sent before the group's end are still returned.
    put(inbox, 0, b"late")
    assert inbox.take(1, 0, wire.DATA, 0, NOW)[1] == [b"late"]
