"""Workers whose agents are real and whose threads, sockets and clock are not."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from fastdist.core.errors import RpcError
from fastdist.core.future import Future
from fastdist.distributed import rpc
from fastdist.distributed.pipe import credit, pipe, shared_lane
from fastdist.distributed.rpc import (
    agent,
    client,
    incoming,
    interceptors,
    lane_call,
    outgoing,
    peer,
    peers,
    progress,
    resend,
    rref,
    rref_context,
    rref_pickle,
    zmq_agent,
)
from fastdist.distributed.rpc.handlers import Handler
from fastdist.distributed.rpc.membership import Membership, Record
from fastdist.distributed.rpc.peer_state import Event
from fastdist.distributed.rpc.progress import AwakeClock
from fastdist.distributed.rpc.rref_notices import TOGETHER_S
from fastdist.distributed.rpc.timeouts import Timeouts
from fastdist.distributed.rpc.zmq_agent import ZmqAgent
from fastdist.distributed.sockets import NoSecurity
from fastdist.distributed.store import HashStore
from tests.distributed.rpc.simulated_network import Network, SimBell, SimContext
from tests.distributed.rpc.simulated_world import Clock, Process, World

_TIMED = (credit, incoming, lane_call, outgoing, peer, progress, resend, shared_lane)


class SimProgress:
    """The progress thread of one worker: every function it runs is an event of its own."""

    def __init__(self, name: str, timeouts: Timeouts, expire: Callable[[list[int]], None]) -> None:
        self._process = building[0]
        self._timeouts = timeouts
        self._expire = expire
        self._readers: dict[int, Callable[[], None]] = {}
        self._posted: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._due: list[float] = []  # when the alarms are
        self._clock = AwakeClock()
        self.now = self._clock.now
        self.stood_still_lately = self._clock.stood_still_lately
        self._process.fd_ready = self._fd_ready

    def start(self) -> None:
        pass

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        self._posted.append((function, arguments))
        self._process.world.soon(self._process, self._run_posted)

    def wake(self) -> None:
        self._process.world.soon(self._process, self._look)

    def watch(self, fd: int, reader: Callable[[], None]) -> None:
        self._readers[fd] = reader

    def unwatch(self, fd: int) -> None:
        self._readers.pop(fd, None)

    def call_at(self, when: float, function: Callable[[], None]) -> None:
        heapq.heappush(self._due, when)
        self._process.world.at(when, self._process, self._ring, when, function)

    def stop(self) -> None:
        self._run_posted()
        self._readers.clear()

    def is_current_thread(self) -> bool:
        return False

    def _awake(self) -> None:
        self._clock.look(self._due[0] if self._due else math.inf)

    def _ring(self, when: float, function: Callable[[], None]) -> None:
        self._awake()
        self._due.remove(when)
        heapq.heapify(self._due)
        function()

    def _run_posted(self) -> None:
        self._awake()
        while self._posted:
            function, arguments = self._posted.pop(0)
            function(*arguments)

    def _fd_ready(self, fd: int) -> None:
        self._process.world.soon(self._process, self._read, fd)

    def _read(self, fd: int) -> None:
        self._awake()
        reader = self._readers.get(fd)
        if reader is not None:
            reader()

    def _look(self) -> None:
        expired = self._timeouts.expire(self._process.world.now)
        if expired:
            self._expire(expired)
        until = self._timeouts.sleep_until()
        if until != math.inf:
            self._process.world.at(until, self._process, self._look)


class SimPool:
    """The thread pool of one worker: as many threads as are wanted, each a little late."""

    def __init__(self, name: str, max_counted: int, source: Any) -> None:
        self._process = building[0]
        self._source = source
        self._closed = False
        self._process.serve = self._serve

    def start(self) -> None:
        pass

    def submit(self, function: Callable[..., object], *arguments: object) -> bool:
        if not self._closed:
            self._process.world.soon(self._process, function, *arguments)
        return not self._closed

    submit_uncounted = submit

    def stop(self, timeout: float | None = None) -> list[str]:
        self._closed = True
        return []

    def num_threads(self) -> int:
        return 1

    def num_idle(self) -> int:
        return 1

    def _serve(self) -> None:
        world = self._process.world
        while not self._closed:
            work = self._source.take()
            if work is None:
                return
            if world.rng.random() < 0.5:
                work.function(work.argument)
            else:
                world.soon(self._process, work.function, work.argument)


class SimNotices:
    """The thread of one worker that tells others what became of references."""

    def __init__(self) -> None:
        self._process = building[0]
        self._notes: dict[Any, list[Any]] = {}

    def start(self) -> None:
        pass

    def put(self, tell: Callable[[Any, Sequence[Any]], None], addressee: Any, item: Any) -> None:
        world = self._process.world
        if not self._notes:
            world.at(world.now + TOGETHER_S, self._process, self._tell_all)
        self._notes.setdefault((tell, addressee), []).append(item)

    def _tell_all(self) -> None:
        notes, self._notes = self._notes, {}
        for (tell, addressee), items in notes.items():
            try:
                tell(addressee, items)
            except RpcError:
                pass  # whom it is about is no more, or nobody is left to tell it

    def flush(self) -> None:
        self._tell_all()

    def close(self) -> None:
        self._notes.clear()


class SimFuture(Future[Any]):
    """A Future that a worker of the simulation may wait for."""

    def wait(self, timeout: float | None = None) -> Any:
        assert timeout is None
        groups[-1].world.block(self.done, None)
        return self.value()


class Worker(Process):
    """One life of one rank."""

    def __init__(self, group: Group, rank: int, life: int) -> None:
        super().__init__(group.world, f"w{rank}.{life}")
        self.rank = rank
        self.left = False
        self.handlers: dict[int, Handler] = {}
        self._network = group.network
        building[:] = [self]
        self.agent = ZmqAgent(
            HashStore(),  # asked for its timeout alone
            f"w{rank}",
            rank,
            group.size,
            rpc.TensorPipeRpcBackendOptions(switch_interval=None, init_timeout=1.0),
            host="nowhere",
            security=NoSecurity(),
        )
        self.agent.start()

    def leave(self) -> None:
        """Shut down, as at the end of a process, whatever is under way."""
        if not self.dead and not self.left and not self.frozen:
            self.left = True
            self.world.soon(self, self.agent.shutdown)
            self.world.at(self.world.now + 0.6, None, self.crash)


class Group:
    """Workers that know each other, in a world of their own."""

    def __init__(self, seed: int, size: int = 3, *, on_one_host: bool = True) -> None:
        groups[:] = [self]
        self.world = World(seed, clock)
        self.network = Network(self.world)
        self.size = size
        self._on_one_host = on_one_host
        self.workers = [Worker(self, rank, 0) for rank in range(size)]
        self.records = [self._record_of(worker) for worker in self.workers]
        for worker in self.workers:
            worker.agent.members = Membership(None, worker.agent.me, self.records)  # type: ignore[arg-type]
            worker.agent.peers._members = worker.agent.members

    def restart(self, rank: int) -> None:
        """Let a rank begin a new life at its old address, which the others do not know of."""
        worker = Worker(self, rank, 1)
        records = [*self.records]
        records[rank] = self._record_of(worker)
        worker.agent.members = Membership(None, worker.agent.me, records)  # type: ignore[arg-type]
        worker.agent.peers._members = worker.agent.members
        self.workers.append(worker)

    def tell_that_process_ended(self, rank: int) -> None:
        """Let the survivors see it in the host's process table."""
        for worker in self.workers:
            known = worker.agent._peers.get(rank)
            if known is not None and not worker.dead and worker.rank != rank:
                self.world.soon(worker, known._step, Event.PROCESS_ENDED)

    def _record_of(self, worker: Worker) -> Record:
        # Of another pid namespace, so that nobody looks at the process table of this machine.
        me = worker.agent.me
        boot_id = me.boot_id if self._on_one_host else worker.name
        return replace(me, pid_namespace="", boot_id=boot_id)


