"""PyTorch's tests import this to register the backend FAULTY_TENSORPIPE, which always is."""

from __future__ import annotations

from ..faulty_agent import FaultyTensorPipeAgent, FaultyTensorPipeRpcBackendOptions

__all__ = ["FaultyTensorPipeAgent", "FaultyTensorPipeRpcBackendOptions"]
