"""Distributions of real numbers and of angles: Normal, Laplace, Cauchy, Uniform, VonMises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.dtypes import float64
from ..graph.modes import no_grad
from ..namespace.limits import finfo
from ..ops.create.creation import as_tensor, empty, full, full_like
from ..ops.create.random import rand, randn, require_std
from ..ops.create.random_distributions import cauchy_
from ..ops.pointwise.masked import where
from ..ops.pointwise.min_max import nextafter
from ..ops.pointwise.special import i0e, i1e, ndtr, ndtri
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .half_types import computed_in_float32
from .utils import (
    broadcast_all,
    kept_finite,
    kept_finite_in_halves,
    lazy_property,
    log1p_square,
)

__all__ = ["Cauchy", "Laplace", "Normal", "Uniform", "VonMises"]


class Normal(ExponentialFamily):
    """The normal distribution with mean loc and standard deviation scale."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True
    _batched: ClassVar = {"loc": 0, "scale": 0}
    _mean_carrier_measure = 0

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """Return the standard deviation."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.scale.square()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        require_std(self.scale)
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        noise = randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return kept_finite_in_halves(self.loc + noise * self.scale)

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        away = ((value - self.loc) / self.scale).square()
        return -0.5 * away - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Any) -> Tensor:
        """Return the probability that a sample is at most value."""
        if self._validate_args:
            self._validate_sample(value)
        # Computed without erf, because 1 + erf(x) loses the digits of the lower tail.
        return ndtr((value - self.loc) * self.scale.reciprocal())

    def icdf(self, value: Any) -> Tensor:
        """Return the quantile for the probability `value`."""
        return self.loc + self.scale * ndtri(value)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.loc / self.scale.square(), -0.5 * self.scale.square().reciprocal()

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()


class Laplace(Distribution):
    """The Laplace distribution: exponential on both sides of loc."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True
    _batched: ClassVar = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

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
        """Return the variance."""
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        """Return the standard deviation."""
        return self.scale * 2**0.5

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        u = 1 - 2 * rand(shape, dtype=self.loc.dtype, device=self.loc.device)
        far = (-u.abs().clamp(max=_below_one(u))).log1p()
        return kept_finite_in_halves(self.loc - self.scale * (u.sign() * far))

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(2) - self.scale.log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Tensor:
        """Return the probability that a sample is at most value."""
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        tail = 0.5 * (-away.abs() / self.scale).exp()
        return where(away < 0, tail, 1 - tail)

    def icdf(self, value: Any) -> Tensor:
        """Return the quantile for the probability `value`."""
        value = as_tensor(value, dtype=self.loc.dtype, device=self.loc.device)
        # Clamped, so that the logarithm in the branch that is not used is finite.
        low, high = value.clamp(max=0.5), value.clamp(min=0.5)
        away = where(value < 0.5, (2 * low).log(), -(2 * (1 - high)).log())
        return self.loc + self.scale * away

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 1 + math.log(2) + self.scale.log()


def _below_one(like: Tensor) -> float:
    return 1 - finfo(like.dtype).eps


