"""Random matrices: Wishart (covariances) and LKJCholesky (factors of correlation matrices)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.caller_warning import warn_caller
from ..core.dtypes import float32
from ..namespace.limits import finfo
from ..ops.create.creation import tensor
from ..ops.create.random import randn
from ..ops.create.ranges import arange
from ..ops.pointwise.masked import where
from ..ops.pointwise.special import mvlgamma
from ..ops.shape.joining import cat
from ..ops.shape.rearranging import broadcast_shapes
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .gamma import Beta, Chi2
from .half_types import computed_in_float32
from .matrices import cholesky, cholesky_info, half_log_det, inverse_of_product, solve_lower
from .multivariate_normal import one_matrix, to_scale_tril
from .utils import NUMBER, broadcast_all, lazy_property, on_diagonal

__all__ = ["LKJCholesky", "Wishart"]


class Wishart(ExponentialFamily):
    """The Wishart distribution: the sum of x @ x.T over `df` normally distributed vectors x."""

    support: Any = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _batched: ClassVar = {
        "df": 0,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
        "_unbroadcasted_scale_tril": 2,
        "_dist_chi2": 1,
    }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_matrix(
            AssertionError,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if isinstance(df, NUMBER):
            df = tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df: Tensor = df.expand(batch_shape)
        event_shape = matrix.shape[-2:]
        n = event_shape[-1]
        if (self.df <= n - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        if (self.df < n).any():
            warn_caller(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim.",
            )
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_scale_tril = to_scale_tril(name, matrix).expand(self._extended_shape())
        less = arange(n, dtype=matrix.dtype, device=matrix.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - less, validate_args=False)

    @property
    def arg_constraints(self) -> Any:
        """Return a dict from parameter names to their constraints."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Return the Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Return the covariance of the normally distributed vectors."""
        return self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Return the inverse of the covariance."""
        return inverse_of_product(self._unbroadcasted_scale_tril)

    def _over_matrix(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self._over_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """Return the most likely matrix; NaN where df is at most n + 1."""
        factor = self.df - self._event_shape[-1] - 1
        return self._over_matrix(where(factor <= 0, math.nan, factor)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """Return the variance of each element."""
        diagonal = self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        across = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._over_matrix(self.df) * (self.covariance_matrix.square() + across)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters.

        Source  Bartlett's decomposition: chi variables on the diagonal, and normally distributed
                numbers below the diagonal
        """
        chi = self._dist_chi2.rsample(sample_shape).sqrt()
        chi = chi.clamp(min=finfo(chi.dtype).eps)
        noise = randn(self._extended_shape(sample_shape), dtype=chi.dtype, device=chi.device)
        triangle = self._unbroadcasted_scale_tril @ (noise.tril(-1) + on_diagonal(chi))
        # If a diagonal element is below `least`, the product may not be positive definite after
        # rounding.
        n, diagonal = triangle.shape[-1], triangle.diagonal(dim1=-1, dim2=-2)
        least = math.sqrt(8 * n * finfo(chi.dtype).eps) * triangle.detach().norm(dim=-1)
        triangle = triangle.tril(-1) + on_diagonal(diagonal.maximum(least))
        return _with_factor(triangle @ triangle.mT)

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        n, df = self._event_shape[-1], self.df
        own = self._unbroadcasted_scale_tril
        factor = cholesky(value)
        volume = df * (n * math.log(2) / 2 + half_log_det(own)) + mvlgamma(df / 2, n)
        trace = solve_lower(own, factor).square().sum((-2, -1))
        return (df - n - 1) * half_log_det(factor) - volume - trace / 2

    def entropy(self) -> Tensor:
        """Return the entropy."""
        n, df = self._event_shape[-1], self.df
        volume = (n + 1) * (n * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril))
        halves = arange(n, dtype=df.dtype, device=df.device) / 2
        slopes = ((df / 2).unsqueeze(-1) - halves).digamma().sum(-1)
        return volume + mvlgamma(df / 2, n) - (df - n - 1) / 2 * slopes + df * n / 2

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        n = self._event_shape[-1]
        halves = y + (n + 1) / 2
        log_det = 2 * half_log_det(cholesky(-2 * x))
        return halves * (n * math.log(2) - log_det) + mvlgamma(halves, n)


def _with_factor(value: Tensor) -> Tensor:
    """Return covariances for which a Cholesky factorization succeeds.

    If rounding has made a matrix indefinite, the error bound of a factorization is added to its
    diagonal.

    Source  Demmel 1989, "On floating point errors in Cholesky"
    """
    n, eps = value.shape[-1], finfo(value.dtype).eps
    plain = value.detach()
    lacks = cholesky_info(plain.float() if eps > finfo(float32).eps else plain) != 0
    diagonal = value.diagonal(dim1=-2, dim2=-1)
    more = where(lacks.unsqueeze(-1), diagonal * (4 * n * (n + 1) * eps), 0.0)
    return value + on_diagonal(more)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices; concentration 1 gives each matrix the same density.

    Source  Lewandowski, Kurowicka and Joe 2009, "Generating random correlation matrices based on
            vines and extended onion method"
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support: Any = constraints.corr_cholesky
    _batched: ClassVar = {"concentration": 0, "_beta": 1}

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        like: Any = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        # The first row is always (1, 0, ...), so the sample for that row is not used.
        offset = cat([arange(1, **like) * 0, arange(dim - 1, **like)])
        # The concentration is added last: a small one would be rounded away in a sum with 1/2.
        marginal = self.concentration.unsqueeze(-1) + 0.5 * (dim - 2 - offset)
        self._beta = Beta(offset + 0.5, marginal, validate_args=False)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients, by the onion method."""
        y = self._beta.sample(sample_shape).unsqueeze(-1)
        shape = self._extended_shape(sample_shape)
        ball = randn(shape, dtype=y.dtype, device=y.device).tril(-1)
        length = ball.square().sum(-1, keepdim=True).sqrt()
        rows = y.sqrt() * ball / where(length == 0, 1.0, length)
        left = (1 - rows.square().sum(-1)).clamp(min=finfo(rows.dtype).tiny)
        return (rows + on_diagonal(left.sqrt())).detach()

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        below, like = self.dim - 1, {"device": self.concentration.device}
        alpha, above = self.concentration + 0.5 * below, self.concentration.unsqueeze(-1)
        order = 2 * above + (self.dim - 2 - arange(2, self.dim + 1, **like))
        # mvlgamma(alpha - 1/2, below), without this difference: it would lose small concentrations.
        volume = (above + 0.5 * arange(below, **like)).lgamma().sum(-1)
        volume = volume + 0.25 * below * (below + 1) * math.log(math.pi) - alpha.lgamma() * below
        return (order * diagonal.log()).sum(-1) - volume
