"""The catalogue: every op, declared once, one file per family.

A pointwise op is a scalar body and its partials. A structured op names a kernel and gives its
derivatives as Tensor expressions. A composite is a function of other ops and is differentiated
through them. No file here imports a kernel, and one declaration serves every device. Composites may
look at the device to choose between equal computations, or to check values only where reading them
does not wait for a GPU.

Importing the package declares nothing: namespace/load.py imports the files. The terms are explained
in docs/glossary.md.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

_OF_TORCH_OPS = (
    "aten", "debug_mode_ops", "debugprims", "export", "higher_order", "inductor", "mkl", "mkldnn",
    "onednn", "prim", "prims", "profiler", "quantized", "rngprims",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return a namespace of operators: PyTorch's, or one that the program defined."""
    # Not by core/missing.py: each `from ..ops import x` looks here first and fails.
    operators = sys.modules.get("fastdist._ops")
    if name in _OF_TORCH_OPS or (operators is not None and name in vars(operators.ops)):
        return getattr(importlib.import_module("fastdist._ops").ops, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
