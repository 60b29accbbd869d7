"""The smallest and largest of indices, and negative indices counted from the front."""

from __future__ import annotations

from typing import Any

from ...interpreters.batched_tensor import unbatched
from ...tensor.axes import DimError
from ...tensor.tensor import Tensor
from .. import late_ops


def counted_from_front(index: Tensor, n: int, refusal: str) -> Any:
    """Return index with n added to its negative values, because -1 means the last element.

    Raises  IndexError, with the message `refusal`, for values outside of -n ... n - 1. On a GPU
            such values are returned unchanged: see Note [Places outside]
    """
    if is_seen_by_kernels_alone(index):
        return late_ops.where(index < 0, index + n, index)
    low, high = range_of(index)
    if low < -n or high >= n:
        raise DimError(refusal.format(low if low < -n else high))
    return late_ops.where(index < 0, index + n, index) if low < 0 else index


# Note [Places outside]
# On the CPU, an index out of range raises IndexError. On a GPU, such a check would wait for all
# queued work in each call. So kernels check instead: reading out of range gives NaN, or the largest
# or smallest integer, and writing out of range has no effect. This includes gather and x[...].


def is_seen_by_kernels_alone(values: Tensor) -> bool:
    """Return whether the tensor `values` cannot be checked here, because reading it would wait for
    a GPU or because it is on the meta device. See Note [Places outside].
    """
    return values._layout.device.type in ("cuda", "meta")


def range_of(index: Tensor) -> tuple[int, int]:
    every: Any = unbatched(index)
    return (int(every.min()), int(every.max())) if every._layout.numel else (0, -1)
