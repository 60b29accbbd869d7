"""Starts the servers of metrics, once in each process, if environment variables request them."""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

from .answers import Answers
from .http_server import HttpServer

PORT: Final = "FASTDIST_METRICS_PORT"
HOST: Final = "FASTDIST_METRICS_HOST"
# Set by `fastdist run`: the job's folder, in which the launcher looks for socket files.
MONITOR: Final = "FASTDIST_MONITOR_DIR"

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
# The pid of the process that has started the servers; a forked child does not have their threads.
_begun_by = 0


def begin() -> None:
    """Start the servers that the environment requests; later calls have no effect.

    A port in use or a missing package only causes a warning, and the job continues.

    Raises  ValueError if the port is invalid
    """
    global _begun_by
    with _lock:
        if _begun_by == os.getpid():
            return
        _begun_by = os.getpid()
    port = metrics_port()
    if port is not None:
        host = os.environ.get(HOST) or "127.0.0.1"
        try:
            from .exposition import Exposition

            HttpServer(host, port, Exposition().answer).start()
        except ImportError:
            _logger.warning(
                "%s is set, and the package prometheus_client is not installed: `pip install "
                "prometheus_client`; this worker serves no metrics",
                PORT,
            )
        except OSError as error:
            _logger.warning(
                "this worker serves no metrics: port %d of %s cannot be had: %s",
                *(port, host, error.strerror),
            )
    folder = os.environ.get(MONITOR)
    if folder:
        try:
            Answers(folder).start()
        except OSError as error:
            _logger.warning("`fastdist top` will not show this worker: %s", error)


def metrics_port() -> int | None:
    """Return this worker's port, FASTDIST_METRICS_PORT plus LOCAL_RANK; None if no port is set.

    Raises  ValueError if FASTDIST_METRICS_PORT is not a port, or the sum is not a valid port
    """
    text = os.environ.get(PORT)
    if not text:
        return None
    local_rank = os.environ.get("LOCAL_RANK", "0")
    is_number = text.isascii() and text.isdecimal() and local_rank.isdecimal()
    port = int(text) + int(local_rank) if is_number and int(text) else 0
    if not 0 < port < 65536:
        raise ValueError(
            f"{PORT} is {text!r}; expected a port from 1 to 65535, to which each worker of a "
            f"machine adds its LOCAL_RANK ({local_rank} here)"
        )
    return port
