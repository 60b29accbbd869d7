"""Linear systems: solutions, inverses, LU factors.

The derivatives follow PyTorch's torch/csrc/autograd/FunctionsManual.cpp (linalg_solve_*,
plu_*).
"""

from __future__ import annotations

import math
from typing import Any

from ...core.dtypes import int32, int64
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...dispatch.structured import Plan, structured
from ...tensor.layout import Shape
from ...tensor.tensor import Tensor
from .. import return_types
from ..create.creation import empty
from ..create.ranges import eye
from ..index.searchsorted import find_outside
from ..shape.joining import cat
from .cholesky import triangular
from .matrix_checks import (
    SINGULAR,
    batch_of,
    require_computable,
    require_computed,
    require_fitting,
    require_matrix,
    require_same_dtype,
    require_square,
)


@structured(
    "linalg.dense.solve",
    homes="nowhere",
    batch="last axes",
    known_as="linalg_solve_ex",
    takes_complex=True,
)
def solve_parts(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return X with a @ X = b, and one number per matrix, nonzero if that matrix is singular."""


@solve_parts.plan
def _(a: Tensor, b: Tensor) -> Plan:
    left, right, dtype = a._layout.shape, b._layout.shape, a._layout.dtype
    require_computable("linalg.solve", "lu_cpu", a, takes_complex=True)
    shape = (*batch_of("linalg.solve", left, right), *right[-2:])
    return Plan(shape, dtype, extra_outputs=((left[:-2], int32),))


@solve_parts.vjp("a", "b")
def _(g: Tensor, a: Tensor, out: Tensor, wanted: tuple[bool, ...]) -> tuple[Any, Any]:
    by_b = solve_parts(a.mH, g)[0]
    return -(by_b @ out.mH) if wanted[0] else None, by_b


@solve_parts.jvp
def _(a: Tensor, a_t: Tensor | None, b_t: Tensor | None, out: Tensor) -> Any:
    moved = None if a_t is None else a_t @ out
    right: Any = b_t if moved is None else -moved if b_t is None else b_t - moved
    return solve_parts(a, right)[0]


def _solve(name: str, A: Tensor, B: Tensor, left: bool) -> tuple[Any, Tensor]:
    require_square(name, A)
    require_same_dtype(name, A, B)
    shape, right = A._layout.shape, B._layout.shape
    if not right:
        raise ShapeError(f"{name}: B must have at least 2 dimensions, or be a vector")
    # B is a batch of vectors if B's shape equals A's shape without the last axis, as in NumPy
    # before 2.0.
    is_vector = len(right) == 1 or (len(right) == len(shape) - 1 and right == shape[:-1])
    given: Any = B.unsqueeze(-1) if is_vector else B
    require_fitting(name, shape, given._layout.shape, left)
    if left:
        found, info = solve_parts(A, given)
    else:
        found, info = solve_parts(A.mT, given.mT)
        found = found.mT
    return found.squeeze(-1) if is_vector else found, info


_UNSOLVABLE = "The solver failed because the input matrix is singular."


@composite(homes="linalg", out="same")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """Return X with A @ X = B, or with X @ A = B if `left` is false.

    Shape   (..., n, n), (..., n, k) -> (..., n, k), and batch axes broadcast. B may also be a
            vector (n), or a batch of vectors (..., n) with the batch axes of A: -> (..., n)
    Raises  LinAlgError if A is singular
    """
    found, info = _solve("linalg.solve", A, B, left)
    require_computed("torch.linalg.solve", info, _UNSOLVABLE)
    return found  # type: ignore[no-any-return]


@composite(homes="linalg", out="same")
def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> return_types.linalg_solve_ex:
    """Return (X, info). For a singular A, X is NaN and info is the number of a pivot that is 0."""
    found, info = _solve("linalg.solve", A, B, left)
    if check_errors:
        require_computed("torch.linalg.solve_ex", info, _UNSOLVABLE)
    return return_types.linalg_solve_ex(found, info)


@structured(
    "linalg.dense.inverse",
    fresh=True,
    homes="nowhere",
    batch="last axes",
    known_as="linalg_inv_ex",
    takes_complex=True,
)
def inverse_parts(input: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inverse, and one number per matrix, nonzero if that matrix is singular."""


@inverse_parts.plan
def _(input: Tensor) -> Plan:
    shape = input._layout.shape
    require_computable("linalg.inv", "inverse_cpu", input, takes_complex=True)
    return Plan(shape, input._layout.dtype, extra_outputs=((shape[:-2], int32),))


@inverse_parts.vjp("input")
def _(g: Tensor, out: Tensor) -> Any:
    return -(out.mH @ g @ out.mH)


@inverse_parts.jvp
def _(input_t: Tensor, out: Tensor) -> Any:
    return -(out @ input_t @ out)


def inverted(name: str, A: Tensor) -> Tensor:
    """Return the inverse of A.

    Raises  LinAlgError, with a text that begins with `name`, if A is singular
    """
    require_square(name, A)
    found, info = inverse_parts(A)
    require_computed(name, info, SINGULAR)
    return found


@composite(homes="linalg", out="same")
def inv(A: Tensor) -> Tensor:
    """Return the inverse of square matrices.

    Shape   (..., n, n) -> (..., n, n)
    Raises  LinAlgError if A is singular
    Note    linalg.solve(A, B) is faster and more precise than inv(A) @ B
    """
    return inverted("linalg.inv", A)


@composite(out="same")
def inverse(input: Tensor) -> Tensor:
    """Return the inverse; an alias of linalg.inv.

    Raises  RuntimeError if the matrices are not square, or one is singular

    Args:
        input: A square matrix, or a batch of square matrices.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.inverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    return inverted("linalg.inv", input)


@composite(homes="linalg", out="same")
def inv_ex(A: Tensor, *, check_errors: bool = False) -> return_types.linalg_inv_ex:
    """Return (inverse, info). For a singular A, the inverse is NaN and info is the number of the
    first pivot that is 0.
    """
    require_square("linalg.inv_ex", A)
    found, info = inverse_parts(A)
    if check_errors:
        require_computed("linalg.inv_ex", info, SINGULAR)
    return return_types.linalg_inv_ex(found, info)


# ---- LU -----------------------------------------------------------------------------------------


@structured(
    "linalg.dense.lu",
    homes="nowhere",
    batch="last axes",
    known_as="linalg_lu_factor_ex",
    takes_complex=True,
)
def lu_parts(input: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return L (without its diagonal of ones) and U in one matrix, the row interchanges, and for
    each matrix the number of the first zero pivot, counted from 1, or 0 if no pivot is zero.
    """


@lu_parts.plan
def _(input: Tensor) -> Plan:
    shape = input._layout.shape
    require_computable("linalg.lu", "lu_cpu", input, takes_complex=True)
    more = (((*shape[:-2], min(shape[-2:])), int32), (shape[:-2], int32))
    return Plan(shape, input._layout.dtype, extra_outputs=more)


@structured("linalg.dense.permutation", homes="nowhere", batch="last axes", known_as="lu_unpack")
def permutation(pivots: Tensor, rows: int) -> Tensor:
    """Return the permutation of rows that results from `pivots`, the interchanges of rows. In
    `pivots`, rows are counted from 1.
    """


@permutation.plan
def _(pivots: Tensor, rows: int) -> Plan:
    return Plan((*pivots._layout.shape[:-1], rows), int64)


def _rows_at(matrix: Tensor, places: Tensor) -> Tensor:
    """Return the rows of `matrix` in the order that `places` gives; batch axes broadcast."""
    batch = batch_of("lu", matrix._layout.shape, (*places._layout.shape, 1))
    shape = (*batch, *matrix._layout.shape[-2:])
    index = places.unsqueeze(-1).expand(*shape)
    return matrix.expand(*shape).gather(-2, index)


def _parts(compact: Tensor) -> tuple[Any, Any, Any, Any]:
    """Divide a matrix that holds L and U. Return the square that holds both triangles, the rows of
    L below this square, the columns of U to the right of this square, and the size of the square.
    """
    m, n = compact._layout.shape[-2:]
    k = min(m, n)
    square = compact.narrow(-2, 0, k).narrow(-1, 0, k)
    return square, compact.narrow(-2, k, m - k), compact.narrow(-1, k, n - k), k


@lu_parts.vjp("input")
def _(g: Tensor, out: Tensor, others: tuple[Tensor, ...]) -> Any:
    m, n = out._layout.shape[-2:]
    square, low, right, _ = _parts(out)
    g_square, g_low, g_right, _k = _parts(g)
    below, above = square.tril(-1), square.triu()
    by_l = below.mH @ g_square.tril(-1) + g_square.tril(-1)
    by_u = g_square.triu() @ above.mH
    if m < n:
        by_l = by_l - g_right @ right.mH
    if m > n:
        by_u = by_u - low.mH @ g_low
    met = by_l.tril(-1) + by_u.triu()
    # Multiply by the inverse of L.mH from the left, then by the inverse of U.mH from the right.
    met = triangular(square.mH, met, True, True)
    found = triangular(above, met.mH, True, False).mH
    if m < n:
        found = cat([found, triangular(square.mH, g_right, True, True)], -1)
    if m > n:
        found = cat([found, triangular(above, g_low.mH, True, False).mH], -2)
    return _rows_at(found, permutation(others[0], m).argsort(-1))


@lu_parts.jvp
def _(input_t: Tensor, out: Tensor, others: tuple[Tensor, ...]) -> Any:
    m, n = out._layout.shape[-2:]
    square, low, right, _k = _parts(out)
    moved = _rows_at(input_t, permutation(others[0], m))
    t_square, t_low, t_right, _ = _parts(moved)
    above = square.triu()
    met = triangular(square, t_square, False, True)
    met = triangular(above.mT, met.mT, False, False).mT
    by_l, by_u = met.tril(-1), met.triu()
    found = square.tril(-1) @ by_l + by_l + by_u @ above
    if m < n:
        more = triangular(square, t_right, False, True) - by_l @ right
        found = cat([found, more], -1)
    if m > n:
        more = triangular(above.mT, t_low.mT, False, False).mT - low @ by_u
        found = cat([found, more], -2)
    return found


def _require_pivoting(name: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")


def _factor(name: str, A: Tensor, pivot: bool) -> tuple[Tensor, Tensor, Tensor]:
    if len(A._layout.shape) < 2:
        raise ShapeError(
            f"{name}: Expected tensor with 2 or more dimensions. Got size: "
            f"{list(A._layout.shape)} instead"
        )
    _require_pivoting(name, pivot)
    return lu_parts(A)


_NO_SOLUTION = (
    "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still "
    "want to perform the factorization, consider calling linalg.lu(A, pivot) or "
    "linalg.lu_factor_ex(A, pivot)"
)


@composite(homes="linalg", out="same")
def lu_factor(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu_factor:
    """Return (LU, pivots) with A = P @ L @ U. LU holds L (without its diagonal of ones) and U in
    one matrix. For each row, pivots holds the number of the row with which that row was
    interchanged, counted from 1.

    Shape   (..., m, n) -> (..., m, n), (..., min(m, n)) of int32
    Raises  RuntimeError if a pivot is 0
    """
    compact, pivots, info = _factor("linalg.lu_factor", A, pivot)
    require_computed("torch.linalg.lu_factor", info, _NO_SOLUTION)
    return return_types.linalg_lu_factor(compact, pivots)


@composite(homes="linalg", out="same")
def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> return_types.linalg_lu_factor_ex:
    """Return (LU, pivots, info). info is the number of the first zero pivot, counted from 1, or 0
    if no pivot is zero.
    """
    compact, pivots, info = _factor("linalg.lu_factor_ex", A, pivot)
    if check_errors:
        require_computed("torch.linalg.lu_factor_ex", info, _NO_SOLUTION)
    return return_types.linalg_lu_factor_ex(compact, pivots, info)


def _permuting(compact: Tensor, pivots: Tensor) -> Tensor:
    """Return the permutation matrix P for the two results of lu_factor."""
    m = compact._layout.shape[-2]
    rows: Any = permutation(pivots, m)
    identity = eye(m, dtype=compact.dtype, device=compact.device)
    return _rows_at(identity, rows.argsort(-1))


def _triangles(compact: Tensor) -> tuple[Tensor, Tensor]:
    """Return the matrices L and U from the one matrix that holds both."""
    m, n = compact._layout.shape[-2:]
    k = min(m, n)
    diagonal = eye(m, k, dtype=compact.dtype, device=compact.device)
    return compact.narrow(-1, 0, k).tril(-1) + diagonal, compact.narrow(-2, 0, k).triu()


@composite(homes="linalg", out="same", node="linalg_lu")
def lu(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu:
    """Return (P, L, U) with A = P @ L @ U: a permutation matrix, a lower triangular matrix with
    ones on its diagonal, and an upper triangular matrix.

    Shape   (..., m, n) -> (..., m, m), (..., m, k), (..., k, n) for k = min(m, n)
    """
    compact, pivots, _ = _factor("linalg.lu", A, pivot)
    return return_types.linalg_lu(_permuting(compact, pivots), *_triangles(compact))


@composite(name="lu", out="cast", known_as="_lu_with_info")
def compact_lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """Return (LU, pivots), and info if get_infos is true; replaced by linalg.lu_factor."""
    found = _factor("lu", A, pivot)
    return found if get_infos else found[:2]


@composite(homes="function", out="same")
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> return_types.lu_unpack:
    """Return (P, L, U) from the result of lu_factor; parts that were not requested are empty."""
    require_matrix("torch.lu_unpack", LU_data, "LU_data")
    _require_pivots("torch.lu_unpack", LU_data, LU_pivots)
    if unpack_pivots:
        wrong = "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive"
        _require_rows(LU_pivots, LU_data._layout.shape[-2], wrong, wrong)
    nothing = empty(0, dtype=LU_data.dtype, device=LU_data.device)
    return return_types.lu_unpack(
        _permuting(LU_data, LU_pivots) if unpack_pivots else nothing,
        *(_triangles(LU_data) if unpack_data else (nothing, nothing)),
    )


def _require_pivots(name: str, LU: Tensor, pivots: Tensor) -> None:
    if pivots._layout.dtype is not int32:
        raise DTypeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    if pivots._layout.shape[-1:] != (min(LU._layout.shape[-2:]),):
        raise ShapeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix"
        )


def _require_rows(pivots: Tensor, rows: int, too_small: str, too_large: str) -> None:
    """Raise an error if a pivot is not in 1 ... rows. Pivots on other devices than the CPU are not
    checked.
    """
    wrong = find_outside(pivots, 1, rows)
    if wrong is not None:
        raise ShapeError(
            f"{too_small if wrong < 1 else too_large}, got {wrong} for {rows} rows; pass the "
            "pivots that lu_factor returned"
        )


def _lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, adjoint: bool) -> Tensor:
    n = LU._layout.shape[-1]
    rows = permutation(pivots, n)
    if adjoint:
        found = triangular(LU.mH, B, False, False)
        found = triangular(LU.mH, found, True, True)
        return _rows_at(found, rows.argsort(-1))
    found = triangular(LU, _rows_at(B, rows), False, True)
    return triangular(LU, found, True, False)


@composite(name="lu_solve", homes="linalg", out="same")
def linalg_lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """Return X with A @ X = B, or with X @ A = B if `left` is false. LU and pivots are the results
    of lu_factor for A. If `adjoint` is true, A.mH replaces A in the equation.

    Shape   (..., n, n), (..., n), (..., n, k) -> (..., n, k)
    """
    name = "linalg.lu_solve"
    shape = require_square("torch.linalg.lu_solve", LU)
    require_same_dtype(name, LU, B)
    _require_pivots(name, LU, pivots)
    require_fitting(name, shape, require_matrix(name, B, "B"), left)
    _require_rows(
        pivots,
        shape[-1],
        "Pivots given to lu_solve must all be greater or equal to 1",
        "Pivots given to lu_solve must all be smaller or equal to LU.size(-2)",
    )
    if left:
        return _lu_solve(LU, pivots, B, adjoint)
    return _lu_solve(LU, pivots, B.mH, not adjoint).mH


@composite(out="same")
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """Return X with A @ X = input; replaced by linalg.lu_solve."""
    return linalg_lu_solve(LU_data, LU_pivots, input)


# ---- tensors as matrices ------------------------------------------------------------------------


def _require_square_parts(name: str, where: str, shape: Shape, split: int) -> None:
    first, last = math.prod(shape[:split]), math.prod(shape[split:])
    if first != last:
        raise ShapeError(
            f"Expected self to satisfy the requirement prod(self.shape[{where}:]) == "
            f"prod(self.shape[:{where}]), but got {last} != {first}: {name} of {shape}"
        )


@composite(homes="linalg", out="cast")
def tensorinv(input: Tensor, ind: int = 2) -> Tensor:
    """Return the inverse of input as a matrix: the first `ind` axes of input index the matrix's
    rows, and the other axes its columns.

    Raises  LinAlgError if that matrix is singular
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    shape = input._layout.shape
    _require_square_parts("linalg.tensorinv", "ind", shape, ind)
    rows = math.prod(shape[ind:])
    matrix = input.reshape(rows, rows)
    return inverted("inv", matrix).reshape(*shape[ind:], *shape[:ind])


@composite(homes="linalg", out="cast")
def tensorsolve(input: Tensor, other: Tensor, dims: Any = None) -> Tensor:
    """Return X with tensordot(input, X, X.ndim) = other. Before that, the axes `dims` of input
    become its last axes.

    Raises  LinAlgError if input, reshaped to a square matrix, is singular
    """
    given: Any = input
    ndim = len(input._layout.shape)
    if dims is not None:
        given = input.movedim(tuple(dims), tuple(range(ndim - len(dims), ndim)))
    shape, split = given._layout.shape, len(other._layout.shape)
    _require_square_parts("linalg.tensorsolve", "other.ndim", shape, split)
    rows = math.prod(shape[split:])
    found, info = solve_parts(given.reshape(rows, rows), other.reshape(rows, 1))
    require_computed("torch.linalg.solve", info, _UNSOLVABLE)
    return found.reshape(shape[split:])
