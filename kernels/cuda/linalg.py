"""Linear algebra of batches of matrices, on CUDA arrays: cuSOLVER and cuBLAS through CuPy.

As in its twin on the CPU, what cannot be computed of one matrix says so in `info`. cuSOLVER raises
nothing: what a factorization met is read off its result.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any


def _matrices(*arrays: Any) -> Iterator[tuple[Any, ...]]:
    """Yield views of one matrix, or row, of each array for each place of the batch axes; the first
    array's are (..., n, m).
    """
    for index in itertools.product(*[range(n) for n in arrays[0].shape[:-2]]):
        yield tuple([array[index] for array in arrays])


def _write_first(is_wrong: Any, info: Any) -> None:
    """Write the number, from 1, of the first place along the last axis that is wrong, or 0."""
    if not is_wrong.size:
        info[...] = 0
        return
    info[...] = (is_wrong.argmax(-1) + 1) * is_wrong.any(-1)


def cholesky(x: Any, out: Any, info: Any, upper: bool) -> None:
    """Write the triangle L of x = L @ L.H into out, or L.H; one triangle of x is read."""
    import cupy

    with out.device:
        # Of complex numbers this is the conjugate matrix, whose factor's transpose is the same L.H.
        given = x.swapaxes(-1, -2) if upper else x
        lower = cupy.linalg.cholesky(cupy.tril(given)) if x.size else given
        _write_first(~(cupy.diagonal(lower, axis1=-2, axis2=-1).real > 0), info)
        lower = cupy.where(info[..., None, None] != 0, cupy.nan, lower)
        out[...] = lower.swapaxes(-1, -2) if upper else lower


def solve_triangular(a: Any, b: Any, out: Any, upper: bool, unitriangular: bool) -> None:
    """Write the x of a @ x = b into out; a (..., n, n) is a triangle of which the rest is not read.

    Batch axes broadcast to out's.
    """
    import cupy
    from cupyx.scipy.linalg import solve_triangular

    with out.device:
        out[...] = b
        if not out.size:
            return
        a = cupy.broadcast_to(a, (*out.shape[:-2], *a.shape[-2:]))
        for one, found in _matrices(a, out):
            found[...] = solve_triangular(one, found, lower=not upper, unit_diagonal=unitriangular)


def inverse(x: Any, out: Any, info: Any) -> None:
    """Write the inverse of x into out."""
    import cupy

    with out.device:
        one = cupy.broadcast_to(cupy.eye(x.shape[-1], dtype=x.dtype), x.shape)
        solve(x, one, out, info)


def solve(a: Any, b: Any, out: Any, info: Any) -> None:
    """Write the x of a @ x = b into out. Batch axes broadcast to out's; info has a's."""
    import cupy

    with out.device:
        if not out.size:
            info[...] = 0
            return
        compact, pivots = cupy.empty_like(a), cupy.empty(a.shape[:-1], "i4")
        lu(a, compact, pivots, info)
        wide = (*out.shape[:-2], *a.shape[-2:])
        singular = cupy.broadcast_to(info[..., None, None] != 0, (*a.shape[:-2], 1, 1))
        # A diagonal of ones in the place of what is singular: its result is not kept.
        safe = cupy.where(singular, cupy.eye(a.shape[-1], dtype=a.dtype), a)
        found = cupy.linalg.solve(cupy.broadcast_to(safe, wide), cupy.broadcast_to(b, out.shape))
        out[...] = cupy.where(singular, cupy.nan, found)


def lu(x: Any, out: Any, pivots: Any, info: Any) -> None:
    """Write L, below a diagonal of ones that is left out, and U of x = P @ L @ U into out, and the
    row, from 1, with which each was swapped, into pivots.
    """
    import cupy
    from cupyx.scipy.linalg import lu_factor

    with out.device:
        if x.size:
            for one, found, swaps in _matrices(x, out, pivots):
                found[...], rows = lu_factor(one, check_finite=False)
                swaps[...] = rows + 1
        _write_first(cupy.diagonal(out, axis1=-2, axis2=-1) == 0, info)


def permutation(pivots: Any, out: Any) -> None:
    """Write into out which row stands where after the swaps, counted from 1, of pivots."""
    import cupy

    with out.device:
        places = cupy.arange(out.shape[-1])
        out[...] = places
        for i in range(pivots.shape[-1]):
            swap = pivots[..., i : i + 1].astype(out.dtype) - 1
            mine, other = out[..., i : i + 1].copy(), cupy.take_along_axis(out, swap, -1)
            out[...] = cupy.where(places == swap, mine, out)
            out[..., i : i + 1] = other


def determinant(x: Any, out: Any) -> None:
    """Write the determinant of x into out."""
    import cupy

    with out.device:
        out[...] = cupy.linalg.det(x) if x.size else 1


def log_determinant(x: Any, out: Any, sign: Any) -> None:
    """Write the logarithm of the determinant's size into out, and its sign."""
    import cupy

    with out.device:
        if x.size:
            sign[...], out[...] = cupy.linalg.slogdet(x)
        else:
            sign[...], out[...] = 1, 0


