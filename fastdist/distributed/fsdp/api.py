"""Options of fully sharded data parallelism, under PyTorch's names."""

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
    """Selects which parameters, gradients and optimizer states are sharded over the workers."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(enum.Enum):
    """Selects when a backward pass gathers the next parameters: before or after it computes the
    current gradient.
    """

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class StateDictType(enum.Enum):
    """The kind of state_dict that a sharded module returns."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


class OptimStateKeyType(enum.Enum):
    """The kind of keys in an optimizer's state."""

    PARAM_NAME = 1
    PARAM_ID = 2


@dataclasses.dataclass
class MixedPrecision:
    """The dtypes of parameters in computations, of reduced gradients, and of buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclasses.dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of parameters in computations, of reduced gradients, and of results."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclasses.dataclass
class CPUOffload:
    """Whether parameters stay in CPU memory while they are not in use."""

    offload_params: bool = False


@dataclasses.dataclass
class OffloadPolicy:
    """The policy that keeps parameters on the device."""


@dataclasses.dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """The policy that keeps parameters in CPU memory, optionally pinned."""

    pin_memory: bool = True


@dataclasses.dataclass
class DataParallelMeshDims:
    """The dimensions of a device mesh along which parameters are sharded and replicated."""

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None


@dataclasses.dataclass
class StateDictConfig:
    """Options of a module's state_dict."""

    offload_to_cpu: bool = False


@dataclasses.dataclass
class FullStateDictConfig(StateDictConfig):
    """Options of a state_dict with complete parameters."""

    rank0_only: bool = False


@dataclasses.dataclass
class LocalStateDictConfig(StateDictConfig):
    """Options of a state_dict with the worker's flat parameters."""


@dataclasses.dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Options of a state_dict with the worker's shards of parameters."""

    _use_dtensor: bool = False


@dataclasses.dataclass
class OptimStateDictConfig:
    """Options of an optimizer's state."""

    offload_to_cpu: bool = True


@dataclasses.dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Options of an optimizer's state for complete parameters."""

    rank0_only: bool = False


@dataclasses.dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Options of an optimizer's state for the worker's flat parameters."""

    offload_to_cpu: bool = False


@dataclasses.dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Options of an optimizer's state for the worker's shards of parameters."""

    _use_dtensor: bool = False


@dataclasses.dataclass
class StateDictSettings:
    """The selected type of state_dict, with its options."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


explain_missing(__name__)
