"""Fully sharded data parallelism: options and policies work; all other names raise errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.refused import offer_refused
from .api import (
    BackwardPrefetch,
    CPUOffload,
    CPUOffloadPolicy,
    DataParallelMeshDims,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    MixedPrecisionPolicy,
    OffloadPolicy,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "DataParallelMeshDims",
    "FullOptimStateDictConfig", "FullStateDictConfig", "LocalOptimStateDictConfig",
    "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy", "OffloadPolicy",
    "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings",
    "StateDictType",
]  # fmt: skip

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    offer_refused(globals())
