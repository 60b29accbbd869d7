"""The single ZeroMQ context: it counts sockets, ends without waiting, and survives a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import zmq

from fastdist.core.errors import FastdistError
from fastdist.distributed.sockets import (
    Socket,
    make_socket,
    open_socket_count,
    open_socket_names,
    terminate,
)


def test_a_socket_is_counted_from_its_making_to_its_closing() -> None:
    before = open_socket_count()
    socket = make_socket(zmq.PAIR, "a pair")
    assert open_socket_count() == before + 1
    assert "a pair" in open_socket_names()
    socket.close()
    socket.close()
    assert open_socket_count() == before


def test_what_is_to_be_done_when_a_socket_closes_is_done_once() -> None:
    done: list[str] = []
    socket = make_socket(zmq.PAIR, "a pair")
    socket.when_closed(lambda: done.append("first"))
    socket.when_closed(lambda: done.append("second"))
    socket.close()
    socket.close()
    assert done == ["first", "second"]


def test_an_option_that_cannot_be_set_leaves_no_socket_open() -> None:
    with pytest.raises(zmq.ZMQError):
        make_socket(zmq.PAIR, "a pair", options={zmq.ROUTER_MANDATORY: 1})
    assert "a pair" not in open_socket_names()


def test_terminate_names_what_is_open_and_then_ends() -> None:
    socket = make_socket(zmq.PAIR, "a pair left open")
    with pytest.raises(FastdistError, match="still open: a pair left open"):
        terminate()
    socket.close()
    terminate()
    make_socket(zmq.PAIR, "a pair in the next context").close()


def test_sockets_from_many_threads_are_all_counted() -> None:
    def make_and_close() -> None:
        for _ in range(20):
            make_socket(zmq.PAIR, "a pair").close()

    threads = [threading.Thread(target=make_and_close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "a pair" not in open_socket_names()


def test_more_sockets_than_libzmq_allows_by_itself_can_be_made() -> None:
    terminate()
    sockets: list[Socket] = []
    try:
        while len(sockets) < 1_100:
            sockets.append(make_socket(zmq.PAIR, f"pair {len(sockets)}"))
    finally:
        for socket in sockets:  # otherwise later tests would have too few descriptors
            socket.close()
    terminate()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "use",
    [
        lambda socket: socket.send(b"x"),
        lambda socket: socket.recv_multipart(),
        lambda socket: socket.bind("inproc://x"),
        lambda socket: make_socket(zmq.PAIR, "a pair of the child"),
    ],
    ids=["send", "receive", "bind", "make"],
)
def test_a_forked_child_is_told_to_spawn(use: object) -> None:
    socket = make_socket(zmq.PAIR, "a pair")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            use(socket)  # type: ignore[operator]
        except FastdistError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as told:
        assert told.read().startswith(b"ZeroMQ was in use in process %d" % os.getpid())
    os.waitpid(child, 0)
    socket.close()


FORK_FIRST = """
import os, sys
import fastdist, fastdist.distributed
assert "zmq" not in sys.modules, "zmq was imported"
from fastdist.distributed.sockets import make_socket
import zmq
child = os.fork()
make_socket(zmq.PAIR, "pair").close()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_importing_opens_nothing_so_that_a_fork_before_the_first_socket_is_fine() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", FORK_FIRST], check=True, timeout=60)
