"""The lists of tensors in the arguments of methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastdist.core.errors import CollectiveArgumentError

from ....tensor.tensor import Tensor


def as_list(tensors: Any) -> Any:
    """Return a list of tensors; a single tensor becomes a list, as in PyTorch."""
    return [tensors] if isinstance(tensors, Tensor) else tensors


def as_lists(tensors: Any) -> Any:
    """Return a list of lists of tensors; a list of tensors becomes a list with this one entry."""
    is_list = isinstance(tensors, list | tuple) and (
        not tensors or isinstance(tensors[0], Tensor) or not isinstance(tensors[0], list | tuple)
    )
    return [tensors] if is_list else tensors


def require_size(what: str, name: str, one: Tensor, other: Tensor) -> None:
    """Raise CollectiveArgumentError unless two tensors have the same number of elements."""
    if one._layout.numel != other._layout.numel:
        raise CollectiveArgumentError(
            f"{what}: invalid tensor size of `{name}` (expected {tuple(other._layout.shape)}, got "
            f"{tuple(one._layout.shape)})"
        )


def require_length(size: int, what: str, name: str, tensors: Sequence[Tensor]) -> None:
    """Raise CollectiveArgumentError unless a list has one tensor for each of size members."""
    if len(tensors) != size:
        raise CollectiveArgumentError(
            f"{what}: invalid `{name}` (expected length {size}, got {len(tensors)}): it has one "
            "tensor for each member of the group"
        )


def separate(memory: Any, array: Any, target: Any) -> Any:
    """Return array, or a copy of it if it overlaps target."""
    return memory.copy(array) if memory.overlap(array, target) else array
