"""Loads the rest of this package when this worker opens a recording, or serves another's profile.

Most workers never profile, and loading the other modules would take a tenth of init_rpc's time.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import AbstractContextManager
from typing import Any, Final

from fastdist.distributed.rpc.message.types import MessageType

from ...graph import recordings
from ...instrumentation.time_ranges import time_ranges
from ..rpc import agent as agents
from ..rpc import interceptors
from ..rpc.agent import RpcAgent
from ..rpc.handlers import Reply, register_handler
from ..rpc.message.message import Message
from ..rpc.workers.worker import Worker

_CALLS: Final = f"{__package__}.calls"
_GROUP_WORKER: Final = f"{__package__}.group_worker"


class LateInterceptor:
    """Passes the profiled calls of other workers to the interceptor of calls.py."""

    # Other requests do not pass through this interceptor.
    serves: Final = frozenset({MessageType.RUN_WITH_PROFILING_REQ})

    def request_in(self, message: Message) -> AbstractContextManager[Any] | None:
        """Record the work of a request if the caller profiles the call."""
        opened: AbstractContextManager[Any] | None = _load(_CALLS).serving.request_in(message)
        return opened

    def response_out(self, message: Message, request: Message) -> None:
        """Add the events of a request to its answer."""
        _load(_CALLS).serving.response_out(message, request)


def install() -> None:
    """Prepare to serve profiled calls, and to profile calls as soon as a recording starts."""
    interceptors.install("profiler", LateInterceptor())
    recordings.watch(lambda is_open: _load(_CALLS).recording_changed(is_open))
    agents.watch_agent(_agent_changed)
    register_handler(MessageType.PROFILE_GROUP_REQ, _profiled)
    agents.add_hooks(_worker_starts, _worker_stops, _worker_lost)


def _load(name: str) -> Any:
    # import_module waits while another thread imports the module; sys.modules would not wait.
    return importlib.import_module(name)


def _agent_changed(agent: RpcAgent | None) -> None:
    if _CALLS in sys.modules:
        _load(_CALLS).agent_changed(agent)


def _profiled(request: Message) -> Reply:
    reply: Reply = _load(_GROUP_WORKER).answer(request)
    return reply


def _worker_starts(worker_id: int) -> None:
    time_ranges.node_id = worker_id


def _worker_stops() -> None:
    time_ranges.node_id = -1


def _worker_lost(worker: Worker) -> None:
    if _GROUP_WORKER in sys.modules:
        _load(_GROUP_WORKER).worker_lost(worker)
