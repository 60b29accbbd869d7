"""Distributions defined as transforms of others: LogNormal, HalfNormal, Gumbel, Pareto, ..."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..graph.modes import no_grad
from ..namespace.limits import finfo
from ..ops.create.creation import as_tensor, empty, full_like, ones_like, zeros_like
from ..ops.create.random_distributions import exponential_, log_standard_gamma
from ..ops.pointwise.masked import where
from ..tensor.tensor import Tensor
from . import constraints
from .gamma import Exponential, Gamma
from .half_types import computed_in_float32
from .normal import Cauchy, Normal, Uniform
from .number_transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform
from .transformed_distribution import TransformedDistribution
from .utils import (
    broadcast_all,
    euler_constant,
    finite_logs,
    kept_finite,
    log_limits,
    open_unit_interval,
)
from .vector_transforms import StickBreakingTransform

__all__ = [
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "Kumaraswamy",
    "LogNormal",
    "LogisticNormal",
    "Pareto",
    "Weibull",
]


def _log1mexp(x: Tensor) -> Tensor:
    """Return log(1 - exp(x)) for x below 0, accurate near 0 and for large negative x.

    Source  Maechler 2012, "Accurately computing log(1 - exp(-|a|))"
    """
    is_near = x > -math.log(2.0)
    near, far = x.masked_fill(~is_near, -1.0), x.masked_fill(is_near, -1.0)
    return where(is_near, (-near.expm1()).log(), (-far.exp()).log1p())


class LogNormal(TransformedDistribution):
    """exp(x) for a normally distributed x."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.positive
    has_rsample: Any = True
    _batched: ClassVar[dict[str, int]] = {}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Return the mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Return the standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Points of a simplex: the stick-breaking transform of normally distributed numbers."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.simplex
    has_rsample: Any = True
    _batched: ClassVar[dict[str, int]] = {}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Return the means of the normally distributed numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Return the standard deviations of the normally distributed numbers."""
        return self.base_dist.base_dist.scale


class _Half(TransformedDistribution):
    """Base of distributions of |x|, where the distribution of x is symmetric around 0."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support: Any = constraints.nonnegative
    has_rsample: Any = True

    @property
    def scale(self) -> Tensor:
        """Return the scale of the symmetric distribution."""
        return self.base_dist.scale

    @property
    def _like(self) -> dict[str, Any]:
        return {"dtype": self.scale.dtype, "device": self.scale.device}

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return zeros_like(self.scale)

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """|x| for a normally distributed x with mean 0."""

    _batched: ClassVar[dict[str, int]] = {}

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.scale.square() * (1 - 2 / math.pi)

    def cdf(self, value: Any) -> Tensor:
        """Return the probability that a sample is at most value."""
        if self._validate_args:
            self._validate_sample(value)
        return (value / self.scale * math.sqrt(0.5)).erf()

    def icdf(self, value: Any) -> Tensor:
        """Return the quantile for the probability `value`."""
        return self.scale * math.sqrt(2) * as_tensor(value, **self._like).erfinv()


class HalfCauchy(_Half):
    """|x| for a Cauchy distributed x with location 0."""

    _batched: ClassVar[dict[str, int]] = {}

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return infinity."""
        return full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        """Return infinity."""
        return full_like(self.scale, math.inf)

    def cdf(self, value: Any) -> Tensor:
        """Return the probability that a sample is at most value."""
        if self._validate_args:
            self._validate_sample(value)
        return (value / self.scale).atan() * (2 / math.pi)

    def icdf(self, value: Any) -> Tensor:
        """Return the quantile for the probability `value`."""
        value = as_tensor(value, **self._like)
        # The cotangent is accurate for probabilities near 1, the tangent for probabilities near 0.
        is_high = value > 0.5
        low, high = where(is_high, 0.5, value), where(is_high, value, 0.5)
        far = (0.5 * math.pi * (1 - high)).tan().reciprocal()
        return self.scale * where(is_high, far, (0.5 * math.pi * low).tan())


class Gumbel(TransformedDistribution):
    """The Gumbel distribution, the limit of the distribution of the maximum of many samples."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    _batched: ClassVar = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        low, high = full_like(self.loc, limits.tiny), full_like(self.loc, 1 - limits.eps)
        # loc - scale * log(-log(u))
        transforms = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]
        base = Uniform(low.detach(), high.detach(), validate_args=validate_args)
        super().__init__(base, transforms, validate_args=validate_args)

    def _mapped_sample(self, x: Any) -> Tensor:
        return kept_finite(super()._mapped_sample(x))

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """Return the standard deviation."""
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.stddev.square()

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.scale.log() + (1 + euler_constant)


