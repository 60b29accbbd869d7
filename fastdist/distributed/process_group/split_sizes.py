"""The rows of a tensor that go to each member in all_to_all_single."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ...tensor.tensor import Tensor


def rows_of(tensor: Tensor, sizes: Sequence[int] | Tensor | None, members: int) -> list[int]:
    """Return how many rows of a tensor each member gets; equally many without sizes.

    Raises:
        RuntimeError: The sizes do not add up, or the rows do not divide equally.
    """
    if isinstance(sizes, Tensor):
        sizes = [int(size) for size in sizes.to_numpy()]
    shape = tensor._layout.shape
    if not shape:
        raise RuntimeError("all_to_all_single: a tensor of 0 dimensions has no rows to split")
    if not sizes:
        if shape[0] % members:
            raise RuntimeError(
                "Tensor's dim 0 does not divide equally across group size: "
                f"{shape[0]} rows, {members} members"
            )
        return [shape[0] // members] * members
    if len(sizes) != members:
        raise RuntimeError(
            f"Number of tensor splits not equal to group size: {len(sizes)} and {members}"
        )
    if any(size < 0 for size in sizes) or sum(sizes) != shape[0]:
        raise RuntimeError(
            f"Split sizes doesn't match total dim 0 size: {list(sizes)} of {shape[0]}"
        )
    return list(sizes)


def slices_of(array: NDArray[Any], tensor: Tensor, rows: Sequence[int]) -> list[NDArray[Any]]:
    """Return the parts of an array of one axis that hold so many rows of the tensor each."""
    width = 1
    for length in tensor._layout.shape[1:]:
        width *= length
    found, begin = [], 0
    for count in rows:
        end = begin + count * width
        found.append(array[begin:end])
        begin = end
    return found
