"""Linear algebra of batches of matrices, on CUDA arrays: cuSOLVER and cuBLAS (solvers.py).

As in the CPU module of this name, a result that cannot be computed is NaN, and the `info` of its
matrix is not 0. `info` stays on the GPU: code that reads it waits for the GPU. Matrices with
elements that are not finite are replaced before a library gets them, because an iterative method
might never end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastdist.core import ldl as host_ldl

from ..launch import launch
from . import solvers
from .product import matmul
from .swaps import plan_permutation

_INT32 = np.dtype(np.int32)


def cholesky(x: Any, out: Any, info: Any, upper: bool) -> None:
    """Write the triangle L of x = L @ L.H into out, or L.H if upper. Only one triangle of x is
    read.
    """
    import cupy

    with out.device:
        if not x.size:
            info.fill(0)
            return
        # The library reads arrays in column-major order, so it sees the transpose of x, which is
        # the conjugate of x. The result is the transpose of the factor that the library finds.
        stack = _stack(x)
        status = _made((len(stack),), _INT32)
        solvers.potrf(stack, status, lower=upper)
        factor = cupy.triu(stack) if upper else cupy.tril(stack)
        # The library's documentation does not say what `info` is if a pivot is NaN.
        is_wrong = ~(cupy.diagonal(factor, axis1=-2, axis2=-1).real > 0)
        first = (is_wrong.argmax(-1) + 1) * is_wrong.any(-1)
        status = cupy.where(status == 0, first, status)
        _give(status, info)
        _give(cupy.where(status[:, None, None] == 0, factor, cupy.nan), out)


def solve_triangular(a: Any, b: Any, out: Any, upper: bool, unitriangular: bool) -> None:
    """Solve a @ x = b and write x into out; a (..., n, n) is triangular, and only the triangle that
    `upper` selects is read.

    The batch axes of a and b broadcast to those of out.
    """
    import cupy

    with out.device:
        if not out.size:
            return
        # The library sees all matrices transposed: x.T @ a.T = b.T.
        found = _stack(cupy.broadcast_to(b, out.shape))
        triangles = _stack(cupy.broadcast_to(a, (*out.shape[:-2], *a.shape[-2:])))
        solvers.trsm(triangles, found, lower=upper, unitriangular=unitriangular)
        _give(found, out)


def cholesky_solve(b: Any, factor: Any, out: Any, upper: bool) -> None:
    """Solve a @ x = b and write x into out; `factor` is the Cholesky factor of a. Only one triangle
    of `factor` is read.

    The batch axes of b and factor broadcast to those of out.
    """
    other = factor.conj().swapaxes(-1, -2)
    below, above = (other, factor) if upper else (factor, other)
    solve_triangular(below, b, out, False, False)
    solve_triangular(above, out, out, True, False)


def inverse(x: Any, out: Any, info: Any) -> None:
    """Write the inverse of x into out."""
    import cupy

    with out.device:
        one = cupy.broadcast_to(cupy.eye(x.shape[-1], dtype=x.dtype), x.shape)
        solve(x, one, out, info)


def solve(a: Any, b: Any, out: Any, info: Any) -> None:
    """Solve a @ x = b and write x into out. The batch axes of a and b broadcast to those of out;
    info has the batch axes of a.
    """
    import cupy

    with out.device:
        if not out.size:
            info.fill(0)
            return
        factors, pivots, status = _factored(a)
        _give(status, info)
        batch = out.shape[:-2]
        if a.shape[:-2] != batch:
            factors = _stack(cupy.broadcast_to(factors.reshape(a.shape), (*batch, *a.shape[-2:])))
            given = pivots.reshape((*a.shape[:-2], 1, a.shape[-1]))
            pivots = _stack(cupy.broadcast_to(given, (*batch, 1, a.shape[-1])))
            status = cupy.broadcast_to(status.reshape(a.shape[:-2]), batch)
        found = _stack(cupy.broadcast_to(b, out.shape).swapaxes(-1, -2))
        solvers.getrs(factors, pivots, found)
        regular = status.reshape((len(found), 1, 1)) == 0
        _give(cupy.where(regular, found.swapaxes(-1, -2), cupy.nan), out)


def lu(x: Any, out: Any, pivots: Any, info: Any) -> None:
    """Write L and U of x = P @ L @ U into out, without L's diagonal of ones. pivots gets, for each
    row, the number (counted from 1) of the row with which it was swapped.
    """
    with out.device:
        if not x.size:
            info.fill(0)
            return
        factors, swaps, status = _factored(x)
        _give(factors.swapaxes(-1, -2), out)
        _give(swaps, pivots)
        _give(status, info)


def _factored(x: Any) -> tuple[Any, Any, Any]:
    """Return the stack of L and U (transposed), the stack of pivots, and the stack of `info`."""
    stack = _stack(x.swapaxes(-1, -2))
    pivots, status = _made((len(stack), min(x.shape[-2:])), _INT32), _made((len(stack),), _INT32)
    solvers.getrf(stack, pivots, status)
    return stack, pivots, status


def ldl(x: Any, out: Any, pivots: Any, info: Any, hermitian: bool) -> None:
    """Factor x = L @ D @ L.H (or L.T), and write into out L and, on and below its diagonal, the
    blocks of D. pivots gets LAPACK's pivots: counted from 1, and negative for blocks of two rows.
    Only the lower triangle of x is read.

    Note    computed on the host, so the call waits for the GPU: cuSOLVER has no such function for
            Hermitian matrices
    """
    import cupy

    with out.device:
        given = cupy.asnumpy(x)
        made = np.zeros(x.shape, x.dtype)
        swaps, status = np.zeros(pivots.shape, _INT32), np.zeros(info.shape, _INT32)
        for index in np.ndindex(x.shape[:-2]):
            made[index], swaps[index], status[index] = host_ldl.factor(given[index], hermitian)
        for array, found in ((out, made), (pivots, swaps), (info, status)):
            array[...] = cupy.asarray(found)


def ldl_solve(a: Any, pivots: Any, b: Any, out: Any, hermitian: bool) -> None:
    """Solve A @ x = b and write x into out; a and pivots (as a column) are ldl's results for A.
    If pivots are invalid, x is NaN. Batch axes broadcast to those of out.

    Note    computed on the host, like ldl
    """
    import cupy

    with out.device:
        batch, n = out.shape[:-2], a.shape[-1]
        factors = np.broadcast_to(cupy.asnumpy(a), (*batch, n, n))
        swaps = np.broadcast_to(cupy.asnumpy(pivots), (*batch, n, 1))[..., 0]
        right = np.broadcast_to(cupy.asnumpy(b), out.shape)
        made = np.empty(out.shape, out.dtype)
        for index in np.ndindex(batch):
            made[index] = host_ldl.solve(factors[index], swaps[index], right[index], hermitian)
        out[...] = cupy.asarray(made)


def permutation(pivots: Any, out: Any) -> None:
    """Write into out the order of the rows after the row swaps that pivots (from 1) describe."""
    import cupy

    with out.device:
        given = cupy.ascontiguousarray(pivots.astype(_INT32))
        made = out if out.flags.c_contiguous else cupy.empty(out.shape, out.dtype)
        launch(plan_permutation(given, made))
        if made is not out:
            out[...] = made


def determinant(x: Any, out: Any) -> None:
    """Write the determinant of x into out."""
    import cupy

    with out.device:
        if not x.size:
            out.fill(1)
            return
        sign, size = _sign_and_logarithm(x)
        _give(sign * cupy.exp(size), out)


def log_determinant(x: Any, out: Any, sign: Any) -> None:
    """Write the logarithm of the determinant's absolute value into out, and its sign into sign."""
    with out.device:
        if not x.size:
            sign.fill(1)
            out.fill(0)
            return
        found, size = _sign_and_logarithm(x)
        _give(found, sign)
        _give(size, out)


