"""The components of this installation, in the form of PyTorch's `torch.__config__`."""

from __future__ import annotations

import platform
from importlib.metadata import version

from .core.missing import explain_missing
from .core.version import TORCH_VERSION, __version__
from .namespace.threads import get_num_threads

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Return the versions of fastdist's components; `fastdist info` shows more."""
    parts = [f"{name} {version(name)}" for name in ("numpy", "numba", "pyzmq")]
    lines = [f"fastdist {__version__}, with the names of PyTorch {TORCH_VERSION}:"]
    lines += [f"  - {part}" for part in (f"Python {platform.python_version()}", *parts)]
    return "\n".join([*lines, ""])


def parallel_info() -> str:
    """Return a string with the number of threads that kernels may use."""
    return f"fastdist.get_num_threads() : {get_num_threads()}\n"


explain_missing(__name__)
