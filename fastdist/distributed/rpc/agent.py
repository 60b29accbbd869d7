"""The interface of agents, and the current agent of this process."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from fastdist.concurrency.future import Future, outcome_of
from fastdist.concurrency.thread_pool import ThreadPool
from fastdist.core.device import Device
from fastdist.core.errors import RpcNotRunningError
from fastdist.system.import_hooks import load_for_rpc
from fastdist.tensor.tensor import Tensor

from .calls.client import Client
from .calls.outgoing import LaneCall
from .constants import UNSET_RPC_TIMEOUT
from .handlers import Reply
from .message.ids import random_id_offset
from .message.metadata import Value
from .message.types import MessageType, call_type_of
from .metrics import CallCounts
from .notices import NoticeSender
from .options import TensorPipeRpcBackendOptions
from .references.context import RRefContext
from .torch_names.argument_errors import incompatible, seconds
from .workers.hooks import lost_hooks
from .workers.record import Record, WorkerInfo
from .workers.worker import Worker
from .workers.workers import Workers


class RpcAgent(ABC):
    """Sends this worker's calls and runs calls of other workers. Subclasses start and end the
    agent: see zmq_agent.py.

    Thread  any
    """

    me: Record
    options: TensorPipeRpcBackendOptions
    workers: Workers
    counts: CallCounts
    client: Client
    pool: ThreadPool
    # Sends notices to other workers; callers do not wait until a notice is sent.
    notice_sender: NoticeSender
    rrefs: RRefContext

    # ---- members -------------------------------------------------------------------------------

    def get_worker_info(self, to: str | int | WorkerInfo | None = None) -> WorkerInfo:
        """Return the WorkerInfo of this worker, or of the worker with this name or id.

        Raises  RpcError naming the workers that exist; TypeError for any other value of `to`

        Args:
            to: The name, id or WorkerInfo of a worker; this worker if None.
        """
        if to is None:
            return self.me.info
        if to.__class__ is not str and not isinstance(to, (str, int, WorkerInfo)):
            signature = "(worker_name: str | int | WorkerInfo | None = None) -> WorkerInfo"
            why = "expected a worker's name, id or WorkerInfo"
            raise incompatible("get_worker_info", signature, why, to)
        return self.workers.info_of(to)

    def worker(self, to: str | int | WorkerInfo | None = None) -> Worker:
        """Return the Worker of this worker, or of another worker's present life, which is the key
        of data about that life.

        Raises  RpcError naming the workers that exist
        """
        return self.workers.get(self.me.rank if to is None else to)

    def get_worker_infos(self) -> list[WorkerInfo]:
        """Return the WorkerInfos of all workers, ordered by id."""
        return [worker.info for worker in self.workers.all()]

    def device_map_to(self, worker: Worker) -> Mapping[Device, Device]:
        """Return the map from this worker's devices to `worker`'s, for tensors that are sent."""
        maps = self.options.device_maps
        return maps.get(worker.name, {}) if maps else {}

    # ---- calls ---------------------------------------------------------------------------------

    def call(
        self,
        to: WorkerInfo,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        timeout_s: float,
    ) -> Any:
        """Run function on another worker, wait, and return its result.

        Units   timeout_s: 0 waits forever, UNSET_RPC_TIMEOUT takes the default
        """
        return self._begin(to, function, args, kwargs, timeout_s).wait()

    def call_each(
        self,
        calls: Sequence[tuple[WorkerInfo, Callable[..., Any], Sequence[Any]]],
        meanwhile: Callable[[], object],
    ) -> list[Future[Any]]:
        """Run each (function, args) on its worker with the default timeout. Call `meanwhile` when
        all requests have been sent, then wait for the answers, and return the outcomes. The calling
        thread does all of this.
        """
        begun = [outcome_of(self._begin, *call, {}, UNSET_RPC_TIMEOUT) for call in calls]
        try:
            meanwhile()
            return [outcome_of(lambda call: call.value().wait(), one) for one in begun]
        finally:
            for one in begun:
                # Give up the calls for which this thread has not waited, because of an exception.
                # give_up() ignores calls that have ended.
                if one.exception() is None and isinstance(one.value(), LaneCall):
                    one.value().give_up()

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
        return self.client.request(to.id, kind, value, (), None, timeout_s, function)

    def send(
        self,
        to: Worker,
        message_type: int,
        tensors: Sequence[Tensor] = (),
        metadata: Mapping[str, Value] | None = None,
        timeout_s: float = 0.0,
        retries: int = 0,
    ) -> Future[Reply]:
        """Send a request to the handler of its type; see Client.send."""
        kind = MessageType(message_type)
        return self.client.send(to, kind, tensors, metadata, timeout_s, retries)

    def send_direct(
        self,
        to: Worker,
        kind: MessageType,
        tensors: Sequence[Tensor] = (),
        metadata: Mapping[str, Value] | None = None,
    ) -> LaneCall | None:
        """Send a request whose answer the sender handles itself; see Client.send_direct."""
        return self.client.send_direct(to, kind, tensors, metadata)

    def use_plain_calls(self) -> None:
        """Route users' calls directly to this agent and to `rrefs`, not through the ProfiledCalls
        of profiler/calls.py.
        """
        own = (self.call, self.call_each, self.call_async)
        ways = (*own, self.rrefs.create_remote, self.rrefs.fetch)
        self.client.users = SimpleNamespace(**{way.__name__: way for way in ways})

    def submit_uncounted(self, function: Callable[..., object], *arguments: object) -> bool:
        """Run function(*arguments) soon in the agent's pool, without waiting for users' calls.

        This is for work that other threads or workers wait for, such as a handler. Return False if
        the pool is closed.
        """
        return self.pool.submit_uncounted(function, *arguments)

    def get_rpc_timeout(self) -> float:
        """Return the default timeout of calls, in seconds."""
        return self.client.rpc_timeout_s

    def set_rpc_timeout(self, timeout_s: float) -> None:
        """Change the default timeout of calls."""
        self.client.rpc_timeout_s = seconds("timeout", timeout_s)

    get_timeout = get_rpc_timeout  # PyTorch's name

    def join(self, shutdown: bool = False, timeout: float = 0) -> None:
        """Call `leave`; `join` is PyTorch's name for it. The argument `shutdown` is ignored.

        Raises  ShutdownIncomplete
        """
        self.leave(seconds("timeout", timeout))

    def sync(self) -> None:
        """Do nothing, as in PyTorch's TensorPipe agent: a call is sent when it is made."""
        return

    def _get_device_map(self, dst: WorkerInfo) -> dict[Device, Device]:
        """Return the device map for tensors that this worker sends to `dst`."""
        return dict(self.device_map_to(self.worker(dst)))

    def _get_backend_options(self) -> TensorPipeRpcBackendOptions:
        """Return the options with which this worker joined."""
        return self.options

    def _begin(
        self,
        to: WorkerInfo,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        timeout_s: float,
    ) -> LaneCall | Future[Any]:
        kind, value = call_type_of(function), (function, args, kwargs)
        return self.client.begin(to.id, kind, value, None, timeout_s, function)

    # ---- implemented by each kind of agent -----------------------------------------------------

    @abstractmethod
    def leave(self, timeout_s: float) -> None:
        """Wait until no worker has a call under way, and notify others that this worker leaves.

        Units   timeout_s: 0 waits for the other workers to call shutdown, as long as they live
        Raises  ShutdownIncomplete
        """

    @abstractmethod
    def ends_at_exit(self, why: str) -> None:
        """Store why the process ends before its program called shutdown. The shutdown at exit
        sends the reason.
        """

    @abstractmethod
    def shutdown(self) -> None:
        """End all threads and close all sockets of this agent. A second call does nothing."""

    @abstractmethod
    def get_metrics(self) -> dict[str, str]:
        """Return the agent's counters, as text."""

    @abstractmethod
    def get_debug_info(self) -> dict[str, str]:
        """Return the metrics and other data that help to debug a hang."""


