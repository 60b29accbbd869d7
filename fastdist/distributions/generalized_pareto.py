"""GeneralizedPareto, the distribution of excesses over a high threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..namespace.limits import finfo
from ..ops.create.creation import ones_like, zeros_like
from ..ops.create.random import rand
from ..ops.pointwise.masked import where
from ..ops.pointwise.min_max import nextafter
from ..ops.shape.casting import isclose
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, log_limits

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Numbers above loc; the tail is exponential (concentration 0) or a power law (positive)."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _batched: ClassVar = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Return the constraint that all samples satisfy."""
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, where(self.concentration < 0, end, math.inf))

    @property
    def mean(self) -> Tensor:
        """Return the mean; NaN where concentration is 1 or more."""
        valid = self.concentration < 1
        mean = self.loc + self.scale / (1 - where(valid, self.concentration, 0.5))
        return where(valid, mean, math.nan)

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Return the variance; NaN where concentration is one half or more."""
        valid = self.concentration < 0.5
        safe = where(valid, self.concentration, 0.25)
        variance = self.scale.square() / ((1 - safe).square() * (1 - 2 * safe))
        return where(valid, variance, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        drawn = rand(shape, dtype=self.loc.dtype, device=self.loc.device)
        value, limits = self._beyond((-drawn).log1p(), is_sample=True), finfo(self.loc.dtype)
        # A sample may be rounded up to the upper bound, where log_prob is not finite.
        below = nextafter(self.loc - self.scale / self.concentration, self.loc).detach()
        most = where(self.concentration < 0, below, limits.max)
        return value.clamp(min=limits.min).minimum(most)

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        is_zero, safe = self._safe()
        power = 1 / safe + ones_like(z)
        falls = where(power == 0, power, power * (safe * z).log1p())
        return -self.scale.log() - where(is_zero, z, falls)

    def log_survival_function(self, value: Any) -> Tensor:
        """Return the logarithm of the probability that a sample is above value."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        is_zero, safe = self._safe()
        return where(is_zero, -z, -(safe * z).log1p() / safe)

    def log_cdf(self, value: Any) -> Tensor:
        """Return the logarithm of the probability that a sample is at most value."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Tensor:
        """Return the probability that a sample is at most value."""
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Tensor:
        """Return the quantile for the probability `value`."""
        return self._beyond((-value).log1p(), is_sample=False)

    def _beyond(self, log_survival: Tensor, is_sample: bool) -> Tensor:
        """Return the quantiles for logarithms of survival probabilities.

        If `is_sample`, they are kept away from the bounds, where log_prob is not finite.
        """
        is_zero, safe = self._safe()
        power = -safe * log_survival
        if is_sample:
            end = math.log(8 * finfo(power.dtype).eps)
            power = power.clamp(min=end, max=log_limits(power)[1])
        falls = self.loc + self.scale * (power.expm1() / safe)
        return where(is_zero, self.loc - self.scale * log_survival, falls)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.scale.log() + self.concentration + 1

    def _safe(self) -> tuple[Tensor, Tensor]:
        """Return where concentration is 0, and concentration with such elements replaced by 1."""
        is_zero = isclose(self.concentration, zeros_like(self.concentration))
        return is_zero, where(is_zero, 1.0, self.concentration)
