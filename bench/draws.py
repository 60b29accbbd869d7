"""Random numbers: samples of distributions, and indices drawn with given probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import Case, Row, compare, peer_torch, stopwatch

STATEMENTS = {
    "randn 64 x 8": "L.randn(64, 8)",
    "randn 1e6": "L.randn(1_000_000)",
    "rand 1e6": "L.rand(1_000_000)",
    "multinomial of 65": "L.multinomial(chances[0], 1)",
    "multinomial of 32 rows of 65": "L.multinomial(chances, 1)",
    "multinomial of 64 rows of 1000": "L.multinomial(wide, 1)",
    "multinomial of 64 rows of 1000, 100 of each": "L.multinomial(wide, 100)",
    "multinomial of 64 rows of 1000, 100 of each, replaced": "L.multinomial(wide, 100, True)",
    "Categorical, new, sample, log_prob": "(d := D.Categorical(chances)).log_prob(d.sample())",
    "Categorical sample": "categorical.sample()",
    "Normal sample 64 x 8": "normal.sample()",
    "Normal sample 1000 x 64 x 8": "normal.sample((1000,))",
    "Bernoulli sample 32 x 65": "bernoulli.sample()",
    "Uniform sample 64 x 8": "uniform.sample()",
    "Gamma sample 64 x 8": "gamma.sample()",
}


def run(rounds: int) -> list[Row]:
    """Compare each draw; ours against torch."""
    import fastdist

    torch = peer_torch()
    cases = []
    for name, statement in STATEMENTS.items():
        ours = stopwatch(_work(fastdist, statement))
        peer = stopwatch(_work(torch, statement)) if torch else None
        cases.append(Case(name, ours, peer, 1.0))
    return compare(cases, rounds)


def _work(library: Any, statement: str) -> Callable[[], Any]:
    import numpy as np

    family = library.distributions
    rng = np.random.default_rng(0)
    chances, wide, scale = (
        library.tensor(rng.random(shape, np.float32) + 0.1)
        for shape in ((32, 65), (64, 1000), (64, 8))
    )
    names = {
        "L": library, "D": family, "chances": chances, "wide": wide,
        "categorical": family.Categorical(chances), "normal": family.Normal(scale, scale),
        "bernoulli": family.Bernoulli(chances / 2), "uniform": family.Uniform(scale, scale + 1),
        "gamma": family.Gamma(scale, scale),
    }  # fmt: skip
    function: Callable[[], Any] = eval(f"lambda: {statement}", names)
    return function