# Guards _agent.
_agent_lock = threading.Lock()
_agent: RpcAgent | None = None
_forked_from: int | None = None
_id_offset = 0


# init_rpc calls _start_hooks with the worker id before it joins; shutdown calls _stop_hooks.
_start_hooks: list[Callable[[int], object]] = []
_stop_hooks: list[Callable[[], None]] = []
_debug_infos: list[Callable[[], Mapping[str, object]]] = []
# Called with each agent that becomes this process's agent, and with None when that agent ends.
_watchers: list[Callable[[RpcAgent | None], None]] = []


def add_hooks(
    start: Callable[[int], object],
    stop: Callable[[], None],
    lost: Callable[[Worker], None] | None = None,
) -> None:
    """Call start(worker_id) before other workers can reach this one, and stop() after RPC ended.

    lost(worker) is called, on a pool thread, for each worker that is lost or leaves.

    Note    start(worker_id) is called immediately if RPC is up
    """
    _start_hooks.append(start)
    _stop_hooks.append(stop)
    if lost is not None:
        lost_hooks.append(lost)
    agent = _agent
    if agent is not None:
        start(agent.get_worker_info().id)


def add_debug_info(ask: Callable[[], Mapping[str, object]]) -> None:
    """Add the result of ask() to rpc.get_debug_info()."""
    _debug_infos.append(ask)


