"""Fully sharded data parallelism: options and policies are real, the rest refuses yet."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ...core.refused import find_below, refused_in
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
_refused = refused_in(__name__)
globals().update(_refused)
__all__ += sorted(_refused)  # noqa: PLE0605 (a table has the names)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    __getattr__ = functools.partial(find_below, __name__)
