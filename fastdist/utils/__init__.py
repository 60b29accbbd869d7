"""PyTorch's names for what serves training loops: datasets, checkpoints, files, TensorBoard.

What is of use to a subject stands with its subject. `utils.tensorboard` is imported by its own name
alone, since it brings a package of its own.
"""

from __future__ import annotations

from ..core.folded_frames import fold_tracebacks
from ..core.missing import explain_missing, instead
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
        f"{__name__}.cpp_extension": "what is compiled for PyTorch's own memory is of no use here: "
        "take the program's version in Python",
        f"{__name__}.tensorboard": "say `import fastdist.utils.tensorboard` first",
    }
)
explain_missing(__name__, data.__name__)
