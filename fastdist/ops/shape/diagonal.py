"""Diagonals: views of them, matrices made from them, and their sums."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...core.device import CPU
from ...core.dtypes import DType
from ...core.errors import ShapeError
from ...core.torch_function import NOT_TAKEN
from ...devices.backend import Backend
from ...dispatch.composite import composite
from ...dispatch.op import OPS, Op
from ...dispatch.structured import Plan, structured
from ...dispatch.view import view as view_op
from ...interpreters.batched_tensor import levels
from ...kernels.cpu.silence import silent
from ...tensor.axes import normalize_axis
from ...tensor.layout import Layout
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor, from_array, wrap
from ..create.creation import zeros
from ..unrecorded_rows import may_reshape
from .joining import cat

# For more numbers, a pairwise sum is more accurate than a product with ones.
_SHORT: Final = 64


@composite(node="diag_embed")
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return matrices with the last axis of input on their diagonals.

    Args:
        input: A tensor of shape (..., n).
        offset: The index of the diagonal: 0 is the main diagonal, positive ones are above it.
        dim1: The axis of rows in the result.
        dim2: The axis of columns in the result.

    Example:
        >>> torch.diag_embed(torch.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    shape = input._layout.shape
    ndim = len(shape) + 1
    first, second = (normalize_axis("diag_embed", dim, ndim) for dim in (dim1, dim2))
    if not shape:
        normalize_axis("diag_embed", -2, 0)
    if first == second:
        raise ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = shape[-1] + abs(offset)
    rest = iter(shape[:-1])
    whole = tuple(n if i in (first, second) else next(rest) for i in range(ndim))
    return place_diagonal(input, whole, offset, first, second)


@composite()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Return a matrix with input's elements on the diagonal with the index `offset`."""
    return diag_embed(input.reshape(-1), offset)


@composite(homes="function", node="block_diag")
def block_diag(*tensors: Any) -> Tensor:
    """Return a block-diagonal matrix of tensors with at most two axes. Without tensors, return a
    matrix of shape (1, 0).

    Dtype   the dtype to which all tensors promote; of a tensor without axes, only the category of
            its dtype counts
    """
    if not tensors:
        return zeros(1, 0)
    dtype = result_dtype(tensors)
    blocks: list[Any] = []
    for i, one in enumerate(tensors):
        if len(one._layout.shape) > 2:
            raise ShapeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{i} has {len(one._layout.shape)} dimensions"
            )
        n = one._layout.shape[-1] if one._layout.shape else 1
        blocks.append((one if len(one._layout.shape) == 2 else one.reshape(1, n)).to(dtype))
    width = sum(one._layout.shape[1] for one in blocks)
    lines, before = [], 0
    for one in blocks:
        height, own = one._layout.shape
        sides = [
            zeros(height, n, dtype=dtype, device=one._layout.device)
            for n in (before, width - before - own)
        ]
        lines.append(cat([sides[0], one, sides[1]], 1))
        before += own
    return cat(lines, 0)


