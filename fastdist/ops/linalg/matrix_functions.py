"""Powers and exponentials of matrices, chains of products, and smaller functions of `linalg`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ...core.dtypes import WORDS, bool_, complex128, float64, int64
from ...core.errors import DTypeError, ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.signature import ArgumentError
from ...interpreters.batched_tensor import max_over_batch
from ...tensor.axes import DimError
from ...tensor.tensor import Tensor
from ..create.ranges import eye
from ..pointwise.complex_numbers import conjugate
from ..pointwise.masked import where
from ..shape.joining import cat
from .linear_systems import inverted
from .matmul import matmul
from .matrix_checks import require_real, require_square


def _power(name: str, A: Tensor, n: int) -> Any:
    shape = require_square(name, A)
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"{name}(): argument 'n' (position 2) must be int, not {type(n).__name__}")
    n = n.__index__()
    if n == 0:
        one = eye(shape[-1], dtype=A.dtype, device=A.device).expand(*shape)
        # The result is computed from A, so that A gets a gradient, which is 0.
        return A.masked_fill(one == one, 0) + one
    square: Any = inverted("linalg.inv", A) if n < 0 else A
    n, found = abs(n), None
    while True:
        if n & 1:
            found = square if found is None else found @ square
        n >>= 1
        if not n:
            return found.clone() if found is A else found
        square = square @ square


@composite(name="matrix_power", homes="linalg", out="same")
def linalg_matrix_power(input: Tensor, n: int) -> Tensor:
    """Return the n-th power of each matrix. For n < 0 this is the power -n of the inverse matrix.

    Shape   (..., k, k) -> (..., k, k)
    Raises  LinAlgError for n < 0 if input is singular
    """
    return _power("linalg.matrix_power", input, n)  # type: ignore[no-any-return]


@composite(out="same")
def matrix_power(input: Tensor, n: int) -> Tensor:
    """Return the n-th power of each matrix; an alias of linalg.matrix_power."""
    return _power("linalg.matrix_power", input, n)  # type: ignore[no-any-return]


# The degree of the Taylor polynomial, and the largest norms of matrices for which its remainder is
# below the precision of float64 and of float32. Matrices with larger norms are halved, and the
# result is squared; each avoided squaring halves the error.
# Source: Al-Mohy and Higham 2011, "Computing the action of the matrix exponential", table 3.1.
_TERMS = 16
_SMALL_DOUBLE, _SMALL_SINGLE = 0.75, 2.2


def _exponential(A: Tensor) -> Tensor:
    """Return the exponential. A is halved until its norm is small, and the sum of the series is
    then squared as many times as A was halved.
    """
    if not A._layout.numel:
        return A.clone()
    size = A.detach().abs().sum(-1).amax(-1)
    small = _SMALL_DOUBLE if A._layout.dtype in (float64, complex128) else _SMALL_SINGLE
    halvings = (size / small).log2().ceil().clamp(min=0)
    # Matrices with NaN or infinite elements are not halved.
    halvings = where(size.isfinite(), halvings, 0.0)[..., None, None]
    halved = A * (-halvings).exp2()
    one = eye(A._layout.shape[-1], dtype=A.dtype, device=A.device)
    square = halved @ halved
    cube = square @ halved
    fourth = square @ square
    powers = (one, halved, square, cube)
    factors = [1.0]
    for k in range(1, _TERMS + 1):
        factors.append(factors[-1] / k)
    # The terms are summed in groups of four. 17 terms then need 7 products, 3 of them
    # for powers (Paterson and Stockmeyer 1973).
    found = one * factors[_TERMS]
    for first in range(_TERMS - 4, -1, -4):
        part = powers[0] * factors[first]
        for k in range(1, 4):
            part = part + powers[k] * factors[first + k]
        found = part + fourth @ found
    for k in range(max_over_batch(halvings)):
        found = where(halvings > k, found @ found, found)
    return found


def _require_exponent(A: Tensor) -> None:
    require_square("linalg.matrix_exp", A)
    if not A._layout.dtype.is_complex:
        require_real("linalg.matrix_exp", A)


@composite(name="matrix_exp", homes="linalg", node="linalg_matrix_exp")
def linalg_matrix_exp(input: Tensor) -> Tensor:
    """Return the sum of input**k / k! over all k.

    Shape   (..., n, n) -> (..., n, n)
    Source  Higham 2005, "The scaling and squaring method for the matrix exponential revisited"
    """
    _require_exponent(input)
    return _exponential(input)


@composite(node="linalg_matrix_exp")
def matrix_exp(input: Tensor) -> Tensor:
    """Return the exponential of matrices; an alias of linalg.matrix_exp."""
    _require_exponent(input)
    return _exponential(input)


# ---- products -----------------------------------------------------------------------------------


def _best_order(sizes: tuple[int, ...]) -> Any:
    """Return a function (i, j) -> k for the product of the factors i to j: if this product is
    split after factor k, the number of multiplications is minimal. Factor i has the shape
    (sizes[i], sizes[i + 1]).
    """

    @cache
    def cost(i: int, j: int) -> tuple[int, int]:
        if i == j:
            return 0, i
        ends = sizes[i] * sizes[j + 1]
        return min(
            (cost(i, k)[0] + cost(k + 1, j)[0] + ends * sizes[k + 1], k) for k in range(i, j)
        )

    return lambda i, j: cost(i, j)[1]


def _chain(matrices: Sequence[Any]) -> Any:
    shapes = [one._layout.shape for one in matrices]
    split = _best_order((*[shape[0] for shape in shapes], shapes[-1][1]))

    def product(i: int, j: int) -> Any:
        if i == j:
            return matrices[i]
        k = split(i, j)
        return product(i, k) @ product(k + 1, j)

    return product(0, len(matrices) - 1)


def _require_chain(tensors: Sequence[Tensor]) -> None:
    n = len(tensors)
    if n < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {n}")
    for i, one in enumerate(tensors):
        if not isinstance(one, Tensor):
            raise ArgumentError(f"multi_dot(): tensor {i} must be Tensor, not {short_repr(one)}")
        ndim = len(one._layout.shape)
        at_end = i in (0, n - 1)
        if ndim != 2 and not (at_end and ndim == 1):
            which = "the first tensor" if i == 0 else "the last tensor" if at_end else f"tensor {i}"
            raise ShapeError(
                f"multi_dot(): {which} must be {'1D or 2D' if at_end else '2D'} but got {ndim}D"
            )
    for i in range(n - 1):
        a, b = tensors[i]._layout.shape, tensors[i + 1]._layout.shape
        if a[-1] != b[0]:
            raise ShapeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(a)} and {list(b)} cannot "
                "be multiplied"
            )


@composite(homes="linalg", out="same", node="view")
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Return the product of several matrices, computed in the order with the fewest
    multiplications. The first and the last tensor may be vectors.
    """
    _require_chain(tensors)
    given: list[Any] = [*tensors]
    row, column = (len(one._layout.shape) == 1 for one in (given[0], given[-1]))
    if row:
        given[0] = given[0].unsqueeze(0)
    if column:
        given[-1] = given[-1].unsqueeze(1)
    found = _chain(given)
    found = found.squeeze(-1) if column else found
    return found.squeeze(0) if row else found  # type: ignore[no-any-return]


