"""Grouped matrix products, with groups of different lengths."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ...core.dtypes import DType, int32
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...tensor.tensor import Tensor
from ..create.creation import zeros
from ..shape.joining import cat, stack
from .matmul import matmul


@composite(homes="functional", known_as="_grouped_mm", node="_grouped_mm")
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return the products of groups of matrices, as used in a mixture of experts. `offs`, of dtype
    int32, has the end of each group along the axis that is divided into groups.

    Shape   (M, K) and (G, K, N) give (M, N), whose rows are grouped; (G, M, K) and (K, N) give
            (M, N), whose columns are grouped; (M, K) and (K, N) give (G, M, N), with K grouped.
            Without `offs`, two batches of G matrices give G products
    Note    rows and columns of the result after the last group are 0, and elements of K after the
            last group are ignored. `offs` is read on the host
    Raises  RuntimeError if `offs` decreases or exceeds the length of the axis, and for a bias,
            which PyTorch does not support either
    """
    _require_factors(mat_a, mat_b, offs)
    if bias is not None:
        raise ShapeError("Bias not supported yet: add it to what grouped_mm() returns")
    if out_dtype is not None and out_dtype is not mat_a._layout.dtype:
        raise DTypeError(
            "Grouped gemm output dtype must match `mat_a` dtype: that is "
            f"{mat_a._layout.dtype.name}, out_dtype {out_dtype.name}"
        )
    product: Any = matmul
    a: Any = mat_a
    b: Any = mat_b
    if offs is None:
        return product(a, b)  # type: ignore[no-any-return]
    by_rows, by_columns = len(b._layout.shape) == 3, len(a._layout.shape) == 3
    length = b._layout.shape[-1] if by_columns else a._layout.shape[0 if by_rows else 1]
    groups = _groups(offs, length)
    if by_rows:
        parts = [product(a[start:end], b[i]) for i, (start, end) in enumerate(groups)]
        rest = (length - groups[-1][1], b._layout.shape[-1])
        return cat([*parts, _nothing(a, rest)], 0)
    if by_columns:
        parts = [product(a[i], b[:, start:end]) for i, (start, end) in enumerate(groups)]
        rest = (a._layout.shape[1], length - groups[-1][1])
        return cat([*parts, _nothing(a, rest)], 1)
    return stack([product(a[:, start:end], b[start:end]) for start, end in groups])


def _nothing(like: Tensor, shape: tuple[int, int]) -> Tensor:
    made: Tensor = zeros(shape, dtype=like._layout.dtype, device=like._layout.device)
    return made


def _groups(offs: Tensor, length: int) -> list[tuple[int, int]]:
    """Return the beginning and end of each group."""
    ends: list[int] = offs.tolist()
    groups = list(pairwise([0, *ends]))
    if any(start > end for start, end in groups) or ends[-1] > length:
        raise ShapeError(
            f"grouped_mm: offs must rise from 0 to at most {length}, the length of the axis that "
            f"is in groups: they are {ends}"
        )
    return groups


def _require_factors(a: Tensor, b: Tensor, offs: Tensor | None) -> None:
    """Raise DTypeError or ShapeError if the factors and `offs` do not fit together."""
    first, second = a._layout, b._layout
    for name, layout in (("mat_a", first), ("mat_b", second)):
        if len(layout.shape) not in (2, 3):
            raise ShapeError(f"{name} has to be 2 or 3d: its shape is {layout.shape}")
        if not layout.dtype.is_floating_point:
            raise DTypeError(
                f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got "
                f"{layout.dtype.name}: grouped_mm multiplies floating point numbers"
            )
    if first.dtype is not second.dtype:
        raise DTypeError(
            "expected m1 and m2 to have the same dtype, but got: "
            f"{first.dtype.name} != {second.dtype.name}"
        )
    if first.shape[-1] != second.shape[-2]:
        raise ShapeError(
            "contraction dimension of mat_a and mat_b must match: they are "
            f"{first.shape} and {second.shape}"
        )
    stacks = [layout.shape[0] for layout in (first, second) if len(layout.shape) == 3]
    if (offs is None) != (len(stacks) == 2):
        raise ShapeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d:"
            f" they are {first.shape} and {second.shape}"
        )
    if offs is None:
        if stacks[0] != stacks[1]:
            raise ShapeError(f"batched dimension has to match: {stacks[0]} != {stacks[1]}")
        return
    if len(offs._layout.shape) != 1 or not offs._layout.numel:
        raise ShapeError(
            f"offs has to be 1D, of a group or more: its shape is {offs._layout.shape}"
        )
    if offs._layout.dtype is not int32:
        raise DTypeError(f"Offsets have to be int32: they are {offs._layout.dtype.name}")
    if stacks and stacks[0] != offs._layout.numel:
        raise ShapeError(
            f"matrix batch sizes have to match: {stacks[0]} matrices, {offs._layout.numel} offsets"
        )