def eigh(x: Any, out: Any, vectors: Any, info: Any, upper: bool) -> None:
    """Write the eigenvalues of symmetric or Hermitian x, ascending, into out, and vectors as
    columns; one triangle of x is read.
    """
    import cupy

    with out.device:
        if x.size:
            out[...], vectors[...] = cupy.linalg.eigh(x, "U" if upper else "L")
        _write_first(~cupy.isfinite(out), info)


def eigenvalues(x: Any, out: Any, info: Any, upper: bool) -> None:
    """Write the eigenvalues of symmetric x, ascending, into out."""
    import cupy

    with out.device:
        if x.size:
            out[...] = cupy.linalg.eigvalsh(x, "U" if upper else "L")
        _write_first(~cupy.isfinite(out), info)


def eig(x: Any, out: Any, vectors: Any, info: Any) -> None:
    """Write the eigenvalues of any square x into out, and vectors as columns.

    Note    by the host: before CUDA 12.6 cuSOLVER has no such function
    """
    import cupy
    import numpy

    with out.device:
        given = cupy.asnumpy(x)
        is_finite = numpy.isfinite(given).all((-2, -1))
        safe = numpy.where(is_finite[..., None, None], given, 0)
        values, columns = numpy.linalg.eig(safe)
        out[...] = cupy.asarray(numpy.where(is_finite[..., None], values, numpy.nan))
        vectors[...] = cupy.asarray(numpy.where(is_finite[..., None, None], columns, numpy.nan))
        info[...] = cupy.asarray(~is_finite)


def eigvals(x: Any, out: Any, info: Any) -> None:
    """Write the eigenvalues of any square x into out; by the host, as eig."""
    import cupy
    import numpy

    with out.device:
        given = cupy.asnumpy(x)
        is_finite = numpy.isfinite(given).all((-2, -1))
        values = numpy.linalg.eigvals(numpy.where(is_finite[..., None, None], given, 0))
        out[...] = cupy.asarray(numpy.where(is_finite[..., None], values, numpy.nan))
        info[...] = cupy.asarray(~is_finite)


def svd(x: Any, out: Any, values: Any, right: Any, info: Any, full: bool) -> None:
    """Write U, S and V.H of x = U @ diag(S) @ V.H into out, values and right."""
    import cupy

    with out.device:
        if x.size:
            out[...], values[...], right[...] = cupy.linalg.svd(x, full)
        else:
            for square in (out, right):
                square[...] = cupy.eye(*square.shape[-2:], dtype=square.dtype)
        _write_first(~cupy.isfinite(values), info)


def singular_values(x: Any, out: Any, info: Any) -> None:
    """Write the singular values of x, descending, into out."""
    import cupy

    with out.device:
        if x.size:
            out[...] = cupy.linalg.svd(x, compute_uv=False)
        _write_first(~cupy.isfinite(out), info)


def pseudo_inverse(x: Any, atol: Any, rtol: Any, out: Any, values: Any, info: Any) -> None:
    """Write the pseudoinverse of x into out, and its singular values, of which those that are not
    above the larger of atol and rtol times the largest count as 0.
    """
    import cupy

    with out.device:
        u = cupy.empty((*x.shape[:-1], values.shape[-1]), x.dtype)
        right = cupy.empty((*values.shape, x.shape[-1]), x.dtype)
        svd(x, u, values, right, info, False)
        if not values.size:
            out[...] = 0
            return
        limit = cupy.maximum(atol, rtol * values[..., 0])[..., None]
        scale = cupy.where(values > limit, 1 / values, 0).astype(x.dtype)
        out[...] = cupy.matmul(_adjoint(right), scale[..., :, None] * _adjoint(u))


def _adjoint(x: Any) -> Any:
    """Return the transposes of matrices, complex numbers conjugated."""
    turned = x.swapaxes(-1, -2)
    return turned.conj() if x.dtype.kind == "c" else turned


def qr(x: Any, out: Any, upper: Any, mode: str) -> None:
    """Write Q and R of x = Q @ R into out and upper; of mode "r" R alone."""
    import cupy

    with out.device:
        if mode == "r":
            upper[...] = cupy.linalg.qr(x, "r")
        elif x.size:
            out[...], upper[...] = cupy.linalg.qr(x, mode)
        else:
            out[...], upper[...] = cupy.eye(*out.shape[-2:], dtype=out.dtype), 0


def reflectors(x: Any, out: Any, scales: Any) -> None:
    """Write R of x = Q @ R and, below its diagonal, the vectors of the reflections whose product is
    Q, into out; their scales into scales.
    """
    import cupy

    with out.device:
        if x.size:
            for one, found, factors in _matrices(x, out, scales[..., None, :]):
                turned, factors[0] = cupy.linalg.qr(one, "raw")
                found[...] = turned.T
