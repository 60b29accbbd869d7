"""Exponential families, whose entropy is computed from derivatives of the log normalizer."""

from __future__ import annotations

from typing import Any

from ..autograd.differentiate import grad
from ..tensor.tensor import Tensor
from .distribution import Distribution
from .utils import sum_rightmost

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Base of distributions with a density exp(<t(x), theta> - F(theta) + k(x)).

    Here theta is `_natural_params`, F is `_log_normalizer`, and the mean of k is
    `_mean_carrier_measure`.

    Source  Nielsen and Nock 2010, "Entropies and cross-entropies of exponential families"
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy, computed as a Bregman divergence of the log normalizer."""
        natural: list[Any] = [one.detach().requires_grad_() for one in self._natural_params]
        log_normalizer = self._log_normalizer(*natural)
        gradients: Any = grad(log_normalizer.sum(), natural, create_graph=True)
        result: Tensor = log_normalizer - self._mean_carrier_measure
        for one, slope in zip(natural, gradients, strict=True):
            result = result - sum_rightmost(one * slope, slope.dim() - len(self._batch_shape))
        return result
