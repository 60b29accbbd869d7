"""MultivariateNormal, and LowRankMultivariateNormal, whose covariance is low-rank + diagonal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.folded_frames import private_cause
from ..ops.create.random import randn
from ..ops.create.ranges import eye
from ..ops.shape.rearranging import broadcast_shapes, broadcast_tensors
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .matrices import (
    cholesky,
    half_log_det,
    inverse_of_product,
    mahalanobis,
    precision_to_scale_tril,
    solve_lower,
)
from .utils import lazy_property, on_diagonal, times_vector

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]

# PyTorch's private names for functions; some packages import them.
_batch_mv, _batch_mahalanobis = times_vector, mahalanobis
_precision_to_scale_tril = precision_to_scale_tril


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, given a covariance, precision or Cholesky factor."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support: Any = constraints.real_vector
    has_rsample = True
    _batched: ClassVar = {
        "loc": 1,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
    }

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = one_matrix(
            ValueError,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        if matrix.dim() < 2:
            what = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{what} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch_shape = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = to_scale_tril(name, matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Return the Cholesky factor of the covariance."""
        return self._over_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Return the covariance matrix."""
        triangle = self._unbroadcasted_scale_tril
        return self._over_batch(triangle @ triangle.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Return the precision matrix, the inverse of the covariance."""
        return self._over_batch(inverse_of_product(self._unbroadcasted_scale_tril))

    def _over_batch(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Return the variance of each element."""
        shape = self._batch_shape + self._event_shape
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        noise = randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + times_vector(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        away = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        volume = half_log_det(self._unbroadcasted_scale_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + away) - volume

    def entropy(self) -> Tensor:
        """Return the entropy."""
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = constant + half_log_det(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape)


def one_matrix(error: type[Exception], **matrices: Tensor | None) -> tuple[str, Tensor]:
    """Return the name and value of the one matrix that is given.

    Raises  an exception of the class `error` unless exactly one matrix is given
    """
    given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
    if len(given) != 1:
        raise error(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return given[0]


def to_scale_tril(name: str, matrix: Tensor) -> Tensor:
    """Return the Cholesky factor of the covariance, from a matrix of the kind `name`."""
    if name == "scale_tril":
        return matrix
    return cholesky(matrix) if name == "covariance_matrix" else precision_to_scale_tril(matrix)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with the covariance W @ W.mT + diag(D): W is cov_factor, D is cov_diag.

    Note    by the matrix determinant lemma and Woodbury's identity, only the small matrix
            I + W.mT @ diag(1/D) @ W is factored
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Any = constraints.real_vector
    has_rsample = True
    _batched: ClassVar = {"loc": 1, "cov_factor": 2, "cov_diag": 1}

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            wide, self.cov_factor, diagonal = broadcast_tensors(
                loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1)
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from private_cause(error)
        self.loc, self.cov_diag = wide[..., 0], diagonal[..., 0]
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        small = (cov_factor.mT / cov_diag.unsqueeze(-2)) @ cov_factor
        m = cov_factor.shape[-1]
        self._capacitance_tril = cholesky(small + eye(m, dtype=small.dtype, device=small.device))
        super().__init__(self.loc.shape[:-1], event_shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """Return the variance of each element."""
        variance = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._extended_shape())

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Return the Cholesky factor of the covariance."""
        return cholesky(self.covariance_matrix)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Return the covariance matrix."""
        factor = self._unbroadcasted_cov_factor
        return self._over_batch(factor @ factor.mT + on_diagonal(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Return the precision matrix, the inverse of the covariance."""
        small = solve_lower(self._capacitance_tril, self._scaled_factor())
        inverse = on_diagonal(self._unbroadcasted_cov_diag.reciprocal())
        return self._over_batch(inverse - small.mT @ small)

    def _over_batch(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    def _scaled_factor(self) -> Tensor:
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    def log_det(self) -> Tensor:
        """Return the log determinant of the covariance."""
        return 2 * half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def mahalanobis(self, vector: Tensor) -> Tensor:
        """Return the squared Mahalanobis distance of vector, for this covariance."""
        straight = (vector.square() / self._unbroadcasted_cov_diag).sum(-1)
        across = times_vector(self._scaled_factor(), vector)
        return straight - mahalanobis(self._capacitance_tril, across)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        like: Any = {"dtype": self.loc.dtype, "device": self.loc.device}
        shared = randn((*shape[:-1], self.cov_factor.shape[-1]), **like)
        own = self._unbroadcasted_cov_diag.sqrt() * randn(shape, **like)
        return self.loc + times_vector(self._unbroadcasted_cov_factor, shared) + own

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self.log_det() + self.mahalanobis(value - self.loc))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (constant + self.log_det())).expand(self._batch_shape)
