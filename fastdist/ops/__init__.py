"""The catalogue: every op, declared once, a file per family.

A pointwise op is its scalar body and its partials; a structured op names a kernel and says its
derivatives with Tensor operations; a composite is a function of other ops, which differentiates by
itself. No file here imports a kernel or asks for a device. Importing the room declares nothing:
namespace/load.py imports the files.
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
