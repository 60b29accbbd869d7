"""The agent that speaks ZeroMQ: it joins members, peers, the serving half and the calling half."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastdist.core.errors import (
    RankTakenError,
    RpcNotRunningError,
    ShutdownIncomplete,
    StoreError,
)
from fastdist.core.future import Future
from fastdist.core.thread_pool import ThreadPool
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.store.waiting_line import speaks_for_node

from . import constants, gate, twins
from .agent import RpcAgent
from .arena_offers import ArenaOffers
from .client import Client
from .descriptors import require_descriptors
from .devices import require_devices_of_maps
from .durations import seconds
from .handlers import Reply
from .joining import join_dynamic, join_static
from .membership import Membership, Record, WorkerInfo, new_incarnation, require_name
from .message_types import MessageType, call_type_of
from .metrics import CallCounts, NetworkSourceInfo, TimeSeriesMetricsTracker
from .peer import Peer
from .peers import Peers
from .rref_context import RRefContext
from .serving import Server
from .shutdown_barrier import ShutdownBarrier
from .shutdown_notice import ShutdownNotice

if TYPE_CHECKING:
    from fastdist.core.device import Device
    from fastdist.distributed.pipe.metadata import Value
    from fastdist.distributed.sockets import Security
    from fastdist.distributed.store import Store
    from fastdist.tensor.tensor import Tensor

    from .lane_call import LaneCall
    from .options import TensorPipeRpcBackendOptions

_logger = logging.getLogger(__name__)

# What was sent last may take this long to leave the process.
_LINGER_S = 0.5


class ZmqAgent(RpcAgent):
    """This worker's end of all pipes.

    Raises  RpcError for a bad name, or where the members disagree; StoreTimeoutError naming the
            members that did not come
    """

    client_class: type[Client] = Client
    # How long shutdown waits for functions that still run.
    drain_s = 5.0

    def __init__(
        self,
        store: Store,
        name: str,
        rank: int,
        world_size: int,
        options: TensorPipeRpcBackendOptions,
        *,
        host: str,
        security: Security,
    ) -> None:
        require_name(name)
        self.options = options
        self.store = store
        self.counts = CallCounts()
        self.gil_waits = TimeSeriesMetricsTracker()
        self._rpc_timeout_s = options.rpc_timeout
        self._switch_interval_before: float | None = None
        options.limits.set_for_sockets()
        require_descriptors(world_size)
        self._context = Context(
            options._transports, options._channels, host=host, security=security
        )
        self._listener = self._context.listen(f"router of {name}")
        try:
            addresses = dict(self._listener.addresses)
            device_maps = options.device_maps_as_text()
            mine = (rank, world_size, new_incarnation(), addresses, device_maps, security.kind)
            self.me = Record(name, *mine, limits=options.limits)
            self.members = self._meet(store, world_size)
        except BaseException:
            self._listener.close()
            raise
        peers = Peers(self.members, self._context, options.frozen_s, options.grace_s)
        self.peers, self._peers = peers, peers.by_id
        server = Server(
            self._listener, self.me, self.counts, peers.admit, peers.has_left, peers.has_parted
        )
        self._server = server
        self.pool = ThreadPool("fastdist-rpc-pool", options.num_worker_threads, server)
        self.client = self.client_class(
            self.me, self.pool, self.counts, peers.peer, self.device_map_to
        )
        progress = self.client.progress
        self.rrefs = RRefContext(self)
        self.client.gave_up = self.rrefs.gave_up
        self._barrier = ShutdownBarrier(self, self.counts, self.peer, self._absent)
        self._is_leaving = False
        self._arenas = ArenaOffers(self, self.members, self._peers, progress, self._context)
        server.lender_of = self._arenas.lender_of
        peers.attend(self.client, self.pool, server, self._arenas)

    def _meet(self, store: Store, world_size: int) -> Membership:
        """Enter the group, in the time that init_rpc has left."""
        join_s = min(self.options.meeting_s(), store.timeout.total_seconds())
        deadline = time.monotonic() + join_s
        if not world_size:
            return join_dynamic(store, self.me)
        try:
            members = join_static(store, self.me, join_s)
        except RankTakenError as error:
            raise twins.make_known(self._context, store, self.me, error) from error
        require_devices_of_maps(store, members, max(0.0, deadline - time.monotonic()))
        return members

    def start(self) -> None:
        """Start to serve."""
        gate.set_mode(gate.STRICT if self.options.strict else gate.OPEN, self.me.limits.nesting)
        if self.options.switch_interval is not None:
            # A thread that computes in Python gives the interpreter up this often; at the default
            # of 5 ms a call into this worker would wait for that twice.
            self._switch_interval_before = sys.getswitchinterval()
            sys.setswitchinterval(self.options.switch_interval)
        self.peers.is_open = True
        self._barrier.register()
        self._arenas.register()
        self.client.progress.start()
        self.pool.start()

    @property
    def is_static_group(self) -> bool:
        """Whether the group has a world size."""
        return self.members.is_static

    def get_rpc_timeout(self) -> float:
        """Return the timeout of calls that give none, in seconds."""
        return self._rpc_timeout_s

    def set_rpc_timeout(self, timeout_s: float) -> None:
        """Change the timeout of calls that give none."""
        self._rpc_timeout_s = seconds("timeout", timeout_s)

    def get_worker_info(self, to: str | int | WorkerInfo | None = None) -> WorkerInfo:
        """Return this worker, or the one of a name or id."""
        return self.me.info if to is None else self.members.info_of(to)

    def get_worker_infos(self) -> list[WorkerInfo]:
        """Return all workers by id."""
        return [record.info for record in self.members.all()]

    def get_network_source_info(self) -> NetworkSourceInfo:
        """Return who this worker is on the network."""
        addresses = self.me.addresses
        address = addresses.get("uv") or next(iter(addresses.values()))
        return NetworkSourceInfo(self.me.rank, address.encode())

    def device_map_to(self, worker_id: int) -> Mapping[Device, Device]:
        """Return where tensors of this worker's devices go at another."""
        maps = self.options.device_maps
        return maps.get(self.members.get(worker_id).name, {}) if maps else {}

    def peer(self, worker_id: int, kind: MessageType = MessageType.HELLO) -> Peer:
        """Return a worker to send a message of a kind to, connected now if it was not.

        Raises  RpcNotRunningError after shutdown; RpcError for an unknown id
        """
        return self.peers.peer(worker_id, kind)

    def is_dead(self, worker_id: int) -> bool:
        """Return whether a worker was lost or has left."""
        peer = self._peers.get(worker_id)
        return peer is not None and peer.is_dead

    def add_lost_callback(self, callback: Callable[[WorkerInfo], None]) -> None:
        """Call callback(worker), on a pool thread, for each worker that is lost or leaves."""
        self.peers.add_lost_callback(callback)

    def call(
        self,
        to: WorkerInfo,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        timeout_s: float,
    ) -> Any:
        """Run function on another worker, wait, and return its result."""
        kind, value = call_type_of(function), (function, args, kwargs)
        return self.client.call(to.id, kind, value, None, self._timeout(timeout_s), function)

    def call_async(
        self,
        to: WorkerInfo,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        timeout_s: float,
    ) -> Future[Any]:
        """Run function on another worker and return a Future of its result."""
        kind, value = call_type_of(function), (function, args, kwargs)
        timeout_s = self._timeout(timeout_s)
        return self.client.request(to.id, kind, value, (), None, timeout_s, function)

    def request(
        self,
        worker_id: int,
        kind: MessageType,
        value: object,
        metadata: Mapping[str, Value] | None = None,
        timeout_s: float = constants.UNSET_RPC_TIMEOUT,
        what: object = None,
    ) -> Future[Any]:
        """Send a request with a value in its body, and return a Future of what the answer holds."""
        timeout_s = self._timeout(timeout_s)
        return self.client.request(worker_id, kind, value, (), metadata, timeout_s, what)

    def request_and_wait(
        self,
        worker_id: int,
        kind: MessageType,
        metadata: Mapping[str, Value],
        timeout_s: float,
        what: object,
    ) -> Any:
        """Send a request without a body, wait, and return what the answer holds."""
        timeout_s = self._timeout(timeout_s)
        return self.client.call(worker_id, kind, None, metadata, timeout_s, what)

    def send(
        self,
        worker_id: int,
        message_type: int,
        tensors: Sequence[Tensor] = (),
        metadata: Mapping[str, Value] | None = None,
        timeout_s: float = 0.0,
        retries: int = 0,
    ) -> Future[Reply]:
        """Send a request to the handler of message_type, and return a Future of its Reply."""
        kind = MessageType(message_type)
        request = (worker_id, kind, None, tensors, metadata, self._timeout(timeout_s))
        if retries:
            return self.client.request_with_retries(retries, *request)
        return self.client.request(*request)

    def send_in_person(
        self,
        worker_id: int,
        message_type: int,
        tensors: Sequence[Tensor] = (),
        metadata: Mapping[str, Value] | None = None,
    ) -> LaneCall | None:
        """Send a request whose sender takes the answer itself; None if no lane is free."""
        kind = MessageType(message_type)
        return self.client.send_in_person(worker_id, kind, tensors, metadata)

    def submit_uncounted(self, function: Callable[..., object], *arguments: object) -> bool:
        """Run function(*arguments) soon in the agent's pool, behind no user's work."""
        return self.pool.submit_uncounted(function, *arguments)

    def join(self, timeout_s: float) -> None:
        """Wait until no call is under way anywhere in the group; in a dynamic one, here."""
        self.peers.require_member()
        is_first, self._is_leaving = not self._is_leaving, True
        submit, progress = self.pool.submit_uncounted, self.client.progress
        try:
            with ShutdownNotice(self.me.name, progress, submit, self._for_whom_it_waits):
                if not self.members.is_static:
                    self._wait_until_idle(timeout_s or constants.SHUTDOWN_TIMEOUT_S)
                else:
                    if is_first:
                        self.members.tell_shutdown()
                    self._barrier.wait(timeout_s)
            # Its calls may have ended because of that.
            self.peers.require_member()
        finally:
            # Once the first join is over others may be gone before they have said goodbye.
            if is_first:
                self._tell_who_was_lost()

    def _wait_until_idle(self, timeout_s: float) -> None:
        if not self.counts.wait_until_idle(timeout_s):
            raise ShutdownIncomplete(
                f"worker {self.me.name!r} has calls under way after {timeout_s:g} s: "
                f"{self.get_metrics()}"
            )

    def _absent(self) -> list[str]:
        return [info.name for info in self.members.not_in_shutdown()]

    def _for_whom_it_waits(self) -> str:
        """Return what holds up a shutdown, in words; nothing where another of this node says it."""
        # First: who waits for these has a call under way, to the one that counts who has come.
        absent = self.members.not_in_shutdown() if self.members.is_static else []
        missing = [info.id for info in absent if not self.is_dead(info.id)]
        if missing and not speaks_for_node(self.me.rank, missing):
            return ""
        if missing:
            names = [info.name for info in absent if info.id in missing]
            return f"these have not come to theirs yet: {_named(names)}"
        if self.counts.client_active:
            others = [peer for peer in self.peers.living() if not peer.is_self]
            asked = [peer.info.name for peer in others if peer.pipe.is_waited_for()]
            return f"calls of its own have no answer yet, from {_named(asked)}"
        if self.counts.server_active:
            return f"{self.counts.server_active} calls of others run here yet"
        return "calls of others are under way yet"

    def _tell_who_was_lost(self) -> None:
        for lost in self.peers.lost():
            _logger.warning(
                "worker %r shuts down without worker %s; what that was to do may not be done",
                *(self.me.name, lost),
            )

    def prepare_to_leave(self, deadline: float) -> None:
        """Give up all references and, in a static group, the store.

        Note    the store goes before the last barrier: when a worker returns from shutdown and
                joins again, it must not meet the old store, which is about to close
        """
        self.rrefs.delete_all(deadline)
        if self.members.is_static:
            self.store.close()

    def part(self) -> None:
        """Let the others read what this worker has answered, before it closes its connections."""
        self.peers.part(_LINGER_S)

    def shutdown(self) -> None:
        """End all threads and close all sockets of this agent. A second time does nothing."""
        if not self.peers.close():
            return
        peers = list(self._peers.values())
        error = RpcNotRunningError(
            f"Node {self.me.rank} has shut down RPC; calls without an answer may have run"
        )
        self.rrefs.close()
        try:
            self.members.leave()
        except StoreError as failure:
            _logger.info("the store could not be told that this worker leaves: %s", failure)
        progress = self.client.progress
        for peer in peers:
            progress.post(lambda peer=peer: peer.close(error, linger_s=_LINGER_S))
        progress.stop()
        self.client.end_resends(error)
        for name in self.pool.stop(self.drain_s):
            _logger.warning("thread %s still runs a user's function; RPC ends without it", name)
        self._listener.close(_LINGER_S)
        self._barrier.unregister()
        self._arenas.close()
        if self._switch_interval_before is not None:
            sys.setswitchinterval(self._switch_interval_before)

    def get_metrics(self) -> dict[str, str]:
        """Return what the agent counts, as text."""
        metrics = {
            "agent.thread_pool_size": str(self.pool.num_threads()),
            "agent.num_idle_threads": str(self.pool.num_idle()),
            **self.counts.as_text(),
        }
        if (waits := self._server.gil_waits) is not None:
            metrics["agent.gil_average_wait_time_us"] = str(waits.compute_average())
        return metrics

    def get_debug_info(self) -> dict[str, str]:
        """Return the metrics, and what else helps to understand a hang."""
        info = {**self.get_metrics(), **self.rrefs.get_debug_info()}
        for peer in list(self._peers.values()):
            info[f"agent.peer.{peer.info.name}"] = peer.describe()
        info.update(self._arenas.get_debug_info())
        info["agent.timeouts"] = str(len(self.client.timeouts))
        info["agent.calls_held_until_answers_are_read"] = str(self._server.num_held())
        info["agent.messages_dropped_as_rubbish"] = str(self._server.num_rubbish)
        return info

    def enable_gil_profiling(self, enabled: bool) -> None:
        """Measure, from now on, how long requests wait for the interpreter lock."""
        self._server.gil_waits = self.gil_waits if enabled else None

    def _timeout(self, timeout_s: float) -> float:
        return self._rpc_timeout_s if timeout_s == constants.UNSET_RPC_TIMEOUT else timeout_s


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown
