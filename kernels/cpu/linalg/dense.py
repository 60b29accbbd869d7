"""Linear algebra of batches of matrices, on the CPU, by NumPy's LAPACK functions, else SciPy's.

Shapes are (..., n, m), batch axes first. `info` has one integer per matrix, which is 0 on success.
If the result for a matrix cannot be computed, this result is NaN, and `info` is not 0; the results
for other matrices are not affected. After a failed factorization, `info` is the number, from 1, of
the first pivot that is 0 or not positive.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fastdist.core.ldl import valid_pivots
from fastdist.system.blas import share_blas_threads

from ..index.indices import OutOfBounds, ends
from ..silence import silent

Array = np.ndarray[Any, Any]
_Failed = np.linalg.LinAlgError


def _matrices(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Yield, for each index of the batch axes, views of one matrix or row of each array. The first
    array has the shape (..., n, m).
    """
    for index in np.ndindex(arrays[0].shape[:-2]):
        yield tuple([array[index] for array in arrays])


def _one_by_one(work: Callable[..., None], x: Array, info: Array, *outs: Array) -> bool:
    """Let `work` fill `outs` for the whole batch; if that fails, run `work` on each matrix
    separately. Return whether the attempt for the whole batch failed.
    """
    info.fill(0)
    try:
        work(x, *outs)
        return False
    except _Failed:
        for index in np.ndindex(x.shape[:-2]):
            parts = [out[index] for out in outs]
            try:
                work(x[index], *parts)
            except _Failed:
                info[index] = 1
                for part in parts:
                    part.fill(np.nan)
        return True


def cholesky(x: Array, out: Array, info: Array, upper: bool) -> None:
    """Write the triangle L of x = L @ L.H into out, or L.H if `upper`. Only one triangle of x is
    read.
    """

    def factor(x: Array, out: Array) -> None:
        np.copyto(out, np.linalg.cholesky(x, upper=upper))
        # NumPy reports a negative pivot, but not a NaN.
        _require_finite(out.diagonal(0, -2, -1))

    if _one_by_one(factor, x, info, out):
        for index in map(tuple, np.argwhere(info)):
            info[index] = _first_minor(x[index], upper)


def _first_minor(x: Array, upper: bool) -> int:
    """Return the order of the first leading minor of x that is not positive definite."""
    below, above = 0, int(x.shape[-1])
    while above - below > 1:
        middle = (below + above) // 2
        try:
            found = np.linalg.cholesky(x[:middle, :middle], upper=upper)
            is_definite = bool(np.isfinite(np.diagonal(found)).all())
        except _Failed:
            is_definite = False
        below, above = (middle, above) if is_definite else (below, middle)
    return above


def solve_triangular(a: Array, b: Array, out: Array, upper: bool, unitriangular: bool) -> None:
    """Solve a @ x = b and write x into out. `a`, of shape (..., n, n), is triangular, and its other
    triangle is not read.

    The batch axes of a and b are broadcast to those of out.
    """
    np.copyto(out, b)
    if not out.size:
        return
    a = np.broadcast_to(a, (*out.shape[:-2], *a.shape[-2:]))
    if math.prod(out.shape[:-2]) > _MANY * a.shape[-1]:
        _substitute(a, out, upper, unitriangular)
        return
    solve = _scipys("blas", "trsm", out.dtype)
    for one, found in _matrices(a, out):
        # BLAS stores matrices by columns: it sees out.T, and solves x.T @ a.T = b.T.
        turned = one.flags.f_contiguous and not one.flags.c_contiguous
        solve(
            1.0,
            one if turned else one.T,
            found.T,
            side=1,
            lower=upper is not turned,
            trans_a=turned,
            diag=unitriangular,
            overwrite_b=1,
        )


def cholesky_solve(b: Array, factor: Array, out: Array, upper: bool) -> None:
    """Solve a @ x = b and write x into out. `factor` is the Cholesky factor of a; only one triangle
    of the factor is read.

    The batch axes of factor and b are broadcast to those of out.
    """
    other = factor.conj().swapaxes(-1, -2)
    below, above = (other, factor) if upper else (factor, other)
    solve_triangular(below, b, out, False, False)
    solve_triangular(above, out, out, True, False)


# If a batch has more than _MANY times as many matrices as a matrix has rows, substituting one row
# of all matrices at a time is faster: 256 matrices (8, 8), with right-hand sides of 2 columns, take
# 0.12 ms instead of 0.35; for 32 matrices both methods take the same time (minima of 5 runs of CPU
# time, AMD EPYC, one thread).
_MANY = 4


@silent
def _substitute(a: Array, out: Array, upper: bool, unitriangular: bool) -> None:
    """Solve a @ x = out in place, one unknown of all matrices at a time."""
    n = a.shape[-1]
    for i in reversed(range(n)) if upper else range(n):
        found = out[..., i : i + 1, :]
        if not unitriangular:
            np.divide(found, a[..., i : i + 1, i : i + 1], out=found)
        rest = slice(0, i) if upper else slice(i + 1, n)
        left = out[..., rest, :]
        np.subtract(left, np.multiply(a[..., rest, i : i + 1], found), out=left)


# Note [Matrices that are not finite] OpenBLAS's getrf multiplies a column by one over its pivot. If
# the pivot is infinite, this factor is 0, and getrf sets the column to 0, which loses NaN: then the
# determinant is a number, and the matrix looks singular. Here such matrices are factored by
# Gaussian elimination column by column, which loses nothing.
def _not_finite(x: Array) -> Any:
    """Return the batch indices of matrices that contain NaN or infinities."""
    finite = np.isfinite(x)
    return () if finite.all() else map(tuple, np.argwhere(~finite.all((-2, -1))))


def inverse(x: Array, out: Array, info: Array) -> None:
    """Write the inverse of x into out."""

    def invert(x: Array, out: Array) -> None:
        np.copyto(out, np.linalg.inv(x))

    if _one_by_one(invert, x, info, out):
        _find_zero_pivots(x, info)
    for index in _not_finite(x):
        one = np.eye(x.shape[-1], dtype=x.dtype)
        info[index] = _solve_by_steps(x[index], one, out[index])


def solve(a: Array, b: Array, out: Array, info: Array) -> None:
    """Solve a @ x = b and write x into out. The batch axes of a and b are broadcast to those of
    out; info has the batch axes of a.
    """
    info.fill(0)
    try:
        np.copyto(out, np.linalg.solve(a, b))
    except _Failed:
        for one, right, found in _matrices(*_broadcast(a, b, out), out):
            try:
                np.copyto(found, np.linalg.solve(one, right))
            except _Failed:
                found.fill(np.nan)
        with np.errstate(all="ignore"):  # @silent does not affect this NumPy function
            for index in np.ndindex(info.shape):
                info[index] = np.linalg.slogdet(a[index])[0] == 0
        _find_zero_pivots(a, info)
    if not np.isfinite(a).all():
        for index in _not_finite(a):
            info[index] = _by_steps(a[index])[2]
        a, b = _broadcast(a, b, out)
        for index in _not_finite(a):
            _solve_by_steps(a[index], b[index], out[index])


def _broadcast(a: Array, b: Array, out: Array) -> tuple[Array, Array]:
    return np.broadcast_to(a, (*out.shape[:-2], *a.shape[-2:])), np.broadcast_to(b, out.shape)


@silent
def _by_steps(x: Array) -> tuple[Array, Array, int]:
    """Compute the result of `_factored` by Gaussian elimination, column by column."""
    found, info = x.copy(), 0
    rows, columns = x.shape
    pivots = np.arange(1, min(rows, columns) + 1, dtype=np.int32)
    for k in range(len(pivots)):
        sizes = np.abs(found[k:, k])
        # LAPACK compares sizes: NaN is chosen as the pivot only if it is on the diagonal.
        best = k if np.isnan(sizes[0]) else k + int(np.nanargmax(sizes))
        pivots[k] = best + 1
        found[[k, best]] = found[[best, k]]
        if found[k, k] == 0:
            info = info or k + 1
        else:
            np.divide(found[k + 1 :, k], found[k, k], out=found[k + 1 :, k])
        found[k + 1 :, k + 1 :] -= found[k + 1 :, k, None] * found[k, k + 1 :]
    return found, pivots, info


@silent
def _solve_by_steps(a: Array, b: Array, out: Array) -> int:
    """Solve a @ x = b for one matrix, and write x into out. Return the number of the first zero
    pivot, from 1, or 0 if no pivot is zero.
    """
    factors, pivots, info = _by_steps(a)
    if info:
        out.fill(np.nan)
        return info
    np.copyto(out, b)
    for i, swap in enumerate(pivots):
        out[[i, swap - 1]] = out[[swap - 1, i]]
    _substitute(factors, out, upper=False, unitriangular=True)
    _substitute(factors, out, upper=True, unitriangular=False)
    return 0


def _find_zero_pivots(x: Array, info: Array) -> None:
    """For matrices that info marks as singular, set info to the number of the first zero pivot."""
    for index in map(tuple, np.argwhere(info)):
        diagonal = np.diagonal(_factored(x[index])[0])
        info[index] = 1 + int(np.argmax(diagonal == 0)) if (diagonal == 0).any() else len(diagonal)


