"""A small HTTP server for monitoring systems; any other client may reach its port too."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from .listener import Listener

# Limits for unknown clients: connections at a time, bytes of a request, and seconds for a request.
MOST_CONNECTIONS: Final = 8
MOST_REQUEST_BYTES: Final = 8192
REQUEST_S: Final = 5.0
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Answer(NamedTuple):
    """The response to one request: its status, its content type and its body."""

    status: int
    text: bytes
    content_type: str = "text/plain; charset=utf-8"


class HttpServer(Listener):
    """Answers GET and HEAD requests, with one short-lived thread and one connection per request.

    If too many connections are open, a new one replaces the oldest that has not sent a whole
    request. So clients that send nothing cannot keep others out.

    Raises  OSError if the address or the port is not available

    Args:
        host: The address to bind.
        port: The port; 0 for any free port.
        answer: Called with the path of each request, on a thread of the server.

    Threads: any. The server's threads are daemons, so the server ends with the process.
    """

    def __init__(self, host: str, port: int, answer: Callable[[str], Answer]) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=16)
        super().__init__(listening, self._admit, "fastdist-metrics")
        self.port: int = listening.getsockname()[1]
        self._answer = answer
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        self._lock = threading.Lock()
        # The connections that have not sent a whole request, oldest first.
        self._reading: dict[socket.socket, None] = {}

    def _admit(self, connection: socket.socket) -> None:
        if not self._free.acquire(blocking=False) and not self._replaces_another():
            connection.close()
            return
        with self._lock:
            self._reading[connection] = None
        try:
            threading.Thread(target=self._answer_on, args=(connection,), daemon=True).start()
        except RuntimeError:  # no thread can be started
            self._has_read(connection)
            connection.close()
            self._free.release()

    def _replaces_another(self) -> bool:
        """End the oldest connection without a whole request; return whether its place is free."""
        with self._lock:
            oldest = next(iter(self._reading), None)
            if oldest is None:
                return False
            del self._reading[oldest]
            try:
                oldest.shutdown(socket.SHUT_RDWR)  # its thread, which waits for data, ends
            except OSError:
                pass  # the client has just closed the connection
        return self._free.acquire(timeout=REQUEST_S)

    def _has_read(self, connection: socket.socket) -> None:
        with self._lock:
            self._reading.pop(connection, None)

    def _answer_on(self, connection: socket.socket) -> None:
        try:
            with connection:
                try:
                    request = _read_request(connection)
                except TimeoutError:
                    answer, has_body = Answer(408, b"no whole request came in time\n"), True
                else:
                    self._has_read(connection)
                    answer, has_body = self._answer_to(request)
                connection.settimeout(REQUEST_S)
                connection.sendall(_head(answer) + (answer.text if has_body else b""))
        except OSError:
            pass  # the client is gone, or is too slow
        finally:
            self._has_read(connection)
            self._free.release()

    def _answer_to(self, request: bytes) -> tuple[Answer, bool]:
        words = request.split(b"\n", 1)[0].split()
        if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not request.isascii():
            return Answer(400, b"not an HTTP request\n"), True
        method, path = words[0].decode(), words[1].decode().partition("?")[0]
        if method not in ("GET", "HEAD"):
            return Answer(405, b"only GET and HEAD\n"), True
        try:
            return self._answer(path), method == "GET"
        except Exception as error:  # the client gets a response even if `answer` fails
            return Answer(500, f"{type(error).__name__}\n".encode()), method == "GET"


def _read_request(connection: socket.socket) -> bytes:
    """Return the head of a request; empty bytes if it exceeds the limits or is incomplete."""
    until, data = time.monotonic() + REQUEST_S, b""
    while b"\r\n\r\n" not in data and b"\n\n" not in data:
        left_s = until - time.monotonic()
        if left_s <= 0 or len(data) > MOST_REQUEST_BYTES:
            return b""
        connection.settimeout(left_s)
        chunk = connection.recv(4096)
        if not chunk:
            return b""
        data += chunk
    return data


def _head(answer: Answer) -> bytes:
    allow = "Allow: GET, HEAD\r\n" if answer.status == 405 else ""
    return (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\n"
        f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.text)}\r\n"
        f"{allow}Connection: close\r\n\r\n"
    ).encode()
