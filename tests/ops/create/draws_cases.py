"""Random results have no reference formula: test_random_distributions.py tests the samplers."""

from __future__ import annotations

import math

import numpy as np

import fastdist as fd
from fastdist.namespace.names import words
from tests.ops.cases import case

CASES = {
    "mvlgamma": [
        case(
            lambda x: fd.mvlgamma(x, 2),
            np.vectorize(lambda x: 0.5 * math.log(math.pi) + math.lgamma(x) + math.lgamma(x - 0.5)),
            (3,),
            low=1.0,
            high=4.0,
        )
    ],
}
COVERED_BY: dict[str, str] = {}
ELSEWHERE = words(
    "_sample_dirichlet _standard_gamma binomial cauchy_ exponential_ geometric_ log_normal_ "
    "multinomial poisson"
)
