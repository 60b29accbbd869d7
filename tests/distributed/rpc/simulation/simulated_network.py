"""A network simulated in one thread, with a simulated clock; a seed chooses the faults."""

# The simulation has ZeroMQ's guarantees and limits. A connection keeps order, and may break at any
# moment together with the messages under way; messages that the other end has received stay
# readable. A broken connection is re-established automatically. Heartbeats detect a frozen or
# unreachable peer after about two seconds. Several connections of one pair of workers have no
# common order. Callers, not ZeroMQ, send some messages again when in doubt; here any message may
# arrive a second time, even long after, over the lane's current connection.

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastdist.distributed.pipe.lane import (
    READABLE,
    WRITABLE,
    LaneClosed,
    LaneInDoubt,
    LaneTimeout,
)
from fastdist.distributed.pipe.listener import Received
from fastdist.distributed.sockets import monitor
from tests.distributed.rpc.simulation.simulated_world import Process, World

Frames = Sequence[Any]

HEARTBEAT_S = (2.0, 2.5)
HANDSHAKE_S = 5.0
DOUBT_AFTER_S = 2.0
_LOOK_EVERY_S = 0.1
# Delays of a message's second copy. The longest exceeds the lifetime of the state that detects it.
_TWICE_AFTER_S = (0.0, 0.003, 0.1, 1.0, 10.0, 70.0)


