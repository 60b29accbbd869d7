"""Kullback-Leibler divergences between distributions of different families."""

from __future__ import annotations

import math
from typing import Any

from ..ops.create.creation import full_like
from ..ops.pointwise.masked import where
from ..tensor.tensor import Tensor
from .bernoulli import Bernoulli, ContinuousBernoulli
from .counts import Binomial, Poisson
from .gamma import Beta, Exponential, Gamma
from .kl import register_kl
from .normal import Laplace, Normal, Uniform
from .transformed_families import Gumbel, Pareto
from .utils import euler_constant

E = euler_constant
_SQRT_2PI = math.sqrt(2 * math.pi)

# Pairs with infinite divergence: samples of the first may be outside the support of the second.
_INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _infinite(p: Any, q: Any) -> Tensor:
    first = next(name for name in ("concentration1", "concentration", "loc", "scale", "rate",
                                   "probs") if hasattr(p, name))  # fmt: skip
    return full_like(getattr(p, first), math.inf)


for _p, _qs in _INFINITE.items():
    for _q in _qs:
        register_kl(_p, _q)(_infinite)


def _cross_gamma(q: Any) -> Any:
    """Return the terms of -log q(x) that do not depend on x, for a gamma distribution q."""
    return q.concentration.lgamma() - q.concentration * q.rate.log()


def _cross_normal(q: Any, mean: Any, square: Any) -> Any:
    """Return the mean of -log q(x) for a normal q, given the mean and the mean square of x."""
    away = square - 2 * q.loc * mean + q.loc.square()
    return math.log(_SQRT_2PI) + q.scale.log() + 0.5 * away / q.scale.square()


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Any, q: Any) -> Any:
    result = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()
    if isinstance(p, Beta):
        return result
    return where((p.high >= 1.0) | (p.low <= 0.0), math.inf, result)


@register_kl(Beta, Exponential)
@register_kl(Gamma, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
def _to_exponential(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Any:
    log_mean = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return -p.entropy() + _cross_gamma(q) - (q.concentration - 1) * log_mean + q.rate * p.mean


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
def _to_normal(p: Any, q: Any) -> Any:
    return -p.entropy() + _cross_normal(q, p.mean, p.variance + p.mean.square())


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Any:
    result = -p.entropy() + _cross_normal(q, p.mean, p.variance + p.mean.square())
    return where(p.alpha <= 2, math.inf, result)


@register_kl(Beta, Uniform)
def _beta_uniform(p: Any, q: Any) -> Any:
    result = -p.entropy() + (q.high - q.low).log()
    return where((q.low > 0.0) | (q.high < 1.0), math.inf, result)


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: Any, q: Any) -> Any:
    result = -p.entropy() + (q.high - q.low).log()
    return where((q.low >= 0.0) | (q.high <= 1.0), math.inf, result)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    volume = q.concentration.lgamma() + q.concentration * E
    return -q.concentration * ratio.log() + ratio + volume - (1 + E)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    product, away = p.rate * q.scale, q.loc / q.scale
    tail = away.exp() * product / (product + 1)
    return product.log() - 1 - away + tail + product.reciprocal()


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Any:
    product, away = p.rate * q.scale, q.loc / q.scale
    shape = p.concentration
    own = (shape - 1) * shape.digamma() - shape.lgamma() - shape
    tail = away.exp() * (1 + product.reciprocal()).pow(-shape)
    return own + product.log() + shape / product + tail - away


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Any:
    away, ratio = (p.loc - q.loc) / q.scale, (p.scale / q.scale).square()
    tail = (0.5 * ratio - away).exp()
    return away + tail - 0.5 * ratio.log() - 0.5 * (1 + math.log(2 * math.pi))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    away = p.loc - q.loc
    units = away / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * (-0.5 * units.square()).exp()
    far = away * (math.sqrt(0.5) * units).erf()
    constant = 0.5 * (1 + math.log(0.5 * math.pi))
    return (near + far) / q.scale - (p.scale / q.scale).log() - constant


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Any:
    product = p.scale * q.rate
    result = (p.alpha / product).log() - p.alpha.reciprocal() - 1
    return where(p.alpha <= 1, math.inf, result + p.alpha * product / (p.alpha - 1))


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Any:
    log_mean = p.scale.log() + p.alpha.reciprocal()
    own = p.alpha.log() - log_mean - 1
    cross = _cross_gamma(q) + (1 - q.concentration) * log_mean
    result = own + cross + q.rate * p.alpha * p.scale / (p.alpha - 1)
    return where(p.alpha <= 1, math.inf, result)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    width = p.high - p.low
    below, above = _log_mean(p.low, p.high), _log_mean(1 - p.high, 1 - p.low)
    total = q.concentration1 + q.concentration0
    volume = q.concentration1.lgamma() + q.concentration0.lgamma() - total.lgamma()
    slopes = (q.concentration1 - 1) * below + (q.concentration0 - 1) * above
    return where((p.high > 1.0) | (p.low < 0.0), math.inf, volume - width.log() - slopes)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Any:
    result = q.rate * p.mean - ((p.high - p.low) * q.rate).log()
    return where(p.low < 0.0, math.inf, result)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Any:
    cross = (1 - q.concentration) * _log_mean(p.low, p.high) + q.rate * p.mean
    result = _cross_gamma(q) - (p.high - p.low).log() + cross
    return where(p.low < 0.0, math.inf, result)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    width = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return width.log() + 0.5 * (high + low) - width * ((-high).exp() - (-low).exp())


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    width = p.high - p.low
    own = q.alpha.log() + q.alpha * q.scale.log() + width.log()
    result = _log_mean(p.low, p.high) * (q.alpha + 1) - own
    return where(p.low < q.scale, math.inf, result)


def _log_mean(low: Any, high: Any) -> Any:
    """Return the mean of log(x) for x uniform between low and high."""
    return (high.xlogy(high) - low.xlogy(low)) / (high - low) - 1
