"""The thread that serves one StoreState to a whole job over ZeroMQ."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Hashable, Mapping

import zmq

from fastdist.core.errors import MessageError, StoreAddressError, StoreError
from fastdist.distributed.sockets import (
    Doorbell,
    Refusals,
    Security,
    Tell,
    Waiter,
    authenticated_rank,
    bind,
    has_message,
    make_socket,
    split_tcp_endpoint,
    tcp_endpoint,
    unique_name,
    wait_until_free,
)
from fastdist.system.foreign_text import one_line

from .mistakes import Mistakes
from .requests import Answer, Op, Request, Status
from .state import StoreState
from .wire import Reply, pack_reply, unpack_question

THREAD_NAME = "fastdist-store"
_JOIN_S = 5.0
_FAREWELL_MS = 500
_PORT_S = 1.0
# How many requests are served between checks for timeouts.
_BATCH = 256
# The longest line that this process logs for a member.
_MAX_LINE = 1000


class StoreServer:
    """A ROUTER socket on tcp and inproc, its thread, and the dictionary that only the thread uses.

    If tcp is secured, requests of unauthenticated peers do not arrive here. The answer to an
    invalid request, or to a request that fails, is a refusal. A client that is gone is forgotten.
    Refused connections are reported to `tell`, and to members on request, as only this process
    knows them.
    """

    def __init__(
        self,
        host: str,
        port: int,
        security: Security,
        tell: Tell,
        groups: Mapping[bytes, int] | None = None,
    ) -> None:
        self._state = StoreState()
        for name, world_size in (groups or {}).items():
            self._state.expect(name, world_size)
        self._mistakes = Mistakes()
        self._bell = Doorbell()
        self._failure: BaseException | None = None
        # The connections that have sent a message.
        self._routes: set[bytes] = set()
        self._router = make_socket(zmq.ROUTER, "router of the store")
        self._tell = tell
        self._refusals = self._router.refusals = Refusals(tell)
        try:
            self.local_endpoint = bind(self._router, f"inproc://{unique_name('fastdist-store')}")
            self.endpoint = bind(self._router, tcp_endpoint(host, port), security)
        except zmq.ZMQError as error:
            self._router.close()
            self._bell.close()
            raise StoreAddressError(_bind_error(host, port, error)) from error
        except BaseException:
            self._router.close()
            self._bell.close()
            raise
        self._host, self.port = split_tcp_endpoint(self.endpoint)
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and close the port; a second call does nothing.

        Raises  StoreError if the thread does not end, or had failed with an internal error
        """
        self._bell.ring()
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            raise StoreError(f"the thread {THREAD_NAME!r} did not end within {_JOIN_S:g} s")
        self._bell.close()
        wait_until_free(self._host, self.port, _PORT_S)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise StoreError(f"the store's server ended because of a bug: {failure!r}") from failure

    def _run(self) -> None:
        waiter = Waiter(self._router, self._bell)
        try:
            while self._bell not in waiter.wait(self._state.next_deadline()):
                for _ in range(_BATCH):
                    if not has_message(self._router):
                        break
                    self._serve_one()
                self._send(self._state.expire(time.monotonic()))
            self._send(self._state.farewell())
        except BaseException as error:
            # close() raises this error; clients only see that their connections end.
            self._failure = error
        finally:
            # Linger until the last answers are sent: rank 0 closes the server as soon as it has
            # received an error, and the same error may not have reached the other ranks yet.
            self._router.close(linger=_FAREWELL_MS)

    def _serve_one(self) -> None:
        first = self._router.recv(copy=False)
        route, frames = first.bytes, self._router.recv_multipart()
        owner = (route, 0)
        try:
            self._count(route, first)
            question = unpack_question(frames)
            owner, now = (route, question.request_id), time.monotonic()
            if question.op is Op.QUERY_HOST:
                answers = [
                    Answer(owner, Status.OK, self._answer_host_query(question.arguments, first))
                ]
            else:
                deadline = now + question.timeout_s
                request = Request(question.op, question.arguments, owner, deadline)
                answers = self._state.submit(request, now)
        except MessageError as error:
            answers = [Answer(owner, Status.REFUSED, [str(error).encode()])]
        except Exception as error:
            told = self._mistakes.note("to read a request", error)
            answers = [Answer(owner, Status.REFUSED, [told.encode(errors="backslashreplace")])]
        self._send(answers)

    def _answer_host_query(self, lines: list[bytes], first: zmq.Frame) -> list[bytes]:
        """Log a line that a member sent; return the store's host and the refused connections."""
        for line in lines[:1]:
            told = one_line(line, _MAX_LINE)
            self._tell(logging.WARNING, f"{told} (it came from {_host_of(first)})")
        host = f"process {os.getpid()} on {socket.gethostname()}, at {self.endpoint}"
        return [text.encode() for text in (host, *self._refusals.summary())]

    def _count(self, route: bytes, first: zmq.Frame) -> None:
        """Record the first message of a connection; forget connections that have ended."""
        connections = self._router.connections
        if connections is None:
            return  # without keys, members are not authenticated
        while connections.ended:
            self._forget(connections.ended.popleft())
        if route not in self._routes:
            self._routes.add(route)
            member = authenticated_rank(first)
            if member is not None:  # None: the frame comes from this process
                descriptor = int(first.get(zmq.SRCFD))
                connections.spoke(str(member), route, descriptor)
                self._refusals.spoke(descriptor, _host_of(first))

    def _forget(self, route: bytes) -> None:
        self._routes.discard(route)
        self._state.unwatch([owner for owner in self._state.watchers() if _is_of(owner, route)])

    def _send(self, answers: list[Answer]) -> None:
        for answer in answers:
            assert isinstance(answer.owner, tuple)
            route, request_id = answer.owner
            reply = pack_reply(Reply(answer.status, request_id, answer.frames))
            try:
                self._router.send_multipart([route, *reply], zmq.NOBLOCK)
            except zmq.ZMQError as error:
                if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                    raise
                # The client is gone, so remove its watches.
                self._forget(route)


def _host_of(first: zmq.Frame) -> str:
    try:
        return str(first.get("Peer-Address"))
    except zmq.ZMQError:
        return "this process"


def _is_of(owner: Hashable, route: bytes) -> bool:
    return isinstance(owner, tuple) and owner[0] == route


def _bind_error(host: str, port: int, error: zmq.ZMQError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            "The server socket has failed to listen on any local network address. port: "
            f"{port}, EADDRINUSE: address already in use: "
            f"port {port} of {host!r} is taken: another job or process has it, or a second "
            "worker of this job that says it is rank 0; choose another (MASTER_PORT, "
            "--master-port of `fastdist run`, or the port of tcp://HOST:PORT), or set "
            "FASTDIST_STORE_HOSTED=1 if a launcher hosts it"
        )
    if error.errno in (errno.EADDRNOTAVAIL, errno.ENODEV, errno.EINVAL):
        return (
            f"{host!r} is not an address of this machine: rank 0, which hosts the store, must "
            "run where MASTER_ADDR points"
        )
    return f"cannot host the store on {host}:{port}: {error}"
