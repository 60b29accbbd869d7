"""What every agent offers, and which one this process has."""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastdist.core.errors import RpcNotRunningError
from fastdist.core.future import Future
from fastdist.core.late_rooms import load_late_rooms

from .constants import UNSET_RPC_TIMEOUT
from .handlers import Reply
from .membership import WorkerInfo
from .message_types import MessageType

if TYPE_CHECKING:
    from fastdist.core.device import Device
    from fastdist.core.thread_pool import ThreadPool
    from fastdist.distributed.pipe.metadata import Value
    from fastdist.tensor.tensor import Tensor

    from .lane_call import LaneCall


class RpcAgent(ABC):
    """Sends this worker's calls and runs those of others.

    Thread  any
    """

    # The RRefs of this worker: an RRefContext, which this file does not know.
    rrefs: Any

    @abstractmethod
    def get_worker_info(self, to: str | int | WorkerInfo | None = None) -> WorkerInfo:
        """Return this worker, or the one of a name or id.

        Raises  RpcError naming the workers that exist
        """

    @abstractmethod
    def get_worker_infos(self) -> list[WorkerInfo]:
        """Return all workers by id."""

    @abstractmethod
    def call(
        self,
        to: WorkerInfo,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        timeout_s: float,
    ) -> Any:
        """Run function on another worker, wait, and return its result.

        Units   timeout_s: 0 waits for ever, UNSET_RPC_TIMEOUT takes the default
        """

    @abstractmethod
    def call_async(
        self,
        to: WorkerInfo,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        timeout_s: float,
    ) -> Future[Any]:
        """Run function on another worker and return a Future of its result."""

    @abstractmethod
    def request(
        self,
        worker_id: int,
        kind: MessageType,
        value: object,
        metadata: Mapping[str, Value] | None = None,
        timeout_s: float = UNSET_RPC_TIMEOUT,
        what: object = None,
    ) -> Future[Any]:
        """Send a request with a value in its body, and return a Future of what the answer holds."""

    @abstractmethod
    def request_and_wait(
        self,
        worker_id: int,
        kind: MessageType,
        metadata: Mapping[str, Value],
        timeout_s: float,
        what: object,
    ) -> Any:
        """Send a request without a body, wait, and return what the answer holds."""

    @abstractmethod
    def send(
        self,
        worker_id: int,
        message_type: int,
        tensors: Sequence[Tensor] = (),
        metadata: Mapping[str, Value] | None = None,
        timeout_s: float = 0.0,
        retries: int = 0,
    ) -> Future[Reply]:
        """Send a request to the handler of message_type, and return a Future of its Reply.

        After a failure that leaves the worker alive the request goes again, up to `retries` times,
        1 s later at first and then half as long again each time; so only for what may run twice.
        """

    def send_in_person(
        self,
        worker_id: int,
        message_type: int,
        tensors: Sequence[Tensor] = (),
        metadata: Mapping[str, Value] | None = None,
    ) -> LaneCall | None:
        """Send a request whose sender takes the answer itself, without a hop between threads.

        None where that cannot be done now; nothing was sent then.
        """
        return None

    @abstractmethod
    def device_map_to(self, worker_id: int) -> Mapping[Device, Device]:
        """Return where tensors of this worker's devices go at another."""

    @abstractmethod
    def is_dead(self, worker_id: int) -> bool:
        """Return whether a worker was lost or has left."""

    @abstractmethod
    def add_lost_callback(self, callback: Callable[[WorkerInfo], None]) -> None:
        """Call callback(worker), on a pool thread, for each worker that is lost or leaves."""

    @abstractmethod
    def submit_uncounted(self, function: Callable[..., object], *arguments: object) -> bool:
        """Run function(*arguments) soon in the agent's pool, behind no user's work.

        For what others wait for, as for a handler. False if the pool is closed.
        """

    @abstractmethod
    def get_rpc_timeout(self) -> float:
        """Return the timeout of calls that give none, in seconds."""

    @abstractmethod
    def join(self, timeout_s: float) -> None:
        """Wait until no call is under way anywhere in the group; 0 waits for all to come."""

    @abstractmethod
    def prepare_to_leave(self, deadline: float) -> None:
        """Give up what others must hear of, between the two joins of a graceful shutdown."""

    @abstractmethod
    def part(self) -> None:
        """Say goodbye, and let the others read what they were answered; after the last join."""

    @abstractmethod
    def shutdown(self) -> None:
        """End all threads and close all sockets of this agent. A second time does nothing."""

    @abstractmethod
    def get_metrics(self) -> dict[str, str]:
        """Return what the agent counts, as text."""

    @abstractmethod
    def get_debug_info(self) -> dict[str, str]:
        """Return the metrics, and what else helps to understand a hang."""


