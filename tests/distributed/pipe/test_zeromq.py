"""A listener remembers only as many unauthenticated connections as can exist at a time."""

from __future__ import annotations

import time

import pytest

from fastdist.distributed.pipe.context import Context
from fastdist.distributed.pipe.transports import zeromq
from fastdist.distributed.sockets import Doorbell


def test_connections_that_come_and_go_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeromq, "_MOST_ROUTES", 8)
    context, bell = Context(["ipc"]), Doorbell()
    listener = context.listen("listener of the test")
    lanes = []
    for number in range(30):
        lanes.append(context.connect("ipc", listener.addresses["ipc"], bell, "rank:1"))
        lanes[-1].send([b"%d" % number], time.monotonic() + 10)
        received = listener.receive(time.monotonic() + 10)
        assert received is not None and received.frames == [b"%d" % number]
        assert len(listener._ranks) <= 8
    # The first connection still works, although the listener has forgotten it.
    lanes[0].send([b"again"], time.monotonic() + 10)
    received = listener.receive(time.monotonic() + 10)
    assert received is not None and received.frames == [b"again"]
    assert listener.reply(received.route, [b"heard"])
    assert lanes[0].receive(time.monotonic() + 10) == [b"heard"]
    for lane in lanes:
        lane.close()
    listener.close()
    bell.close()
