"""Independent, which turns batch axes of a distribution into event axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..tensor.layout import Size
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import sum_rightmost

__all__ = ["Independent"]


class Independent(Distribution):
    """A base distribution whose last reinterpreted_batch_ndims batch axes become event axes."""

    arg_constraints: ClassVar[Any] = {}
    _batched: ClassVar[dict[str, int]] = {}

    def __init__(
        self,
        base_distribution: Any,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > batch:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {batch}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = batch - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def __class_getitem__(cls, base: Any) -> Any:
        """Return the class itself, so that annotations may be written as `Independent[Normal]`."""
        return cls

    def _expand_into(self, new: Any, batch_shape: Size) -> None:
        own = self._event_shape[: self.reinterpreted_batch_ndims]
        super()._expand_into(new, batch_shape)
        new.base_dist = self.base_dist.expand(Size((*batch_shape, *own)))

    @property
    def has_rsample(self) -> bool:
        """Return whether rsample() is supported."""
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:
        """Return whether enumerate_support() is supported."""
        return self.reinterpreted_batch_ndims == 0 and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        """Return the constraint that all samples satisfy."""
        support = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            return constraints.independent(support, self.reinterpreted_batch_ndims)
        return support

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density or probability at value."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values along a new first axis."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