_logger = logging.getLogger(__name__)

# Guards _agent.
_agent_lock = threading.Lock()
_agent: RpcAgent | None = None
_forked_from: int | None = None
_first_number = 0


# Called with the worker id by init_rpc, before the group is joined, and by shutdown.
_start_hooks: list[Callable[[int], None]] = []
_stop_hooks: list[Callable[[], None]] = []
# Called by every agent, on a pool thread, with each worker that is lost or leaves.
lost_hooks: list[Callable[[WorkerInfo], None]] = []
# Likewise with each worker that is silent, and in which way.
silence_hooks: list[Callable[[WorkerInfo, str], None]] = []


def add_hooks(
    start: Callable[[int], None],
    stop: Callable[[], None],
    lost: Callable[[WorkerInfo], None] | None = None,
) -> None:
    """Call start(worker_id) before this worker can be reached, and stop() when it no longer can.

    lost(worker) is called, on a pool thread, for each worker that is lost or leaves.

    Note    start is called at once if RPC is up
    """
    _start_hooks.append(start)
    _stop_hooks.append(stop)
    if lost is not None:
        lost_hooks.append(lost)
    agent = _agent
    if agent is not None:
        start(agent.get_worker_info().id)


def add_silence_hook(hook: Callable[[WorkerInfo, str], None]) -> None:
    """Call hook(worker, why), on a pool thread, for each worker that does not answer.

    It may come back: after 3 s without a sign of life it is waited for until frozen_s, an option,
    is over and its calls fail; one that lives while its Python does not answer for 60 s is only
    told of.
    """
    silence_hooks.append(hook)


def tell_silence(pool: ThreadPool, worker: WorkerInfo, why: str) -> None:
    """Log that a worker is silent, and run the hooks."""
    _logger.warning("worker %r %s", worker.name, why)
    for hook in silence_hooks:
        pool.submit_uncounted(hook, worker, why)


def first_number() -> int:
    """Return where the numbers begin that stand beside this worker's id in ids of its own.

    That is 0 in a group of a fixed size. In another one who had the rank before has given out ids
    from there, and what these stand for may be there still: values, and messages of a context.
    """
    return _first_number


def run_start_hooks(worker_id: int, *, is_static: bool) -> None:
    """Load the rooms above, and tell them that this worker is about to join."""
    global _first_number
    # Half of the 48 bits that a number has, at least, are left to count in.
    _first_number = 0 if is_static else int.from_bytes(os.urandom(6), "little") >> 1
    load_late_rooms()
    for hook in _start_hooks:
        hook(worker_id)


def run_stop_hooks() -> None:
    """Tell the rooms above that RPC is down."""
    global _first_number
    _first_number = 0
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


def is_current_agent_set() -> bool:
    """Return whether init_rpc has been called, and shutdown has not."""
    return _agent is not None


def set_current_agent(agent: RpcAgent | None) -> None:
    """Make agent this process's; None takes it away."""
    global _agent
    with _agent_lock:
        _agent = agent


def _mark_child() -> None:
    global _agent, _agent_lock, _forked_from
    _agent_lock = threading.Lock()
    if _agent is not None:
        _agent, _forked_from = None, os.getppid()


os.register_at_fork(after_in_child=_mark_child)
