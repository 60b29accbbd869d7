"""MixtureSameFamily, a mixture of distributions of the same family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..graph.modes import no_grad
from ..ops.nn.softmax import log_softmax
from ..tensor.tensor import Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .utils import is_compatible

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture of the distributions along the last batch axis; a Categorical selects one."""

    arg_constraints: ClassVar[Any] = {}
    has_rsample = False
    _batched: ClassVar = {"_mixture_distribution": 0, "_component_distribution": 1}

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                f"torch.distributions.Categorical, got {type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                f"torch.distributions.Distribution, got {type(component_distribution).__name__}"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        mixed, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        if not is_compatible(mixed, batch):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                f"`component_distribution.batch_shape`({batch})"
            )
        self._num_component = mixture_distribution.param_shape[-1]
        components = component_distribution.batch_shape[-1]
        if self._num_component != components:
            raise ValueError(
                f"`mixture_distribution component` ({self._num_component}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch, event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        """Return the constraint that all samples satisfy."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """Return the Categorical that selects the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """Return the distribution whose last batch axis has the components."""
        return self._component_distribution

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self._mixed(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        away = self.component_distribution.mean - self._pad(self.mean)
        return self._mixed(self.component_distribution.variance) + self._mixed(away.square())

    def cdf(self, x: Any) -> Tensor:
        """Return the probability that a sample is at most x."""
        below = self.component_distribution.cdf(self._pad(x))
        return (below * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Tensor:
        """Return the logarithm of the density or probability at x."""
        if self._validate_args:
            self._validate_sample(x)
        each = self.component_distribution.log_prob(self._pad(x))
        return (each + log_softmax(self.mixture_distribution.logits, dim=-1)).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        with no_grad():
            axis = len(sample_shape) + len(self._batch_shape)
            chosen = self.mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            each = self.component_distribution.sample(sample_shape)
            places = chosen.reshape((*chosen.shape, 1, *(1 for _ in self._event_shape)))
            places = places.expand((*chosen.shape, 1, *self._event_shape))
            return each.gather(axis, places).squeeze(axis)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    def _mixed(self, each: Tensor) -> Tensor:
        """Return the mean of the components' values, weighted by the components' probabilities."""
        probs = self.mixture_distribution.probs
        probs = probs.reshape((*probs.shape, *(1 for _ in range(self._event_ndims))))
        return (probs * each).sum(-1 - self._event_ndims)

    def __repr__(self) -> str:
        inside = f"\n  {self.mixture_distribution},\n  {self.component_distribution}"
        return f"MixtureSameFamily({inside})"
