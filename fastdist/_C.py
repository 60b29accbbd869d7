"""The few names of PyTorch's compiled half that public programs touch."""

from __future__ import annotations

from .concurrency.future import Future as Future
from .core.dispatch_keys import DispatchKey, DispatchKeySet
from .core.dispatch_keys import ExcludeDispatchKeyGuard as _ExcludeDispatchKeyGuard  # noqa: F401
from .core.missing import NO_GRAPHS, explain_missing
from .core.refused import refusing_class
from .core.torch_function import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from .core.torch_function import disabled_torch_function as _disabled_torch_function_impl  # noqa: F401
from .random_numbers.generator import Generator

__all__ = [
    "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet", "Future", "Generator", "Graph",
    "Node", "PyTorchFileReader", "PyTorchFileWriter", "TensorType", "Value",
]  # fmt: skip

# Classes of compiled programs, which packages name in annotations and ask about with isinstance.
Graph = refusing_class(__name__, "Graph", NO_GRAPHS)
Node = refusing_class(__name__, "Node", NO_GRAPHS)

TensorType = refusing_class(__name__, "TensorType", NO_GRAPHS)
Value = refusing_class(__name__, "Value", NO_GRAPHS)
_NO_READER = "load() and save() read and write such files"
PyTorchFileReader = refusing_class(__name__, "PyTorchFileReader", _NO_READER)
PyTorchFileWriter = refusing_class(__name__, "PyTorchFileWriter", _NO_READER)


def _jit_set_profiling_mode(mode: bool) -> bool:
    """Return False, the mode before: nothing is profiled."""
    return False


_jit_set_profiling_executor = _jit_set_profiling_mode


def _get_tracing_state() -> None:
    """Return None: nobody traces."""


def _log_api_usage_once(event: str) -> None:
    """Do nothing: there is no listener."""


explain_missing(__name__)
