"""The agent for ZeroMQ: it combines the group, the pipes to peers, the server and the client."""

from __future__ import annotations

import functools
import logging
import sys
import time
from collections.abc import Callable

from fastdist.concurrency.future import Future, InternalFuture
from fastdist.concurrency.thread_pool import ThreadPool
from fastdist.core.errors import RankTakenError, RpcNotRunningError
from fastdist.devices import staging
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.sockets import Security
from fastdist.distributed.store import Store
from fastdist.distributed.store.environment import store_is_hosted

from .agent import RpcAgent, id_offset
from .arena_offers import ArenaOffers
from .calls.client import Client
from .calls.outgoing import Call
from .calls.serving import Server
from .closing import Closing
from .debug_log import debug_log
from .devices import require_devices_of_maps
from .leaving import DRAIN_AT_EXIT_S, DRAIN_S, LINGER_S, Leaving, Stage
from .message import gate
from .metrics import CallCounts, NetworkSourceInfo, TimeSeriesMetricsTracker
from .notices import NoticeSender
from .options import ARENA, CUDA_IPC, TensorPipeRpcBackendOptions, channels
from .references.context import RRefContext
from .workers import joining
from .workers.callers import Callers
from .workers.end_reasons import CAUSE
from .workers.group import Group
from .workers.joining import join_dynamic, join_static
from .workers.progress import Progress
from .workers.record import Record, new_incarnation, require_descriptors, require_name
from .workers.session import Times
from .workers.store_keeper import keeper_of
from .workers.stuck import Stuck, latest
from .workers.workers import Workers

_logger = logging.getLogger(__name__)