def _sign_and_logarithm(x: Any) -> tuple[Any, Any]:
    """Return the sign of each determinant (for complex numbers the phase), and the logarithm of its
    absolute value. For singular matrices these are 0 and -inf.
    """
    import cupy

    factors, pivots, status = _factored(x)
    diagonal = cupy.diagonal(factors, axis1=-2, axis2=-1)
    size = cupy.abs(diagonal)
    turns = (pivots != cupy.arange(1, x.shape[-1] + 1)).sum(-1)
    if x.dtype.kind == "c":
        sign = (diagonal / size).prod(-1) * (1 - turns % 2 * 2)
    else:
        sign = 1 - (turns + (diagonal < 0).sum(-1)) % 2 * 2
        sign = sign * (diagonal == diagonal).all(-1)  # PyTorch gives the sign 0 for NaN
    # A pivot of 0 makes the logarithm -inf, unless another pivot is not finite.
    return cupy.where(status == 0, sign, 0), cupy.log(size).sum(-1)


def eigh(x: Any, out: Any, vectors: Any, info: Any, upper: bool) -> None:
    """Write the eigenvalues of symmetric or Hermitian x, ascending, into out, and the eigenvectors
    as columns into vectors. Only one triangle of x is read.
    """
    _eigen(x, out, vectors, info, upper)


def eigenvalues(x: Any, out: Any, info: Any, upper: bool) -> None:
    """Write the eigenvalues of symmetric x, ascending, into out."""
    _eigen(x, out, None, info, upper)


