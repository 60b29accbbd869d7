"""Triangles: Cholesky factors and solutions of triangular systems, halved until they are numbers.

Each half is a product of matrices, so that gradients of every order are those of products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.creation import eye, tensor, zeros
from ..ops.joining import cat
from ..tensor.tensor import Tensor


def cholesky(matrix: Tensor) -> Tensor:
    """Return the lower triangle L of which L @ L.mT is matrix.

    Shape   (..., n, n) -> (..., n, n)
    Raises  RuntimeError if matrix is not positive definite
    """
    if bool((cholesky_info(matrix) != 0).any()):
        raise RuntimeError(
            "linalg.cholesky: The factorization could not be completed because the input is not "
            "positive-definite; a covariance needs eigenvalues above 0, try adding some 1e-6 to "
            "its diagonal"
        )
    # Of both triangles, so that the gradient is a symmetric matrix too.
    return _factor((matrix + matrix.mT) / 2)


def solve_lower(triangle: Tensor, right: Tensor) -> Tensor:
    """Return X of which triangle @ X is right; what stands above the diagonal is not read.

    Shape   (..., n, n), (..., n, m) -> (..., n, m)
    """
    n = triangle.shape[-1]
    if n == 1:
        return right / triangle
    half = n // 2
    above = solve_lower(triangle[..., :half, :half], right[..., :half, :])
    rest = right[..., half:, :] - triangle[..., half:, :half] @ above
    below = solve_lower(triangle[..., half:, half:], rest)
    shape = (*below.shape[:-2], *above.shape[-2:])
    return cat([above.expand(shape), below], -2)


def inverse_of_product(triangle: Tensor) -> Tensor:
    """Return the inverse of triangle @ triangle.mT."""
    n = triangle.shape[-1]
    inverse = solve_lower(triangle, eye(n, dtype=triangle.dtype, device=triangle.device))
    return inverse.mT @ inverse


def precision_to_scale_tril(precision: Tensor) -> Tensor:
    """Return the Cholesky factor of the inverse of precision."""
    turned = cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT
    n = precision.shape[-1]
    return solve_lower(turned, eye(n, dtype=precision.dtype, device=precision.device))


def half_log_det(triangle: Tensor) -> Tensor:
    """Return half the log determinant of triangle @ triangle.mT."""
    return triangle.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def mahalanobis(triangle: Tensor, vector: Tensor) -> Tensor:
    """Return the squared length of vector in the units of triangle @ triangle.mT."""
    if triangle.dim() == 2:
        # One triangle: all vectors are columns of one system.
        columns = vector.reshape((-1, vector.shape[-1])).mT
        return solve_lower(triangle, columns).square().sum(-2).reshape(vector.shape[:-1])
    return solve_lower(triangle, vector.unsqueeze(-1)).square().sum((-2, -1))


def cholesky_info(matrix: Tensor) -> Tensor:
    """Return 0 for each matrix that is positive definite, 1 for the others."""
    return _looked_at(matrix, lambda one: int(not _is_positive_definite(one)), "int64")


def smallest_eigenvalue(matrix: Tensor) -> Tensor:
    """Return the smallest eigenvalue of each symmetric matrix, without gradients."""
    return _looked_at(matrix, lambda one: np.linalg.eigvalsh(one)[0], "float64")


def _factor(matrix: Tensor) -> Tensor:
    n = matrix.shape[-1]
    if n == 1:
        return matrix.sqrt()
    half = n // 2
    upper = _factor(matrix[..., :half, :half])
    across = solve_lower(upper, matrix[..., half:, :half].mT).mT
    lower = _factor(matrix[..., half:, half:] - across @ across.mT)
    corner = zeros((*matrix.shape[:-2], half, n - half), dtype=matrix.dtype, device=matrix.device)
    return cat([cat([upper, corner], -1), cat([across, lower], -1)], -2)


def _is_positive_definite(matrix: Any) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _looked_at(matrix: Tensor, look: Any, dtype: str) -> Tensor:
    seen = matrix.detach().cpu().numpy()
    flat = seen.reshape((-1, *seen.shape[-2:])) if seen.size else seen.reshape((0, 1, 1))
    found = np.array([look(one) for one in flat], dtype=dtype)
    return tensor(found.reshape(seen.shape[:-2]), device=matrix.device)
