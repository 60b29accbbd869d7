"""PyTorch's C++ extension builder: setup scripts can import it, but building raises an error."""

from __future__ import annotations

from typing import Final

from ..core.missing import explain_missing, refusing
from ..core.refusing import refusing_class

_WORDS: Final = (
    "code that is compiled for PyTorch's memory does not work here: use the program's version in "
    "Python"
)
CUDA_HOME: str | None = None
ROCM_HOME: str | None = None
IS_HIP_EXTENSION = False
BuildExtension = refusing_class(__name__, "BuildExtension", _WORDS, "with_options")
CppExtension = refusing(__name__, "CppExtension", _WORDS)
CUDAExtension = refusing(__name__, "CUDAExtension", _WORDS)
SyclExtension = refusing(__name__, "SyclExtension", _WORDS)
include_paths = refusing(__name__, "include_paths", _WORDS)
library_paths = refusing(__name__, "library_paths", _WORDS)
load = refusing(__name__, "load", _WORDS)
load_inline = refusing(__name__, "load_inline", _WORDS)


def is_ninja_available() -> bool:
    """Return False: extensions are not built."""
    return False


explain_missing(__name__)