def lu(x: Array, out: Array, pivots: Array, info: Array) -> None:
    """Write L and U of x = P @ L @ U into out, without L's diagonal of ones. For each row, `pivots`
    gets the number, from 1, of the row with which it was swapped.
    """
    for one, found, swaps, status in _matrices(x, out, pivots, info[..., None]):
        found[...], swaps[...], status[0] = _factored(one)


def _factored(x: Array) -> tuple[Array, Array, int]:
    if not x.size:
        return x, np.zeros(0, np.int32), 0
    if not np.isfinite(x).all():
        return _by_steps(x)
    found, pivots, info = _scipys("lapack", "getrf", x.dtype)(x)
    return found, pivots + 1, info


def ldl(x: Array, out: Array, pivots: Array, info: Array, hermitian: bool) -> None:
    """Factor x = L @ D @ L.H (or L.T). Write L, and the elements of D on and below the diagonal,
    into out. `pivots` gets LAPACK's pivots, which count from 1, and are negative for blocks of two.
    Only x's lower triangle is read.
    """
    info.fill(0)
    name = "hetrf" if hermitian and np.iscomplexobj(x) else "sytrf"
    for one, found, swaps, status in _matrices(x, out, pivots, info[..., None]):
        if one.size:
            factors, swaps[...], status[0] = _scipys("lapack", name, x.dtype)(one, lower=1)
            found[...] = np.tril(factors)


def ldl_solve(a: Array, pivots: Array, b: Array, out: Array, hermitian: bool) -> None:
    """Solve A @ x = b and write x into out; a and pivots (as a column) are ldl's results for A.
    Invalid pivots give NaN. The batch axes of a, pivots and b are broadcast to those of out.
    """
    name = "hetrs" if hermitian and np.iscomplexobj(a) else "sytrs"
    swaps = np.broadcast_to(pivots, (*out.shape[:-2], *pivots.shape[-2:]))
    for one, right, given, found in _matrices(*_broadcast(a, b, out), swaps, out):
        own = np.array(given[:, 0], np.int32)  # a private copy: LAPACK writes at these indices
        if not found.size:
            continue
        if valid_pivots(own):
            found[...] = _scipys("lapack", name, out.dtype)(one, own, right, lower=1)[0]
        else:
            found.fill(np.nan)


def permutation(pivots: Array, out: Array) -> None:
    """Write into out the order of the rows after the swaps of pivots, which count from 1.

    Raises  IndexError for a pivot that is out of range
    """
    own, n = pivots.copy(), out.shape[-1]
    low, high = ends(own) if own.size else (1, n)
    if low < 1 or high > n:
        wrong = low if low < 1 else high
        raise OutOfBounds(f"pivots must be between 1 and {n}, the number of rows: got {wrong}")
    out[...] = np.arange(n)
    for swaps, rows in _matrices(own[..., None, :], out[..., None, :]):
        for i, swap in enumerate(swaps[0]):
            rows[0, [i, swap - 1]] = rows[0, [swap - 1, i]]


def determinant(x: Array, out: Array) -> None:
    """Write the determinant of x into out."""
    with np.errstate(all="ignore"):  # @silent does not affect this NumPy function
        np.copyto(out, np.linalg.det(x))
        for index in _not_finite(x):
            diagonal, parity = _diagonal_by_steps(x[index])
            out[index] = np.prod(diagonal) * parity


def log_determinant(x: Array, out: Array, sign: Array) -> None:
    """Write the logarithm of the determinant's absolute value into out, and its sign into sign."""
    with np.errstate(all="ignore"):
        sign[...], out[...] = np.linalg.slogdet(x)
        for index in _not_finite(x):
            diagonal, parity = _diagonal_by_steps(x[index])
            sizes = np.abs(diagonal)
            out[index] = np.sum(np.log(sizes))
            if np.iscomplexobj(x):
                sign[index] = np.prod(diagonal / sizes) * parity
            else:  # as in PyTorch, the sign is 0 for NaN
                sign[index] = np.prod(np.nan_to_num(np.sign(diagonal))) * parity


def _diagonal_by_steps(x: Array) -> tuple[Array, int]:
    """Return the diagonal of U after Gaussian elimination, and the sign of the row swaps."""
    factors, pivots, _ = _by_steps(x)
    swaps = np.count_nonzero(pivots != np.arange(1, len(pivots) + 1))
    return np.diagonal(factors), -1 if swaps % 2 else 1


