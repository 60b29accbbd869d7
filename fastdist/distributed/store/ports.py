"""Checks and takes over the port at which a process hosts a store."""

from __future__ import annotations

import socket

from fastdist.core.errors import StoreError


def take_over(descriptor: int, port: int) -> int:
    """Close a launcher's listening socket and return its port, so that this store can bind it."""
    with socket.socket(fileno=descriptor) as listening:
        bound: int = listening.getsockname()[1]
    if port not in (0, bound):
        raise StoreError(
            f"the port mismatch: master_listen_fd {descriptor} listens at {bound}, and port is "
            f"{port}"
        )
    return bound


def require_port(port: int, is_master: bool) -> None:
    """Raise StoreError unless `port` is valid for a host (`is_master`) or for a client."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65_536:
        raise StoreError(f"port is {port!r}; expected a number from 1 to 65535")
    if port == 0 and not is_master:
        raise StoreError("port is 0; only is_master=True can take a free one")
