"""TransformedDistribution: a base distribution whose samples are transformed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..graph.modes import no_grad
from ..ops.pointwise.masked import where
from ..tensor.layout import Size
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transform import ComposeTransform, Transform
from .utils import kept_finite_in_halves, sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of a base distribution's samples after `transforms`, one after the other."""

    arg_constraints: ClassVar[Any] = {}
    _batched: ClassVar[dict[str, int]] = {}

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(transforms, Transform):
            transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(one, Transform) for one in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        self.transforms: list[Any] = transforms
        transform = ComposeTransform(transforms)
        takes, gives = transform.domain.event_dim, transform.codomain.event_dim
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_event_dim = len(base_distribution.event_shape)
        if len(base_shape) < takes:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {takes}, "
                f"but got {base_shape}."
            )
        shape = Size(transform.forward_shape(base_shape))
        wide = Size(transform.inverse_shape(shape))
        if base_shape != wide:
            base_distribution = base_distribution.expand(wide[: len(wide) - base_event_dim])
        if takes > base_event_dim:
            base_distribution = Independent(base_distribution, takes - base_event_dim)
        self.base_dist: Any = base_distribution
        cut = len(shape) - max(gives, base_event_dim + gives - takes)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expand_into(self, new: Any, batch_shape: Size) -> None:
        shape: Any = Size((*batch_shape, *self._event_shape))
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        super()._expand_into(new, batch_shape)
        batch_axes = len(shape) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(Size(shape[:batch_axes]))

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """Return the constraint that all samples satisfy."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        if len(self._event_shape) > support.event_dim:
            return constraints.independent(support, len(self._event_shape) - support.event_dim)
        return support

    @property
    def has_rsample(self) -> bool:
        """Return whether rsample() is supported."""
        return bool(self.base_dist.has_rsample)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        with no_grad():
            return self._mapped_sample(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        return self._mapped_sample(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self._event_shape)
        log_prob: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            stretched = transform.log_abs_det_jacobian(x, y)
            log_prob = log_prob - sum_rightmost(stretched, event_dim - transform.domain.event_dim)
            y = x
        at_base = self.base_dist.log_prob(y)
        axes = event_dim - len(self.base_dist.event_shape)
        return log_prob + sum_rightmost(at_base, axes)

    def cdf(self, value: Any) -> Tensor:
        """Return the probability that a sample is at most value."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Tensor:
        """Return the quantile for the probability `value`."""
        return self._transformed(self.base_dist.icdf(self._turned(value)))

    def _mapped_sample(self, x: Any) -> Tensor:
        """Transform samples x of the base distribution; keep results off the support's boundary."""
        for transform in self.transforms:
            x = transform(transform._kept_in_range(x))
        return kept_finite_in_halves(x)

    def _transformed(self, x: Any) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def _turned(self, probability: Any) -> Any:
        """Return `probability`, but 1 - probability where the composed transform is decreasing."""
        sign = ComposeTransform(self.transforms).sign
        if isinstance(sign, int):
            return probability if sign == 1 else 1 - probability
        return where(sign > 0, probability, 1 - probability)