class Network:
    """The links between processes, their faults, and the messages under way."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.process_froze = lambda process: self.heartbeats_may_stop(
            lambda link: process in (link.client, link.server)
        )
        world.process_ended = self.process_ended
        self.links: list[Link] = []
        self.delays_s: tuple[float, ...] = (0.0002, 0.001, 0.02)
        self.comes_twice = 0.0  # the probability that a message arrives a second time
        self.listening: dict[str, Process] = {}
        self._cuts: dict[frozenset[Process], int] = {}

    def cut(self, a: Process, b: Process, seconds: float) -> None:
        """Block traffic between two processes for some seconds."""
        pair = frozenset((a, b))
        self._cuts[pair] = self._cuts.get(pair, 0) + 1
        self.world.at(self.world.now + seconds, None, self._mend, pair)
        self.heartbeats_may_stop(lambda link: {link.client, link.server} == pair)

    def is_cut(self, a: Process, b: Process) -> bool:
        return a is not b and self._cuts.get(frozenset((a, b)), 0) > 0

    def heartbeats_may_stop(self, concerns: Callable[[Link], bool]) -> None:
        """Break connections that are still silent when heartbeats are missed."""
        for link in self.links:
            if concerns(link) and link.client is not link.server:
                when = self.world.now + self.world.rng.uniform(*HEARTBEAT_S)
                self.world.at(when, None, link.break_if_silent, link.number)

    def break_one(self) -> None:
        """Break one connection, as a router between the peers might."""
        up = [link for link in self.links if link.up and link.client is not link.server]
        if up:
            self.world.rng.choice(up).break_off()

    def process_ended(self, process: Process) -> None:
        """Break all connections of a process, as its kernel does."""
        for link in self.links:
            if process in (link.client, link.server):
                link.break_off()

    def _mend(self, pair: frozenset[Process]) -> None:
        self._cuts[pair] -= 1


class Link:
    """The socket of a lane: a sequence of connections, one at a time."""

    def __init__(self, network: Network, lane: SimLane, client: Process, address: str) -> None:
        self.lane, self.network = lane, network
        self.world = client.world
        self.client = client
        self.address = address
        self.server: Process | None = None
        self.up = False
        self.number = 0
        self.route = b""
        self._told_at = 0.0
        # Messages under way to the server and to the client.
        self._to_server: deque[Frames] = deque()
        self._to_client: deque[Frames] = deque()
        self.network.links.append(self)
        self._again(0.001)

    def send(self, frames: Frames) -> bool:
        """Send a message from the client; return False without a connection."""
        if self.up:
            self._to_server.append(_copies(frames))
            self._later(self._arrive_at_server)
        return self.up

    def send_back(self, number: int, frames: Frames) -> None:
        """Send a message from the server; it is lost if `number` is not the current connection."""
        if self.up and number == self.number:
            self._to_client.append(_copies(frames))
            self._later(self._arrive_at_client)

    def break_if_silent(self, number: int) -> None:
        """Break connection `number` if an end is still frozen, or the traffic still blocked."""
        if number == self.number and self.up and self._is_blocked():
            self.break_off()

    def break_off(self) -> None:
        """Break the connection. Some messages under way still arrive; the others are lost."""
        server = self.server
        if not self.up or server is None:
            return
        rng, when, self.up = self.world.rng, self.world.now, False
        for _ in range(rng.randint(0, len(self._to_server))):
            frames = self._to_server.popleft()
            when += rng.random() * 0.2
            self.world.at(when, server, server_listener(server).put, self.route, frames)
        when = self.world.now
        for _ in range(rng.randint(0, len(self._to_client))):
            when += rng.random() * 0.2
            self.world.at(when, self.client, self.lane.put, self._to_client.popleft())
        self._to_server.clear()
        self._to_client.clear()
        # The server notices the break up to 2.5 s later.
        listener, route = server_listener(server), self.route
        self.world.at(self.world.now + rng.random() * 2.5, server, listener.lose, route)
        self._tell(monitor.DISCONNECTED)
        self._again(rng.uniform(0.05, 0.3))

    def _attempt(self) -> None:
        if self.lane.closed or self.client.dead or self.up:
            return
        if self.client.frozen:
            self._again(_LOOK_EVERY_S)
            return
        server = self.server = self.network.listening.get(self.address)
        if server is None or server.dead:
            self._tell(monitor.CONNECT_RETRIED)
            self._again(self.world.rng.uniform(0.1, 0.3))
        elif self.network.is_cut(self.client, server):
            self._again(0.3)
        else:
            self._tell(monitor.CONNECTED)
            self.world.at(
                self.world.now + 0.001, None, self._shake_hands, self.world.now + HANDSHAKE_S
            )

    def _shake_hands(self, deadline: float) -> None:
        server = self.server
        if self.lane.closed or self.client.dead or server is None:
            return
        if server.dead or self.world.now > deadline:
            self._tell(monitor.HANDSHAKE_FAILED)
            self._again(self.world.rng.uniform(0.1, 0.3))
        elif self._is_blocked():
            when = self.world.now + _LOOK_EVERY_S
            self.world.at(when, None, self._shake_hands, deadline)
        else:
            self.up = True
            self.number += 1
            self.world.touch(self.client)
            self.route = server_listener(server).accept(self)
            self._tell(monitor.HANDSHAKE_SUCCEEDED)
            self.world.soon(self.client, self.lane.changed)

    def _arrive_at_server(self, number: int) -> None:
        if number != self.number or not self._to_server:
            return
        if self._is_blocked():
            self.world.at(self.world.now + _LOOK_EVERY_S, None, self._arrive_at_server, number)
            return
        server, frames = self.server, self._to_server.popleft()
        assert server is not None
        self._maybe_again(self._send_again, frames)
        server.run(server_listener(server).put, (self.route, frames))

    def _arrive_at_client(self, number: int) -> None:
        if number != self.number or not self._to_client:
            return
        if self._is_blocked():
            self.world.at(self.world.now + _LOOK_EVERY_S, None, self._arrive_at_client, number)
            return
        frames = self._to_client.popleft()
        self._maybe_again(self._answer_again, frames)
        self.client.run(self.lane.put, (frames,))

    def _maybe_again(self, again: Callable[[Frames], None], frames: Frames) -> None:
        network, rng = self.network, self.world.rng
        if network.comes_twice and rng.random() < network.comes_twice:
            when = self.world.now + rng.choice(_TWICE_AFTER_S) * (0.5 + rng.random())
            self.world.at(when, None, again, _copies(frames))

    def _send_again(self, frames: Frames) -> None:
        if self.up:
            self._to_server.append(frames)
            self._later(self._arrive_at_server)

    def _answer_again(self, frames: Frames) -> None:
        if self.up:
            self._to_client.append(frames)
            self._later(self._arrive_at_client)

    def _is_blocked(self) -> bool:
        server = self.server
        assert server is not None
        return bool(self.client.frozen or server.frozen or self.network.is_cut(self.client, server))

    def _later(self, arrive: Callable[[int], None]) -> None:
        # Each arrival takes the first message, so random delays do not change the order.
        delay_s = self.world.rng.choice(self.network.delays_s)
        self.world.at(self.world.now + delay_s, None, arrive, self.number)

    def _again(self, seconds: float) -> None:
        self.world.at(self.world.now + seconds, None, self._attempt)

    def _tell(self, kind: str) -> None:
        if self.lane.watched:
            # Socket monitors report late, but in order.
            self._told_at = max(self._told_at, self.world.now + self.world.rng.random() * 0.002)
            self.world.at(self._told_at, self.client, self.lane.tell, kind)


def _copies(frames: Frames) -> Frames:
    """Return copies of sent frames, since the receiver has its own memory."""
    return [memoryview(bytearray(frame)) for frame in frames]


def server_listener(server: Process) -> SimListener:
    listener: SimListener = server.listener
    return listener


class SimBell:
    """A Doorbell without descriptors."""

    def __init__(self) -> None:
        self.rung = False

    def ring(self) -> None:
        self.rung = True

    def clear(self) -> None:
        self.rung = False

    def close(self) -> None:
        pass

    def fileno(self) -> int:
        return -1


class SimLane:
    """A Lane on a Link."""

    transport = "sim"
    takes_edges = True
    pulse = None
    _fds = itertools.count(1_000_000)

    def __init__(
        self, network: Network, process: Process, address: str, closed: SimBell, *, watched: bool
    ) -> None:
        self.watched = watched and network.listening.get(address) is not process
        self.closed = False
        self._process = process
        self._bell = closed
        self._came: deque[list[Any]] = deque()
        self._happened: deque[str] = deque()
        self._fd, self._connection_fd = next(self._fds), next(self._fds)
        self._link = Link(network, self, process, address)

    def put(self, frames: list[Any]) -> None:
        self._came.append(frames)
        self.changed()

    def changed(self) -> None:
        self._process.fd_ready(self._fd)

    def tell(self, kind: str) -> None:
        self._happened.append(kind)
        self._process.fd_ready(self._connection_fd)

    def try_send(self, frames: Frames) -> bool:
        return self._link.send(frames)

    def send(self, frames: Frames, deadline: float | None) -> None:
        while not self._link.send(frames):
            self._wait(WRITABLE, deadline)

    def try_receive(self) -> list[Any] | None:
        return self._came.popleft() if self._came else None

    def receive(self, deadline: float | None) -> list[Any]:
        if not self._came:
            self._wait(READABLE, deadline)
        if not self._came:
            raise LaneInDoubt
        return self._came.popleft()

    def events(self) -> int:
        return (READABLE if self._came else 0) | (WRITABLE if self._link.up else 0)

    def fileno(self) -> int:
        return self._fd

    def connection_fileno(self) -> int:
        return self._connection_fd if self.watched else -1

    def hang_up(self) -> None:
        raise AssertionError("its pulse is the world's own: see heartbeats_may_stop")

    def next_connection_event(self) -> str | None:
        return self._happened.popleft() if self._happened else None

    def close(self, linger_s: float = 0.0) -> None:
        self.closed = True
        self._link.break_off()

    def _wait(self, event: int, deadline: float | None) -> None:
        """Wait like a ZmqLane, which checks every 2 s; a new connection usually ends the wait."""
        world, link, number = self._process.world, self._link, self._link.number
        misses_it = world.rng.random() < 0.3

        def is_over() -> bool:
            return bool(
                self._bell.rung
                or self.events() & event
                or (not misses_it and link.up and link.number != number)
            )

        while True:
            look = world.now + DOUBT_AFTER_S
            world.block(is_over, look if deadline is None else min(look, deadline))
            if self.events() & event:
                return
            if self._bell.rung:
                raise LaneClosed
            if deadline is not None and world.now >= deadline:
                raise LaneTimeout
            if link.up:
                return


class SimListener:
    """A Listener whose connections are Links, read in arbitrary order."""

    def __init__(self, process: Process, address: str) -> None:
        self.addresses = {"sim": address, "inproc": f"inproc://{process.name}"}
        self._process = process
        self._routes: dict[bytes, tuple[Link, int]] = {}
        self._came: dict[bytes, deque[list[Any]]] = {}
        self._numbers = itertools.count()

    def accept(self, link: Link) -> bytes:
        route = f"{self._process.name}#{next(self._numbers)}".encode()
        self._routes[route] = (link, link.number)
        return route

    def lose(self, route: bytes) -> None:
        self._routes.pop(route, None)

    def put(self, route: bytes, frames: list[Any]) -> None:
        self._came.setdefault(route, deque()).append(frames)
        self._process.world.soon(self._process, self._process.serve)

    def receive(self, deadline: float | None = None) -> Received | None:
        return self.try_receive()

    def try_receive(self) -> Received | None:
        if not self._came:
            return None
        route = self._process.world.rng.choice(sorted(self._came))
        frames = self._came[route].popleft()
        if not self._came[route]:
            del self._came[route]
        return Received(route, frames, None)

    def reply(self, route: bytes, frames: Frames) -> bool:
        if route not in self._routes:
            return False
        link, number = self._routes[route]
        link.send_back(number, frames)
        return True

    def knows(self, route: bytes) -> bool:
        return route in self._routes

    def wake(self) -> None:
        pass

    def fileno(self) -> int:
        return -1

    def close(self, linger_s: float = 0.0) -> None:
        pass


class SimContext:
    """Replaces a worker's pipe.Context."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    def listen(self, name: str) -> SimListener:
        address = self._process.address
        listener = self._process.listener = SimListener(self._process, address)
        for address in listener.addresses.values():
            self._network.listening[address] = self._process
        return listener

    def has(self, channel: str) -> bool:
        return False

    def choose(
        self, addresses: Mapping[str, str], *, same_host: bool, same_process: bool = False
    ) -> str:
        # Calls of a worker to itself never reach another process that has taken over the address.
        return "inproc" if same_process else "sim"

    def connect(
        self, transport: str, address: str, closed: Any, peer: str, *, watched: bool = False
    ) -> SimLane:
        return SimLane(self._network, self._process, address, closed, watched=watched)
