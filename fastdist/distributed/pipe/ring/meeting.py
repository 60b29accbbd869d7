"""How two processes come to map the same ring: over a unix socket of this user's."""

from __future__ import annotations

import os
import socket
import struct
from typing import Final

from fastdist.system import sealed_memory
from fastdist.system.fence import why_no_fence

from .end import ANSWERS, REQUESTS, RingEnd
from .memory import RING_BYTES

# Sent along with the memory: a peer that sends another word is another version, or a stranger.
WORD: Final = b"fastdist ring 1\n"
_NAME: Final = "fastdist-ring"
_BACKLOG: Final = 128
_CREDENTIALS: Final = struct.Struct("iII")


def why_not_viable() -> str | None:
    """Return why this machine has no rings; None if it has."""
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
    """Return the path at which the worker at an ipc endpoint accepts rings."""
    # One letter: the length of a unix socket's path is limited, and that of the endpoint near it.
    return endpoint.removeprefix("ipc://") + "r"


def listen(path: str) -> socket.socket:
    """Return a socket at which others ask for rings.

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
    """Return a caller's end of a ring to the worker at path; does not wait for it.

    Raises  OSError if nobody is there, or it is busy with others
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
    """Return the other end of the ring whose memory a peer has sent.

    Raises  BlockingIOError if nothing has come yet; OSError for something else, or another user's
            ring
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
