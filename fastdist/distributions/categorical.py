"""Categorical, its one-hot forms, and Multinomial, which counts categorical samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.dtypes import int64
from ..graph.modes import no_grad
from ..namespace.limits import finfo
from ..ops.create.creation import full, ones_like, zeros
from ..ops.create.ranges import arange, eye
from ..ops.index.multinomial import multinomial
from ..ops.nn.one_hot import one_hot
from ..ops.nn.softmax import log_softmax
from ..tensor.layout import Size
from ..tensor.tensor import Tensor
from . import constraints
from .bernoulli import require_one
from .counts import Binomial
from .distribution import Distribution
from .half_types import computed_in_float32
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class Categorical(Distribution):
    """A random index along the last axis of `probs` or `logits`, which give its probabilities."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True
    _batched: ClassVar = {"probs": 1, "logits": 1}

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        require_one(probs, logits)
        if probs is not None:
            if probs.dim() < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self.probs = probs / probs.sum(-1, keepdim=True)
        elif logits is not None:
            if logits.dim() < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self.logits = log_softmax(logits, -1)
        shape = self.param_shape
        self._num_events = shape[-1]
        super().__init__(shape[:-1], validate_args=validate_args)

    @property
    def _param(self) -> Tensor:
        given = self.__dict__.get("probs")
        return self.logits if given is None else given

    @property
    def param_shape(self) -> Size:
        """Return the shape of the parameter."""
        return self._param.shape

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Return the constraint that all samples satisfy."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """Return the logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """Return the probabilities."""
        return logits_to_probs(self.logits)

    @property
    def mean(self) -> Tensor:
        """Return NaN, because indices have no mean."""
        shape, probs = self._extended_shape(), self.probs
        return full(shape, math.nan, dtype=probs.dtype, device=probs.device)

    @property
    def mode(self) -> Tensor:
        """Return the most likely index."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """Return NaN, because indices have no variance."""
        return self.mean

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        count = math.prod(sample_shape)
        with no_grad():
            rows = self.probs.reshape((-1, self._num_events))
            drawn = multinomial(rows, count, True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the probability of value."""
        if self._validate_args:
            self._validate_sample(value)
        places = value.to(int64).unsqueeze(-1)
        logits = self.logits
        if places.shape[:-1] != logits.shape[:-1]:
            wide, logits = broadcast_all(places, logits)
            places = wide[..., :1]
        return logits.gather(-1, places).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        # Clamped, so that 0 * log(0) gives 0.
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all indices along a new first axis."""
        values = arange(self._num_events, device=self._param.device)
        values = values.view((-1, *(1 for _ in self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class OverCategorical(Distribution):
    """Base of distributions of one or more samples of a Categorical, `_categorical`.

    The event axis has one element for each category.
    """

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    _categorical: Categorical

    @property
    def probs(self) -> Tensor:
        """Return the probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Return the logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def param_shape(self) -> Size:
        """Return the shape of the parameter."""
        return self._categorical.param_shape


class OneHotCategorical(OverCategorical):
    """One-hot vectors: a 1 at a random index, and 0 elsewhere."""

    support: Any = constraints.one_hot
    has_enumerate_support = True
    _batched: ClassVar = {"_categorical": 0}

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """Return the most likely one-hot vector."""
        return one_hot(self.probs.argmax(-1), self.probs.shape[-1]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        places = self._categorical.sample(sample_shape)
        return one_hot(places, self._categorical._num_events).to(self.probs.dtype)

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the probability of value."""
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all one-hot vectors along a new first axis."""
        n = self._event_shape[0]
        values = eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n, *(1 for _ in self._batch_shape), n))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot vectors whose gradients are computed as if samples were the probabilities.

    Source  Bengio et al. 2013, "Estimating or Propagating Gradients Through Stochastic Neurons"
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())


class Multinomial(OverCategorical):
    """The count of each category among `total_count` samples of a Categorical."""

    _batched: ClassVar = {"_categorical": 0, "_binomial": 1}

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        self._binomial = Binomial(total_count, self.probs)
        shape = self.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Return the constraint that all samples satisfy."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients."""
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = zeros(self._extended_shape(sample_shape), dtype=int64, device=drawn.device)
        return counts.scatter_add(-1, drawn, ones_like(drawn)).to(self.probs.dtype)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        n = self.total_count
        values = self._binomial.enumerate_support(expand=False)[1:]
        chances = self._binomial.log_prob(values).exp()
        orders = (chances * (values + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + orders

    @computed_in_float32
    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the probability of value."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)