clock = Clock()
building: list[Worker] = []
groups: list[Group] = []


def here() -> Worker:
    """Return the worker whose turn it is."""
    worker = groups[-1].world.current
    assert isinstance(worker, Worker)
    return worker


def _register_handler(kind: int, handler: Handler) -> None:
    building[0].handlers[kind] = handler


def _handler_of(kind: int) -> Handler | None:
    return here().handlers.get(kind)


def _join(store: HashStore, me: Record, timeout_s: float) -> Membership:
    return Membership(None, me, [])  # type: ignore[arg-type]


@contextmanager
def simulated_machine() -> Iterator[None]:
    """Let every agent that is made in the block live in a simulated group."""
    with pytest.MonkeyPatch.context() as patch:
        for module in _TIMED:
            patch.setattr(module, "time", clock)
        patch.setattr(
            zmq_agent, "Context", lambda *_, **__: SimContext(groups[-1].network, building[0])
        )
        patch.setattr(zmq_agent, "ThreadPool", SimPool)
        patch.setattr(zmq_agent, "join_static", _join)
        patch.setattr(client, "Progress", SimProgress)
        for module in (client, resend):
            patch.setattr(module, "Future", SimFuture)
        patch.setattr(pipe, "Doorbell", SimBell)
        patch.setattr(rref_context, "Notices", SimNotices)
        patch.setattr(rref_context, "register_handler", _register_handler)
        patch.setattr(incoming, "handler_of", _handler_of)
        for module in (rref, rref_pickle):
            patch.setattr(module, "get_current_agent", lambda: here().agent)
        # The agent alone: distributed autograd, if a test before this one loaded it, has no part.
        patch.setattr(interceptors, "_installed", ())
        patch.setattr(peers, "lost_hooks", [])
        patch.setattr(agent, "silence_hooks", [])
        yield
