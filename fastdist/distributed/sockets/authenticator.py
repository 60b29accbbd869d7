"""Our ZAP handler: the one thread that tells libzmq which CURVE keys may come in."""

from __future__ import annotations

import threading
from collections.abc import Callable

import zmq

from fastdist.core.errors import FastdistError

from .context import Socket, open_socket, unique_name
from .doorbell import Doorbell
from .waiting import Waiter, has_message

# From a public key (32 bytes) to the User-Id that messages of this connection carry, or None to
# refuse.
Lookup = Callable[[bytes], str | None]

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
THREAD_NAME = "fastdist-zap"
_JOIN_S = 5.0

# Guards the two names below; held while the thread starts or ends. The thread itself never takes
# it.
_handler_lock = threading.Lock()
_handler: _Handler | None = None
# Read by the thread without the lock: entries are only put in or taken out whole.
_lookups: dict[str, Lookup] = {}


def admit(lookup: Lookup) -> str:
    """Return a new ZAP domain for which lookup decides; the first one starts the thread."""
    global _handler
    domain = unique_name("fastdist")
    with _handler_lock:
        if _handler is None:
            _handler = _Handler()
        _lookups[domain] = lookup
    return domain


def dismiss(domain: str) -> None:
    """Answer no more for domain; the last one ends the thread. A second time does nothing."""
    global _handler
    with _handler_lock:
        if _lookups.pop(domain, None) is None or _lookups:
            return
        handler, _handler = _handler, None
        if handler is not None:
            handler.stop()


class _Handler:
    """The thread and its socket.

    There is one for each context, so one for the process: libzmq finds the handler by its inproc
    address. If it were to die, nobody new would be let in, because each socket sets
    ZAP_ENFORCE_DOMAIN.
    """

    def __init__(self) -> None:
        self._bell = Doorbell()
        self._socket = open_socket(zmq.ROUTER, "zap")
        self._socket.set(zmq.LINGER, 0)
        self._socket.bind(ZAP_ENDPOINT)
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._bell.ring()
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            raise FastdistError(f"the thread {THREAD_NAME!r} did not end within {_JOIN_S:g} s")
        self._bell.close()

    def _run(self) -> None:
        waiter = Waiter(self._socket, self._bell)
        try:
            while self._bell not in waiter.wait(None):
                while has_message(self._socket):
                    answer(self._socket)
        finally:
            # close() alone would free the address some time later, on a thread of libzmq's, and the
            # next handler could not have it.
            self._socket.unbind(ZAP_ENDPOINT)
            self._socket.close()


def answer(socket: Socket) -> None:
    """Receive one question of libzmq and send the verdict.

    Source  ZeroMQ RFC 27, ZAP 1.0
    """
    route, empty, *question = socket.recv_multipart()
    request_id = question[1] if len(question) > 1 else b""
    user = _judge(question)
    verdict = (
        [b"200", b"OK", user.encode()]
        if user is not None
        else [b"400", b"not a member of this job", b""]
    )
    socket.send_multipart([route, empty, b"1.0", request_id, *verdict, b""])


def _judge(question: list[bytes]) -> str | None:
    """Return the User-Id of whoever asks to come in, or None."""
    if len(question) != 7:
        return None
    version, _, domain, _, _, mechanism, public_key = question
    lookup = _lookups.get(domain.decode(errors="replace"))
    if version != b"1.0" or mechanism != b"CURVE" or lookup is None:
        return None
    return lookup(public_key)
