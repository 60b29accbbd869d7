"""Utilities for training loops, under PyTorch's names: datasets, checkpoints, files, TensorBoard.

The code of each subject is in the package of that subject. `utils.tensorboard` must be imported by
its full name, because it needs the package tensorboard.
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
# Private files of PyTorch's that `torch.utils` exposes, and that few programs use.
load_later(
    __name__,
    dict.fromkeys(("_contextlib", "_foreach_utils", "_python_dispatch", "deterministic"), ""),
)
explain_missing(data.__name__)