def eigh(x: Array, out: Array, vectors: Array, info: Array, upper: bool) -> None:
    """Write the eigenvalues of symmetric x, ascending, into out, and the eigenvectors as columns
    into vectors. Only one triangle of x is read.
    """

    def factor(x: Array, out: Array, vectors: Array) -> None:
        _require_finite(x)
        out[...], vectors[...] = np.linalg.eigh(x, "U" if upper else "L")

    _one_by_one(factor, x, info, out, vectors)


def eigenvalues(x: Array, out: Array, info: Array, upper: bool) -> None:
    """Write the eigenvalues of symmetric x, ascending, into out."""

    def factor(x: Array, out: Array) -> None:
        _require_finite(x)
        np.copyto(out, np.linalg.eigvalsh(x, "U" if upper else "L"))

    _one_by_one(factor, x, info, out)


def eig(x: Array, out: Array, vectors: Array, info: Array) -> None:
    """Write the eigenvalues of any square x into out, and the eigenvectors as columns into
    vectors.
    """

    def factor(x: Array, out: Array, vectors: Array) -> None:
        _require_finite(x)
        out[...], vectors[...] = np.linalg.eig(x)

    _one_by_one(factor, x, info, out, vectors)


def eigvals(x: Array, out: Array, info: Array) -> None:
    """Write the eigenvalues of any square x into out."""

    def factor(x: Array, out: Array) -> None:
        _require_finite(x)
        np.copyto(out, np.linalg.eigvals(x))

    _one_by_one(factor, x, info, out)


def svd(x: Array, out: Array, values: Array, right: Array, info: Array, full: bool) -> None:
    """Write U, S and V.H of x = U @ diag(S) @ V.H into out, values and right."""

    def factor(x: Array, out: Array, values: Array, right: Array) -> None:
        _require_finite(x)
        out[...], values[...], right[...] = np.linalg.svd(x, full)

    _one_by_one(factor, x, info, out, values, right)


def singular_values(x: Array, out: Array, info: Array) -> None:
    """Write the singular values of x, descending, into out."""

    def factor(x: Array, out: Array) -> None:
        _require_finite(x)
        np.copyto(out, np.linalg.svd(x, compute_uv=False))

    _one_by_one(factor, x, info, out)


def _require_finite(x: Array) -> None:
    """Raise an error for elements that are not finite, because LAPACK may loop forever with
    them.
    """
    if not np.isfinite(x).all():
        raise _Failed


@silent
def pseudo_inverse(
    x: Array, atol: Array, rtol: Array, out: Array, values: Array, info: Array
) -> None:
    """Write the pseudoinverse of x into out, and the singular values of x into values. A singular
    value counts as 0 if it is at most max(atol, rtol * the largest singular value).
    """
    u = np.empty((*x.shape[:-1], values.shape[-1]), x.dtype)
    right = np.empty((*values.shape, x.shape[-1]), x.dtype)
    svd(x, u, values, right, info, False)
    if not values.size:
        out.fill(0)
        return
    limit = np.maximum(atol, np.multiply(rtol, values[..., 0]))[..., None]
    is_left = values > limit
    scale = np.where(is_left, np.divide(1, np.where(is_left, values, 1)), 0).astype(x.dtype)
    left = np.swapaxes(u, -1, -2).conj()
    np.matmul(np.swapaxes(right, -1, -2).conj(), scale[..., :, None] * left, out=out)


def qr(x: Array, out: Array, upper: Array, mode: str) -> None:
    """Write Q and R of x = Q @ R into out and upper; with mode "r" only R."""
    if mode == "r":
        np.copyto(upper, np.linalg.qr(x, "r"))
        return
    out[...], upper[...] = np.linalg.qr(x, "complete" if mode == "complete" else "reduced")


def reflectors(x: Array, out: Array, scales: Array) -> None:
    """Write R of x = Q @ R into out. Below its diagonal, write the Householder vectors whose
    reflections give Q, and write their scales into `scales`.
    """
    if x.size:
        found, scales[...] = np.linalg.qr(x, "raw")
        np.copyto(out, np.swapaxes(found, -1, -2))


@functools.cache
def _scipys(library: str, function: str, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """Return SciPy's "blas" or "lapack" function of this name for a dtype.

    Note    SciPy's module is imported at first use, because the import is slow, and is needed only
            for the few functions that NumPy lacks
    """
    module = importlib.import_module(f"scipy.linalg.{library}")
    share_blas_threads()
    (found,) = getattr(module, f"get_{library}_funcs")((function,), dtype=dtype)
    return found  # type: ignore[no-any-return]
