"""Norms of vectors and matrices under their names in `linalg`, and condition numbers."""

from __future__ import annotations

import math
from typing import Any

from ...core.dtypes import DType
from ...core.errors import ShapeError
from ...core.short_repr import short_repr, short_text
from ...dispatch.composite import composite
from ...tensor.axes import Axes, normalize_axis
from ...tensor.tensor import Tensor
from ..pointwise.masked import where
from ..reduce.norms import sized, vector_norm
from .eigh_svd import values_of
from .linear_systems import inverse_parts
from .matrix_checks import require_matrix, require_real, require_square

_SIZES: Any = {"fro", "nuc", math.inf, -math.inf, 1, -1, 2, -2}


def _floating(name: str, x: Tensor, dtype: DType | None) -> Any:
    """Return x, cast to dtype if it is given.

    Raises  RuntimeError if x is neither floating nor complex
    """
    if not x._layout.dtype.is_complex:
        require_real(name, x)
    return x if dtype is None else x.to(dtype)


@composite(name="vector_norm", homes="linalg", out="same")
def linalg_vector_norm(
    input: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Return (sum of |x|**ord)**(1/ord) over dim, by default over all axes. If `ord` is inf, the
    norm is the maximum of |x|; if -inf, the minimum; if 0, the number of nonzero elements.

    Note    at 0, the gradient of a Euclidean norm n is 0, and second derivatives are correct for
            functions that are smooth in n**2 and NaN for other functions. Forward mode supports
            n**2, n.square() and functions of these, unless a gradient is recorded with create_graph
    Raises  RuntimeError if input is neither floating-point nor complex; IndexError if dim is out of
            range

    Args:
        input: A floating-point or complex tensor of any shape. The result is real.
        ord: The order, any real number, inf or -inf; 2 is the Euclidean norm. Without elements, the
            norm is 0, and negative and infinite orders raise an error.
        dim: The axis or axes; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        dtype: The dtype to compute in; None means the dtype of input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.linalg.vector_norm(torch.tensor([3.0, -4.0]), ord=1)
        tensor(7.)
    """
    if isinstance(ord, str):
        raise TypeError(f"linalg.vector_norm: ord is a number, got {short_repr(ord)}")
    given = sized(_floating("linalg.vector_norm", input, dtype))
    return vector_norm(given, float(ord), dim, keepdim)


@composite(homes="linalg", out="same")
def matrix_norm(
    input: Tensor,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """Return the norm of matrices along two axes. `ord` is "fro", "nuc", 1, 2 or inf, or -1, -2 or
    -inf, which use the smallest sum or singular value instead of the largest.

    Shape   (..., m, n) -> (...)
    """
    name = "linalg.matrix_norm"
    given = _floating(name, input, dtype)
    shape = require_matrix(name, input)
    if ord not in _SIZES:
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    axes = (dim,) if hasattr(dim, "__index__") else tuple(dim)
    if len(axes) != 2:
        raise ShapeError(f"{name}: dim must be a 2-tuple. Got {', '.join(map(str, axes))}")
    rows, columns = (normalize_axis(name, axis, len(shape)) for axis in axes)
    if rows == columns:
        raise ShapeError(f"{name}: dims must be different. Got ({axes[0]}, {axes[1]})")
    if ord == "fro":
        return vector_norm(sized(given), 2.0, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        values = values_of(given.movedim((rows, columns), (-2, -1)))
        found = values.sum(-1) if ord == "nuc" else _extreme(values, -1, ord > 0, False)
        if keepdim:
            for axis in sorted((rows, columns)):
                found = found.unsqueeze(axis)
        return found
    if abs(ord) != 1:
        rows, columns = columns, rows
    sums = given.abs().sum(rows, keepdim)
    left = columns - (columns > rows and not keepdim)
    return _extreme(sums, left, ord > 0, keepdim)


def _extreme(sizes: Tensor, axis: int, largest: bool, keepdim: bool) -> Tensor:
    """Return the maximum or minimum of `sizes` along `axis`, or 0 if that axis has length 0."""
    if not sizes._layout.shape[axis]:
        return sizes.sum(axis, keepdim)
    return sizes.amax(axis, keepdim) if largest else sizes.amin(axis, keepdim)


def _is_of_matrices(ndim: int, dim: Any) -> bool:
    """Return whether linalg.norm computes norms of matrices for these arguments."""
    if dim is not None:
        count = 1 if hasattr(dim, "__index__") else len(dim)
        if count not in (1, 2):
            raise ShapeError(
                f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}"
            )
        return count == 2
    if ndim not in (1, 2):
        raise ShapeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{ndim}D."
        )
    return ndim == 2


@composite(name="norm", homes="linalg", out="same")
def linalg_norm(
    input: Tensor, ord: Any = None, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Return the vector norm of order 2 if ord is None. Otherwise return norms of matrices along
    two axes, or norms of vectors along one axis; see matrix_norm and vector_norm.

    Raises  RuntimeError if input is neither floating-point nor complex, or ord does not fit the
            axes; IndexError if dim is out of range

    Args:
        input: A tensor of vectors or matrices.
        ord: The order: None, a number, inf, -inf, "fro" or "nuc".
        dim: The axis of vectors, or the two axes of matrices; all axes if None.
        keepdim: Whether the reduced axes stay, with length 1.
        dtype: The dtype to compute in; None means the dtype of input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.linalg.norm(torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
    if ord is None:
        return linalg_vector_norm(input, 2, dim, keepdim, dtype=dtype)
    is_of_matrices = _is_of_matrices(len(input._layout.shape), dim)
    if not (is_of_matrices or isinstance(ord, str)):
        return linalg_vector_norm(input, ord, dim, keepdim, dtype=dtype)
    return matrix_norm(input, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)


@composite(homes="function", out="same")
def nuclear_norm(input: Tensor, dim: Axes = (-2, -1), keepdim: bool = False) -> Tensor:
    """Return the nuclear norm, the sum of the singular values."""
    return matrix_norm(input, "nuc", dim, keepdim)


@composite(homes="function", out="same", node="norm.1")
def frobenius_norm(input: Tensor, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """Return the root of the sum of squares over dim, which is one axis or two axes."""
    return linalg_vector_norm(input, 2, dim, keepdim)


@composite(homes="linalg", out="cast")
def cond(input: Tensor, p: Any = None) -> Tensor:
    """Return the condition number: the norm of input times the norm of its inverse. If p is None or
    2, the condition number is the largest singular value divided by the smallest; if p is -2, the
    smallest divided by the largest.

    Shape   (..., m, n) -> (...); for other values of p, the matrices must be square
    """
    shape = input._layout.shape
    if len(shape) < 2:
        raise ShapeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p is not None and p not in _SIZES:
        raise RuntimeError(f"linalg.cond got an invalid norm type: {short_text(p)}")
    if p in (None, 2, -2):
        values = values_of(input)
        if not values._layout.shape[-1]:
            return values.sum(-1)  # type: ignore[no-any-return]
        first, last = values.select(-1, 0), values.select(-1, -1)
        return last / first if p == -2 else first / last  # type: ignore[no-any-return]
    require_square(f"linalg.cond(ord={p})", input)
    if p == "nuc":
        values = values_of(input)
        return values.sum(-1) * values.reciprocal().sum(-1)  # type: ignore[no-any-return]
    found, info = inverse_parts(input)
    # For a singular matrix the condition number is infinite.
    number = matrix_norm(input, p) * matrix_norm(found, p)
    return where(info != 0, math.inf, number)
