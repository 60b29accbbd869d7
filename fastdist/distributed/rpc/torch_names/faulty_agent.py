"""An agent that fails and delays messages on purpose, for tests of recovery."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from fastdist.concurrency.future import Future
from fastdist.core.errors import RpcTimeoutError
from fastdist.distributed.pipe.frames import Buffer

from ..calls.client import Client
from ..calls.outgoing import FutureCall
from ..init import make_agent
from ..message.types import MessageType
from ..options import TensorPipeRpcBackendOptions
from ..workers.worker import Worker
from ..zmq_agent import ZmqAgent
from . import backend_registry

DEFAULT_MESSAGES_TO_FAIL = (
    "RREF_FORK_REQUEST",
    "RREF_CHILD_ACCEPT",
    "RREF_USER_DELETE",
    "CLEANUP_AUTOGRAD_CONTEXT_REQ",
)


class FaultyTensorPipeRpcBackendOptions(TensorPipeRpcBackendOptions):
    """Options of the FAULTY_TENSORPIPE backend.

    Each message of a type in `messages_to_fail` fails the first `num_fail_sends` times that it is
    sent. `messages_to_delay` maps types of messages to delays in seconds.

    Raises  ValueError for an unknown type
    """

    def __init__(
        self,
        *,
        messages_to_fail: Sequence[str] = DEFAULT_MESSAGES_TO_FAIL,
        messages_to_delay: Mapping[str, float] | None = None,
        num_fail_sends: int = 0,
        **others: Any,
    ) -> None:
        super().__init__(**others)
        for name in (*messages_to_fail, *(messages_to_delay or {})):
            if name not in MessageType.__members__:
                raise ValueError(f"unknown message type {name!r}")
        self.messages_to_fail = list(messages_to_fail)
        self.messages_to_delay = dict(messages_to_delay or {})
        self.num_fail_sends = num_fail_sends


class FaultyClient(Client):
    """A Client whose calls can fail on purpose. It sends every call on the shared lane."""

    to_fail: frozenset[int] = frozenset()
    to_delay: Mapping[int, float] = {}
    num_fail_sends = 0

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Guards _failed: (receiver, type and content of a message) -> how often the message failed.
        self._failed_lock = threading.Lock()
        self._failed: dict[object, int] = {}

    def begin(self, to: int | Worker, kind: MessageType, value: Any, *others: Any) -> Future[Any]:
        """Send a request, and return the Future for which the caller waits."""
        return self.request(to, kind, value, (), *others)

    def send_direct(self, *request: Any) -> None:
        """Return None, so that the caller uses `send`: separate lanes have no faults."""

    def write(self, call: FutureCall, frames: Sequence[Buffer]) -> None:
        """Send a request: normally, late, or not at all."""
        kind = call.message.type
        if kind in self.to_fail and self._fails_again(call):
            # This is the same error as for a message that was lost on the way.
            raise RpcTimeoutError(
                f"Send attempt of {MessageType(kind).name} to worker {call.peer.info.name!r} "
                "failed on purpose"
            )
        delay_s = self.to_delay.get(kind, 0.0)
        if not delay_s:
            super().write(call, frames)
            return
        shared = call.peer.pipe.shared()
        when = time.monotonic() + delay_s
        self.progress.post(self.progress.call_at, when, lambda: shared.send(frames))

    def _fails_again(self, call: FutureCall) -> bool:
        key = (call.peer, call.message.type, repr(call.message.metadata))
        with self._failed_lock:
            self._failed[key] = self._failed.get(key, 0) + 1
            return self._failed[key] <= self.num_fail_sends


class FaultyTensorPipeAgent(ZmqAgent):
    """A ZmqAgent whose requests fail or are delayed as its options require."""

    client_class = FaultyClient
    options_class = FaultyTensorPipeRpcBackendOptions

    def start(self) -> None:
        """Start to serve, and to inject faults."""
        options, client = self.options, self.client
        assert isinstance(options, FaultyTensorPipeRpcBackendOptions)
        assert isinstance(client, FaultyClient)
        client.to_fail = frozenset(MessageType[name] for name in options.messages_to_fail)
        delays = options.messages_to_delay.items()
        client.to_delay = {MessageType[name]: seconds for name, seconds in delays}
        client.num_fail_sends = options.num_fail_sends
        super().start()


backend_registry.register_backend(
    "FAULTY_TENSORPIPE",
    FaultyTensorPipeRpcBackendOptions,
    functools.partial(make_agent, FaultyTensorPipeAgent),
)