def _eigen(x: Any, out: Any, vectors: Any, info: Any, upper: bool) -> None:
    import cupy

    with out.device:
        if not x.size:
            info.fill(0)
            return
        stack, is_finite = _finite_stack(x)
        values, status = _made(stack.shape[:2], out.dtype), _made((len(stack),), _INT32)
        solvers.syevd(stack, values, status, lower=upper, vectors=vectors is not None)
        is_found = is_finite & (status == 0)
        _give(~is_found, info)
        _give(cupy.where(is_found[:, None], values, cupy.nan), out)
        if vectors is not None:
            # The library saw the transpose of x, which is the conjugate of x. So the eigenvectors
            # that it found are conjugated.
            found = stack.swapaxes(-1, -2).conj()
            _give(cupy.where(is_found[:, None, None], found, cupy.nan), vectors)


def eig(x: Any, out: Any, vectors: Any, info: Any) -> None:
    """Write the eigenvalues of any square x into out, and the eigenvectors as columns into vectors.

    Note    before CUDA 12.6, cuSOLVER has no such function: the host computes the result, and the
            call waits for the GPU
    """
    _any_eigen(x, out, vectors, info)


def eigvals(x: Any, out: Any, info: Any) -> None:
    """Write the eigenvalues of any square x into out, in the same way as eig."""
    _any_eigen(x, out, None, info)


def _any_eigen(x: Any, out: Any, vectors: Any, info: Any) -> None:
    import cupy

    with out.device:
        if not x.size:
            info.fill(0)
            return
        if not solvers.has_geev():
            _any_eigen_by_host(x, out, vectors, info)
            return
        # Computed in double precision, as in NumPy, because rounding errors may grow for matrices
        # that are not symmetric.
        stack, is_finite = _finite_stack(x.swapaxes(-1, -2))
        stack = stack.astype(np.dtype(np.complex128 if x.dtype.kind == "c" else np.float64))
        values = _made(stack.shape[:2], np.dtype(np.complex128))
        status = _made((len(stack),), _INT32)
        right = _made(stack.shape, stack.dtype)
        solvers.geev(stack, values, right, status, vectors=vectors is not None)
        is_found = is_finite & (status == 0)
        _give(~is_found, info)
        _give(cupy.where(is_found[:, None], values, cupy.nan).astype(out.dtype), out)
        if vectors is not None:
            found = (right if x.dtype.kind == "c" else _of_pairs(values, right)).swapaxes(-1, -2)
            found = cupy.where(is_found[:, None, None], found, cupy.nan)
            _give(found.astype(vectors.dtype), vectors)


def _of_pairs(values: Any, right: Any) -> Any:
    """Return the complex eigenvectors, one per row; geev gives their parts as real vectors."""
    import cupy

    before, behind = (_made(right.shape, right.dtype) for _ in range(2))
    # before[:, 0] and behind[:, -1] stay uninitialised. They are never selected: the first
    # eigenvalue is not the second one of a conjugate pair, and the last is not the first of a pair.
    before[:, 1:], behind[:, :-1] = right[:, :-1], right[:, 1:]
    height = values.view(right.dtype)[:, 1::2, None]  # imaginary parts
    real = cupy.where(height < 0, before, right)
    imaginary = cupy.where(height > 0, behind, cupy.where(height < 0, -right, 0))
    return real + imaginary * values.dtype.type(1j)


def _any_eigen_by_host(x: Any, out: Any, vectors: Any, info: Any) -> None:
    import cupy

    given = cupy.asnumpy(x)
    is_finite = np.isfinite(given).all((-2, -1))
    safe = np.where(is_finite[..., None, None], given, 0)
    if vectors is None:
        values = np.linalg.eigvals(safe)
    else:
        values, columns = np.linalg.eig(safe)
        vectors[...] = cupy.asarray(np.where(is_finite[..., None, None], columns, np.nan))
    out[...] = cupy.asarray(np.where(is_finite[..., None], values, np.nan))
    info[...] = cupy.asarray(~is_finite)


def svd(x: Any, out: Any, values: Any, right: Any, info: Any, full: bool) -> None:
    """Write U, S and V.H of x = U @ diag(S) @ V.H into out, values and right."""
    import cupy

    with out.device:
        if not x.size:
            for square in (out, right):
                one = cupy.eye(*square.shape[-2:], dtype=square.dtype)
                square[...] = cupy.broadcast_to(one, square.shape)
            info.fill(0)
            return
        # The library requires at least as many rows as columns, and reads arrays in column-major
        # order: it sees a tall matrix if its axes are swapped, and a wide matrix's transpose if
        # they are not.
        is_tall = x.shape[-2] >= x.shape[-1]
        stack, is_finite = _finite_stack(x.swapaxes(-1, -2) if is_tall else x)
        count, columns, rows = stack.shape
        long = _made((count, rows if full else columns, rows), x.dtype)
        short = _made((count, columns, columns), x.dtype)
        sizes, status = _made((count, columns), values.dtype), _made((count,), _INT32)
        solvers.gesvd(stack, long, sizes, short, status)
        u, v = (long.swapaxes(-1, -2), short.swapaxes(-1, -2)) if is_tall else (short, long)
        is_found = is_finite & (status == 0)
        _give(~is_found, info)
        _give(cupy.where(is_found[:, None], sizes, cupy.nan), values)
        for found, place in ((u, out), (v, right)):
            _give(cupy.where(is_found[:, None, None], found, cupy.nan), place)


