"""PyTorch's module `torch.functional`: `functional.einsum` is the same function as `einsum`."""

from __future__ import annotations

from typing import Any, Final

from .core.missing import find_late, show_public
from .namespace.load import NAMES

_NAMES: Final = (
    "align_tensors", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
    "broadcast_tensors", "cartesian_prod", "cdist", "chain_matmul", "einsum", "istft", "lu",
    "meshgrid", "norm", "split", "stft", "tensordot", "unique", "unique_consecutive",
    "unravel_index",
)  # fmt: skip
__all__ = [name for name in _NAMES if name in NAMES]
globals().update({name: NAMES[name] for name in __all__})


def __getattr__(name: str) -> Any:
    return find_late(__name__, name)


show_public(__name__)