class DebugInfo(dict[str, str]):
    """A dictionary that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from fastdist.instrumentation.notebook import table  # late: few workers show a table

        return table(["name", "value"], self.items())


def more_debug_info() -> dict[str, str]:
    """Return the debug infos that the packages above rpc have added."""
    return {name: str(value) for ask in _debug_infos for name, value in ask().items()}


def id_offset() -> int:
    """Return the first number for ids that begin with this worker's id.

    The number is 0 in a group in which no rank can have a second life. Otherwise it is random,
    because an earlier life of this rank may have used the first ids, and values or messages of a
    context with those ids may still exist.
    """
    return _id_offset


def run_start_hooks(worker_id: int, *, takes_members_later: bool) -> None:
    """Load the packages above rpc, and notify them that this worker is about to join."""
    global _id_offset
    _id_offset = random_id_offset() if takes_members_later else 0
    load_for_rpc()
    for hook in _start_hooks:
        hook(worker_id)


def run_stop_hooks() -> None:
    """Notify the packages above rpc that RPC is down."""
    global _id_offset
    _id_offset = 0
    for hook in _stop_hooks:
        hook()


def get_current_agent() -> RpcAgent:
    """Return this process's agent.

    Raises  RpcNotRunningError before init_rpc, after shutdown, and in a forked child
    """
    agent = _agent
    if agent is None:
        if _forked_from is not None:
            raise RpcNotRunningError(
                f"RPC has not been initialized in this process, a fork of {_forked_from}: its "
                "threads and sockets did not come along; start workers with the 'spawn' method"
            )
        raise RpcNotRunningError(
            "RPC has not been initialized. Call fastdist.distributed.rpc.init_rpc first."
        )
    return agent


def current_agent_or_none() -> RpcAgent | None:
    """Return this process's agent, or None."""
    return _agent


def watch_agent(watcher: Callable[[RpcAgent | None], None]) -> None:
    """Call watcher(agent) for this process's agent, now and at each change; None for no agent."""
    _watchers.append(watcher)
    if _agent is not None:
        watcher(_agent)


def is_current_agent_set() -> bool:
    """Return whether RPC is up: init_rpc was called, and shutdown was not called since."""
    return _agent is not None


def set_current_agent(agent: RpcAgent | None) -> None:
    """Set this process's agent; None removes it."""
    global _agent
    with _agent_lock:
        _agent = agent
    for watcher in _watchers:
        watcher(agent)


def _mark_child() -> None:
    global _agent, _agent_lock, _forked_from
    _agent_lock = threading.Lock()
    if _agent is not None:
        _agent, _forked_from = None, os.getppid()


os.register_at_fork(after_in_child=_mark_child)
