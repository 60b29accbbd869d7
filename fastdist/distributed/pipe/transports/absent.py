"""PyTorch's transports that are not available in fastdist, with the reasons."""

from __future__ import annotations

from fastdist.distributed.pipe.registry import IBV_TRANSPORT_PRIORITY, NoTransport, transports

transports.register(
    "ibv",
    IBV_TRANSPORT_PRIORITY,
    NoTransport("InfiniBand verbs cannot be reached from Python; use uv"),
)
