"""The backend FAULTY_TENSORPIPE, which whoever imports this wants to be registered; it is."""

from __future__ import annotations

from ..faulty_agent import FaultyTensorPipeAgent, FaultyTensorPipeRpcBackendOptions

__all__ = ["FaultyTensorPipeAgent", "FaultyTensorPipeRpcBackendOptions"]
