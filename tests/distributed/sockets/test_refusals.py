"""Rejections, derived from a monitor's events: which peers were rejected, and what is reported."""

from __future__ import annotations

import logging
import time

import pytest
import zmq

from fastdist.distributed.sockets import Refusals, refusals
from fastdist.distributed.sockets.events import (
    ACCEPTED,
    DISCONNECTED,
    HANDSHAKE_FAILED,
    MISMATCHED,
    SocketEvent,
)

AT = "tcp://10.0.0.1:4410"
OTHER_KEY = int(zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
MALFORMED = int(zmq.PROTOCOL_ERROR_ZMTP_MALFORMED_COMMAND_HELLO)


class Door:
    """A Refusals object that the test feeds with events.

    Each descriptor belongs to a host. A list stands for the kernel's table of closed connections.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[tuple[int, str]] = []
        self.closed: list[tuple[str, int]] = []
        self.hosts: dict[int, str] = {}
        self.refusals = Refusals(lambda level, line: self.lines.append((level, line)))
        monkeypatch.setattr(refusals, "other_end", self._other_end)
        monkeypatch.setattr(refusals, "ends_closed_here", lambda port, within_s: self.closed)

    def _other_end(self, descriptor: int, port: int) -> tuple[str, int] | None:
        assert port == 4410
        host = self.hosts.get(descriptor)
        return None if host is None else (host, 50_000 + descriptor)

    def come(self, descriptor: int, host: str | None) -> None:
        if host is not None:
            self.hosts[descriptor] = host
        self.refusals.happened(SocketEvent(ACCEPTED, AT, descriptor))

    def end(self, descriptor: int, *failure: tuple[str, int]) -> None:
        for kind, value in failure:
            self.refusals.happened(SocketEvent(kind, AT, value))
        self.refusals.happened(SocketEvent(DISCONNECTED, AT, descriptor))


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Door:
    return Door(monkeypatch)


def test_one_line_is_told_of_a_host_and_a_reason(door: Door) -> None:
    for descriptor in range(3):
        door.come(descriptor, "10.0.0.7")
        door.end(descriptor, (MISMATCHED, OTHER_KEY))
    door.come(3, "10.0.0.7")
    door.end(3, (HANDSHAKE_FAILED, 104))
    assert [level for level, _ in door.lines] == [logging.WARNING, logging.INFO]
    assert door.refusals.summary() == [
        f"3 from 10.0.0.7: {refusals.OTHER_KEY.text}",
        f"1 from 10.0.0.7: {refusals.SAID_NOTHING.text}",
    ]


def test_rubbish_within_the_protocol_is_no_alarm(door: Door) -> None:
    door.come(1, "10.0.0.7")
    door.end(1, (MISMATCHED, MALFORMED))
    assert [level for level, _ in door.lines] == [logging.INFO]


def test_the_end_of_a_member_is_no_refusal_whether_it_has_spoken_or_not(door: Door) -> None:
    for descriptor in (1, 2):
        door.come(descriptor, "10.0.0.7")
        door.refusals.judged("10.0.0.7", may_enter=True)
    door.refusals.spoke(1, "10.0.0.7")
    door.end(1)
    door.end(2)
    assert door.refusals.summary() == [] and door.lines == []
    door.come(3, "10.0.0.7")
    door.end(3)
    assert door.refusals.summary() == [f"1 from 10.0.0.7: {refusals.OTHER_PROTOCOL.text}"]


def test_the_knock_of_a_member_is_no_refusal(door: Door) -> None:
    door.come(1, "10.0.0.7")
    door.refusals.judged("10.0.0.7", may_enter=True)
    door.refusals.spoke(1, "10.0.0.7")
    for host in ("10.0.0.7", "10.0.0.8"):
        door.come(2, host)
        door.end(2, (HANDSHAKE_FAILED, 104))
    assert door.refusals.summary() == [f"1 from 10.0.0.8: {refusals.SAID_NOTHING.text}"]


def test_who_was_refused_by_its_key_is_counted_once(door: Door) -> None:
    door.come(1, "10.0.0.7")
    door.refusals.judged("10.0.0.7", may_enter=False)
    door.end(1)
    assert door.refusals.summary() == [f"1 from 10.0.0.7: {refusals.NO_MEMBER.text}"]


def test_who_was_gone_before_it_could_be_asked_is_found_among_those_that_were_hung_up_on(
    door: Door,
) -> None:
    door.come(1, None)
    door.end(1, (MISMATCHED, OTHER_KEY))
    assert door.refusals.look(time.monotonic()) is not None and door.lines == []
    door.closed.append(("10.0.0.8", 40_000))
    assert door.refusals.summary() == [f"1 from 10.0.0.8: {refusals.OTHER_KEY.text}"]
    assert door.refusals.look(time.monotonic()) is None and "10.0.0.8" in door.lines[0][1]


def test_an_address_that_is_not_found_is_not_waited_for_for_long(door: Door) -> None:
    door.come(1, None)
    began = time.monotonic()
    door.end(1, (MISMATCHED, OTHER_KEY))
    while door.refusals.look(time.monotonic()) is not None:
        assert time.monotonic() - began < 10
    assert "an unknown address" in door.lines[0][1]


def test_without_keys_only_another_security_is_told(door: Door) -> None:
    door.refusals.asks_for_keys = False
    door.come(1, "10.0.0.7")
    door.end(1)
    door.come(2, "10.0.0.7")
    door.end(2, (MISMATCHED, int(zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)))
    assert door.refusals.summary() == [f"1 from 10.0.0.7: {refusals.OTHER_SECURITY.text}"]
