"""Imported by PyTorch's tests to register FAULTY_TENSORPIPE, which is always registered here."""

from __future__ import annotations

from ..faulty_agent import FaultyTensorPipeAgent, FaultyTensorPipeRpcBackendOptions

__all__ = ["FaultyTensorPipeAgent", "FaultyTensorPipeRpcBackendOptions"]
