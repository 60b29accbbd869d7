"""A socket file in the job's folder, by which the launcher reads this worker for `fastdist top`."""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import suppress
from typing import Final

from .reading import get_metrics

_SEND_S: Final = 2.0
_PAUSE_S: Final = 0.1
_NAME: Final = "monitor."


def socket_path(folder: str, rank: int) -> str:
    """Return the path of a worker's socket file."""
    return os.path.join(folder, f"{_NAME}{rank}")


class Answers:
    """Sends a reading to each process of this user that connects.

    Args:
        folder: The job's folder, which other users cannot enter.

    Raises:
        OSError: The file cannot be made.

    Threads: one daemon, which sleeps until somebody connects.
    """

    def __init__(self, folder: str) -> None:
        path = socket_path(folder, get_metrics()["rank"])
        with suppress(FileNotFoundError):
            os.unlink(path)  # of a worker in whose place this one has come
        self._is_closed = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(path)
            self._listener.listen(4)
        except OSError:
            self._listener.close()
            raise

    def start(self) -> None:
        """Begin to answer."""
        threading.Thread(target=self._serve, name="fastdist-monitor", daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self._is_closed.set()
        with suppress(OSError):  # a blocked accept() ends by this, and not by close()
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while not self._is_closed.is_set():
            try:
                connection, _ = self._listener.accept()
                with connection:
                    connection.settimeout(_SEND_S)
                    connection.sendall(json.dumps(get_metrics()).encode())
            except OSError:
                # The launcher does not wait any more, or no descriptor is left.
                self._is_closed.wait(_PAUSE_S)
