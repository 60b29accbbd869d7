"""Elementwise transforms: exp, powers, sigmoids, affine maps, and a distribution's cdf."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..namespace.limits import finfo
from ..ops.create.creation import full_like
from ..ops.nn.activation import logsigmoid
from ..ops.pointwise.min_max import maximum, minimum
from ..ops.shape.rearranging import broadcast_shapes
from ..tensor.tensor import Tensor
from . import constraints
from .transform import Transform, widened
from .utils import (
    NUMBER,
    broadcast_all,
    finite_logs,
    lazy_property,
    log_limits,
    open_unit_interval,
    sum_rightmost,
)


class Plain(Transform):
    """Base of transforms without parameters: two instances of a class are equal."""

    __hash__: Any = None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)


class ExpTransform(Plain):
    """exp(x)."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def _kept_in_range(self, x: Any) -> Any:
        return finite_logs(x)

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return log |dy/dx| of each element."""
        return x


class PowerTransform(Transform):
    """x ** exponent."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return this transform with a cache of the given size."""
        if self._cache_size == cache_size:
            return self
        return PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self) -> Any:
        """Return 1 for an increasing transform, -1 for a decreasing one."""
        return self.exponent.sign()

    __hash__: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(
            self.exponent.eq(other.exponent).all().item()
        )

    def _kept_in_range(self, x: Any) -> Any:
        low, high = log_limits(x)
        # If the exponent is negative, the largest x has the smallest result.
        ends = [end / self.exponent.detach() for end in (low, high)]
        least, most = [finite_logs(end).exp() for end in (minimum(*ends), maximum(*ends))]
        return x.clamp(min=least, max=most)

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return log |dy/dx| of each element."""
        return self.exponent.abs().log() + y.log() - x.log()

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of the result for an input of this shape."""
        return broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def clipped_sigmoid(x: Tensor) -> Tensor:
    """Return the sigmoid of x, clamped to the inside of (0, 1)."""
    limits = finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)


class SigmoidTransform(Plain):
    """1 / (1 + exp(-x))."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = +1

    def _call(self, x: Any) -> Any:
        return clipped_sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        limits = finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return log |dy/dx| of each element."""
        return logsigmoid(x) + logsigmoid(-x)


class SoftplusTransform(Plain):
    """log(1 + exp(x))."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def _kept_in_range(self, x: Any) -> Any:
        return x.clamp(min=log_limits(x)[0])

    def _call(self, x: Any) -> Any:
        # The softplus op is less accurate: it returns x itself for x above 20.
        return -logsigmoid(-x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return log |dy/dx| of each element."""
        return logsigmoid(x)


class TanhTransform(Plain):
    """tanh(x); the inverse loses digits near -1 and 1, unless the result is in the cache."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1

    def _kept_in_range(self, x: Any) -> Any:
        last = math.atanh(1.0 - finfo(x.dtype).eps)
        return x.clamp(min=-last, max=last)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return log |dy/dx| of each element."""
        return 2.0 * (math.log(2.0) - x + logsigmoid(2.0 * x))


class AbsTransform(Plain):
    """|x|."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """loc + scale * x."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        """Return the number of axes of one event."""
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """Return the constraint: real numbers, in events of event_dim axes."""
        return widened(constraints.real, self.event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """Return the constraint: real numbers, in events of event_dim axes."""
        return widened(constraints.real, self.event_dim)

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return this transform with a cache of the given size."""
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    __hash__: Any = None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _same(self.loc, other.loc)
            and _same(self.scale, other.scale)
        )

    @property
    def sign(self) -> Any:
        """Return 1 for an increasing transform, -1 for a decreasing one."""
        if isinstance(self.scale, NUMBER):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return log |det(dy/dx)|, one number per event."""
        shape = x.shape
        if isinstance(self.scale, NUMBER):
            result = full_like(x, math.log(abs(self.scale)))
        else:
            result = self.scale.abs().log()
        if self.event_dim:
            result = sum_rightmost(result, self.event_dim)
            shape = shape[: -self.event_dim]
        return result.expand(shape)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of the result for an input of this shape."""
        return broadcast_shapes(
            shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ())
        )

    inverse_shape = forward_shape


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, NUMBER) and isinstance(other, NUMBER):
        return one == other
    return bool((one == other).all())


class CumulativeDistributionTransform(Transform):
    """The cdf of a univariate distribution, clamped to the inside of (0, 1)."""

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        """Return the support of the distribution."""
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return open_unit_interval(self.distribution.cdf(x))

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(open_unit_interval(y))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return log |dy/dx| of each element."""
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return this transform with a cache of the given size."""
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