@view_op()
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return a view whose last axis is the diagonal of the axes dim1 and dim2."""


def _diagonal_geometry(
    shape: tuple[int, ...], offset: int, dim1: int, dim2: int
) -> tuple[int, int, int]:
    """Return the length of the diagonal, and the row and column at which it starts."""
    row, column = max(-offset, 0), max(offset, 0)
    return max(min(shape[dim1] - row, shape[dim2] - column), 0), row, column


@diagonal.prepare
def _(input: Tensor, offset: int, dim1: int, dim2: int) -> tuple[Any, ...]:
    ndim = len(input._layout.shape)
    first, second = normalize_axis("diagonal", dim1, ndim), normalize_axis("diagonal", dim2, ndim)
    if first == second:
        raise ShapeError(
            f"diagonal dimensions cannot be identical {dim1}, {dim2}: give two axes of the tensor"
        )
    return offset, first, second


@diagonal.array
def _(backend: Backend, array: Any, offset: int, dim1: int, dim2: int) -> Any:
    length, row, column = _diagonal_geometry(array.shape, offset, dim1, dim2)
    others = [i for i in range(len(array.shape)) if i not in (dim1, dim2)]
    shape = [*(array.shape[i] for i in others), length]
    strides = [*(array.strides[i] for i in others), array.strides[dim1] + array.strides[dim2]]
    start = row * array.strides[dim1] + column * array.strides[dim2] if length else 0
    return backend.as_strided(array, shape, strides, start)


@diagonal.looking
def _(layout: Layout, offset: int, dim1: int, dim2: int) -> Any:
    if not _diagonal_geometry(layout.shape, offset, dim1, dim2)[0]:
        return None

    def look(array: Any) -> Any:
        # diagonal() takes a tenth of the time of as_strided, but returns a read-only view.
        seen = array.diagonal(offset, dim1, dim2)
        seen.flags.writeable = array.flags.writeable
        return seen

    return look


@diagonal.vjp("input")
def _(g: Tensor, input_layout: Layout, offset: int, dim1: int, dim2: int) -> Any:
    return place_diagonal(g, input_layout.shape, offset, dim1, dim2)


@structured(
    "shape.copying.place_diagonal",
    linear=True,
    homes="nowhere",
    known_as="diagonal_backward",
    node="diag_embed",
    takes_complex=True,
)
def place_diagonal(
    input: Tensor, shape: Sequence[int], offset: int, dim1: int, dim2: int
) -> Tensor:
    """Return zeros of this shape with input on the diagonal: the adjoint of diagonal."""


@place_diagonal.plan
def _(input: Tensor, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Plan:
    return Plan(shape, input._layout.dtype, (offset, dim1, dim2))


@place_diagonal.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    shape, offset, *dims = attributes
    axes = [normalize_axis("diagonal", dim, len(shape)) + 1 for dim in dims]
    return op.general((operands[0].value,), ((levels.sizes[level - 1], *shape), offset, *axes))


@place_diagonal.vjp("input")
def _(g: Tensor, offset: int, dim1: int, dim2: int) -> Any:
    return diagonal.general((g,), (offset, dim1, dim2))


def _diag_at_once(input: Tensor, diagonal: int = 0) -> Any:
    """Return a copy of the diagonal of a plain matrix, for calls that are not recorded; NOT_TAKEN
    for other calls.
    """
    if not may_reshape(input) or diagonal.__class__ is not int:
        return NOT_TAKEN
    layout = input._layout
    if len(layout.shape) != 2 or abs(diagonal) > layout.numel:
        return NOT_TAKEN
    return from_array(input._array.diagonal(diagonal).copy())


@composite(out="same", quick=_diag_at_once)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """Return the diagonal of a matrix as a vector, or a matrix with a vector on its diagonal.

    Raises  RuntimeError if input has neither one nor two axes

    Args:
        input: A vector or a matrix of any dtype; the matrix need not be square.
        diagonal: The index of the diagonal: 0 is the main diagonal, positive ones are above it.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.diag(torch.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
        >>> torch.diag(torch.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    shape = input._layout.shape
    if len(shape) == 2:
        return OPS["diagonal"](input, diagonal).clone()  # type: ignore[no-any-return]
    if len(shape) != 1:
        raise ShapeError(f"diag(): Supports 1D or 2D tensors. Got {len(shape)}D")
    n = shape[0] + abs(diagonal)
    return place_diagonal(input, (n, n), diagonal, 0, 1)


@functools.lru_cache(maxsize=64)
def _sum_of(dtype: DType, count: int) -> tuple[Any, Any, Layout]:
    """Return a number, `count` ones, and the layout of a number."""
    return np.empty((), dtype.numpy), np.ones(count, dtype.numpy), Layout.of(dtype, CPU, ())


@silent  # type: ignore[untyped-decorator]
def _trace_at_once(input: Tensor) -> Any:
    """Return the trace of a plain matrix, for calls that are not recorded, otherwise NOT_TAKEN."""
    if may_reshape(input) and input._layout.ordinary and len(input._layout.shape) == 2:
        diagonal = input._array.diagonal()
        if 0 < len(diagonal) <= _SHORT:
            number, ones, layout = _sum_of(input._layout.dtype, len(diagonal))
            out = number.copy()
            diagonal.dot(ones, out)  # returns a scalar that is not an array
            return wrap(out, layout)
    found = _diag_at_once(input)
    return found if found is NOT_TAKEN else found.sum()


@composite(node="trace", quick=_trace_at_once)
def trace(input: Tensor) -> Tensor:
    """Return the sum of the main diagonal of a matrix.

    Raises  RuntimeError if the tensor is not a matrix

    Args:
        input: A matrix of any dtype; it need not be square. Integers are added in int64.

    Example:
        >>> torch.eye(3).trace()
        tensor(3.)
    """
    if len(input._layout.shape) != 2:
        raise ShapeError(f"trace: expected a matrix, but got tensor with dim {input.dim()}")
    return OPS["diagonal"](input).sum()  # type: ignore[no-any-return]
