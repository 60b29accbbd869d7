"""Probability distributions as in PyTorch: sampling, densities, transforms, constraints, KL.

Each distribution defines the constraints of its parameters, its formulas, and `_batched`: the
attributes that `distribution.py` expands with the batch. Related distributions share a file, and
PyTorch's file names are aliases for these files. `matrices.py` has the matrix factorizations.
"""

from __future__ import annotations

import sys

from ..core.missing import explain_missing
from . import (
    bernoulli,
    categorical,
    constraints,
    counts,
    gamma,
    kl_families,
    kl_pairs,
    multivariate_normal,
    normal,
    relaxed,
    transformed_families,
    transforms,
    wishart,
)
from .bernoulli import Bernoulli, ContinuousBernoulli, Geometric
from .categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from .constraint_registry import biject_to, transform_to
from .counts import Binomial, NegativeBinomial, Poisson
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .gamma import Beta, Chi2, Dirichlet, Exponential, FisherSnedecor, Gamma, StudentT
from .generalized_pareto import GeneralizedPareto
from .independent import Independent
from .kl import kl_divergence, register_kl
from .mixture_same_family import MixtureSameFamily
from .multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from .normal import Cauchy, Laplace, Normal, Uniform, VonMises
from .relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from .transformed_distribution import TransformedDistribution
from .transformed_families import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from .transforms import *  # noqa: F403 (its __all__)
from .wishart import LKJCholesky, Wishart

# PyTorch has one file for each distribution. The names of those files are aliases here, so that
# `from torch.distributions.beta import Beta` works.
for _home, _files in {
    bernoulli: ("continuous_bernoulli", "geometric"),
    categorical: ("multinomial", "one_hot_categorical"),
    counts: ("binomial", "negative_binomial", "poisson"),
    gamma: ("beta", "chi2", "dirichlet", "exponential", "fishersnedecor", "studentT"),
    multivariate_normal: ("lowrank_multivariate_normal",),
    normal: ("cauchy", "laplace", "uniform", "von_mises"),
    relaxed: ("relaxed_bernoulli", "relaxed_categorical"),
    transformed_families: (
        "gumbel", "half_cauchy", "half_normal", "inverse_gamma", "kumaraswamy", "log_normal",
        "logistic_normal", "pareto", "weibull",
    ),
    wishart: ("lkj_cholesky",),
}.items():  # fmt: skip
    for _file in _files:
        globals()[_file] = sys.modules[f"{__name__}.{_file}"] = _home

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraints",
    "kl_divergence",
    "kl_families",
    "kl_pairs",
    "register_kl",
    "transform_to",
    "transforms",
]
__all__ += transforms.__all__

explain_missing(__name__)
