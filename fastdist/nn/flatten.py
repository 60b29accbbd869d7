"""Modules that reshape tensors: Flatten and Unflatten."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.short_repr import short_repr
from ..tensor.tensor import Tensor
from .module import Module


class Flatten(Module):
    """Merges the axes from start_dim to end_dim into one.

    Raises  IndexError in a call, if start_dim or end_dim is out of range

    Args:
        start_dim: The first axis to merge.
        end_dim: The last axis to merge.

    Example:
        >>> nn.Flatten()(torch.zeros(2, 3, 4)).shape
        fastdist.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Return input with the axes start_dim to end_dim merged into one."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one axis into several."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim = dim
        if not all(isinstance(one, int) for one in unflattened_size):
            raise TypeError(
                f"unflattened_size must be tuple of ints, but found {short_repr(unflattened_size)}"
            )
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """Return input with the axis split."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Return the axis to split, and the lengths of the new axes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
