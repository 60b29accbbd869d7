"""The handshake over a Unix socket in which two processes of one user map the same ring."""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

from fastdist.system import sealed_memory
from fastdist.system.fence import why_no_fence

from .end import ANSWERS, REQUESTS, RingEnd
from .memory import RING_BYTES

# Sent together with the memory: a peer that sends another text has another version, or is not
# fastdist.
WORD: Final = b"fastdist ring 1\n"
_NAME: Final = "fastdist-ring"
_BACKLOG: Final = 128
_CREDENTIALS: Final = struct.Struct("iII")


def why_not_viable() -> str | None:
    """Return the reason why this machine does not support rings; None if it does."""
    if (lacks := why_no_fence()) is not None:
        return lacks
    if (lacks := sealed_memory.why_not_viable()) is not None:
        return lacks
    if not hasattr(socket, "send_fds") or not hasattr(socket, "SO_PEERCRED"):
        return (
            "this system's unix sockets do not identify the process at the other end (SO_PEERCRED)"
        )
    return None


def path_of(endpoint: str) -> str:
    """Return the path on which the worker with this ipc endpoint accepts rings."""
    # Only one letter is added, because the length of a Unix socket's path is limited, and the
    # endpoint may be near the limit.
    return endpoint.removeprefix("ipc://") + "r"


def listen(path: str) -> socket.socket:
    """Return a socket on which callers request rings.

    Raises  OSError
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def ask(path: str, max_frame_bytes: int) -> RingEnd:
    """Return the caller's end of a new ring to the worker at `path`; do not wait for the worker.

    Raises  OSError if no worker listens on `path`, or the backlog is full
    """
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    fd = -1
    try:
        line.setblocking(False)
        line.connect(path)
        fd = sealed_memory.create(_NAME, RING_BYTES)
        memory = sealed_memory.map_shared(fd, RING_BYTES, "ring")
        socket.send_fds(line, [WORD], [fd])
    except BaseException:
        line.close()
        raise
    finally:
        if fd >= 0:
            os.close(fd)
    return RingEnd(line, memory, writes=REQUESTS, max_frame_bytes=max_frame_bytes)


def answer(line: socket.socket, max_frame_bytes: int) -> RingEnd:
    """Return the answering end of the ring whose memory a peer has sent.

    Raises  BlockingIOError if nothing has arrived yet; OSError if the message is invalid, or was
            sent by another user's process
    """
    word, fds, flags, _ = socket.recv_fds(line, len(WORD), 1)
    try:
        _, user, _ = _CREDENTIALS.unpack(
            line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if user != os.getuid() or word != WORD or len(fds) != 1 or flags & socket.MSG_CTRUNC:
            raise OSError(f"user {user} sent {word!r} with {len(fds)} descriptors: no ring")
        memory = sealed_memory.map_of(fds[0], RING_BYTES, "ring")
    finally:
        for fd in fds:
            os.close(fd)
    return RingEnd(line, memory, writes=ANSWERS, max_frame_bytes=max_frame_bytes)
