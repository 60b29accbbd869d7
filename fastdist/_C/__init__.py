"""The few names of PyTorch's compiled module that public programs use."""

from __future__ import annotations

import importlib
from typing import Any, Final

from ..concurrency.future import Future as Future
from ..core.device import get_default_device
from ..core.dispatch_keys import DispatchKey, DispatchKeySet
from ..core.dispatch_keys import ExcludeDispatchKeyGuard as _ExcludeDispatchKeyGuard  # noqa: F401
from ..core.missing import NO_GRAPHS, find_late
from ..core.refusing import refusing_class
from ..core.torch_function import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from ..core.torch_function import disabled_torch_function as _disabled_torch_function_impl  # noqa: F401
from ..graph.modes import tls
from ..interpreters.batched_tensor import levels
from ..random_numbers.generator import Generator
from ..tensor.tensor import Tensor

__all__ = [
    "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet", "Future", "Generator",
    "PyTorchFileReader", "PyTorchFileWriter",
]  # fmt: skip

_NO_READER = "load() and save() read and write such files"
PyTorchFileReader = refusing_class(__name__, "PyTorchFileReader", _NO_READER)
PyTorchFileWriter = refusing_class(__name__, "PyTorchFileWriter", _NO_READER)


def _jit_set_profiling_mode(mode: bool) -> bool:
    """Return False as the former mode: functions are never profiled."""
    return False


_jit_set_profiling_executor = _jit_set_profiling_mode


def _get_tracing_state() -> None:
    """Return None: there is no tracing."""


def _log_api_usage_once(event: str) -> None:
    """Do nothing: API usage is not logged."""


def _get_privateuse1_backend_name() -> str:
    """Return PyTorch's default name for user-defined device types."""
    return "privateuseone"


def _get_default_device() -> str:
    """Return the type of the default device."""
    return get_default_device().type


def _are_functorch_transforms_active() -> bool:
    """Return whether this call is inside of vmap, grad or jvp."""
    return bool(levels.depth or tls.transform_inputs)


def _jit_can_fuse_on_cpu() -> bool:
    """Return False: there is no fuser."""
    return False


def _jit_can_fuse_on_gpu() -> bool:
    """Return False: there is no fuser."""
    return False


def _jit_override_can_fuse_on_cpu(override: bool) -> None:
    """Do nothing: there is no fuser."""


def _jit_override_can_fuse_on_gpu(override: bool) -> None:
    """Do nothing: there is no fuser."""


def _jit_set_texpr_fuser_enabled(enabled: bool) -> None:
    """Do nothing: there is no fuser."""


def _jit_set_nvfuser_enabled(enabled: bool) -> bool:
    """Return False as the former setting: there is no fuser."""
    return False


_jit_set_nvfuser_guard_mode = _jit_set_nvfuser_enabled


def _set_math_sdp_allow_fp16_bf16_reduction(enabled: bool) -> None:
    """Do nothing: sums of float16 and bfloat16 values are always computed in float32."""


_TensorMeta = type(Tensor)
# PyTorch's classes for compiled programs. Packages use them in annotations and with isinstance.
_SCRIPT_CLASSES: Final = frozenset(
    {
        "Block", "BoolType", "DictType", "FloatType", "Graph", "IntType", "ListType", "Node",
        "NoneType", "OptionalType", "ScriptModule", "StringType", "TensorType", "TupleType",
        "Type", "UnionType", "Value",
    }
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("_functorch", "_nn"):
        return importlib.import_module(f".{name}", __name__)
    if name in _SCRIPT_CLASSES:
        made = globals()[name] = refusing_class(__name__, name, NO_GRAPHS)
        return made
    return find_late(__name__, name)
