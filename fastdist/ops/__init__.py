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

from typing import NoReturn

_OF_TORCH_OPS = (
    "aten", "debug_mode_ops", "debugprims", "export", "higher_order", "inductor", "mkl", "mkldnn",
    "onednn", "prim", "prims", "profiler", "quantized", "rngprims",
)  # fmt: skip


def __getattr__(name: str) -> NoReturn:
    """Say what PyTorch's programs call instead of `torch.ops.aten.add` and its kin."""
    # Not by core/missing.py: each `from ..ops import x` asks here first, in vain.
    why = "; an op is called by its public name, as `torch.add`" if name in _OF_TORCH_OPS else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{why}")
