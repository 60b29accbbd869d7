"""The transports of PyTorch's list that cannot be had here, and why."""

from __future__ import annotations

from fastdist.distributed.pipe.registry import IBV_TRANSPORT_PRIORITY, NoTransport, transports

transports.register(
    "ibv",
    IBV_TRANSPORT_PRIORITY,
    NoTransport("InfiniBand verbs cannot be reached from Python; use uv"),
)
