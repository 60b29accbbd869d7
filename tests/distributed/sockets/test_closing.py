"""Our process does not abort if it closes a socket while the peer sends and then ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The peer is a plain socket: it reads nothing, sends while our socket closes, and then ends.
_CLOSE = """
import select, socket, struct, sys, tempfile, threading, time
import zmq
from fastdist.distributed.sockets import NoSecurity, bind, connect, make_socket

kind, transport = sys.argv[1:]
plain, pause = NoSecurity(), threading.Event()


def greet(peer, socket_type):
    peer.settimeout(20)
    peer.sendall(b"\\xff" + bytes(8) + b"\\x7f\\x03\\x00" + b"NULL".ljust(20, b"\\0") + bytes(32))
    read_exactly(peer, 64)
    ready = b"\\x05READY\\x0bSocket-Type" + struct.pack(">I", len(socket_type)) + socket_type
    ready += b"\\x08Identity" + bytes(4)
    peer.sendall(bytes([4, len(ready)]) + ready)
    _, size = read_exactly(peer, 2)
    read_exactly(peer, size)


def read_exactly(peer, size):
    got = b""
    while len(got) < size:
        got += peer.recv(size - len(got))
    return got


ours = make_socket(zmq.ROUTER if kind == "router" else zmq.DEALER, "ours")
ours.set(zmq.SNDTIMEO, 20_000)
ours.set(zmq.RCVTIMEO, 20_000)
path = tempfile.mkdtemp() + "/s"
family = socket.AF_UNIX if transport == "ipc" else socket.AF_INET
if kind == "router":
    at = bind(ours, f"ipc://{path}" if transport == "ipc" else "tcp://127.0.0.1:0", plain)
    peer = socket.socket(family)
    where = path if transport == "ipc" else ("127.0.0.1", int(at.rpartition(":")[2]))
    peer.connect(where)
    greet(peer, b"DEALER")
    peer.sendall(b"\\x00\\x02hi")
    route = [ours.recv_multipart()[0]]
else:
    door = socket.socket(family)
    door.bind(path if transport == "ipc" else ("127.0.0.1", 0))
    door.listen()
    where = door.getsockname()
    connect(ours, f"ipc://{path}" if transport == "ipc" else f"tcp://127.0.0.1:{where[1]}", plain)
    peer, _ = door.accept()
    door.close()
    greet(peer, b"ROUTER")
    route = []
for _ in range(40):
    ours.send_multipart([*route, bytes(1 << 20)])  # more than the kernel holds: nobody reads it
ours.close(linger=1500)
deadline = time.monotonic() + 20
while kind == "router" and time.monotonic() < deadline:
    with socket.socket(family) as probe:
        if probe.connect_ex(where):
            break  # nobody listens any more: the socket is closing
    pause.wait(0.001)
pause.wait(0.1)
peer.sendall(b"\\x00\\x02hi")
pause.wait(0.1)
if transport == "tcp":
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
peer.close()
pause.wait(1.2)  # more than two of what were heartbeats
print("lives", flush=True)
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("transport", ["ipc", "tcp"])
@pytest.mark.parametrize("kind", ["router", "dealer"])
def test_a_peer_that_speaks_and_ends_while_we_close_does_not_abort_us(
    kind: str, transport: str
) -> None:
    # See Note [No heartbeats of libzmq's] in sockets/options.py.
    ran = subprocess.run(
        [sys.executable, "-c", _CLOSE, kind, transport],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "lives\n"), ran.stderr
