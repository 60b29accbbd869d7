"""Utilities for training loops, under PyTorch's names: datasets, checkpoints, files, TensorBoard.

Each subject has a module or a package here. `utils.tensorboard` must be imported by its full name,
because it needs the package tensorboard.
"""

from __future__ import annotations

from ..core.folded_frames import fold_tracebacks
from ..core.missing import explain_missing, instead, load_later
from . import _pytree, benchmark, checkpoint, data, dlpack, hooks, model_zoo, npz, safetensors

__all__ = [
    "_pytree",
    "benchmark",
    "checkpoint",
    "data",
    "dlpack",
    "fold_tracebacks",
    "hooks",
    "model_zoo",
    "npz",
    "safetensors",
]

instead(
    {
        f"{__name__}.tensorboard": "say `import fastdist.utils.tensorboard` first",
    }
)
# Modules that `torch.utils` has too, and that few programs use. They are loaded on first use.
load_later(
    __name__,
    dict.fromkeys(("_contextlib", "_foreach_utils", "_python_dispatch", "deterministic"), ""),
)
explain_missing(data.__name__)
