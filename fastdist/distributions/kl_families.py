"""Kullback-Leibler divergences between two distributions of the same family."""

from __future__ import annotations

import math
from typing import Any

from ..autograd.differentiate import grad
from ..ops.nn.activation import logsigmoid
from ..ops.pointwise.masked import where
from ..tensor.tensor import Tensor
from .bernoulli import Bernoulli, ContinuousBernoulli, Geometric
from .categorical import Categorical, OneHotCategorical
from .counts import Binomial, Poisson
from .exp_family import ExponentialFamily
from .gamma import Beta, Dirichlet, Exponential, Gamma
from .independent import Independent
from .kl import kl_divergence, register_kl
from .matrices import half_log_det, mahalanobis, solve_lower
from .multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from .normal import Cauchy, Laplace, Normal, Uniform
from .transformed_distribution import TransformedDistribution
from .transformed_families import Gumbel, HalfNormal, Pareto
from .utils import euler_constant, sum_rightmost

E = euler_constant


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    ones = p.probs * (logsigmoid(p.logits) - logsigmoid(q.logits))
    ones = where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, ones))
    zeros = p._failure * (logsigmoid(-p.logits) - logsigmoid(-q.logits))
    return ones + where(p._failure == 0, 0.0, where(q._failure == 0, math.inf, zeros))


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    sum_p, sum_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    volume_q = q.concentration1.lgamma() + q.concentration0.lgamma() + sum_p.lgamma()
    volume_p = p.concentration1.lgamma() + p.concentration0.lgamma() + sum_q.lgamma()
    ones = (p.concentration1 - q.concentration1) * p.concentration1.digamma()
    zeros = (p.concentration0 - q.concentration0) * p.concentration0.digamma()
    return volume_q - volume_p + ones + zeros + (sum_q - sum_p) * sum_p.digamma()


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    rise = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return where(p.total_count > q.total_count, math.inf, p.total_count * rise)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    return where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, terms)).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    volume_p = p._cont_bern_log_norm() + (-p.probs).log1p()
    volume_q = q._cont_bern_log_norm() + (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + volume_p - volume_q


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    sum_p, sum_q = p.concentration.sum(-1), q.concentration.sum(-1)
    volume = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    slope = p.concentration.digamma() - sum_p.digamma().unsqueeze(-1)
    rise = ((p.concentration - q.concentration) * slope).sum(-1)
    return sum_p.lgamma() - sum_q.lgamma() - volume + rise


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Tensor:
    """Return the divergence as a Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    natural: list[Any] = [one.detach().requires_grad_() for one in p._natural_params]
    at_p = p._log_normalizer(*natural)
    slopes: Any = grad(at_p.sum(), natural, create_graph=True)
    result: Tensor = q._log_normalizer(*q._natural_params) - at_p
    for one, other, slope in zip(natural, q._natural_params, slopes, strict=True):
        term = (other - one) * slope
        batch = max(len(p.batch_shape), len(q.batch_shape))
        result = result - sum_rightmost(term, term.dim() - batch)
    return result


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    rates = q.concentration * (p.rate / q.rate).log()
    volume = q.concentration.lgamma() - p.concentration.lgamma()
    slope = (p.concentration - q.concentration) * p.concentration.digamma()
    means = (q.rate - p.rate) * (p.concentration / p.rate)
    return rates + volume + slope + means


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio, away = p.scale / q.scale, (q.loc - p.loc) / q.scale
    tail = (away + (1 + ratio).lgamma()).exp()
    return -ratio.log() - away + ratio * E + tail - (1 + E)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    tail = ratio * (-away / p.scale).exp()
    return -ratio.log() + away / q.scale + tail - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).square()
    away = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + away - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, math.inf, result)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    spread = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return spread.log() - (4 * p.scale * q.scale).log()


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "KL between transformed distributions needs equal transforms and event shapes"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL between Independents needs equal reinterpreted_batch_ndims, not "
            f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(MultivariateNormal, MultivariateNormal)
def _normal_vectors(p: Any, q: Any) -> Tensor:
    _require_equal_events(p, q, "two Multivariate Normals")
    own, other = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    spread = solve_lower(other, own).square().sum((-2, -1))
    away = mahalanobis(other, q.loc - p.loc)
    volume = half_log_det(other) - half_log_det(own)
    return volume + 0.5 * (spread + away - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Tensor:
    _require_equal_events(p, q, "two Low Rank Multivariate Normals")
    diagonal = p._unbroadcasted_cov_diag.sqrt()
    spread = (p._unbroadcasted_cov_diag / q._unbroadcasted_cov_diag).sum(-1)
    spread = spread + _spread(p._unbroadcasted_cov_factor, q)
    small = solve_lower(q._capacitance_tril, q._scaled_factor())
    spread = spread - (small * diagonal.unsqueeze(-2)).square().sum((-2, -1))
    return _low_rank_divergence(p, q, p.log_det(), spread)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _normal_vectors_low_rank(p: Any, q: Any) -> Tensor:
    _require_equal_events(p, q, "two (Low Rank) Multivariate Normals")
    own = p._unbroadcasted_scale_tril
    return _low_rank_divergence(p, q, 2 * half_log_det(own), _spread(own, q))


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_normal_vectors(p: Any, q: Any) -> Tensor:
    _require_equal_events(p, q, "two (Low Rank) Multivariate Normals")
    other = q._unbroadcasted_scale_tril
    spread = solve_lower(other, p.scale_tril).square().sum((-2, -1))
    away = mahalanobis(other, q.loc - p.loc)
    volume = 2 * half_log_det(other) - p.log_det()
    return 0.5 * (volume + spread + away - p.event_shape[0])


def _spread(factor: Tensor, q: Any) -> Tensor:
    """Return the trace of C @ factor @ factor.mT, where C is the inverse of q's covariance."""
    straight = factor * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)
    across = solve_lower(q._capacitance_tril, q._scaled_factor()) @ factor
    return straight.square().sum((-2, -1)) - across.square().sum((-2, -1))


def _low_rank_divergence(p: Any, q: Any, log_det: Tensor, spread: Tensor) -> Tensor:
    away = q.mahalanobis(q.loc - p.loc)
    volume = q.log_det() - log_det
    return 0.5 * (volume + spread + away - p.event_shape[0])


def _require_equal_events(p: Any, q: Any, what: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between {what} with different event shapes cannot be computed: "
            f"{tuple(p.event_shape)}, {tuple(q.event_shape)}"
        )
