"""An agent that fails on purpose, under the name that PyTorch's tests import."""

from __future__ import annotations

from . import faulty_agent_backend_registry
from .faulty_agent_backend_registry import FaultyTensorPipeAgent, FaultyTensorPipeRpcBackendOptions

__all__ = [
    "FaultyTensorPipeAgent",
    "FaultyTensorPipeRpcBackendOptions",
    "faulty_agent_backend_registry",
    "is_available",
]


def is_available() -> bool:
    """Return True: the backend FAULTY_TENSORPIPE is always registered."""
    return True
