"""Least squares, and approximations of low rank.

The derivatives of least squares come from pinv.py.
"""

from __future__ import annotations

from typing import Any

from ...core.dtypes import (
    int64,
)
from ...core.errors import DTypeError, ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...tensor.tensor import Tensor
from .. import return_types
from ..create.creation import empty
from ..create.random import randn
from ..reduce.norms import sized
from .eigh_svd import _NOT_FINITE, linalg_svd
from .matrix_checks import require_computable, require_computed, require_matrix
from .pinv import is_full_rank, pseudo_inverse, rank_of, tolerances
from .qr import qr_parts

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@composite(homes="linalg", out="cast", node="linalg_lstsq")
def lstsq(
    input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> return_types.linalg_lstsq:
    """Return (solution, residuals, rank, singular_values). The solution is the X of smallest norm
    that minimizes the distance of input @ X from b; residuals are the squared distances.

    Shape   (..., m, n), (..., m, k) -> (..., n, k), (..., k) or empty, (...), (..., min(m, n)) or
            empty; b may be a vector, or a batch of vectors
    Note    all drivers compute the solution from singular values. They differ in the other results,
            as in PyTorch: "gelsd" and "gelss" return all results, "gels" returns no rank and no
            singular values, "gelsy" (the default) no residuals and no singular values. Residuals
            are computed only for m > n and full rank
    """
    name = "torch.linalg.lstsq"
    shape, right = require_matrix(name, input, "input"), b._layout.shape
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of ({', '.join(_DRIVERS)}), got "
            f"{short_repr(driver)}"
        )
    if not 0 <= len(shape) - len(right) <= 1:
        raise ShapeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - "
            f"other.dim()) <= 1, got {shape} and {right}"
        )
    is_vector = len(shape) - 1 == len(right)
    given: Any = b.unsqueeze(-1) if is_vector else b
    if shape[-2] != given._layout.shape[-2]:
        other = "other.size(-1)" if is_vector else "other.size(-2)"
        raise ShapeError(f"{name}: input.size(-2) should match {other}: {shape} and {right}")
    require_computable(name, "linalg_lstsq_cpu", input, takes_complex=True)
    if input._layout.dtype is not b._layout.dtype:
        raise DTypeError(f"{name}: Expected input and other to have the same dtype")
    limits = tolerances(input, None, rcond)
    inverse, values, info = pseudo_inverse(input, *limits)
    require_computed("linalg.svd", info, _NOT_FINITE)
    solution = inverse @ given
    rank = rank_of(values.detach(), *limits)
    nothing = empty(0, dtype=values.dtype, device=input.device)  # real even if input is complex
    residuals = nothing
    m, n = shape[-2:]
    if m > n and driver not in (None, "gelsy") and is_full_rank(rank, n):
        residuals = sized(input @ solution - given).square().sum(-2)
    return return_types.linalg_lstsq(
        solution.squeeze(-1) if is_vector else solution,
        residuals,
        nothing.to(int64) if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else nothing,
    )


def _basis(A: Tensor, q: int, niter: int) -> Any:
    """Return q orthonormal columns that approximately span the range of A.

    Source  Halko, Martinsson and Tropp 2011, "Finding structure with randomness", algorithm 4.4
    """
    drawn = randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    basis = qr_parts(A @ drawn, "reduced")[0]
    for _ in range(niter):
        across = qr_parts(A.mH @ basis, "reduced")[0]
        basis = qr_parts(A @ across, "reduced")[0]
    return basis


@composite(homes="function", known_as="")
def svd_lowrank(
    A: Tensor, q: int = 6, niter: int = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (U, S, V) so that U @ diag(S) @ V.mH approximates A, or A - M if M is given. `q`
    should be slightly larger than the rank of that matrix. `niter` is the number of subspace
    iterations that improve the approximation.

    Shape   (..., m, n) -> (..., m, q), (..., q), (..., n, q)
    Source  Halko, Martinsson and Tropp 2011, "Finding structure with randomness", algorithm 5.1
    """
    given: Any = A if M is None else A - M.expand(*A._layout.shape)
    m, n = require_matrix("svd_lowrank", given)[-2:]
    wide = m < n
    if wide:
        given = given.mH
    basis = _basis(given, q, niter)
    u, values, right = linalg_svd(basis.mH @ given, full_matrices=False)
    u, v = basis @ u, right.mH
    return (v, values, u) if wide else (u, values, v)


@composite(homes="function", known_as="")
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (U, S, V) of svd_lowrank for A. If `center` is true, the mean of A's rows is first
    subtracted from each row. The columns of V are the principal directions.

    Raises  ValueError for a `q` larger than the smaller of m and n, or for a negative `q` or
            `niter`
    """
    m, n = require_matrix("pca_lowrank", A)[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    given: Any = A - A.mean(-2, keepdim=True) if center else A
    return svd_lowrank(given, q, niter)
