"""Queries on the batches of `vmap`, under the names of PyTorch's compiled module."""

from __future__ import annotations

from ..core.missing import explain_missing, refusing
from ..core.refusing import refusing_class
from ..interpreters.batched_tensor import Batched, batched, levels
from ..tensor.tensor import Tensor

__all__ = [
    "get_unwrapped",
    "is_batchedtensor",
    "is_functorch_wrapped_tensor",
    "is_gradtrackingtensor",
    "maybe_current_level",
    "maybe_get_bdim",
    "maybe_get_level",
]


def is_batchedtensor(tensor: Tensor) -> bool:
    """Return whether the tensor is a batch under `vmap`."""
    return tensor.__class__ is Batched


is_functorch_wrapped_tensor = is_batchedtensor


def is_gradtrackingtensor(tensor: Tensor) -> bool:
    """Return False: `grad` and `jvp` pass plain tensors to the function."""
    return False


def get_unwrapped(tensor: Tensor) -> Tensor:
    """Return the tensor inside the innermost batch. The tensor's first axis is the batch axis.

    Raises  RuntimeError for a plain tensor
    """
    if not isinstance(tensor, Batched):
        raise RuntimeError("No wrappers present!")
    return tensor.value


def maybe_get_level(tensor: Tensor) -> int:
    """Return the level of the innermost batch, or -1 for a plain tensor."""
    return tensor.level if isinstance(tensor, Batched) else -1


def maybe_get_bdim(tensor: Tensor) -> int:
    """Return 0, the batch axis of every batch, or -1 for a plain tensor."""
    return 0 if isinstance(tensor, Batched) else -1


def maybe_current_level() -> int | None:
    """Return the level of the innermost open `vmap`; None outside of vmap."""
    return levels.depth or None


def _add_batch_dim(tensor: Tensor, in_dim: int, level: int) -> Tensor:
    """Return `tensor` as a batch at `level`, with its axis `in_dim` as the batch axis."""
    return batched(tensor.movedim(in_dim, 0), level)


def _remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """Return the tensor inside a batch at `level`, with the batch axis moved to `out_dim`."""
    if isinstance(tensor, Batched) and tensor.level == level:
        return tensor.value.movedim(0, out_dim)
    return tensor.expand(batch_size, *tensor.shape).movedim(0, out_dim)


_WORDS = "levels are opened by vmap(), grad() and jvp() of func alone"
TransformType = refusing_class(__name__, "TransformType", _WORDS)
_vmap_decrement_nesting = refusing(__name__, "_vmap_decrement_nesting", _WORDS)
_vmap_increment_nesting = refusing(__name__, "_vmap_increment_nesting", _WORDS)
current_level = refusing(__name__, "current_level", _WORDS)

explain_missing(__name__)