def singular_values(x: Any, out: Any, info: Any) -> None:
    """Write the singular values of x, descending, into out."""
    import cupy

    with out.device:
        if not x.size:
            info.fill(0)
            return
        stack, is_finite = _finite_stack(x.swapaxes(-1, -2) if x.shape[-2] >= x.shape[-1] else x)
        sizes, status = _made(stack.shape[:2], out.dtype), _made((len(stack),), _INT32)
        solvers.gesvd(stack, None, sizes, None, status)
        is_found = is_finite & (status == 0)
        _give(~is_found, info)
        _give(cupy.where(is_found[:, None], sizes, cupy.nan), out)


def pseudo_inverse(x: Any, atol: Any, rtol: Any, out: Any, values: Any, info: Any) -> None:
    """Write the pseudoinverse of x into out, and its singular values into values. A singular value
    counts as 0 if it is at most max(atol, rtol * the largest singular value).
    """
    import cupy

    with out.device:
        u = _made((*x.shape[:-1], values.shape[-1]), x.dtype)
        right = _made((*values.shape, x.shape[-1]), x.dtype)
        svd(x, u, values, right, info, False)
        if not values.size:
            out.fill(0)
            return
        limit = cupy.maximum(atol, rtol * values[..., 0])[..., None]
        scale = cupy.where(values > limit, 1 / values, 0).astype(x.dtype)
        adjoint = u.swapaxes(-1, -2).conj()
        matmul(right.swapaxes(-1, -2).conj(), scale[..., :, None] * adjoint, out)


def qr(x: Any, out: Any, upper: Any, mode: str) -> None:
    """Write Q and R of x = Q @ R into out and upper; with mode "r" only R."""
    import cupy

    with out.device:
        if not x.size:
            upper.fill(0)
            if mode != "r":
                one = cupy.eye(*out.shape[-2:], dtype=out.dtype)
                out[...] = cupy.broadcast_to(one, out.shape)
            return
        stack, scales = _reflected(x)
        _give(cupy.triu(stack.swapaxes(-1, -2)[:, : upper.shape[-2]]), upper)
        if mode == "r":
            return
        # In mode "complete" Q can have more columns than there are reflections. `orgqr` computes
        # these columns too.
        columns = out.shape[-1]
        vectors = _made((len(stack), columns, stack.shape[2]), x.dtype)
        known = min(columns, stack.shape[1])
        vectors[:, :known] = stack[:, :known]
        solvers.orgqr(vectors, scales)
        _give(vectors.swapaxes(-1, -2), out)


def reflectors(x: Any, out: Any, scales: Any) -> None:
    """Write R of x = Q @ R into out. Below the diagonal of R, write the Householder vectors whose
    reflections give Q. Write the scales of the vectors into `scales`.
    """
    with out.device:
        if x.size:
            stack, found = _reflected(x)
            _give(stack.swapaxes(-1, -2), out)
            _give(found, scales)


def _reflected(x: Any) -> tuple[Any, Any]:
    """Return two stacks: R with the Householder vectors below its diagonal, transposed; and the
    scales of the vectors.
    """
    stack = _stack(x.swapaxes(-1, -2))
    scales = _made((len(stack), min(x.shape[-2:])), x.dtype)
    solvers.geqrf(stack, scales)
    return stack, scales


def _made(shape: tuple[int, ...], dtype: Any) -> Any:
    import cupy

    return cupy.empty(shape, dtype)


def _stack(x: Any) -> Any:
    """Return a copy of matrices as one stack, (count, n, m) in C order."""
    made = _made(x.shape, x.dtype)
    made[...] = x
    return made.reshape((math.prod(x.shape[:-2]), *x.shape[-2:]))


def _finite_stack(x: Any) -> tuple[Any, Any]:
    """Return a stack with zeros in place of matrices that are not finite, and a flag for each
    matrix that says whether it is finite.
    """
    import cupy

    stack = _stack(x)
    is_finite = cupy.isfinite(stack).all((-2, -1))
    return cupy.where(is_finite[:, None, None], stack, 0).astype(x.dtype), is_finite


def _give(stack: Any, out: Any) -> None:
    """Write a stack into out, whose batch axes stand in place of the stack's first axis."""
    out[...] = stack.reshape(out.shape)
