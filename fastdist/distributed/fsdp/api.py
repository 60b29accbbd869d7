"""Options of fully sharded data parallelism, as programs write them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from ...core.missing import explain_missing
from ...nn.batch_norm import _BatchNorm

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig",
    "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
    "StateDictSettings", "StateDictType",
]  # fmt: skip


class ShardingStrategy(enum.Enum):
    """Which of parameters, gradients and optimizer state are split between the workers."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(enum.Enum):
    """When a backward pass gathers the next parameters: before or after this gradient."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class StateDictType(enum.Enum):
    """Which state_dict a sharded module returns."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


class OptimStateKeyType(enum.Enum):
    """The kind of keys of an optimizer's state are."""

    PARAM_NAME = 1
    PARAM_ID = 2


@dataclasses.dataclass
class MixedPrecision:
    """The dtypes in which parameters compute, gradients are reduced and buffers are kept."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclasses.dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes in which parameters compute, gradients are reduced and results are returned."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclasses.dataclass
class CPUOffload:
    """Whether parameters wait in the host's memory."""

    offload_params: bool = False


@dataclasses.dataclass
class OffloadPolicy:
    """The policy that leaves parameters on the device."""


@dataclasses.dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """The policy that keeps parameters in the host's memory, pinned or not."""

    pin_memory: bool = True


@dataclasses.dataclass
class DataParallelMeshDims:
    """The dimensions of a device mesh along which parameters are split and repeated."""

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None


@dataclasses.dataclass
class StateDictConfig:
    """Options of a module's state_dict."""

    offload_to_cpu: bool = False


@dataclasses.dataclass
class FullStateDictConfig(StateDictConfig):
    """Options of a state_dict of whole parameters."""

    rank0_only: bool = False


@dataclasses.dataclass
class LocalStateDictConfig(StateDictConfig):
    """Options of a state_dict of the worker's own flat parameters."""


@dataclasses.dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Options of a state_dict of the worker's parts of parameters."""

    _use_dtensor: bool = False


@dataclasses.dataclass
class OptimStateDictConfig:
    """Options of an optimizer's state."""

    offload_to_cpu: bool = True


@dataclasses.dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Options of the state for whole parameters."""

    rank0_only: bool = False


@dataclasses.dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Options of the state for the worker's own flat parameters."""

    offload_to_cpu: bool = False


@dataclasses.dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Options of the state for the worker's parts of parameters."""

    _use_dtensor: bool = False


@dataclasses.dataclass
class StateDictSettings:
    """The type of state_dict that is set, with its options."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


explain_missing(__name__)