@composite(homes="function", out="same", node="view")
def chain_matmul(*matrices: Tensor) -> Tensor:
    """Return the product of several matrices; replaced by linalg.multi_dot."""
    for one in matrices:
        if len(one._layout.shape) != 2:
            raise ShapeError(f"Tensor dimension is {len(one._layout.shape)}, expected 2 instead.")
    if len(matrices) == 1:
        return matrices[0]
    return multi_dot(matrices)


# ---- smaller functions --------------------------------------------------------------------------


@composite(name="matmul", homes="linalg", out="same")
def linalg_matmul(input: Tensor, other: Tensor) -> Tensor:
    """Return the matrix product; an alias of matmul."""
    return matmul(input, other)


@composite(homes="linalg", out="same")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Return the sum of conj(x) * y along dim; other axes broadcast."""
    if not x._layout.dtype.is_complex:
        require_real("linalg.vecdot", x)
    if x._layout.shape and y._layout.shape and x._layout.shape[dim] != y._layout.shape[dim]:
        raise ShapeError(
            "inconsistent tensor size, expected x and y to have the same number of elements along "
            f"dim {short_repr(dim)}, but got {x._layout.shape[dim]} and {y._layout.shape[dim]} "
            "elements "
            "respectively"
        )
    return (conjugate(x) * y).sum(dim)


@composite(name="diagonal", homes="linalg")
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return a view of the diagonals of matrices along dim1 and dim2."""
    return A.diagonal(offset, dim1, dim2)


@composite(name="cross", homes="linalg", out="same", node="linalg_cross", memory="outside")
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Return the cross products of vectors of three elements along dim; other axes broadcast."""
    if not input._layout.shape and not other._layout.shape:
        raise DimError(
            f"Dimension specified as {short_repr(dim)} but tensor has no dimensions: linalg.cross"
        )
    return input.cross(other, dim)


@composite(homes="linalg")
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Return the first N powers of each element, from x**0 on; N is the length of x by default.

    Shape   (..., n) -> (..., n, N)
    """
    dtype = x._layout.dtype
    if dtype is bool_ or dtype.is_half:
        raise DTypeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{WORDS[dtype]}"
        )
    if N is None:
        N = x._layout.shape[-1] if x._layout.shape else 1
    if N <= 1:
        raise RuntimeError(f"N must be greater than 1, got {N}")
    kind = dtype if dtype.may_have_gradient else int64
    given: Any = x.to(kind).unsqueeze(-1)
    if not x._layout.shape:
        given = given.unsqueeze(0)
    first = given.new_ones(()).expand(*given.shape)
    return cat([first, given.expand(*given.shape[:-1], N - 1).cumprod(-1)], -1)
