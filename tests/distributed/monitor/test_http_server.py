"""The HTTP server for a worker's metrics: its answers, and limits for strangers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from fastdist.distributed.monitor import http_server
from fastdist.distributed.monitor.http_server import MOST_CONNECTIONS, Answer, HttpServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpServer]:
    monkeypatch.setattr(http_server, "REQUEST_S", 0.5)

    def answer(path: str) -> Answer:
        if path == "/fails":
            raise KeyError("secret")
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


def test_strangers_that_say_nothing_are_bounded_in_number_and_time(server: HttpServer) -> None:
    idle = [connected(server) for _ in range(MOST_CONNECTIONS)]
    # Further connections are closed immediately, and idle connections after a request's time limit.
    with connected(server) as one_more:
        assert read_all(one_more) == b""
    for connection in idle:
        read_all(connection)  # returns when the server closes the connection
        connection.close()
    assert ask(server, b"GET /page HTTP/1.1\r\n\r\n").endswith(b"/page")


def test_a_port_that_is_taken_is_an_error(server: HttpServer) -> None:
    with pytest.raises(OSError, match="ddress already in use"):
        HttpServer("127.0.0.1", server.port, lambda path: Answer(200, b""))
