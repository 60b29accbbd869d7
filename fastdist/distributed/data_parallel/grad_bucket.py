"""GradBucket: the argument of a communication hook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...tensor.tensor import Tensor

if TYPE_CHECKING:
    from .buckets import Bucket


class GradBucket:
    """The gradients of some parameters as one flat tensor, for a communication hook.

    Args:
        bucket: The bucket with the gradients.
        index: The position of the bucket in the order of reductions.
        is_last: Whether the bucket is the last one that is reduced in the iteration.
        parameters: The parameters of the bucket.
    """

    def __init__(self, bucket: Bucket, index: int, is_last: bool, parameters: list[Tensor]) -> None:
        self._bucket, self._index, self._is_last = bucket, index, is_last
        self._parameters = parameters
        self._buffer = bucket.flat

    def index(self) -> int:
        """Return the index of the bucket; bucket 0 belongs to the last layers."""
        return self._index

    def buffer(self) -> Tensor:
        """Return the gradients as a 1-D tensor, not yet divided by the group's size."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the flat tensor of gradients."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Return views of the buffer in the shapes of the parameters."""
        return self._bucket.views_of(self._buffer)

    def parameters(self) -> list[Tensor]:
        """Return the parameters, in the order of gradients()."""
        return self._parameters

    def is_last(self) -> bool:
        """Return whether the bucket is the last one that is reduced in the iteration."""
        return self._is_last

    def __repr__(self) -> str:
        return f"GradBucket({self._index}, {self._buffer._layout.numel} numbers)"


GradBucket.__module__ = "fastdist.distributed.distributed_c10d"


def value_of(future: Any) -> Tensor:
    """Wait for a hook's Future, and return the tensor in it."""
    found = future.wait()
    tensor: Tensor = found[0] if isinstance(found, list | tuple) else found
    return tensor
