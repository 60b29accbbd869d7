"""Distributions of counts: Binomial, NegativeBinomial and Poisson."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..graph.modes import no_grad
from ..namespace.limits import finfo
from ..ops.create.creation import zeros_like
from ..ops.create.random_distributions import binomial, poisson
from ..ops.nn.activation import logsigmoid
from ..ops.pointwise.masked import where
from ..tensor.tensor import Tensor
from . import constraints
from .bernoulli import Odds, require_one
from .exp_family import ExponentialFamily
from .gamma import Gamma
from .half_types import computed_in_float32
from .utils import broadcast_all, kept_finite, kept_finite_in_halves, lazy_property

__all__ = ["Binomial", "NegativeBinomial", "Poisson"]


class _CountOdds(Odds):
    """Base of distributions with a total count and a probability (or log odds) as parameters."""

    total_count: Tensor
    _batched: ClassVar = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(
        self, total_count: Any, probs: Any, logits: Any, validate_args: bool | None
    ) -> None:
        require_one(probs, logits)
        if probs is not None:
            self.total_count, self.probs = broadcast_all(total_count, probs)
        else:
            self.total_count, self.logits = broadcast_all(total_count, logits)
            self._has_logits = True
        self.total_count = self.total_count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)


class Binomial(_CountOdds):
    """The number of successes among total_count trials."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _batched: ClassVar = _CountOdds._batched

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Return the constraint that all samples satisfy."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.total_count * self.probs * self._failure

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the probability of value."""
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        chance = value * logsigmoid(self.logits) + (n - value) * logsigmoid(-self.logits)
        return ways + chance

    def entropy(self) -> Tensor:
        """Return the entropy; all total counts must be equal."""
        log_prob = self.log_prob(self._all_values("entropy", False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all counts along a new first axis; all total counts must be equal."""
        return self._all_values("enumerate_support", expand)

    def _all_values(self, what: str, expand: bool) -> Tensor:
        count = int(self.total_count.max())
        if int(self.total_count.min()) != count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{what}`.")
        return self._values(1 + count, expand)


class NegativeBinomial(_CountOdds):
    """The number of successes, each with probability `probs`, before `total_count` failures."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support: Any = constraints.nonnegative_integer
    _batched: ClassVar = _CountOdds._batched

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(total_count, probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        with no_grad():
            return kept_finite(poisson(kept_finite(self._gamma.sample(sample_shape))))

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the probability of value."""
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        chance = n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        ways = _rise(n, value) - n.lgamma()
        return chance + ways.masked_fill(n + value == 0.0, 0.0)


def _rise(n: Tensor, value: Tensor) -> Tensor:
    """Return the logarithm of Gamma(n + value) / Gamma(1 + value).

    Note    for a large `value`, the difference of two results of lgamma overflows or loses digits,
            so another formula is used, with an error of about n**3 / (24 * value**2)
    """
    value = value + zeros_like(n)
    is_far = value * finfo(n.dtype).eps ** 0.5 > n.square() + 1
    near, far = where(is_far, 1.0, value), where(is_far, value, 1.0)
    rise = (n + near).lgamma() - (1.0 + near).lgamma()
    return where(is_far, (n - 1.0) * (far + n / 2).log(), rise)


class Poisson(ExponentialFamily):
    """The number of independent events; its mean is `rate`."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support: Any = constraints.nonnegative_integer
    _batched: ClassVar = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        with no_grad():
            drawn = poisson(self.rate.expand(self._extended_shape(sample_shape)))
            return kept_finite_in_halves(drawn)

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the probability of value."""
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()
