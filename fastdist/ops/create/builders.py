"""Tensors built from others by a rule: diagonals, blocks, products and combinations of vectors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ...core.counted import require_countable
from ...core.device import Device
from ...core.dtypes import DType, dtype_of, float32, float64, int64
from ...core.errors import ShapeError
from ...core.evenly_apart import evenly_apart
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.op import OPS
from ...tensor.axes import normalize_axis
from ...tensor.constants import held
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor, from_array
from ..index.searchsorted import searchsorted
from ..shape.joining import cat, stack
from ..shape.shorthand import meshgrid
from .creation import elsewhere, empty, fills_out, finish, zeros
from .ranges import arange, dtype_of_ends, linspace


def _triangle(
    name: str, row: int, col: int, offset: int, dtype: Any, device: Any, *, upper: bool
) -> Tensor:
    for what, n in (("row", row), ("col", col)):
        if n < 0:
            raise ShapeError(f"{what} must be non-negative, got{n}: {name}({row}, {col})")
        require_countable(n)
    wanted, where = dtype_of(dtype), elsewhere(device)
    if where is None:
        make = np.triu_indices if upper else np.tril_indices
        return finish(np.stack(make(row, offset, col)).astype(wanted.numpy), device, False)
    return _triangle_of_device(row, col, offset, where, upper=upper).to(wanted)  # type: ignore[no-any-return]


def _triangle_of_device(row: int, col: int, offset: int, where: Device, *, upper: bool) -> Any:
    """Return rows and columns as int64, found on a device from how many columns each row has."""
    rows: Any = arange(row, device=where)
    lengths = (col - offset - rows if upper else rows + (offset + 1)).clamp(0, col)
    ends = lengths.cumsum(0)
    counted = np.arange(row)
    total = int(np.clip(col - offset - counted if upper else counted + offset + 1, 0, col).sum())
    numbers: Any = arange(total, device=where)
    found: Any = searchsorted(ends, numbers, right=True)
    begins = ends - lengths
    columns = numbers - begins.index_select(0, found)
    if upper:
        columns = columns + (col - lengths).index_select(0, found)
    return stack([found, columns])


@composite(homes="function")
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType = int64, device: Any = None
) -> Tensor:
    """Return the rows and columns of a matrix's places on and below a diagonal, in order."""
    return _triangle("tril_indices", row, col, offset, dtype, device, upper=False)


@composite(homes="function")
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType = int64, device: Any = None
) -> Tensor:
    """Return the rows and columns of a matrix's places on and above a diagonal, in order."""
    return _triangle("triu_indices", row, col, offset, dtype, device, upper=True)