class Cauchy(Distribution):
    """The Cauchy distribution; it has no mean, and half of all samples have |x - loc| < scale."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    has_rsample = True
    _batched: ClassVar = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return NaN, because there is no mean."""
        return full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Return infinity."""
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        noise = cauchy_(empty(shape, dtype=self.loc.dtype, device=self.loc.device))
        return kept_finite(self.loc + noise * self.scale)

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        away = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - log1p_square(away)

    def cdf(self, value: Any) -> Tensor:
        """Return the probability that a sample is at most value."""
        if self._validate_args:
            self._validate_sample(value)
        away = (value - self.loc) / self.scale
        # This angle is near 0 in the lower tail, where 0.5 + atan(away) / pi would lose digits.
        return away.new_ones(()).atan2(-away) / math.pi

    def icdf(self, value: Any) -> Tensor:
        """Return the quantile for the probability `value`."""
        value = as_tensor(value, dtype=self.loc.dtype, device=self.loc.device)
        # The cotangent is accurate for small probabilities, the tangent for probabilities near 1/2.
        is_low = value < 0.25
        low, high = where(is_low, value, 0.25), where(is_low, 0.25, value)
        away = where(is_low, -(math.pi * low).tan().reciprocal(), (math.pi * (high - 0.5)).tan())
        return away * self.scale + self.loc

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """The uniform distribution on [low, high)."""

    has_rsample = True
    _batched: ClassVar = {"low": 0, "high": 0}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> Any:
        """Return a dict from parameter names to their constraints."""
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Return the constraint that all samples satisfy."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """Return NaN, because no value is the most likely."""
        return self.high * math.nan

    @property
    def stddev(self) -> Tensor:
        """Return the standard deviation."""
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        drawn = rand(shape, dtype=self.low.dtype, device=self.low.device)
        value = self.low + drawn * (self.high - self.low)
        # The sum may round up to high, which is outside the support.
        value.detach().clamp_(max=nextafter(self.high, self.low).detach())
        return value

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value; -inf outside of the support."""
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Any) -> Tensor:
        """Return the probability that a sample is at most value."""
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Tensor:
        """Return the quantile for the probability `value`."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return (self.high - self.low).log()


class VonMises(Distribution):
    """The von Mises distribution of angles; they are nearer to loc with a higher concentration."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support: Any = constraints.real
    has_rsample = False
    _batched: ClassVar = {"loc": 0, "concentration": 0}

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean angle."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """Return the most likely angle."""
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """Return the circular variance."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        # log I0(k) = log i0e(k) + k; this form does not overflow for large k.
        cosine = self.concentration * ((value - self.loc).cos() - 1)
        return cosine - math.log(2 * math.pi) - i0e(self.concentration).log()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return angles in [-pi, pi), without gradients.

        Source  Best and Fisher 1979, "Efficient simulation of the von Mises distribution"
        """
        with no_grad():
            shape = self._extended_shape(sample_shape)
            # In float64: the parameter of the proposal distribution loses half its digits to
            # cancellation.
            kappa = self.concentration.to(float64).expand(shape)
            angle = _angles(kappa) + self.loc.to(float64)
            return ((angle + math.pi) % (2 * math.pi) - math.pi).to(self.loc.dtype)


# Above this concentration, a normal distribution differs only by rounding errors, and the proposal
# distribution is inaccurate.
_NEARLY_NORMAL = 1e8


def _angles(kappa: Tensor) -> Tensor:
    """Return von Mises samples with location 0 and concentration kappa; NaN where kappa is NaN."""
    is_wide = kappa <= _NEARLY_NORMAL
    wide = where(is_wide, kappa, 1.0).clamp(min=1e-300)
    angle = _accepted(wide, _wrapped_cauchy(wide))
    if bool(is_wide.all()):
        return angle
    normal = randn(kappa.shape, dtype=kappa.dtype, device=kappa.device) / kappa.sqrt()
    return where(is_wide, angle, normal)


def _wrapped_cauchy(kappa: Tensor) -> Tensor:
    tau = 1 + (1 + 4 * kappa.square()).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
    return where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho.square()) / (2 * rho))


def _accepted(kappa: Tensor, r: Tensor) -> Tensor:
    angle = full(r.shape, math.nan, dtype=r.dtype, device=r.device)
    while bool(angle.isnan().any()):
        u1, u2, u3 = rand((3, *r.shape), dtype=r.dtype, device=r.device).unbind()
        z = (math.pi * u1).cos()
        f = (1 + r * z) / (r + z)
        c = kappa * (r - f)
        taken = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
        angle = where(taken & angle.isnan(), (u3 - 0.5).sign() * f.clamp(-1, 1).acos(), angle)
    return angle
