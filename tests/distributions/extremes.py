"""Source code of distributions with extreme parameters; `d` is the library, `t` makes a tensor."""

from __future__ import annotations

EXTREMES: dict[str, tuple[str, ...]] = {
    "Bernoulli": ("d.Bernoulli(t([0.0, 1e-30, 0.5, 1.0]))", "d.Bernoulli(logits=t([-80.0, 80.0]))"),
    "Beta": ("d.Beta(t([0.01, 1e-4, 500.0, 0.01]), t([0.01, 1e-4, 0.01, 2e4]))",),
    "Binomial": ("d.Binomial(t([1.0, 1e6, 40.0, 1e6]), t([0.5, 1e-7, 0.999, 0.5]))",),
    "Categorical": (
        "d.Categorical(t([0.0, 1e-30, 1.0, 1e-3]))",
        "d.Categorical(logits=t([-90.0, 9.0]))",
    ),
    "Cauchy": ("d.Cauchy(t([0.0, 1e8, -1e8]), t([1e-6, 1.0, 1e8]))",),
    "Chi2": ("d.Chi2(t([1e-3, 0.02, 1e6]))",),
    "ContinuousBernoulli": (
        "d.ContinuousBernoulli(t([0.0, 1e-6, 0.4995, 0.999999, 1.0]))",
        "d.ContinuousBernoulli(logits=t([-60.0, 60.0, 0.0, -700.0, 700.0]))",
    ),
    "Dirichlet": ("d.Dirichlet(t([[0.01, 0.01, 0.01], [1e-4, 1e-4, 1e-4], [0.01, 500.0, 2e4]]))",),
    "Exponential": ("d.Exponential(t([1e-6, 1.0, 1e6]))",),
    "FisherSnedecor": ("d.FisherSnedecor(t([0.02, 0.02, 1e5]), t([0.02, 1e5, 0.02]))",),
    "Gamma": ("d.Gamma(t([1e-4, 0.01, 1e6, 0.01]), t([1.0, 1e-6, 1e6, 1e6]))",),
    "GeneralizedPareto": (
        "d.GeneralizedPareto(t([0.0, 5.0, -1e3]), t([1e-3, 1.0, 1e3]), t([-0.9, 30.0, 1e-9]))",
        "d.GeneralizedPareto(t([0.1, 0.0]), t([0.7, 3.0]), t([-3.0, -1.0]))",
        "d.GeneralizedPareto(t([1.0, -1.0, 1e3]), t([1e-3, 1e-3, 1.0]), t([-50.0, -50.0, -8.0]))",
    ),
    "Geometric": (
        "d.Geometric(t([1e-5, 0.5, 0.999999, 1.0]))",
        "d.Geometric(logits=t([-100.0, -800.0, 0.0]))",
    ),
    "Gumbel": ("d.Gumbel(t([0.0, 1e4, -3.0]), t([1e-3, 1.0, 1e4]))",),
    "HalfCauchy": ("d.HalfCauchy(t([1e-6, 1.0, 1e8]))",),
    "HalfNormal": ("d.HalfNormal(t([1e-6, 1.0, 1e6]))",),
    "Independent": ("d.Independent(d.Beta(t([0.01, 1e-4]), t([0.01, 1e-4])), 1)",),
    "InverseGamma": ("d.InverseGamma(t([1e-4, 0.01, 1e5, 0.01]), t([1.0, 1e-6, 1e5, 1e6]))",),
    "Kumaraswamy": ("d.Kumaraswamy(t([0.01, 1e-3, 300.0, 0.02]), t([0.01, 1e-3, 0.02, 300.0]))",),
    "LKJCholesky": (
        "d.LKJCholesky(2, t([1e-8, 1e4]))",
        "d.LKJCholesky(5, t([1e-8, 1.0]))",
        "d.LKJCholesky(3, t([0.01, 1.0, 500.0]))",
        "d.LKJCholesky(2, t(0.01))",
    ),
    "Laplace": ("d.Laplace(t([0.0, 1e6]), t([1e-6, 1e6]))",),
    "LogNormal": ("d.LogNormal(t([0.0, -60.0, 60.0]), t([1e-3, 20.0, 20.0]))",),
    "LogisticNormal": ("d.LogisticNormal(t([-30.0, 0.0, 30.0]), t([10.0, 20.0, 10.0]))",),
    "LowRankMultivariateNormal": (
        "d.LowRankMultivariateNormal(t([0.0, 1e3]), t([[1.0], [1e3]]), t([1e-3, 1e-3]))",
    ),
    "MixtureSameFamily": (
        "d.MixtureSameFamily(d.Categorical(t([0.2, 0.8])), d.Beta(t([0.01, 3.0]), t([0.01, 0.1])))",
        "d.MixtureSameFamily(d.Categorical(t([1e-6, 1.0])), d.Normal(t([-9.0, 2e3]), t([1, 9.0])))",
    ),
    "Multinomial": ("d.Multinomial(40, t([0.0, 1e-6, 0.5, 0.5]))",),
    "MultivariateNormal": (
        "d.MultivariateNormal(t([0.0, 1e3]), t([[1.0, 0.9999], [0.9999, 1.0]]))",
        "d.MultivariateNormal(t([0.0, 0.0]), scale_tril=t([[1e-4, 0.0], [1e4, 1e-4]]))",
    ),
    "NegativeBinomial": (
        "d.NegativeBinomial(t([0.01, 5.0, 1e4]), t([0.999, 1e-6, 0.5]))",
        "d.NegativeBinomial(t([2.0, 2.0, 0.5, 1e3]), logits=t([100.0, 800.0, 80.0, 85.0]))",
    ),
    "Normal": ("d.Normal(t([0.0, 1e6]), t([1e-6, 1e6]))",),
    "OneHotCategorical": ("d.OneHotCategorical(t([0.0, 1e-30, 1.0, 1e-3]))",),
    "OneHotCategoricalStraightThrough": (
        "d.OneHotCategoricalStraightThrough(logits=t([-90.0, 0.0, 9.0]))",
    ),
    "Pareto": ("d.Pareto(t([1.0, 1e-3, 1e3]), t([0.01, 1.0, 1e4]))",),
    "Poisson": ("d.Poisson(t([0.0, 1e-6, 40.0, 1e6]))",),
    "RelaxedBernoulli": (
        "d.RelaxedBernoulli(t(0.01), t([0.01, 0.5, 0.999]))",
        "d.RelaxedBernoulli(t(50.0), logits=t([-30.0, 0.0, 300.0]))",
    ),
    "RelaxedOneHotCategorical": (
        "d.RelaxedOneHotCategorical(t(0.01), t([0.2, 0.3, 0.5]))",
        "d.RelaxedOneHotCategorical(t(20.0), logits=t([-30.0, 0.0, 30.0]))",
    ),
    "StudentT": ("d.StudentT(t([0.01, 0.1, 1e6]), t([0.0, 1.0, 1e3]), t([1.0, 1e3, 1e-3]))",),
    "TransformedDistribution": (
        "d.TransformedDistribution(d.Normal(t([0.0, 9.0]), t([9.0, 40.0])), d.SigmoidTransform())",
        "d.TransformedDistribution(d.Normal(t([0.0, -9.0]), t([9.0, 60.0])), d.ExpTransform())",
        "d.TransformedDistribution(d.Normal(t([0.0, 9.0]), t([9.0, 9.0])), d.TanhTransform())",
        "d.TransformedDistribution(d.Normal(t([0.0, -95.0]), t([9.0, 9])), d.SoftplusTransform())",
        *[
            f"d.TransformedDistribution({base}, d.CumulativeDistributionTransform({of}))"
            for base, of in (
                ("d.Normal(t([0.0, -40.0]), t([30.0, 1.0]))", "d.Normal(t(0.0), t(1.0))"),
                ("d.Normal(t([0.0, -40.0]), t([30.0, 1.0]))", "d.Laplace(t(0.0), t(1.0))"),
                ("d.Normal(t([0.0, -40.0]), t([30.0, 1.0]))", "d.Cauchy(t(0.0), t(1e-3))"),
                ("d.Exponential(t([1e-3, 1e3]))", "d.Exponential(t(1.0))"),
                ("d.HalfNormal(t([1e-3, 1e3]))", "d.HalfNormal(t(1.0))"),
                ("d.Weibull(t([1.0, 1e3]), t([0.3, 2.0]))", "d.Weibull(t(1.0), t(1.0))"),
            )
        ],
        (
            "d.TransformedDistribution(d.Uniform(t(0.0), t(1.0)), "
            "d.CumulativeDistributionTransform(d.Normal(t(0.0), t(1.0))).inv)"
        ),
    ),
    "Uniform": ("d.Uniform(t([0.0, 3.0, 1e6, -1e-6]), t([1e-6, 4.0, 1e6 + 1, 1e6]))",),
    "VonMises": (
        "d.VonMises(t([0.0, 3.1415925, -3.1415925]), t([1e-6, 1e3, 1.0]))",
        "d.VonMises(t([0.0, 3.0, -3.0, 1.0]), t([1e8, 2e8, 1e17, 1e30]))",
    ),
    "Weibull": ("d.Weibull(t([1.0, 1e-3, 1e3]), t([0.02, 0.3, 500.0]))",),
    "Wishart": (
        "d.Wishart(t(2.001), t([[1.0, 0.9], [0.9, 1.0]]))",
        "d.Wishart(t([2.001, 2.05]), t([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))",
        "d.Wishart(t(500.0), t([[1e-4, 0.0], [0.0, 1e4]]))",
    ),
}
# Distributions that are sampled in half types.
IN_HALVES = (
    "d.Uniform(t([0.0, 3.0, -1.0]), t([1.0, 4.0, 1e-3]))",
    "d.Normal(t([0.0, 3.0, 0.0]), t([1.0, 1e-3, 3e4]))",
    "d.Laplace(t([0.0, 3.0, 0.0, 0.0]), t([1.0, 1e-3, 1e4, 4e4]))",
    "d.Exponential(t([1.0, 1e-3, 1e3, 1e-5]))",
    "d.Gamma(t([0.01, 5.0, 50.0]), t([1.0, 1.0, 1e-3]))",
    "d.Beta(t([0.01, 5.0]), t([0.01, 0.01]))",
    "d.Dirichlet(t([0.01, 0.01, 5.0]))",
    "d.Cauchy(t([0.0, 3.0]), t([1.0, 100.0]))",
    "d.HalfCauchy(t([1.0, 100.0]))",
    "d.HalfNormal(t([1.0, 30.0]))",
    "d.Gumbel(t([0.0, 3.0, 0.0, 3e4]), t([1.0, 1e-2, 1e4, 1e4]))",
    "d.Kumaraswamy(t([0.1, 5.0]), t([0.1, 0.1]))",
    "d.Pareto(t([1.0, 2.0]), t([0.1, 3.0]))",
    "d.Weibull(t([1.0, 2.0, 1e-5]), t([0.1, 3.0, 1e-5]))",
    "d.LogNormal(t([0.0, 2.0]), t([0.1, 5.0]))",
    "d.StudentT(t([0.1, 3.0]))",
    "d.FisherSnedecor(t([0.1, 3.0]), t([0.1, 3.0]))",
    "d.InverseGamma(t([0.1, 3.0]), t([1.0, 3.0]))",
    "d.GeneralizedPareto(t([0.0, 1.0, 0.0]), t([1.0, 2.0, 3e4]), t([0.9, -0.5, 0.01]))",
    "d.GeneralizedPareto(t([1.0, -1.0]), t([1e-3, 0.1]), t([-50.0, -2.0]))",
    "d.RelaxedBernoulli(t(0.1), t([0.1, 0.5]))",
    "d.RelaxedOneHotCategorical(t(0.1), t([0.1, 0.5, 0.4]))",
    "d.LogisticNormal(t([0.0, 1.0]), t([1.0, 3.0]))",
    "d.ContinuousBernoulli(t([0.1, 0.9]))",
    "d.VonMises(t([0.0, 3.0]), t([1.0, 30.0]))",
    "d.Geometric(t([0.5, 0.01, 1e-7]))",
    "d.Categorical(t([0.5, 0.1, 0.4]))",
    # lgamma of these parameters overflows in float16.
    "d.Beta(t([1e4, 1e-4, 1e4, 3e4]), t([1e4, 1e4, 1e-4, 3e4]))",
    "d.Gamma(t([1e4, 1e4, 3e4]), t([1e4, 1.0, 1.0]))",
    "d.Dirichlet(t([[1e4, 1e4, 1e4], [1e-4, 1e4, 1.0]]))",
    "d.FisherSnedecor(t([1e4, 1e4, 1e-3]), t([1e4, 1e-3, 1e4]))",
    "d.InverseGamma(t([1e4, 1e4, 1e-4]), t([1e4, 1.0, 1.0]))",
    "d.Chi2(t([1e4, 6e4, 1e-4]))",
    "d.StudentT(t([1e4, 6e4, 1e-3]))",
    "d.Poisson(t([1e4, 6e4, 1e-4, 0.0]))",
    "d.Binomial(t([1e4, 6e4, 2e3]), t([0.5, 1e-4, 0.999]))",
    "d.NegativeBinomial(t([1e4, 1e-2, 1e4]), t([0.5, 0.99, 0.1]))",
    "d.NegativeBinomial(t([1e4, 1e-2, 5.0]), logits=t([-300.0, 30.0, 0.0]))",
    "d.Multinomial(1000, t([0.2, 0.3, 0.5]))",
    "d.LKJCholesky(3, t([1e-4, 1e4]))",
    # The differences between samples and location overflow.
    "d.Normal(t([0.0, 1e4]), t([1e-4, 6e4]))",
    "d.Laplace(t([0.0, 1e4]), t([1e-4, 6e4]))",
    "d.Cauchy(t([1e4, -1e4]), t([1.0, 1e4]))",
    "d.ContinuousBernoulli(logits=t([-60.0, 60.0, 0.0, 700.0]))",
    "d.Geometric(logits=t([-100.0, 0.0, 700.0]))",
    "d.MixtureSameFamily(d.Categorical(t([0.2, 0.8])), d.Beta(t([0.01, 1e4]), t([0.01, 0.1])))",
    "d.TransformedDistribution(d.Normal(t([0.0, 9.0]), t([9.0, 40.0])), d.AffineTransform(1, 1e4))",
    (
        "d.TransformedDistribution(d.Normal(t([0.0, 3.0, -40.0]), t([1.0, 30.0, 1.0])), "
        "d.CumulativeDistributionTransform(d.Normal(t(0.0), t(1.0))))"
    ),
    "d.LogisticNormal(t([0.0, -9.0, 3.0]), t([1.0, 30.0, 30.0]))",
)