class ZmqAgent(RpcAgent):
    """The agent of one worker, with this worker's ends of all pipes.

    Raises  RpcError for a bad name, or if the members disagree; StoreTimeoutError naming the
            members that did not join
    """

    client_class: type[Client] = Client
    options_class: type[TensorPipeRpcBackendOptions] = TensorPipeRpcBackendOptions
    # The most seconds by which functions that still run for other workers may delay the shutdown.
    drain_s = DRAIN_S
    # The reason why this process ends without a call of rpc.shutdown(); sent to other workers.
    _why_ended = ""
    _closing: Closing | None = None

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
        self.options, self.store, self.counts = options, store, CallCounts()
        self.gil_waits = TimeSeriesMetricsTracker()
        self._switch_interval_before: float | None = None
        options.limits.set_for_sockets()
        require_descriptors(world_size)
        chosen = [entry.name for entry in channels.choose(options._channels)]
        self._context = Context(options._transports, host=host, security=security)
        self._listener = self._context.listen(f"router of {name}")
        try:
            addresses = dict(self._listener.addresses)
            device_maps = options.device_maps_as_text()
            mine = (rank, world_size, new_incarnation(), addresses, device_maps, security.kind)
            takes_back = options.restarts and world_size > 0
            self.me = Record(name, *mine, limits=options.limits, restarts=takes_back)
            self.group = self._meet(store, world_size)
            self.me = self.group.me
        except BaseException:
            self._listener.close()
            raise
        self.progress = Progress("fastdist-rpc-progress")
        self._arenas = ArenaOffers(self, is_wanted=ARENA in chosen, by_ipc=CUDA_IPC in chosen)
        self._callers = Callers(self._listener, self.me)
        self.workers = workers = Workers(
            *(self.group, self._context, self._callers, self.progress),
            *(self.submit_uncounted, self._arenas.lender_to),
            Times(options.frozen_s, options.grace_s, options.is_frozen_s_chosen),
        )
        self._server = server = Server(
            *(self._listener, self._callers, self.counts, workers.admit, workers.note_goodbye_read)
        )
        self.pool = ThreadPool("fastdist-rpc-pool", options.num_worker_threads, server)
        server.stuck, self.pool.when_stuck = self._find_stuck, server.all_wait
        self.client = self.client_class(
            *(workers, self.pool, self.counts, options.rpc_timeout),
            *(self.device_map_to, self._gave_up),
        )
        if options.device_maps:
            self._send_late()
        self.notice_sender = NoticeSender(self.client.send)
        workers.lost_callbacks.append(self._arenas.peer_lost)
        self.rrefs = RRefContext(workers, self.client, self.notice_sender, id_offset())
        self.use_plain_calls()
        self.leaving = Leaving(self, self._give_up, self._owes_notices)
        keeper = keeper_of(store, workers, lambda: self.leaving.needs_store)
        if keeper is not None:
            workers.lost_callbacks.append(keeper.handle_lost)

    def _meet(self, store: Store, world_size: int) -> Group:
        """Join the group within the remaining time of init_rpc."""
        join_s = min(self.options.meeting_s(), store.timeout.total_seconds())
        deadline = time.monotonic() + join_s
        answers = functools.partial(joining.answers, self._context, self.me)
        if not world_size:
            return join_dynamic(store, self.me, self.options.frozen_s, answers)
        try:
            frozen_s = self.options.frozen_s if self.options.restarts else None
            group = join_static(store, self.me, join_s, frozen_s, answers)
        except RankTakenError as error:
            raise joining.make_known(self._context, store, self.me, error) from error
        left_s = max(0.0, deadline - time.monotonic())
        if group.has_maps and not group.came_back:
            require_devices_of_maps(store, self.me, group.read_members(left_s), left_s)
        return group

    def _find_stuck(self) -> Stuck:
        """Return this worker if all its threads wait; otherwise a stuck worker it waits for."""
        if num_threads := self.pool.num_stuck():
            return Stuck(self.me.name, num_threads, time.monotonic())
        return latest(peer for peer in self.workers.living() if peer.pipe.is_waited_for())

    def start(self) -> None:
        """Start to serve requests."""
        gate.set_mode(gate.STRICT if self.options.strict else gate.OPEN, self.me.limits.nesting)
        if self.options.switch_interval is not None:
            # A thread that computes in Python releases the interpreter lock at this interval. At
            # the default of 5 ms a call into this worker would wait for two intervals.
            self._switch_interval_before = sys.getswitchinterval()
            sys.setswitchinterval(self.options.switch_interval)
        names = [one.name for one in self.group.members]
        debug_log.look()
        debug_log.worker(self.me.rank, "joins as %r a group of %s", self.me.name, names)
        self.workers.is_open = True
        self.leaving.barrier.register()
        self._arenas.register()
        self.progress.start()
        self.notice_sender.start()
        self.pool.start()
        if self.group.came_back:
            self.workers.meet_all()

    def _send_late(self) -> None:
        # Imported here, so that a worker that sends no GPU tensors does not pay for the import.
        from .gpu_transport.late_calls import LateCalls

        self.client.request = LateCalls(self.client).request  # type: ignore[method-assign]

    @property
    def is_static_group(self) -> bool:
        """Whether the group has a world size."""
        return self.group.is_static

    def get_network_source_info(self) -> NetworkSourceInfo:
        """Return this worker's rank and network address."""
        addresses = self.me.addresses
        address = addresses.get("uv") or next(iter(addresses.values()))
        return NetworkSourceInfo(self.me.rank, address.encode())

    def leave(self, timeout_s: float) -> None:
        self.leaving.leave(timeout_s)

    def _gave_up(self, call: Call) -> None:
        self.rrefs.gave_up(call)

    def _give_up(self, deadline: float) -> None:
        self.rrefs.delete_all(deadline)
        if self.group.is_static:
            self.store.close()

    def _owes_notices(self) -> bool:
        # Some stores end when their last user closes them. Such a store must be closed by all
        # workers before one of them joins again.
        is_counted = self.store.ends_with_last_user
        return is_counted or self.notice_sender.was_used or self.rrefs.has_any()

    def ends_at_exit(self, why: str) -> None:
        self.drain_s = DRAIN_AT_EXIT_S
        # If members may leave the group at any time, or if a launcher sees each exit, an end
        # without an exception is not a failure.
        may_go = not self.group.is_static or (self.group.takes_members_later and store_is_hosted())
        if may_go and CAUSE not in why:
            return
        self._why_ended = why
        noted: Future[None] = InternalFuture()

        def note() -> None:
            self.group.tell_ended(why)
            noted.set_result(None)

        # The store may be gone, so the wait is short.
        if self.group.is_static and self.submit_uncounted(note):
            noted.wait_until_done(DRAIN_AT_EXIT_S)

    def shutdown(self) -> None:
        if self.workers.close():
            self.leaving.stage = Stage.CLOSING
            debug_log.worker(self.me.rank, "leaves the group")
            self._closing = Closing(self._closing_steps())
        if self._closing is not None:
            self._closing.go_on()

    def _closing_steps(self) -> list[Callable[[], object]]:
        error = RpcNotRunningError(
            f"Node {self.me.rank} has shut down RPC; calls without an answer may have run"
        )
        ends = [
            functools.partial(peer.close, error, linger_s=LINGER_S, why=self._why_ended)
            for peer in self.workers.met()
        ]
        return [
            self.notice_sender.close,
            self.rrefs.close,
            lambda: self.group.take_out(self.me, was_lost=bool(self._why_ended)),
            self.progress.timeouts.close,
            *[functools.partial(self.progress.post, end) for end in ends],
            self.progress.stop,
            functools.partial(self.client.end_resends, error),
            self._stop_pool,
            functools.partial(self._listener.close, LINGER_S),
            self.leaving.barrier.unregister,
            self._arenas.close,
            self._restore_switch_interval,
            functools.partial(setattr, self.leaving, "stage", Stage.CLOSED),
        ]

    def _stop_pool(self) -> None:
        for name in self.pool.stop(self.drain_s):
            _logger.warning("thread %s still runs a user's function; RPC ends without it", name)

    def _restore_switch_interval(self) -> None:
        if self._switch_interval_before is not None:
            sys.setswitchinterval(self._switch_interval_before)

    def get_metrics(self) -> dict[str, str]:
        metrics = {
            "agent.thread_pool_size": str(self.pool.num_threads()),
            "agent.num_idle_threads": str(self.pool.num_idle()),
            **self.counts.as_text(),
        }
        if (waits := self._server.gil_waits) is not None:
            metrics["agent.gil_average_wait_time_us"] = str(waits.compute_average())
        return metrics

    def get_debug_info(self) -> dict[str, str]:
        info = {**self.get_metrics(), **self.rrefs.get_debug_info()}
        for peer in self.workers.met():
            info[f"agent.peer.{peer.info.name}"] = peer.describe()
        for name, reason in self._context.why_not_viable().items():
            info[f"agent.transport.{name}"] = f"none: {reason}"
        info["agent.stage"] = self.leaving.stage.name.lower()
        info.update(self._arenas.get_debug_info())
        devices = self.options.devices or self.workers.mapped_devices()
        info["agent.devices"] = ", ".join(map(str, devices)) or "the CPU alone"
        for kind, (lent_bytes, locked_bytes) in staging.usage().items():
            text = f"{lent_bytes} of {locked_bytes} bytes of locked memory lent for copies"
            info[f"agent.cuda_basic.{kind}"] = text
        info["agent.timeouts"] = str(len(self.progress.timeouts))
        info["agent.calls_held_until_answers_are_read"] = str(self._callers.num_held())
        info["agent.messages_dropped_as_rubbish"] = str(self._server.num_rubbish)
        return info

    def enable_gil_profiling(self, enabled: bool) -> None:
        """Start or stop measuring how long requests wait for the interpreter lock."""
        self._server.gil_waits = self.gil_waits if enabled else None
