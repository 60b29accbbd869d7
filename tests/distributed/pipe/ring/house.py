"""A listener that accepts rings, and its callers, in one process."""

from __future__ import annotations

import socket
import time

from fastdist.distributed.pipe.context import Context
from fastdist.distributed.pipe.lane import Lane
from fastdist.distributed.pipe.listener import Received
from fastdist.distributed.pipe.ring import meeting
from fastdist.distributed.pipe.ring.lane import RingLane
from fastdist.distributed.pipe.ring.watched import WatchedRingLane
from fastdist.distributed.pipe.transports.zeromq import ZmqListener
from fastdist.distributed.sockets import Doorbell


class House:
    """A listener that accepts rings, and its callers."""

    def __init__(self) -> None:
        self.context = Context(["shm", "ipc"])
        self.listener: ZmqListener = self.context.listen("listener of a test")
        self.address = self.listener.addresses["shm"]
        self.path = meeting.path_of(self.address)
        self.closed = Doorbell()
        self.things: list[Lane | socket.socket] = []

    def lane(self, *, watched: bool = False) -> Lane:
        lane = self.context.connect("shm", self.address, self.closed, "rank:0", watched=watched)
        self.things.append(lane)
        return lane

    def ring(self) -> RingLane:
        lane = self.lane()
        assert isinstance(lane, RingLane)
        return lane

    def watched(self) -> WatchedRingLane:
        lane = self.lane(watched=True)
        assert isinstance(lane, WatchedRingLane)
        return lane

    def stranger(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.things.append(line)
        line.connect(self.path)
        line.settimeout(10)
        return line

    def receive(self, seconds: float = 10.0) -> Received | None:
        return self.listener.receive(time.monotonic() + seconds)

    def num_callers(self) -> int:
        rings = self.listener._rings
        assert rings is not None
        return len(rings._callers)

    def end(self) -> None:
        for thing in self.things:
            thing.close()
        self.listener.close()
        self.closed.close()


def soon() -> float:
    return time.monotonic() + 10.0
