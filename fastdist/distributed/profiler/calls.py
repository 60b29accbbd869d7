"""Calls of this worker while a profile records: their names, and the recordings of their events."""

# Note [Calls under a profile]
# Users call other workers with `call`, `call_each` and `call_async` of an agent, and with
# `create_remote` and `fetch` of `agent.rrefs`. The public functions look these five up in
# `agent.client.users`, which is a ProfiledCalls while a recording is open. fastdist's internal
# queries use `agent.client` and `agent.send`, and are not profiled.

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from fastdist.distributed.rpc.message.types import MessageType, call_type_of
from fastdist.distributed.rpc.workers.record import WorkerInfo

from ...concurrency.future import Executor, Future, outcome_of
from ...instrumentation.time_ranges import TimeRange, clock, time_ranges
from ..rpc import agent as agents
from ..rpc import interceptors
from ..rpc.agent import RpcAgent
from ..rpc.constants import UNSET_RPC_TIMEOUT
from ..rpc.references.rref import RRef
from ..rpc.torch_names.internal import RPCExecMode, _build_rpc_profiling_key
from ..rpc.torch_names.remote_profiler_manager import RemoteProfilerManager
from .group_recording import group_recording
from .interceptor import CallingInterceptor, ServingInterceptor
from .served import RPC, Following, recording_here


class ProfiledCalls:
    """The five functions with which users call other workers, with profiling."""

    def __init__(self, agent: RpcAgent) -> None:
        self.agent, self._rrefs = agent, agent.rrefs
        self._name = agent.get_worker_info().name

    def call(self, to: WorkerInfo, function: Callable[..., Any], *more: Any) -> Any:
        """Run function on another worker, wait, and return its result."""
        if not _is_followed():
            return self.agent.call(to, function, *more)
        call = _OneCall(self._key(RPCExecMode.SYNC, function, to))
        try:
            with call.making():
                return self.agent.call(to, function, *more)
        finally:
            call.end()

    def call_each(
        self,
        calls: Sequence[tuple[WorkerInfo, Callable[..., Any], Sequence[Any]]],
        meanwhile: Callable[[], object],
    ) -> list[Future[Any]]:
        """Run each (function, args) on its worker, call `meanwhile`, and return the finished
        Futures.
        """
        if not _is_followed():
            return self.agent.call_each(calls, meanwhile)
        begun = [outcome_of(self.call_async, *call, {}, UNSET_RPC_TIMEOUT) for call in calls]
        meanwhile()
        return [outcome_of(lambda call: call.value().wait(), one) for one in begun]

    def call_async(self, to: WorkerInfo, function: Callable[..., Any], *more: Any) -> Future[Any]:
        """Run function on another worker and return a Future of its result."""
        if not _is_followed():
            return self.agent.call_async(to, function, *more)
        call = _OneCall(self._key(RPCExecMode.ASYNC, function, to))
        try:
            with call.making():
                future = self.agent.call_async(to, function, *more)
        except BaseException:
            call.end()
            raise
        return call.future_after(future, self.agent.pool)

    def create_remote(
        self,
        to: WorkerInfo,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        timeout_s: float,
    ) -> RRef[Any]:
        """Run function on another worker, and return an RRef to its result without waiting."""
        given = (to, function, args, kwargs, timeout_s)
        if not _is_followed():
            return self._rrefs.create_remote(*given)
        call = _OneCall(self._key(RPCExecMode.REMOTE, function, to))
        try:
            with call.making():
                rref = self._rrefs.create_remote(*given)
        except BaseException:
            call.end()
            raise
        assert rref._creation is not None
        rref._creation = call.future_after(rref._creation, self.agent.pool)
        rref._profiling_future = rref._creation
        return rref

    def fetch(self, rref: RRef[Any], timeout: float) -> Any:
        """Wait for the value of an RRef that another worker owns, and return the value."""
        if not _is_followed():
            return self._rrefs.fetch(rref, timeout)
        start_ns = clock()
        value = self._rrefs.fetch(rref, timeout)
        time_ranges.add(f"to_here#({self._name})->({rref.owner_name()})", "user", start_ns)
        if rref._creation is not None:
            # The value may arrive before the answer of the call that created it. That answer
            # contains the call's events.
            rref._creation.wait_until_done()
        return value

    def _key(self, how: RPCExecMode, function: Callable[..., Any], to: WorkerInfo) -> str:
        return _build_rpc_profiling_key(how, name_of(function), self._name, to.name)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name that events show for a function."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"aten::{name}" if call_type_of(function) == MessageType.SCRIPT_CALL else name


