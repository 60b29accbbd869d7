"""ShardedTensor: the local parts of a tensor that is distributed over workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...core.errors import ShapeError
from ...tensor.layout import Size
from ...tensor.tensor import Tensor
from .box import Box


class Shard(NamedTuple):
    """A part of a larger tensor, with the part's offset in that tensor.

    Args:
        tensor: The part.
        shard_offsets: The index of the part's first element in the larger tensor, per axis.
    """

    tensor: Tensor
    shard_offsets: tuple[int, ...]


class ShardedTensor:
    """This worker's parts of a tensor with shape `size`; other workers have the other parts.

    The parts that all workers have under one key of the state dict are saved as one tensor. They
    may be divided differently when they are loaded.

    Raises  ShapeError if a part does not lie within the tensor

    Args:
        local_shards: The parts of this worker.
        size: The shape of the whole tensor.
    """

    def __init__(self, local_shards: Sequence[Shard], size: Sequence[int]) -> None:
        self._shards = tuple(Shard(tensor, tuple(at)) for tensor, at in local_shards)
        self._size = Size(tuple(size))
        for tensor, at in self._shards:
            if len(at) != len(size) or tensor.dim() != len(size):
                raise ShapeError(
                    f"ShardedTensor: a part of shape {tuple(tensor.shape)} at {at} does not have "
                    f"the {len(size)} axes of the whole, {tuple(size)}"
                )
            if not Box(at, tuple(tensor.shape)).lies_in(self._size):
                raise ShapeError(
                    f"ShardedTensor: a part of shape {tuple(tensor.shape)} at {at} ends outside of "
                    f"the whole, {tuple(size)}"
                )

    @classmethod
    def from_local(
        cls, tensor: Tensor, shard_offsets: Sequence[int], size: Sequence[int]
    ) -> ShardedTensor:
        """Return a ShardedTensor with one local part.

        Args:
            tensor: The part.
            shard_offsets: The index of the part's first element in the whole tensor, per axis.
            size: The shape of the whole tensor.
        """
        return cls([Shard(tensor, tuple(shard_offsets))], size)

    def local_shards(self) -> tuple[Shard, ...]:
        """Return the parts that this worker has."""
        return self._shards

    def size(self) -> Size:
        """Return the shape of the complete tensor."""
        return self._size

    def __repr__(self) -> str:
        parts = ", ".join(f"{tuple(tensor.shape)} at {at}" for tensor, at in self._shards)
        return f"ShardedTensor(size={tuple(self._size)}, here: {parts or 'nothing'})"
