"""Coordinate grids and combinations of vectors: meshgrid, cartesian_prod, combinations."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ...core.caller_warning import warn_caller
from ...core.dtypes import int64
from ...core.errors import DeviceError, DTypeError, ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...tensor.tensor import Tensor, from_array
from ..create.creation import empty, zeros
from .joining import stack


@composite(homes="function")
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return one tensor per vector: the vector expanded to the shape of the grid, which has an axis
    for each vector. With indexing "xy", the first two axes are swapped.

    Raises  RuntimeError for tensors with more than one axis, or of different dtypes

    Args:
        *tensors: Vectors of one dtype, or one list of them.
        indexing: "ij", also if None: axes in the order of the vectors; "xy": the first two swapped.

    Example:
        >>> rows, columns = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
        >>> rows
        tensor([[0, 0, 0],
                [1, 1, 1]])
    """
    if indexing is None:
        indexing = "ij"
        warn_caller(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing "
            "argument.",
            once=True,
        )
    packed = len(tensors) == 1 and not isinstance(tensors[0], Tensor)
    given = list(tensors[0] if packed else tensors)
    _require_vectors(given, indexing)
    if indexing == "xy" and len(given) > 1:
        given[0], given[1] = given[1], given[0]
    shape = tuple([one._layout.numel for one in given])
    last, grids = len(shape) - 1, []
    for i, (n, one) in enumerate(zip(shape, given, strict=True)):
        # Expanding adds axes in front, so only axes behind the vector's own are needed here.
        column = one if i == last else one.reshape((n, *(1,) * (last - i)))
        grids.append(column.expand(shape))
    if indexing == "xy" and len(given) > 1:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def _require_vectors(given: list[Tensor], indexing: str) -> None:
    """Raise RuntimeError unless the tensors have at most one axis, and equal dtypes and devices."""
    if not given:
        raise ShapeError("meshgrid expects a non-empty TensorList")
    for one in given:
        layout, first = one._layout, given[0]._layout
        if len(layout.shape) > 1:
            raise ShapeError(
                "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: "
                f"{list(layout.shape)}; flatten() it"
            )
        if layout.dtype is not first.dtype:
            raise DTypeError(
                "meshgrid expects all tensors to have the same dtype, got "
                f"{first.dtype.name} and {layout.dtype.name}"
            )
        if layout.device is not first.device:
            raise DeviceError(
                "meshgrid expects all tensors to have the same device, got "
                f"{first.device} and {layout.device}"
            )
    if indexing not in ("ij", "xy"):
        raise ShapeError(
            'torch.meshgrid: indexing must be one of "xy" or "ij", but received: '
            f"{short_repr(indexing)}"
        )


def _require_one_axis(tensors: Any) -> None:
    for one in tensors:
        if len(one._layout.shape) != 1:
            raise ShapeError(f"Expect a 1D vector, but got shape {list(one._layout.shape)}")


@composite(homes="function", node="stack")
def cartesian_prod(*tensors: Any) -> Tensor:
    """Return the Cartesian product of vectors as a matrix. Each row has one element of each vector;
    the last column varies fastest. A single vector is returned unchanged.
    """
    _require_one_axis(tensors)
    if len(tensors) == 1:
        return tensors[0]  # type: ignore[no-any-return]
    return stack([grid.reshape(-1) for grid in meshgrid(*tensors)], 1)


@composite(homes="function", node="stack")
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all combinations of r elements as rows of a matrix, in the order of their indices."""
    _require_one_axis([input])
    if r < 0:
        raise ShapeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return zeros(0, dtype=input._layout.dtype, device=input._layout.device)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    n = input._layout.numel
    rows = math.comb(n + r - 1 if with_replacement and n else n, r)
    # The result is allocated before the enumeration, so that too many combinations raise an error.
    found = empty(rows, r, dtype=int64).numpy()
    numbers = itertools.chain.from_iterable(choose(range(n), r))
    found[...] = np.fromiter(numbers, np.int64, rows * r).reshape(rows, r)
    places = from_array(found).to(input._layout.device)
    return input.index_select(0, places.reshape(-1)).reshape(found.shape)