@composite(homes="function")
@fills_out
def logspace(
    start: complex,
    end: complex,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return base to the powers linspace(start, end, steps), both included."""
    wanted = dtype_of_ends("logspace", start, end, dtype)
    if steps < 0:
        raise ShapeError(f"number of steps must be non-negative, got {steps}")
    where = elsewhere(device)
    if where is not None and wanted in (float32, float64):
        found: Any = linspace(start, end, steps, dtype=wanted, device=where)
        found = OPS["pow"].public(float(base), found)
        return found.requires_grad_() if requires_grad else found  # type: ignore[no-any-return]
    powers = evenly_apart(held(start, wanted), held(end, wanted), steps)
    with np.errstate(all="ignore"):
        values = np.power(powers.dtype.type(base), powers).astype(wanted.numpy)
    return finish(values, device, requires_grad, is_constant=True)


@composite(node="diag_embed")
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return matrices in the axes dim1 and dim2 with input's last axis on their diagonals."""
    shape = input.facts.shape
    ndim = len(shape) + 1
    first, second = (normalize_axis("diag_embed", dim, ndim) for dim in (dim1, dim2))
    if not shape:
        normalize_axis("diag_embed", -2, 0)
    if first == second:
        raise ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = shape[-1] + abs(offset)
    rest = iter(shape[:-1])
    whole = tuple(n if i in (first, second) else next(rest) for i in range(ndim))
    return OPS["place_diagonal"].public(input, whole, offset, first, second)  # type: ignore[no-any-return]


@composite()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Return a matrix with input's elements on a diagonal."""
    return diag_embed(input.reshape(-1), offset)


@composite(homes="function", node="block_diag")
def block_diag(*tensors: Any) -> Tensor:
    """Return a matrix with the tensors, of two axes at most, one behind the other on its diagonal;
    of none, one of shape (1, 0).

    Dtype   that in which all meet, in which those without axes count last
    """
    if not tensors:
        return zeros(1, 0)
    dtype = result_dtype(tensors)
    blocks: list[Any] = []
    for i, one in enumerate(tensors):
        if len(one.facts.shape) > 2:
            raise ShapeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{i} has {len(one.facts.shape)} dimensions"
            )
        n = one.facts.shape[-1] if one.facts.shape else 1
        blocks.append((one if len(one.facts.shape) == 2 else one.reshape(1, n)).to(dtype))
    width = sum(one.facts.shape[1] for one in blocks)
    lines, before = [], 0
    for one in blocks:
        height, own = one.facts.shape
        sides = [
            zeros(height, n, dtype=dtype, device=one.facts.device)
            for n in (before, width - before - own)
        ]
        lines.append(cat([sides[0], one, sides[1]], 1))
        before += own
    return cat(lines, 0)


def _require_vectors(tensors: Any) -> None:
    for one in tensors:
        if len(one.facts.shape) != 1:
            raise ShapeError(f"Expect a 1D vector, but got shape {list(one.facts.shape)}")


@composite(homes="function", node="stack")
def cartesian_prod(*tensors: Any) -> Tensor:
    """Return all rows that take one element of each vector, in order; a single one is itself."""
    _require_vectors(tensors)
    if len(tensors) == 1:
        return tensors[0]  # type: ignore[no-any-return]
    return stack([grid.reshape(-1) for grid in meshgrid(*tensors)], 1)


@composite(homes="function", node="stack")
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all rows of r elements of a vector, in the order in which they stand."""
    _require_vectors([input])
    if r < 0:
        raise ShapeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return zeros(0, dtype=input.facts.dtype, device=input.facts.device)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    n = input.facts.numel
    rows = math.comb(n + r - 1 if with_replacement and n else n, r)
    # Made before they are counted: more than memory has is an error, not an endless list.
    found = empty(rows, r, dtype=int64).numpy()
    numbers = itertools.chain.from_iterable(choose(range(n), r))
    found[...] = np.fromiter(numbers, np.int64, rows * r).reshape(rows, r)
    places = from_array(found).to(input.facts.device)
    return input.index_select(0, places.reshape(-1)).reshape(found.shape)


@composite(homes="function", known_as="")
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Return the places along each axis of shape that indices into its flat order stand for."""
    if indices.facts.dtype.is_floating_point:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.facts.dtype}")
    sizes = (shape,) if hasattr(shape, "__index__") else tuple(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {short_repr(sizes)}")
    found: list[Any] = []
    rest: Any = indices.to(int64)
    for n in reversed(sizes):
        found.append(OPS["remainder"].public(rest, n))
        rest = OPS["floor_divide"].public(rest, n)
    return tuple(reversed(found))


@composite(homes="function", node="flip")
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the powers of a vector's elements as rows, the highest first unless increasing."""
    if len(x.facts.shape) != 1:
        raise ShapeError("x must be a one-dimensional tensor.")
    count = x.facts.numel if N is None else N
    if count < 0:
        raise ShapeError(f"N must be non-negative, got {count}")
    powers = arange(count, device=x.facts.device)
    made: Any = x.unsqueeze(-1) ** (powers if increasing else powers.flip(0))
    return made if x.facts.dtype.may_have_gradient else made.to(int64)  # type: ignore[no-any-return]