def _is_followed() -> bool:
    """Return whether a recording needs the events that callees of this thread's calls record."""
    follows = time_ranges.follows_calls or recording_here() is not None
    if follows or group_recording() is not None:
        return True
    if time_ranges.on and not _has_warned:
        _warn_once()
    return False


def _warn_once() -> None:
    # time_ranges.on may be true only because another thread serves a profiled request: no warning.
    if any(recording.warns_of_calls for recording in time_ranges.listeners()):
        _has_warned.append(True)
        warnings.warn(
            "Profiling a distributed call with the Kineto profiler will profile the caller, but "
            "not the worker. emit_nvtx and emit_itt cover this process alone: to see what the "
            "worker does, call it under autograd.profiler.profile or profiler.profile",
            stacklevel=5,
        )


_has_warned: list[bool] = []


class _OneCall:
    """A call from its start to its end."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.profiling_id = 0
        self.recording = recording_here()
        self.sent_ns = self._start_ns = clock()
        self._thread = threading.get_ident(), time_ranges.thread_name()

    @contextmanager
    def making(self) -> Iterator[None]:
        """Associate the requests that this thread sends in the block with this call."""
        manager = RemoteProfilerManager.get_instance()
        manager.set_current_key(self.key)
        calling.begin(self)
        try:
            yield
        finally:
            calling.done()
            manager.unset_current_key()

    def hand_in(self, known: TimeRange) -> None:
        """Add a range to all recordings that follow this call."""
        time_ranges.hand_in(known)
        if self.recording is not None:
            self.recording.keep(known)

    def end(self) -> None:
        """Add the range of the call itself."""
        stop_ns = clock()
        _call_ended(self)
        known = TimeRange(
            *(self.key, RPC, self._start_ns, stop_ns, *self._thread, time_ranges.node_id),
            is_async=True,
            flow_id=self.profiling_id,
        )
        self.hand_in(known)

    def future_after(self, future: Future[Any], pool: Executor) -> Future[Any]:
        """Return a Future with the same outcome, completed after the call's range has been
        added.
        """
        executor = pool if self.recording is None else Following(pool, self.recording)
        outer: Future[Any] = Future(executor=executor)

        def end(done: Future[Any]) -> None:
            self.end()
            error = done.exception()
            outer.try_complete(None if error is not None else done.value(), error)

        future.when_done(end)
        return outer


calling: Final = CallingInterceptor()
serving: Final = ServingInterceptor()
# Guards the two variables below. It may be acquired while graph/recordings.py's lock is held.
_lock = threading.Lock()
_profiled: ProfiledCalls | None = None
_is_recording = False


def recording_changed(is_open: bool) -> None:
    """Start or stop to profile this worker's calls; called by graph/recordings.py."""
    global _is_recording
    with _lock:
        _is_recording = is_open
        _look(agents.current_agent_or_none())


def agent_changed(agent: RpcAgent | None) -> None:
    """Profile the calls of another agent, if a recording is open."""
    with _lock:
        _look(agent)


def _call_ended(call: _OneCall) -> None:
    calling.forget(call)
    if not _is_recording:
        with _lock:
            _look(agents.current_agent_or_none())


def _look(agent: RpcAgent | None) -> None:
    global _profiled
    # Calls that are still under way need the interceptor after the recording has ended, because
    # their answers contain events.
    is_wanted = _is_recording or calling.has_calls()
    if _profiled is not None and not (is_wanted and _profiled.agent is agent):
        _profiled.agent.use_plain_calls()
        _profiled = None
        interceptors.install("profiler", serving)
    if _profiled is None and is_wanted and agent is not None:
        interceptors.install("profiler", calling)
        _profiled = agent.client.users = ProfiledCalls(agent)
