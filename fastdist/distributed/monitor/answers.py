"""A socket file in the job's folder, on which the launcher reads metrics for `fastdist top`."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from typing import Final

from .listener import Listener
from .reading import get_metrics

_SEND_S: Final = 2.0
_NAME: Final = "monitor."


def socket_path(folder: str, rank: int) -> str:
    """Return the path of a worker's socket file."""
    return os.path.join(folder, f"{_NAME}{rank}")


class Answers(Listener):
    """Sends a reading to each process of this user that connects.

    Raises  OSError if the file cannot be created

    Args:
        folder: The job's folder, which other users cannot enter.

    Threads: one daemon thread, which sleeps until a process connects.
    """

    def __init__(self, folder: str) -> None:
        path = socket_path(folder, get_metrics()["rank"])
        with suppress(FileNotFoundError):
            os.unlink(path)  # left by an earlier worker of this rank
        listening = socket.socket(socket.AF_UNIX)
        try:
            listening.bind(path)
            listening.listen(4)
        except OSError:
            listening.close()
            raise
        super().__init__(listening, _send_reading, "fastdist-monitor")


def _send_reading(connection: socket.socket) -> None:
    with connection, suppress(OSError):  # the launcher may have closed the connection
        connection.settimeout(_SEND_S)
        connection.sendall(json.dumps(get_metrics()).encode())
