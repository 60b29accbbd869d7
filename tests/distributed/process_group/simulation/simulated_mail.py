"""Simulated connections between processes. Any connection may break.

One connection keeps the order of messages; several connections have no common order. Connecting
takes a moment. When an end dies, some of the messages under way may still arrive. The other end
learns of the death a little later, before or after these messages.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from fastdist.distributed.pipe.lane import LaneClosed, LaneTimeout
from fastdist.distributed.pipe.listener import Received
from fastdist.distributed.sockets import monitor
from fastdist.distributed.sockets.pulse import BEAT_S, Beat
from tests.distributed.process_group.simulation.simulated_sync import SimBell, new_fd, readable
from tests.distributed.rpc.simulation.simulated_world import Process, here, worlds

Frames = Sequence[Any]
_MOST_ON_ITS_WAY = 8


class Network:
    """All listeners and connections."""

    def __init__(self) -> None:
        self.listeners: dict[str, SimListener] = {}
        self.lanes: list[SimLane] = []
        self.numbers = itertools.count()
        # Whether members of one machine also connect by TCP.
        self.is_tcp_only = False
        self.delays_s: tuple[float, ...] = (0.0001, 0.001, 0.02)
        # The possible durations of connecting.
        self.connects_s: tuple[float, ...] = (0.0001, 0.001, 0.02)

    def process_ended(self, process: Process) -> None:
        """Break all connections of a process, as its kernel does."""
        self.listeners = {
            address: one for address, one in self.listeners.items() if one.process is not process
        }
        for lane in self.lanes:
            if lane.process is process or lane.target is process:
                lane.break_off()

    def cut(self, one: Process, other: Process) -> None:
        """Break the watched connections between two processes."""
        for lane in self.lanes:
            if {lane.process, lane.target} == {one, other} and lane.is_watched:
                lane.break_off()


class SimPulse:
    """The pulse of a lane: a frozen peer misses beats."""

    most_missed_beats = 2

    def __init__(self, lane: SimLane) -> None:
        self._lane = lane
        self._missed = 0

    def beat(self) -> Beat:
        target = self._lane.target
        self._missed = self._missed + 1 if target is not None and target.frozen else 0
        return Beat.FROZEN if self._missed > self.most_missed_beats else Beat.FINE


class SimLane:
    """A Lane to one listener."""

    def __init__(
        self, network: Network, transport: str, address: str, closed: SimBell, *, watched: bool
    ) -> None:
        self.transport, self.is_watched = transport, watched
        self.process, self.world = here(), worlds[-1]
        self.pulse = SimPulse(self) if watched else None
        self.is_up = self.is_closed = False
        self._network, self._address, self._bell = network, address, closed
        listener = network.listeners.get(address)
        self.target = None if listener is None else listener.process
        self._on_its_way: deque[Frames] = deque()
        self._events: deque[str] = deque()
        self._told_at = 0.0
        self._fd = new_fd(lambda: bool(self._events)) if watched else -1
        network.lanes.append(self)
        rng = self.world.rng
        takes_s = rng.choice(network.connects_s) * (0.5 + rng.random())
        self.world.at(self.world.now + takes_s, self.process, self._connect)

    def send(self, frames: Frames, deadline: float | None) -> None:
        self.process.step()  # type: ignore[attr-defined]
        self.world.block(self._may_go_on, deadline)
        if self._bell.is_rung:
            raise LaneClosed
        if not (self.is_up and len(self._on_its_way) < _MOST_ON_ITS_WAY):
            raise LaneTimeout("not sent in time")
        self._on_its_way.append([memoryview(bytearray(frame)) for frame in frames])
        self.world.at(self._later(), None, self._arrive)

    def _may_go_on(self) -> bool:
        has_room = self.is_up and len(self._on_its_way) < _MOST_ON_ITS_WAY
        return has_room or self._bell.is_rung

    def connection_fileno(self) -> int:
        return self._fd

    def next_connection_event(self) -> str | None:
        return self._events.popleft() if self._events else None

    def close(self, linger_s: float = 0.0) -> None:
        self.is_closed = True
        readable.pop(self._fd, None)

    def break_off(self) -> None:
        """Break the connection, and lose some of the messages under way."""
        if not self.is_up:
            return
        self.is_up = False
        for _ in range(self.world.rng.randint(0, len(self._on_its_way))):
            self._on_its_way.pop()
        self._tell(monitor.DISCONNECTED)

    def _connect(self) -> None:
        listener = self._network.listeners.get(self._address)
        if self.is_closed or listener is None or listener.process.dead:
            return
        self.target, self.is_up = listener.process, True
        self._tell(monitor.HANDSHAKE_SUCCEEDED)

    def _arrive(self) -> None:
        if not self._on_its_way:
            return
        if self.target is not None and self.target.frozen:
            self.world.at(self.world.now + 0.05, None, self._arrive)
            return
        # Each arrival takes the first message, so random delays do not change the order.
        frames = self._on_its_way.popleft()
        listener = self._network.listeners.get(self._address)
        if listener is not None and listener.process is self.target:
            listener.process.run(listener.put, (self, frames))
        self.world.soon(self.process, _nothing)

    def _tell(self, kind: str) -> None:
        if not self.is_watched:
            return
        # Socket monitors report late, but in order.
        self._told_at = max(self._told_at, self._later())
        self.world.at(self._told_at, self.process, self._events.append, kind)

    def _later(self) -> float:
        rng = self.world.rng
        return self.world.now + rng.choice(self._network.delays_s) * (0.5 + rng.random())


def _nothing() -> None:
    pass


class SimListener:
    """A Listener that reads its connections in random order."""

    def __init__(self, network: Network) -> None:
        self.process, self._network = here(), network
        self._address = f"sim://{self.process.name}/{next(network.numbers)}"
        self.addresses = dict.fromkeys(("uv", "shm"), self._address)
        network.listeners[self._address] = self
        self._came: dict[int, deque[Frames]] = {}
        self._is_woken = False

    def put(self, lane: SimLane, frames: Frames) -> None:
        self._came.setdefault(id(lane), deque()).append(frames)

    def receive(self, deadline: float | None = None) -> Received | None:
        world = worlds[-1]
        world.block(lambda: bool(self._came) or self._is_woken, deadline)
        self._is_woken = False
        if not self._came:
            return None
        # The keys of `_came` are memory addresses, but their order is that of first arrivals.
        key = world.rng.choice(list(self._came))
        frames = self._came[key].popleft()
        if not self._came[key]:
            del self._came[key]
        return Received(key, list(frames), None)

    def wake(self) -> None:
        self._is_woken = True

    def close(self, linger_s: float = 0.0) -> None:
        self._network.listeners.pop(self._address, None)
        for lane in self._network.lanes:
            if lane.target is self.process:
                lane.break_off()


class SimContext:
    """A replacement for pipe.Context."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def listen(self, name: str) -> SimListener:
        return SimListener(self._network)

    def choose(
        self, addresses: Mapping[str, str], *, same_host: bool, same_process: bool = False
    ) -> str:
        return "shm" if same_host and not self._network.is_tcp_only else "uv"

    def connect(
        self, transport: str, address: str, closed: SimBell, peer: str, *, watched: bool = False
    ) -> SimLane:
        return SimLane(self._network, transport, address, closed, watched=watched)


__all__ = ["BEAT_S", "Network", "SimContext"]
