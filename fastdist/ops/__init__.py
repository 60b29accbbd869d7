"""The catalogue of ops. Each op is declared once; each file holds one family of ops.

A pointwise op is declared by a scalar body and its partials. A structured op is declared by the
name of a kernel, with derivatives as expressions of Tensors. A composite is a function of other ops
and is differentiated through them. No file here imports a kernel, and one declaration serves all
devices. Composites may look at the device to choose between equivalent computations, or to check
values only on devices where the check does not wait for a GPU.

Importing this package declares no op: namespace/load.py imports the files. The terms are explained
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
    """Return a namespace of operators: one of PyTorch's, or one that the program defined."""
    # core/missing.py is not used, because `from ..ops import x` calls this function before it
    # imports a module x, and needs only an AttributeError.
    operators = sys.modules.get("fastdist._ops")
    if name in _OF_TORCH_OPS or (operators is not None and name in vars(operators.ops)):
        return getattr(importlib.import_module("fastdist._ops").ops, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
