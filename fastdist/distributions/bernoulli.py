"""Bernoulli, ContinuousBernoulli and Geometric, with probabilities or log odds as parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..graph.modes import no_grad
from ..namespace.limits import finfo
from ..ops.create.creation import zeros_like
from ..ops.create.random import bernoulli, rand
from ..ops.create.ranges import arange
from ..ops.nn.activation import logsigmoid
from ..ops.nn.losses import binary_cross_entropy_with_logits
from ..ops.pointwise.masked import where
from ..tensor.layout import Size
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .utils import (
    broadcast_all,
    clamp_probs,
    kept_finite,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)

__all__ = ["Bernoulli", "ContinuousBernoulli", "Geometric"]


def require_one(probs: Any, logits: Any) -> None:
    """Raise ValueError unless exactly one of probs and logits is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class Odds(Distribution):
    """Base of distributions whose parameter is the probability of the value 1, or its log odds."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    # Whether log odds were given. The parameter that was not given is computed at its first use.
    _has_logits: bool = False

    @lazy_property
    def logits(self) -> Tensor:
        """Return the log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """Return the probabilities of 1."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _param(self) -> Tensor:
        given = self.__dict__.get("probs")
        return self.logits if given is None else given

    @property
    def param_shape(self) -> Size:
        """Return the shape of the parameter."""
        return self._param.shape

    @property
    def _failure(self) -> Tensor:
        """Return the probabilities of 0, computed from log odds if given: 1 - probs is rounded."""
        return (-self.logits).sigmoid() if self._has_logits else 1 - self.probs

    def _flip_entropy(self) -> Tensor:
        """Return the entropy of one Bernoulli sample."""
        if not self._has_logits:
            return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        away = self.logits.abs()
        return away * (-away).sigmoid() - logsigmoid(away)

    def _values(self, count: int, expand: bool) -> Tensor:
        """Return 0, 1, ... count - 1 along a new first axis."""
        values = arange(count, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1, *(1 for _ in self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Bernoulli(Odds, ExponentialFamily):
    """The value 1 with the probability `probs`, otherwise 0."""

    support: Any = constraints.boolean
    has_enumerate_support = True
    _batched: ClassVar = {"probs": 0, "logits": 0}
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        require_one(probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
            self._has_logits = True
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """Return the most likely value; NaN if 0 and 1 are equally likely."""
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.probs * self._failure

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the probability of value."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._flip_entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the values 0 and 1 along a new first axis."""
        return self._values(2, expand)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.probs.logit(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp().log1p()


class Geometric(Odds):
    """The number of failures before the first success."""

    support: Any = constraints.nonnegative_integer
    _batched: ClassVar = {"probs": 0, "logits": 0}

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        require_one(probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
            self._has_logits = True
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            value = self.probs
            raise ValueError(
                f"Expected parameter probs ({type(value).__name__} of shape "
                f"{tuple(value.shape)}) of distribution {self!r} to be positive but found invalid "
                f"values:\n{value.detach()[~(value > 0)]}"
            )

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return (-self.logits).exp() if self._has_logits else 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.mean / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        with no_grad():
            shape = self._extended_shape(sample_shape)
            u = rand(shape, dtype=self.probs.dtype, device=self.probs.device)
            u = u.clamp(min=finfo(u.dtype).tiny)
            return kept_finite((u.log() / (-self.probs).log1p()).floor())

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the probability of value."""
        if self._validate_args:
            self._validate_sample(value)
        if self._has_logits:
            value, logits = broadcast_all(value, self.logits)
            certain = logits.masked_fill((logits == math.inf) & (value == 0), 0)
            return value * logsigmoid(-certain) + logsigmoid(logits)
        value, probs = broadcast_all(value, self.probs)
        # If probs is 1 and value is 0, the formula would multiply 0 by log(0).
        certain = probs.masked_fill((probs == 1) & (value == 0), 0)
        return value * (-certain).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._flip_entropy() / self.probs


class ContinuousBernoulli(Odds, ExponentialFamily):
    """Numbers in [0, 1] with a density proportional to probs**x * (1 - probs)**(1 - x).

    Note    if `probs` is within `lims`, around 1/2, the formulas would divide by numbers near 0,
            so Taylor series are used instead
    Source  Loaiza-Ganem and Cunningham 2019, "The continuous Bernoulli"
    """

    support: Any = constraints.unit_interval
    has_rsample = True
    _batched: ClassVar = {"probs": 0, "logits": 0}
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        require_one(probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
            # Checked before clamping, which makes all values valid.
            if validate_args is not None and not constraints.unit_interval.check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        else:
            (self.logits,) = broadcast_all(logits)
            self._has_logits = True
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """Return the probabilities of 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_odds(self) -> Tensor:
        """Return the absolute log odds; 1 if the probability is within `lims`."""
        return where(self._outside_unstable_region(), self.logits.abs(), 1.0)

    def _cont_bern_log_norm(self) -> Tensor:
        """Return the logarithm of the factor that gives the density the integral 1."""
        away = self._cut_odds()
        x = (self.probs - 0.5).square()
        taylor = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        found = away.log() - (0.5 * away).tanh().log()
        return where(self._outside_unstable_region(), found, taylor)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        away = self._cut_odds()
        # `short` is the mean distance of samples from 0 or 1, whichever is nearer to most of them.
        short = away.reciprocal() + (-away).exp() / (-away).expm1()
        mean = where(self.logits > 0, 1.0 - short, short)
        x = self.probs - 0.5
        taylor = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x
        return where(self._outside_unstable_region(), mean, taylor)

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        away = self._cut_odds()
        variance = away.square().reciprocal() - (-away).exp() / (-away).expm1().square()
        x = (self.probs - 0.5).square()
        taylor = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return where(self._outside_unstable_region(), variance, taylor)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        flip = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - flip

    def cdf(self, value: Any) -> Tensor:
        """Return the probability that a sample is at most value."""
        if self._validate_args:
            self._validate_sample(value)
        away = self._cut_odds()
        is_up = self.logits > 0
        rise = (-away * value).expm1() / (-away).expm1()
        rise = rise * where(is_up, away * (value - 1.0), 0.0).exp()
        inside = where(self._outside_unstable_region(), rise, value)
        return where(value <= 0.0, 0.0, where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Any) -> Tensor:
        """Return the quantile for the probability `value`."""
        away, is_up = self._cut_odds(), self.logits > 0
        share = where(is_up, 1.0 - value, value) * (-away).expm1()
        part = share.clamp(min=finfo(share.dtype).eps / 2 - 1.0).log1p() / away
        found = where(is_up, 1.0 + part, -part).clamp(min=0.0, max=1.0)
        return where(self._outside_unstable_region(), found, value)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        rise = self.mean * self.logits + logsigmoid(-self.logits)
        return -rise - self._cont_bern_log_norm()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = where(outside, x, self._lims[0] - 0.5)
        taylor = 0.5 * x + x.square() / 24.0 - x.pow(4) / 2880.0
        return where(outside, cut.expm1().abs().log() - cut.abs().log(), taylor)
