"""Matrix functions that distributions share."""

from __future__ import annotations

from ..ops.create.ranges import eye
from ..ops.linalg.cholesky import cholesky_ex, linalg_cholesky, solve_triangular
from ..ops.linalg.eigh_svd import eigvalsh
from ..tensor.tensor import Tensor

cholesky = linalg_cholesky


def solve_lower(triangle: Tensor, right: Tensor) -> Tensor:
    """Return X with triangle @ X = right; only the lower triangle is read.

    Shape   (..., n, n), (..., n, m) -> (..., n, m)
    """
    return solve_triangular(triangle, right, upper=False)


def _inverse(triangle: Tensor) -> Tensor:
    one = eye(triangle.shape[-1], dtype=triangle.dtype, device=triangle.device)
    return solve_lower(triangle, one)


def inverse_of_product(triangle: Tensor) -> Tensor:
    """Return the inverse of triangle @ triangle.mT."""
    inverse = _inverse(triangle)
    return inverse.mT @ inverse


def precision_to_scale_tril(precision: Tensor) -> Tensor:
    """Return the Cholesky factor of the inverse of precision."""
    return _inverse(cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT)


def half_log_det(triangle: Tensor) -> Tensor:
    """Return half the log determinant of triangle @ triangle.mT."""
    return triangle.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def mahalanobis(triangle: Tensor, vector: Tensor) -> Tensor:
    """Return the squared Mahalanobis norm of vector, for the covariance triangle @ triangle.mT."""
    if triangle.dim() == 2:
        # With a single triangle, all vectors are the columns of one linear system.
        columns = vector.reshape((-1, vector.shape[-1])).mT
        return solve_lower(triangle, columns).square().sum(-2).reshape(vector.shape[:-1])
    return solve_lower(triangle, vector.unsqueeze(-1)).square().sum((-2, -1))


def cholesky_info(matrix: Tensor) -> Tensor:
    """Return 0 for each positive definite matrix, and a nonzero number for the others."""
    return cholesky_ex(matrix.detach()).info


def smallest_eigenvalue(matrix: Tensor) -> Tensor:
    """Return the smallest eigenvalue of each symmetric matrix, without recording gradients."""
    return eigvalsh(matrix.detach())[..., 0]
