"""Distributions built from gamma variables: Gamma, Chi2, Dirichlet, Beta, StudentT ..."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..namespace.limits import finfo
from ..ops.create.creation import as_tensor, empty, full_like, tensor, zeros_like
from ..ops.create.random import randn
from ..ops.create.random_distributions import (
    _sample_dirichlet,
    _standard_gamma,
    exponential_,
    log_standard_gamma,
)
from ..ops.nn.one_hot import one_hot
from ..ops.pointwise.masked import where
from ..ops.pointwise.special import igamma
from ..ops.pointwise.transcendental import logaddexp
from ..ops.shape.joining import stack
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .half_types import computed_in_float32
from .utils import (
    NUMBER,
    broadcast_all,
    finite_logs,
    kept_finite_in_halves,
    log1p_square,
    open_unit_interval,
)

__all__ = ["Beta", "Chi2", "Dirichlet", "Exponential", "FisherSnedecor", "Gamma", "StudentT"]


class Exponential(ExponentialFamily):
    """The waiting time until an event, where `rate` events happen per unit of time."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample = True
    _batched: ClassVar = {"rate": 0}
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        """Return the standard deviation."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        drawn = exponential_(empty(shape, dtype=self.rate.dtype, device=self.rate.device))
        return kept_finite_in_halves(drawn / self.rate)

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Tensor:
        """Return the probability that a sample is at most value."""
        if self._validate_args:
            self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Any) -> Tensor:
        """Return the quantile for the probability `value`."""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -(-natural_params[0]).log()


class Gamma(ExponentialFamily):
    """The gamma distribution with a shape (concentration) and a rate, the inverse of its scale."""

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support: Any = constraints.nonnegative
    has_rsample = True
    _batched: ClassVar = {"concentration": 0, "rate": 0}
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        value: Tensor = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        # If the concentration is small, samples may underflow to 0, where log_prob is infinite.
        value.detach().clamp_(min=finfo(value.dtype).tiny)
        return kept_finite_in_halves(value)

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        value = as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        shape, rate = self.concentration, self.rate
        return shape.xlogy(rate) + (shape - 1).xlogy(value) - rate * value - shape.lgamma()

    @computed_in_float32
    def cdf(self, value: Any) -> Tensor:
        """Return the probability that a sample is at most value."""
        if self._validate_args:
            self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    @computed_in_float32
    def entropy(self) -> Tensor:
        """Return the entropy."""
        shape = self.concentration
        return shape - self.rate.log() + shape.lgamma() + (1.0 - shape) * shape.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The sum of squares of df standard normal numbers."""

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}
    _batched: ClassVar = Gamma._batched

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Return the degrees of freedom."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Points of a simplex: gamma variables with given concentrations, divided by their sum."""

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support: Any = constraints.simplex
    has_rsample = True
    _batched: ClassVar = {"concentration": 1}

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """Return the most likely point."""
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = one_hot(mode.argmax(-1), above.shape[-1]).to(mode.dtype)
        return where((self.concentration < 1).all(-1).unsqueeze(-1), corner, mode)

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        total = self.concentration.sum(-1, True)
        spread = self.concentration * (total - self.concentration)
        return spread / (total.square() * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        return _sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        powers = (self.concentration - 1.0).xlogy(value).sum(-1)
        return powers + self.concentration.sum(-1).lgamma() - self.concentration.lgamma().sum(-1)

    @computed_in_float32
    def entropy(self) -> Tensor:
        """Return the entropy."""
        k = self.concentration.size(-1)
        total = self.concentration.sum(-1)
        volume = self.concentration.lgamma().sum(-1) - total.lgamma()
        slopes = ((self.concentration - 1.0) * self.concentration.digamma()).sum(-1)
        return volume - (k - total) * total.digamma() - slopes

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """Numbers in (0, 1): the first of two gamma variables, divided by the sum of both."""

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support: Any = constraints.unit_interval
    has_rsample = True
    _batched: ClassVar = {"_dirichlet": 0}

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(concentration1, NUMBER) and isinstance(concentration0, NUMBER):
            both = tensor([float(concentration1), float(concentration0)])
        else:
            both = stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        """Return the concentration towards 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """Return the concentration towards 0."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples inside (0, 1), so that gradients reach the parameters."""
        return open_unit_interval(self._dirichlet.rsample(sample_shape).select(-1, 0))

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(stack([value, 1.0 - value], -1))

    @computed_in_float32
    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


class FisherSnedecor(Distribution):
    """The ratio of two chi-square variables, each divided by its degrees of freedom, df1 or df2."""

    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support: Any = constraints.positive
    has_rsample = True
    _batched: ClassVar = {"df1": 0, "df2": 0, "_gamma1": 0, "_gamma2": 0}

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1, validate_args=False)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2, validate_args=False)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean; NaN where df2 is at most 2."""
        df2 = where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        """Return the most likely value; NaN where df1 is at most 2."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 <= 2, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        """Return the variance; NaN where df2 is at most 4."""
        df2 = where(self.df2 <= 4, math.nan, self.df2)
        spread = 2 * df2.square() * (self.df1 + df2 - 2)
        return spread / (self.df1 * (df2 - 2).square() * (df2 - 4))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        # Computed with logarithms: for few degrees of freedom both gamma numbers may underflow.
        below = log_standard_gamma((self.df2 * 0.5).expand(shape)) - self.df2.log()
        above = log_standard_gamma((self.df1 * 0.5).expand(shape)) - self.df1.log()
        return finite_logs((above - below).to(self.df1.dtype)).exp()

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        volume = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        rise = half1 * ratio.log() + (half1 - 1) * value.log()
        # log(1 + ratio * value), computed without the product, which may overflow.
        scaled = ratio.log() + value.log()
        return volume + rise - (half1 + half2) * logaddexp(scaled, zeros_like(scaled))


class StudentT(Distribution):
    """Student's t-distribution with `df` degrees of freedom, location `loc` and scale `scale`."""

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support: Any = constraints.real
    has_rsample = True
    _batched: ClassVar = {"df": 0, "loc": 0, "scale": 0, "_chi2": 0}

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df, validate_args=False)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean; NaN where df is at most 1."""
        return where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Return the variance; infinite where 1 < df <= 2, NaN where df <= 1."""
        # Values of df up to 2 are replaced by 3, so that the unused branch has a finite gradient.
        df = self.df.masked_fill(self.df <= 2, 3.0)
        finite = where(self.df > 2, self.scale.square() * df / (df - 2), math.inf)
        return where(self.df <= 1, full_like(finite, math.nan), finite)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape, limits = self._extended_shape(sample_shape), finfo(self.df.dtype)
        noise = randn(shape, dtype=self.df.dtype, device=self.df.device)
        # Computed with logarithms: for few degrees of freedom the chi-square number may underflow.
        log_chi2 = log_standard_gamma((self.df * 0.5).expand(shape)) + math.log(2.0)
        spread = finite_logs((0.5 * (self.df.log() - log_chi2)).to(self.df.dtype)).exp()
        # Normal samples are below 9, and log_prob divides samples by the root of df. With this
        # limit, neither the samples nor these quotients overflow.
        most = self.df.detach().sqrt().clamp(max=1.0) * (limits.max / 16)
        wide = noise * spread.clamp(max=most)
        return (self.loc + self.scale * wide).clamp(min=limits.min, max=limits.max)

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        away = (value - self.loc) / self.scale
        volume = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        volume = volume + (0.5 * self.df).lgamma() - (0.5 * (self.df + 1.0)).lgamma()
        return -0.5 * (self.df + 1.0) * log1p_square(away / self.df.sqrt()) - volume

    @computed_in_float32
    def entropy(self) -> Tensor:
        """Return the entropy."""
        half, above = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = half.lgamma() + math.lgamma(0.5) - above.lgamma()
        tails = above * (above.digamma() - half.digamma())
        return self.scale.log() + tails + 0.5 * self.df.log() + log_beta
