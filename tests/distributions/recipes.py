"""One distribution of each family, as an expression; `d` is the library, `t` makes a tensor.

tests/distributions/torch_results.json has PyTorch's results at the points listed here.
"""

from __future__ import annotations

from typing import Any

# name -> (a distribution, the points at which log_prob and, if it exists, cdf are compared)
FAMILIES: dict[str, tuple[str, Any]] = {
    "Bernoulli": ("d.Bernoulli(t([0.2, 0.7]))", [[0, 1], [1, 0]]),
    "Bernoulli of logits": ("d.Bernoulli(logits=t([-3.0, 40.0]))", [[0, 1], [1, 0]]),
    "Beta": ("d.Beta(t([0.5, 4.0]), t([2.0, 3.0]))", [[0.1, 0.7], [0.9, 0.01]]),
    "Binomial": ("d.Binomial(7, t([0.3, 0.9]))", [[0, 7], [3, 5]]),
    "Binomial of logits": ("d.Binomial(t([4.0, 9.0]), logits=t([1.0, -2.0]))", [[4, 0], [2, 3]]),
    "Categorical": ("d.Categorical(t([[1.0, 2.0, 5.0], [0.0, 1.0, 1.0]]))", [[0, 1], [2, 2]]),
    "Categorical of logits": ("d.Categorical(logits=t([0.3, -2.0, 9.0]))", [0, 1, 2]),
    "Cauchy": ("d.Cauchy(t([0.3, -1.0]), t([0.5, 2.0]))", [[0.0, 50.0], [-3.0, -1.0]]),
    "Chi2": ("d.Chi2(t([3.0, 0.7]))", [[0.2, 1.0], [9.0, 0.01]]),
    "ContinuousBernoulli": ("d.ContinuousBernoulli(t([0.99, 0.5]))", [[0.3, 0.6], [0.9, 0.1]]),
    "Dirichlet": ("d.Dirichlet(t([[0.5, 2.0, 3.0], [1.0, 1.0, 9.0]]))", [0.2, 0.5, 0.3]),
    "Exponential": ("d.Exponential(t([0.7, 20.0]))", [[0.5, 0.1], [9.0, 1.0]]),
    "FisherSnedecor": (
        "d.FisherSnedecor(t([4.0, 6.0]), t([12.0, 9.0]))", [[0.5, 2.0], [1.0, 9.0]]
    ),
    "Gamma": ("d.Gamma(t([0.5, 40.0]), t([1.0, 2.0]))", [[0.1, 20.0], [3.0, 11.0]]),
    "GeneralizedPareto": (
        "d.GeneralizedPareto(t([0.0, 1.0, 0.0]), t([1.0, 2.0, 1.0]), t([0.0, 0.2, -0.25]))",
        [[0.5, 1.5, 0.5], [3.0, 40.0, 3.9]],
    ),
    "Geometric": ("d.Geometric(t([0.3, 0.7]))", [[0, 3], [12, 1]]),
    "Gumbel": ("d.Gumbel(t([0.0, 1.0]), t([0.5, 2.0]))", [[-0.5, 0.0], [3.0, 20.0]]),
    "HalfCauchy": ("d.HalfCauchy(t([0.5, 2.0]))", [[0.1, 1.0], [70.0, 3.0]]),
    "HalfNormal": ("d.HalfNormal(t([0.5, 2.0]))", [[0.1, 1.0], [2.0, 9.0]]),
    "Independent": ("d.Independent(d.Normal(t([0.3, -1.0]), t([0.5, 2.0])), 1)", [0.0, 1.0]),
    "InverseGamma": ("d.InverseGamma(t([5.0, 3.5]), t([1.0, 2.0]))", [[0.1, 1.0], [2.0, 9.0]]),
    "Kumaraswamy": ("d.Kumaraswamy(t([2.0, 0.5]), t([2.0, 1.5]))", [[0.1, 0.5], [0.9, 0.01]]),
    "LKJCholesky": ("d.LKJCholesky(2, t([0.5, 3.0]))", [[1.0, 0.0], [0.6, 0.8]]),
    "Laplace": ("d.Laplace(t([0.3, -1.0]), t([0.5, 2.0]))", [[0.0, 5.0], [-3.0, -1.0]]),
    "LogNormal": ("d.LogNormal(t([0.0, 0.3]), t([0.3, 1.4]))", [[0.5, 1.0], [3.0, 0.01]]),
    "LogisticNormal": ("d.LogisticNormal(t([0.1, -0.4]), t([0.5, 2.0]))", [0.2, 0.5, 0.3]),
    "LowRankMultivariateNormal": (
        "d.LowRankMultivariateNormal(t([0.1, -0.4, 2]), t([[1.0], [0.5], [-2.0]]), t([0.5, 2, 1]))",
        [[0.2, 0.5, 0.3], [-1.0, 3.0, 0.0]],
    ),
    "MixtureSameFamily": (
        "d.MixtureSameFamily(d.Categorical(t([0.2, 0.8])), d.Normal(t([-1.0, 2.0]), t([0.5, 1])))",
        [-1.0, 0.5, 4.0],
    ),
    "Multinomial": ("d.Multinomial(5, t([0.2, 0.3, 0.5]))", [[1, 1, 3], [5, 0, 0]]),
    "MultivariateNormal": (
        "d.MultivariateNormal(t([0.1, -0.4]), t([[2.0, 0.5], [0.5, 1.0]]))",
        [[0.2, 0.5], [-1.0, 3.0]],
    ),
    "NegativeBinomial": ("d.NegativeBinomial(t([3.0, 5.5]), t([0.3, 0.6]))", [[0, 3], [12, 40]]),
    "Normal": ("d.Normal(t([0.3, -1.0]), t([0.5, 2.0]))", [[0.0, 5.0], [-3.0, -1.0]]),
    "OneHotCategorical": ("d.OneHotCategorical(t([0.2, 0.3, 0.5]))", [[1, 0, 0], [0, 0, 1]]),
    "OneHotCategoricalStraightThrough": (
        "d.OneHotCategoricalStraightThrough(logits=t([0.2, 0.3, 5.0]))", [[1, 0, 0], [0, 0, 1]]
    ),
    "Pareto": ("d.Pareto(t([1.0, 2.0]), t([3.0, 2.5]))", [[1.5, 2.0], [30.0, 4.0]]),
    "Poisson": ("d.Poisson(t([0.5, 40.0]))", [[0, 35], [3, 60]]),
    "RelaxedBernoulli": ("d.RelaxedBernoulli(t(0.9), t([0.3, 0.6]))", [[0.1, 0.5], [0.9, 0.99]]),
    "RelaxedOneHotCategorical": (
        "d.RelaxedOneHotCategorical(t(0.9), t([0.2, 0.3, 0.5]))", [0.2, 0.5, 0.3]
    ),
    "StudentT": (
        "d.StudentT(t([7.0, 2.5]), t([0.0, 1.0]), t([1.0, 2.0]))", [[0.5, 1.0], [-9.0, 30.0]]
    ),
    "TransformedDistribution": (
        "d.TransformedDistribution(d.Normal(t([0.0, 1.0]), t([1.0, 0.5])), d.ExpTransform())",
        [[0.5, 1.0], [9.0, 0.1]],
    ),
    "Uniform": ("d.Uniform(t([0.0, -1.0]), t([0.5, 2.0]))", [[0.0, 1.0], [0.4, -0.5]]),
    "VonMises": ("d.VonMises(t([0.3, -1.0]), t([0.5, 20.0]))", [[0.0, -1.2], [3.0, 0.0]]),
    "Weibull": ("d.Weibull(t([1.0, 2.0]), t([1.5, 0.7]))", [[0.5, 1.0], [3.0, 0.01]]),
    "Wishart": (
        "d.Wishart(t(4.0), t([[2.0, 0.5], [0.5, 1.0]]))", [[3.0, 0.5], [0.5, 2.0]]
    ),
}  # fmt: skip
# Pairs of families whose KL divergence is known and finite.
DIVERGENCES = (
    "Bernoulli Bernoulli", "Bernoulli Poisson", "Beta Beta", "Beta ContinuousBernoulli",
    "Beta Exponential", "Beta Gamma", "Beta Normal", "Binomial Binomial", "Categorical Categorical",
    "Cauchy Cauchy", "ContinuousBernoulli ContinuousBernoulli", "ContinuousBernoulli Exponential",
    "ContinuousBernoulli Normal", "Dirichlet Dirichlet", "Exponential Exponential",
    "Exponential Gamma", "Exponential Gumbel", "Exponential Normal", "Gamma Exponential",
    "Gamma Gamma", "Gamma Gumbel", "Gamma Normal", "Geometric Geometric", "Gumbel Gumbel",
    "Gumbel Normal", "HalfNormal HalfNormal", "Independent Independent", "Laplace Laplace",
    "Laplace Normal", "LogNormal LogNormal",
    "LowRankMultivariateNormal LowRankMultivariateNormal", "MultivariateNormal MultivariateNormal",
    "Normal Gumbel", "Normal Laplace", "Normal Normal", "OneHotCategorical OneHotCategorical",
    "Pareto Exponential", "Pareto Gamma", "Pareto Normal", "Pareto Pareto", "Poisson Poisson",
    "Uniform Beta", "Uniform ContinuousBernoulli", "Uniform Exponential", "Uniform Gamma",
    "Uniform Gumbel", "Uniform Normal", "Uniform Pareto", "Uniform Uniform", "Wishart Wishart",
)  # fmt: skip
# The second distribution of a pair, whose parameters differ from those in FAMILIES.
SECONDS: dict[str, str] = {
    "Bernoulli": "d.Bernoulli(t([0.4, 0.1]))",
    "Beta": "d.Beta(t([1.5, 1.0]), t([0.9, 2.0]))",
    "Binomial": "d.Binomial(7, t([0.5, 0.2]))",
    "Categorical": "d.Categorical(t([[2.0, 2.0, 1.0], [1.0, 1.0, 3.0]]))",
    "Cauchy": "d.Cauchy(t([0.0, 1.0]), t([1.5, 1.0]))",
    "ContinuousBernoulli": "d.ContinuousBernoulli(t([0.4]))",
    "Dirichlet": "d.Dirichlet(t([1.5, 1.0, 2.0]))",
    "Exponential": "d.Exponential(t([1.7, 2.0]))",
    "Gamma": "d.Gamma(t([1.5, 4.0]), t([2.0, 0.7]))",
    "Geometric": "d.Geometric(t([0.5, 0.2]))",
    "Gumbel": "d.Gumbel(t([0.4, -1.0]), t([1.5, 1.0]))",
    "HalfNormal": "d.HalfNormal(t([1.5, 1.0]))",
    "Independent": "d.Independent(d.Normal(t([1.3, 1.0]), t([1.5, 0.5])), 1)",
    "Laplace": "d.Laplace(t([1.3, 1.0]), t([1.5, 0.5]))",
    "LogNormal": "d.LogNormal(t([1.3, 1.0]), t([1.5, 0.5]))",
    "LowRankMultivariateNormal": "d.LowRankMultivariateNormal(t([0.0, 0.0, 1.0]), "
    "t([[0.0], [1.5], [1.0]]), t([1.5, 1.0, 1.0]))",
    "MultivariateNormal": "d.MultivariateNormal(t([1.1, 0.4]), t([[1.0, -0.5], [-0.5, 3.0]]))",
    "Normal": "d.Normal(t([1.3, 1.0]), t([1.5, 0.5]))",
    "OneHotCategorical": "d.OneHotCategorical(t([0.4, 0.5, 0.1]))",
    "Pareto": "d.Pareto(t([0.5, 1.0]), t([1.0, 2.0]))",
    "Poisson": "d.Poisson(t([1.5, 20.0]))",
    "Uniform": "d.Uniform(t([-1.0, -1.5]), t([1.5, 3.0]))",
    "Wishart": "d.Wishart(t(5.0), t([[1.0, 0.0], [0.0, 3.0]]))",
}
# The first distribution of pairs like "Uniform Beta"; it lies within the support of the second.
WITHIN = "d.Uniform(t([0.1, 0.2]), t([0.5, 0.9]))"
