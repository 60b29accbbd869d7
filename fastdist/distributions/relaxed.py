"""Continuous relaxations of discrete distributions; samples approach 0 and 1 at low temperature.

Source  Maddison et al. 2017, "The Concrete Distribution"; Jang et al. 2017, "Categorical
        Reparameterization with Gumbel-Softmax"
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..ops.create.creation import as_tensor
from ..ops.create.random import rand
from ..ops.nn.activation import logsigmoid
from ..ops.nn.softmax import log_softmax
from ..tensor.tensor import Tensor
from . import constraints
from .bernoulli import Odds, require_one
from .categorical import Categorical, OverCategorical
from .number_transforms import ExpTransform, SigmoidTransform
from .transformed_distribution import TransformedDistribution
from .utils import broadcast_all, clamp_probs

__all__ = [
    "ExpRelaxedCategorical",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


class LogitRelaxedBernoulli(Odds):
    """The log odds of a relaxed Bernoulli sample."""

    support: Any = constraints.real
    has_rsample = True
    _batched: ClassVar = {"probs": 0, "logits": 0}

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        require_one(probs, logits)
        self.temperature = temperature
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        else:
            (self.logits,) = broadcast_all(logits)
            self._has_logits = True
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        logits = self.logits.expand(shape)
        u = clamp_probs(rand(shape, dtype=logits.dtype, device=logits.device))
        noise = u.log() - (-u).log1p()
        return (noise + logits) / self.temperature

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value * self.temperature
        return _log(self.temperature, value) + logsigmoid(away) + logsigmoid(-away)


class _Relaxed(TransformedDistribution):
    """Base class of relaxed distributions, which transform a base distribution.

    The base distribution has the same parameters; its samples are log odds or log probabilities.
    """

    @property
    def temperature(self) -> Any:
        """Return the temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Return the log odds, or the logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Return the probabilities."""
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """A relaxed Bernoulli sample, a number in (0, 1)."""

    arg_constraints: ClassVar[Any] = Odds.arg_constraints
    support: Any = constraints.unit_interval
    has_rsample: Any = True
    _batched: ClassVar[dict[str, int]] = {}

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(OverCategorical):
    """The logarithm of a relaxed one-hot vector."""

    support: Any = constraints.real_vector
    has_rsample = True
    _batched: ClassVar = {"_categorical": 0}

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        shape, logits = self._extended_shape(sample_shape), self.logits
        u = clamp_probs(rand(shape, dtype=logits.dtype, device=logits.device))
        scores: Tensor = (logits - (-u.log()).log()) / self.temperature
        # At low temperature the scores are large; log_softmax subtracts their maximum first.
        return log_softmax(scores, -1)

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density at value."""
        if self._validate_args:
            self._validate_sample(value)
        k = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        score = log_softmax(logits - value * self.temperature, -1).sum(-1)
        return score + math.lgamma(k) + (k - 1) * _log(self.temperature, value)


class RelaxedOneHotCategorical(_Relaxed):
    """A relaxed one-hot vector, a point of the simplex."""

    arg_constraints: ClassVar[Any] = OverCategorical.arg_constraints
    support: Any = constraints.simplex
    has_rsample: Any = True
    _batched: ClassVar[dict[str, int]] = {}

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)


def _log(temperature: Any, like: Tensor) -> Tensor:
    return as_tensor(temperature, dtype=like.dtype, device=like.device).log()
