"""Private functions of multivariate normals that packages import, compared with NumPy."""

from __future__ import annotations

import numpy as np

import fastdist as fd
from fastdist.distributions import multivariate_normal


def test_private_functions_compute_by_batches_of_matrices() -> None:
    rng = np.random.default_rng(0)
    triangle = np.tril(rng.standard_normal((3, 4, 4))) + 3 * np.eye(4)
    vector = rng.standard_normal((3, 4))
    lower, x = fd.tensor(triangle), fd.tensor(vector)
    product = triangle @ triangle.swapaxes(-1, -2)
    moved = (triangle @ vector[..., None])[..., 0]
    np.testing.assert_allclose(multivariate_normal._batch_mv(lower, x).numpy(), moved)
    size = (vector[..., None, :] @ np.linalg.inv(product) @ vector[..., None])[..., 0, 0]
    np.testing.assert_allclose(multivariate_normal._batch_mahalanobis(lower, x).numpy(), size)
    factor = multivariate_normal._precision_to_scale_tril(fd.tensor(product)).numpy()
    np.testing.assert_allclose(factor @ factor.swapaxes(-1, -2), np.linalg.inv(product), atol=1e-12)
