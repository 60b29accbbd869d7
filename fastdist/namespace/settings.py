"""PyTorch's process-wide settings; some have no effect here."""

from __future__ import annotations

import warnings
from typing import Any

from ..core.caller_warning import is_warn_always_enabled as is_warn_always_enabled
from ..core.caller_warning import set_warn_always as set_warn_always
from ..core.determinism import determinism
from ..core.dtypes import DType
from ..core.errors import DTypeError
from ..core.precision import PRECISIONS, products
from ..core.short_repr import short_repr
from ..graph.anomaly import anomaly, set_anomaly_mode
from ..graph.modes import is_inference_mode_enabled as is_inference_mode_enabled
from ..tensor.promotion import set_default_dtype

_MODES = ("default", "warn", "error")
_interop_threads = 1


def get_float32_matmul_precision() -> str:
    """Return the value given to set_float32_matmul_precision, "highest" by default."""
    return products.precision


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of float32 matrix products. With "highest", products use full float32. With
    "high" or "medium", a GPU may use TF32, which keeps 10 bits of each factor's mantissa. The CPU
    always uses float32.
    """
    if precision not in PRECISIONS:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
            "setFloat32MatmulPrecision call has no effect.",
            UserWarning,
            stacklevel=2,
        )
        return
    products.choose(precision)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Choose whether results must be reproducible bit for bit. By default they are reproducible:
    sums run in one order for any number of threads, and no op warns or raises.

    Only after a call with False, a GPU uses atomic additions: in scatter_add, in index_add, in
    index_put with accumulate, and in gradients of indexing and embeddings. The result then depends
    on the order of threads. If several values are written to one position, any of them may remain.
    float16 and bfloat16 are added in float32. Nothing changes on the CPU.

    Thread  any; applies to the whole process, from the next call on
    """
    determinism.choose((1 if warn_only else 2) if mode else 0)


def are_deterministic_algorithms_enabled() -> bool:
    """Return the value given to use_deterministic_algorithms; False by default as in PyTorch,
    although results are reproducible without it.
    """
    return determinism.mode > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether deterministic algorithms are switched on with warn_only=True."""
    return determinism.mode == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Call use_deterministic_algorithms with a mode: "default", "warn" or "error", or 0, 1 or 2.

    Raises  RuntimeError for another mode
    """
    if debug_mode in _MODES:
        debug_mode = _MODES.index(str(debug_mode))
    if isinstance(debug_mode, str):
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
            f"{debug_mode}"
        )
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    determinism.choose(debug_mode)


def get_deterministic_debug_mode() -> int:
    """Return the mode as 0, 1 or 2."""
    return determinism.mode


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by a tensor type such as FloatTensor, or by its name.

    Raises  TypeError for a type that is not floating point
    """
    from .typed_tensors import TYPED_TENSORS

    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives.",
        UserWarning,
        stacklevel=2,
    )
    made = TYPED_TENSORS.get(t.rpartition(".")[2]) if isinstance(t, str) else t
    dtype = getattr(made, "dtype", None)
    if not isinstance(dtype, DType) or not dtype.is_floating_point:
        raise DTypeError(
            f"only floating-point types are supported as the default type, got {short_repr(t)}"
        )
    set_default_dtype(dtype)


def get_num_interop_threads() -> int:
    """Return the value given to set_num_interop_threads, 1 by default: ops run one by one."""
    return _interop_threads


def set_num_interop_threads(int: int) -> None:
    """Set the number of inter-op threads; it has no effect here.

    Raises  RuntimeError for a number below 1
    """
    global _interop_threads
    if int < 1:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer, got {int}")
    _interop_threads = int


def set_flush_denormal(mode: bool) -> bool:
    """Return whether the request was met; denormal numbers are never flushed to 0 here."""
    return not mode


def is_anomaly_enabled() -> bool:
    """Return whether backward passes check for NaN and errors: see autograd.detect_anomaly."""
    return anomaly.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly mode checks for NaN."""
    return anomaly.check_nan


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off, for the whole process."""
    set_anomaly_mode(bool(enabled), check_nan)


def compiled_with_cxx11_abi() -> bool:
    """Return True, as PyTorch does: fastdist has no C++ ABI."""
    return True


def is_vulkan_available() -> bool:
    """Return False: Vulkan is not supported."""
    return False


SETTINGS = {
    function.__name__: function
    for function in (
        are_deterministic_algorithms_enabled,
        compiled_with_cxx11_abi,
        get_deterministic_debug_mode,
        get_float32_matmul_precision,
        get_num_interop_threads,
        is_anomaly_check_nan_enabled,
        is_anomaly_enabled,
        is_deterministic_algorithms_warn_only_enabled,
        is_inference_mode_enabled,
        is_vulkan_available,
        is_warn_always_enabled,
        set_anomaly_enabled,
        set_default_tensor_type,
        set_deterministic_debug_mode,
        set_float32_matmul_precision,
        set_flush_denormal,
        set_num_interop_threads,
        set_warn_always,
        use_deterministic_algorithms,
    )
}
