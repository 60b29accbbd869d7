"""Each family: its density integrates to 1, its cdf is that integral, its samples follow it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import distributions as d


def t(*values: float) -> Any:
    return fastdist.tensor(values, dtype=fastdist.float64)


# name: (a function that makes distributions, an interval with all but 1e-4 of the probability)
CONTINUOUS: dict[str, tuple[Any, tuple[float, float]]] = {
    "Normal": (lambda: d.Normal(t(0.3, -1.0), t(0.5, 2.0)), (-15, 15)),
    "Laplace": (lambda: d.Laplace(t(0.3, -1.0), t(0.5, 1.0)), (-15, 15)),
    "Uniform": (lambda: d.Uniform(t(0.0, -1.0), t(0.5, 2.0)), (-1, 2)),
    "VonMises": (lambda: d.VonMises(t(0.3, -1.0), t(0.5, 20.0)), (-math.pi, math.pi)),
    "Exponential": (lambda: d.Exponential(t(0.7, 2.0)), (0, 30)),
    "Gamma": (lambda: d.Gamma(t(1.5, 4.0), t(1.0, 2.0)), (0, 30)),
    "Chi2": (lambda: d.Chi2(t(3.0, 5.0)), (0, 60)),
    "Beta": (lambda: d.Beta(t(1.5, 4.0), t(2.0, 3.0)), (0, 1)),
    "StudentT": (lambda: d.StudentT(t(7.0, 9.0), t(0.0, 1.0), t(1.0, 2.0)), (-90, 90)),
    "FisherSnedecor": (lambda: d.FisherSnedecor(t(4.0, 6.0), t(12.0, 20.0)), (0, 60)),
    "ContinuousBernoulli": (lambda: d.ContinuousBernoulli(t(0.2, 0.5)), (0, 1)),
    "LogNormal": (lambda: d.LogNormal(t(0.0, 0.3), t(0.3, 0.4)), (1e-9, 30)),
    "HalfNormal": (lambda: d.HalfNormal(t(0.5, 2.0)), (0, 20)),
    "Gumbel": (lambda: d.Gumbel(t(0.0, 1.0), t(0.5, 1.0)), (-8, 25)),
    "InverseGamma": (lambda: d.InverseGamma(t(5.0, 6.0), t(1.0, 2.0)), (1e-3, 60)),
    "Kumaraswamy": (lambda: d.Kumaraswamy(t(2.0, 3.0), t(2.0, 1.5)), (1e-9, 1 - 1e-9)),
    "Weibull": (lambda: d.Weibull(t(1.0, 2.0), t(1.5, 3.0)), (1e-9, 30)),
    "GeneralizedPareto": (
        lambda: d.GeneralizedPareto(t(0.0, 0.0), t(1.0, 1.0), t(0.0, -0.25)),
        (0, 30),
    ),
    "RelaxedBernoulli": (lambda: d.RelaxedBernoulli(t(0.9), t(0.3, 0.6)), (1e-9, 1 - 1e-9)),
}
NO_CDF = {"VonMises", "Beta", "StudentT", "FisherSnedecor", "RelaxedBernoulli"}
NO_MOMENTS = {"RelaxedBernoulli", "VonMises"}


def grid(name: str, count: int = 120_001) -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    make, (low, high) = CONTINUOUS[name]
    family = make()
    x = np.linspace(low, high, count)
    value = fastdist.tensor(x).unsqueeze(-1)
    inside = family.support.check(value)
    safe = fastdist.where(inside, value, family.sample())
    density = fastdist.where(inside, family.log_prob(safe).exp(), 0.0).numpy()
    return family, x, np.where(np.isfinite(density), density, 0.0)


def integral(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    parts = (y[1:] + y[:-1]) / 2 * (x[1:] - x[:-1])[:, None]
    return np.concatenate([np.zeros((1, y.shape[1])), np.cumsum(parts, 0)])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_density_integrates_to_1_and_gives_mean_variance_and_entropy(name: str) -> None:
    family, x, density = grid(name)
    np.testing.assert_allclose(integral(x, density)[-1], 1, atol=2e-3)
    if name in NO_MOMENTS:
        return
    mean = integral(x, density * x[:, None])[-1]
    np.testing.assert_allclose(family.mean.numpy(), mean, atol=1e-2)
    square = integral(x, density * (x[:, None] - mean) ** 2)[-1]
    np.testing.assert_allclose(family.variance.numpy(), square, rtol=2e-2)
    logs = np.log(np.where(density > 0, density, 1))
    if name != "FisherSnedecor" and name != "StudentT":
        entropy = -integral(x, density * logs)[-1]
        np.testing.assert_allclose(family.entropy().numpy(), entropy, atol=1e-2)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [name for name in CONTINUOUS if name not in NO_CDF])
def test_the_cdf_is_the_integral_of_the_density_and_icdf_its_inverse(name: str) -> None:
    family, x, density = grid(name)
    at = family.sample((5,))
    sums = integral(x, density)
    wanted = [[np.interp(v, x, sums[:, i]) for i, v in enumerate(row)] for row in at.tolist()]
    np.testing.assert_allclose(family.cdf(at).numpy(), wanted, atol=2e-3)
    if name not in ("Gamma", "Chi2", "InverseGamma"):
        p = t(0.1, 0.5, 0.9).unsqueeze(-1)
        np.testing.assert_allclose(family.cdf(family.icdf(p)).numpy(), p.expand(3, 2).numpy())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [name for name in CONTINUOUS if name not in NO_MOMENTS])
def test_samples_have_the_mean_and_the_variance_and_lie_in_the_support(name: str) -> None:
    fastdist.manual_seed(11)
    family = CONTINUOUS[name][0]()
    drawn = family.sample((40_000,))
    assert bool(family.support.check(drawn).all())
    error = 6 * family.stddev.numpy() / 200
    assert (np.abs(drawn.numpy().mean(0) - family.mean.numpy()) < error).all()
    np.testing.assert_allclose(drawn.numpy().var(0), family.variance.numpy(), rtol=0.2)


@pytest.mark.parametrize("name", [name for name in CONTINUOUS if name not in NO_MOMENTS])
def test_expanded_families_have_the_density_of_the_batch(name: str) -> None:
    family = CONTINUOUS[name][0]()
    wide = family.expand((3, 2))
    assert tuple(wide.batch_shape) == (3, 2)
    assert tuple(wide.sample((4,)).shape) == (4, 3, 2)
    x = family.sample()
    assert (wide.log_prob(x) == family.log_prob(x).expand(3, 2)).all()


DISCRETE: dict[str, Any] = {
    "Bernoulli": lambda: (d.Bernoulli(t(0.2, 0.7)), 2),
    "Geometric": lambda: (d.Geometric(t(0.3, 0.7)), 200),
    "Binomial": lambda: (d.Binomial(7, t(0.3, 0.7)), 8),
    "NegativeBinomial": lambda: (d.NegativeBinomial(t(3.0, 5.5), logits=t(-0.3, 0.2)), 300),
    "Poisson": lambda: (d.Poisson(t(0.5, 4.0)), 60),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_sum_to_1_and_samples_follow_them(name: str) -> None:
    fastdist.manual_seed(3)
    family, count = DISCRETE[name]()
    values = fastdist.arange(count, dtype=fastdist.float64).unsqueeze(-1)
    chances = family.log_prob(values).exp().numpy()
    np.testing.assert_allclose(chances.sum(0), 1, atol=1e-9)
    mean = (chances * values.numpy()).sum(0)
    np.testing.assert_allclose(family.mean.numpy(), mean, rtol=1e-6)
    np.testing.assert_allclose(
        family.variance.numpy(), (chances * (values.numpy() - mean) ** 2).sum(0), rtol=1e-6
    )
    drawn = family.sample((20_000,)).numpy()
    for value in range(3):
        share = chances[value] if value < count else 0
        assert (np.abs((drawn == value).mean(0) - share) < 0.02).all()


def test_a_categorical_draws_its_places_and_scores_them_in_a_step_of_reinforce() -> None:
    fastdist.manual_seed(0)
    logits = fastdist.tensor([[0.0, 1.0, 2.0]], requires_grad=True)
    policy = d.Categorical(logits=logits)
    drawn = policy.sample((30_000,))
    assert drawn.dtype is fastdist.int64 and tuple(drawn.shape) == (30_000, 1)
    share = np.bincount(drawn.numpy().reshape(-1), minlength=3) / 30_000
    np.testing.assert_allclose(share, policy.probs.detach().numpy()[0], atol=0.02)
    policy.log_prob(fastdist.tensor([2])).sum().backward()
    assert logits.grad is not None
    wanted = np.array([0, 0, 1]) - policy.probs.detach().numpy()[0]
    np.testing.assert_allclose(logits.grad.numpy()[0], wanted, atol=1e-6)
    assert isinstance(d.Categorical(probs=t(0.2, 0.8)).sample().item(), int)


def test_gradients_of_samples_are_those_of_the_quantile() -> None:
    loc, scale = t(1.0).requires_grad_(), t(2.0).requires_grad_()
    x = d.Normal(loc, scale).rsample()
    x.sum().backward()
    np.testing.assert_allclose(scale.grad.numpy(), ((x - loc) / scale).detach().numpy())
    assert not d.Normal(loc, scale).sample().requires_grad


def test_normal_vectors_have_the_density_of_their_covariance_however_it_is_told() -> None:
    generator = np.random.default_rng(1)
    a = generator.normal(size=(2, 3, 3))
    covariance = a @ a.transpose(0, 2, 1) + np.eye(3)
    loc, x = generator.normal(size=(2, 3)), generator.normal(size=(5, 2, 3))
    inverse = np.linalg.inv(covariance)
    away = np.einsum("sbi,bij,sbj->sb", x - loc, inverse, x - loc)
    wanted = -0.5 * (away + 3 * math.log(2 * math.pi) + np.linalg.slogdet(covariance)[1])
    tensors = {
        "covariance_matrix": covariance,
        "precision_matrix": inverse,
        "scale_tril": np.linalg.cholesky(covariance),
    }
    for name, matrix in tensors.items():
        family = d.MultivariateNormal(fastdist.tensor(loc), **{name: fastdist.tensor(matrix)})
        np.testing.assert_allclose(family.log_prob(fastdist.tensor(x)).numpy(), wanted)
        np.testing.assert_allclose(family.covariance_matrix.numpy(), covariance, atol=1e-9)
