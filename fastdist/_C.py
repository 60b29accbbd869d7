"""The few names of PyTorch's compiled half that public programs touch."""

from __future__ import annotations

from .concurrency.future import Future as Future
from .core.missing import explain_missing
from .core.torch_function import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from .core.torch_function import disabled_torch_function as _disabled_torch_function_impl  # noqa: F401
from .random_numbers.generator import Generator

__all__ = ["DisableTorchFunctionSubclass", "Future", "Generator"]


def _jit_set_profiling_mode(mode: bool) -> bool:
    """Return False, the mode before: nothing is profiled."""
    return False


_jit_set_profiling_executor = _jit_set_profiling_mode


def _get_tracing_state() -> None:
    """Return None: nobody traces."""


def _log_api_usage_once(event: str) -> None:
    """Do nothing: there is no listener."""


explain_missing(__name__)