class InverseGamma(TransformedDistribution):
    """1 / x for a gamma variable x."""

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support: Any = constraints.positive
    has_rsample: Any = True
    _batched: ClassVar[dict[str, int]] = {}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        turn = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, turn, validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        # Computed with logarithms: if the concentration is small, the gamma variable underflows.
        log_gamma = log_standard_gamma(self.concentration.expand(shape))
        return finite_logs((self.rate.log() - log_gamma).to(self.rate.dtype)).exp()

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        shape, rate = self.concentration, self.rate
        rise = shape.xlogy(rate) - (shape + 1) * value.log()
        return rise - rate / value - shape.lgamma()

    @property
    def concentration(self) -> Tensor:
        """Return the gamma variable's concentration."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """Return the gamma variable's rate."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """Return the mean; infinite where concentration is at most 1."""
        mean = self.rate / (self.concentration - 1)
        return where(self.concentration > 1, mean, math.inf)

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """Return the variance; infinite where concentration is at most 2."""
        below = (self.concentration - 1).square() * (self.concentration - 2)
        return where(self.concentration > 2, self.rate.square() / below, math.inf)

    @computed_in_float32
    def entropy(self) -> Tensor:
        """Return the entropy."""
        shape = self.concentration
        return shape + self.rate.log() + shape.lgamma() - (1 + shape) * shape.digamma()


class Kumaraswamy(TransformedDistribution):
    """Numbers in (0, 1), similar to Beta but computed with powers only."""

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support: Any = constraints.unit_interval
    has_rsample: Any = True
    _batched: ClassVar = {"concentration1": 0, "concentration0": 0}

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zero = zeros_like(self.concentration0).detach()
        transforms = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        base = Uniform(zero, ones_like(zero), validate_args=validate_args)
        super().__init__(base, transforms, validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples inside (0, 1), so that gradients reach the parameters."""
        a, b = self.concentration1, self.concentration0
        shape = self._extended_shape(sample_shape)
        # Computed with logarithms: if a concentration is small, the powers are rounded to 0 or 1.
        log_left = -exponential_(empty(shape, dtype=a.dtype, device=a.device)) / b
        return open_unit_interval(finite_logs(_log1mexp(log_left) / a).exp())

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        log_value = value.log()
        falls = (b - 1) * _log1mexp(a * log_value)
        return a.log() + b.log() + (a - 1) * log_value + falls

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """Return the most likely value; NaN where a concentration is below 1."""
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return where((b < 1) | (a < 1), math.nan, log_mode).exp()

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self._moment(2) - self.mean.square()

    def _moment(self, order: int) -> Tensor:
        a, b = self.concentration1, self.concentration0
        above = 1 + order / a
        return b * (above.lgamma() + b.lgamma() - (above + b).lgamma()).exp()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        sums = (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic
        return sums - a.log() - b.log()


class Pareto(TransformedDistribution):
    """Numbers above `scale`, with a power-law tail of exponent `alpha`."""

    arg_constraints: ClassVar[Any] = {
        "alpha": constraints.positive,
        "scale": constraints.positive,
    }
    _batched: ClassVar = {"scale": 0, "alpha": 0}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        transforms = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        log_ratio = self.base_dist.rsample(sample_shape)
        # Clamped, so that the product of the scale and the ratio does not overflow.
        most = log_limits(log_ratio)[1] - self.scale.detach().log().clamp(min=0)
        return self.scale * log_ratio.clamp(max=most).exp()

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Return the constraint that all samples satisfy."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """Return the mean; infinite where alpha is at most 1."""
        alpha = self.alpha.clamp(min=1)
        return alpha * self.scale / (alpha - 1)

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """Return the variance; infinite where alpha is at most 2."""
        alpha = self.alpha.clamp(min=2)
        return self.scale.square() * alpha / ((alpha - 1).square() * (alpha - 2))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """A power of an exponentially distributed number."""

    arg_constraints: ClassVar[Any] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support: Any = constraints.positive
    _batched: ClassVar = {"scale": 0, "concentration": 0, "concentration_reciprocal": 0}

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(ones_like(self.scale).detach(), validate_args=validate_args)
        transforms = [
            PowerTransform(self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        log_time = self.base_dist.sample(sample_shape).log()
        return finite_logs(self.scale.log() + log_time / self.concentration).exp()

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        k, log_scale = self.concentration, self.scale.log()
        log_ratio = value.log() - log_scale
        return k.log() - log_scale + (k - 1) * log_ratio - (k * log_ratio).exp()

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.scale * (1 + self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        first = (2 * (1 + self.concentration_reciprocal).lgamma()).exp()
        second = (1 + 2 * self.concentration_reciprocal).lgamma().exp()
        return self.scale.square() * (second - first)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        spread = (self.scale * self.concentration_reciprocal).log()
        return euler_constant * (1 - self.concentration_reciprocal) + spread + 1
