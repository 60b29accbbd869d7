"""The HTTP server for a worker's metrics: its answers, and limits for strangers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from fastdist.distributed.monitor import http_server
from fastdist.distributed.monitor.http_server import MOST_CONNECTIONS, Answer, HttpServer

# Requests of /waits that have come, and the end of their wait.
WAITING, GO_ON = threading.Semaphore(0), threading.Event()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    monkeypatch.setattr(http_server, "REQUEST_S", 0.5)

    def answer(path: str) -> Answer:
        if path == "/fails":
            raise KeyError("secret")
        if path == "/waits":
            WAITING.release()
            GO_ON.wait(10.0)
            return Answer(200, path.encode())
        return Answer(200, path.encode()) if path == "/page" else Answer(404, b"no\n")

    server = HttpServer("127.0.0.1", 0, answer)
    server.start()
    yield server
    server.close()


def connected(server: HttpServer) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), 5.0)
    connection.settimeout(10.0)
    return connection


def ask(server: HttpServer, request: bytes) -> bytes:
    with connected(server) as connection:
        connection.sendall(request)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    data = b""
    try:
        while chunk := connection.recv(4096):
            data += chunk
    except ConnectionResetError:
        pass  # the server closed the connection before it had read all of a long request
    return data


@pytest.mark.parametrize(
    ("request_text", "status", "body"),
    [
        (b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK", b"/page"),
        (b"GET /page?x=1 HTTP/1.0\n\n", b"200 OK", b"/page"),
        (b"HEAD /page HTTP/1.1\r\n\r\n", b"200 OK", b""),
        (b"GET /other HTTP/1.1\r\n\r\n", b"404 Not Found", b"no\n"),
        (b"POST /page HTTP/1.1\r\n\r\n", b"405 Method Not Allowed", b"only GET and HEAD\n"),
        (b"GET /fails HTTP/1.1\r\n\r\n", b"500 Internal Server Error", b"KeyError\n"),
        (b"GET /page\r\n\r\n", b"400 Bad Request", b"not an HTTP request\n"),
        (b"\x16\x03\x01\x02\x00\xff\r\n\r\n", b"400 Bad Request", b"not an HTTP request\n"),
        (b"GET /\xc3\xa9 HTTP/1.1\r\n\r\n", b"400 Bad Request", b"not an HTTP request\n"),
        (b"\r\n\r\n", b"400 Bad Request", b"not an HTTP request\n"),
    ],
)
def test_requests_and_rubbish_get_their_answers(
    server: HttpServer, request_text: bytes, status: bytes, body: bytes
) -> None:
    head, _, text = ask(server, request_text).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert text == body


def test_a_request_without_an_end_is_bounded_in_bytes(server: HttpServer) -> None:
    told = ask(server, b"GET /page HTTP/1.1\r\n" + b"x: " + b"y" * 20000)
    assert told == b"" or told.startswith(b"HTTP/1.1 400")
    assert ask(server, b"GET /page HTTP/1.1\r\n\r\n").endswith(b"/page")


def test_clients_that_send_nothing_do_not_keep_others_out(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "REQUEST_S", 60.0)
    before = threading.active_count()
    idle = [connected(server) for _ in range(20)]
    idle[-1].sendall(b"GET /page HTTP/1.1\r\n")  # not the end of a request
    assert ask(server, b"GET /page HTTP/1.1\r\n\r\n").endswith(b"/page")
    # The oldest connections are closed; the others stay, as many as there are places.
    ended = idle[: len(idle) - MOST_CONNECTIONS + 1]
    assert [read_all(connection) for connection in ended] == [b""] * len(ended)
    idle[-1].sendall(b"\r\n")
    assert read_all(idle[-1]).endswith(b"/page")
    assert threading.active_count() - before <= MOST_CONNECTIONS
    for connection in idle:
        connection.close()


def test_a_request_that_is_slow_to_end_gets_an_answer(server: HttpServer) -> None:
    for request in (b"", b"GET /page HTTP/1.1\r\n"):
        assert ask(server, request).startswith(b"HTTP/1.1 408 Request Timeout\r\n")


def test_requests_that_are_being_answered_are_bounded_in_number(server: HttpServer) -> None:
    busy = [connected(server) for _ in range(MOST_CONNECTIONS)]
    for connection in busy:
        connection.sendall(b"GET /waits HTTP/1.1\r\n\r\n")
    for _ in busy:
        assert WAITING.acquire(timeout=10.0)
    with connected(server) as one_more:
        assert read_all(one_more) == b""
    GO_ON.set()
    assert all(read_all(connection).endswith(b"/waits") for connection in busy)
    for connection in busy:
        connection.close()


def test_a_port_that_is_taken_is_an_error(server: HttpServer) -> None:
    with pytest.raises(OSError, match="ddress already in use"):
        HttpServer("127.0.0.1", server.port, lambda path: Answer(200, b""))
