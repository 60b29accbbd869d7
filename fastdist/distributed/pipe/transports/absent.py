"""The transports of PyTorch's list that cannot be had here, and why."""

from __future__ import annotations

from fastdist.distributed.pipe.registry import (
    IBV_TRANSPORT_PRIORITY,
    SHM_TRANSPORT_PRIORITY,
    NoTransport,
    transports,
)

transports.register(
    "shm",
    SHM_TRANSPORT_PRIORITY,
    NoTransport("rings in shared memory are not part of this version; use ipc"),
)
transports.register(
    "ibv",
    IBV_TRANSPORT_PRIORITY,
    NoTransport("InfiniBand verbs cannot be reached from Python; use uv"),
)
