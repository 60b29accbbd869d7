"""Samples at extreme parameters lie inside the support and have a finite log density.

Each class that `fastdist.distributions` exports has rows in extremes.py. The daily run draws 400
samples of each row and dtype; `--slow` draws 50,000.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import distributions as d

from .extremes import EXTREMES, IN_HALVES

FEW, MANY = 400, 50_000
WIDE = (fastdist.float32, fastdist.float64)
HALVES = (fastdist.float16, fastdist.bfloat16)
# Wishart warns if its degrees of freedom are fewer than the rows of its matrix.
LOW_DF = pytest.mark.filterwarnings("ignore:Low df values:UserWarning")


def family(text: str, dtype: Any, leaves: list[Any] | None = None) -> Any:
    def t(values: Any) -> Any:
        made = fastdist.tensor(values, dtype=dtype, requires_grad=leaves is not None)
        if leaves is not None:
            leaves.append(made)
        return made

    return eval(text, {"d": d, "t": t})


def faults(text: str, dtype: Any, count: int) -> list[str]:
    """Return a description of each fault of a distribution's samples and gradients."""
    fastdist.manual_seed(7)
    plain, leaves = family(text, dtype), list[Any]()
    kinds: dict[str, tuple[Any, Callable[[Any], Any]]] = {"sample": (plain, plain.sample)}
    if plain.has_rsample:
        with_gradients = family(text, dtype, leaves)
        kinds["rsample"] = with_gradients, with_gradients.rsample
    found = []
    for kind, (one, draw) in kinds.items():
        drawn = draw((count,))
        where = f"{kind} of {text} in {dtype.name}"
        outside = int((~one.support.check(drawn.detach())).sum())
        no_logs = int((~one.log_prob(drawn.detach()).isfinite()).sum())
        if outside or no_logs:
            found.append(f"{where}: {outside} outside the support, {no_logs} without a finite log")
        if kind == "rsample":
            # Compute gradients of a bounded function of the samples. The gradients of the samples
            # themselves may overflow near the limits of the dtype.
            (drawn / (1 + drawn.abs())).mean().backward()
            found += [
                f"{where}: a gradient is not finite"
                for leaf in leaves
                if leaf.grad is not None and not bool(leaf.grad.isfinite().all())
            ]
    return found


def all_faults(rows: dict[str, tuple[str, ...]], dtypes: tuple[Any, ...], count: int) -> list[str]:
    texts = [text for texts in rows.values() for text in texts]
    return [fault for text in texts for dtype in dtypes for fault in faults(text, dtype, count)]


def test_each_distribution_has_a_row() -> None:
    exported = [getattr(d, name) for name in d.__all__]
    classes = {
        one.__name__
        for one in exported
        if isinstance(one, type) and issubclass(one, d.Distribution)
    }
    assert classes - {"Distribution", "ExponentialFamily"} == set(EXTREMES)


@LOW_DF
@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", EXTREMES)
def test_samples_at_extreme_parameters_have_finite_densities_and_gradients(name: str) -> None:
    assert all_faults({name: EXTREMES[name]}, WIDE, FEW) == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", IN_HALVES)
def test_samples_in_half_types_have_finite_densities(text: str) -> None:
    assert all_faults({"halves": (text,)}, HALVES, FEW) == []


@LOW_DF
@pytest.mark.slow
@pytest.mark.parametrize("name", EXTREMES)
def test_50_000_samples_at_extreme_parameters_have_finite_densities_and_gradients(
    name: str,
) -> None:
    assert all_faults({name: EXTREMES[name]}, WIDE, MANY) == []


@pytest.mark.slow
@pytest.mark.parametrize("text", IN_HALVES)
def test_50_000_samples_in_half_types_have_finite_densities(text: str) -> None:
    assert all_faults({"halves": (text,)}, HALVES, MANY) == []


@pytest.mark.parametrize("dtype", WIDE)
def test_beta_of_tiny_concentrations_keeps_its_law(dtype: Any) -> None:
    """The share of samples below a point follows the cdf; most samples lie near 0 or near 1."""
    fastdist.manual_seed(3)
    drawn = d.Beta(fastdist.tensor(0.02, dtype=dtype), fastdist.tensor(0.04, dtype=dtype))
    x = drawn.sample((4000,)).double().numpy()
    # For x near 0 the cdf is x**a * b / (a + b), with a relative error of about 1e-3.
    for point in (1e-30, 1e-10, 1e-3):
        share = point**0.02 * 0.04 / 0.06
        assert np.mean(x < point) == pytest.approx(share, abs=0.03)
    assert np.mean((x > 0.1) & (x < 0.9)) == pytest.approx(0.058, abs=0.02)


@pytest.mark.parametrize("dtype", [*HALVES, fastdist.float32])
@pytest.mark.parametrize(("low", "high"), [(3.0, 4.0), (-1.0, 0.0), (0.1, 0.2), (1e4, 1.2e4)])
def test_uniform_numbers_stay_below_the_upper_bound(dtype: Any, low: float, high: float) -> None:
    fastdist.manual_seed(1)
    drawn = fastdist.empty(20_000, dtype=dtype).uniform_(low, high).double()
    assert float(drawn.min()) >= low
    assert float(drawn.max()) < high
    assert float(drawn.mean()) == pytest.approx((low + high) / 2, abs=0.02 * (high - low))


@pytest.mark.parametrize("dtype", [*HALVES, *WIDE])
def test_fills_of_extreme_parameters_are_positive_and_finite(dtype: Any) -> None:
    fastdist.manual_seed(1)
    x = fastdist.empty(4000, dtype=dtype)
    for fill in (
        lambda: x.exponential_(1e6),
        lambda: x.exponential_(1e-6),
        lambda: x.log_normal_(0, 60),
        lambda: x.log_normal_(-300, 3),
        lambda: x.geometric_(1e-7),
        lambda: x.cauchy_(0, 1e5).abs_().add_(1.0).clamp_(max=fastdist.finfo(dtype).max),
    ):
        fill()
        assert bool((x > 0).all())
        assert bool(x.isfinite().all())


@pytest.mark.parametrize("dtype", HALVES)
def test_integers_of_half_types_stay_below_the_upper_bound(dtype: Any) -> None:
    fastdist.manual_seed(1)
    assert float(fastdist.randint(0, 4000, (8000,), dtype=dtype).max()) < 4000
    assert float(fastdist.empty(8000, dtype=dtype).random_(0, 4000).max()) < 4000


def test_weibull_numbers_whose_concentration_has_no_inverse_are_numbers() -> None:
    fastdist.manual_seed(1)
    tiny = fastdist.tensor(1e-5, dtype=fastdist.float16)
    # Weibull draws exponential samples. The logarithm of a sample of 1 is 0, and 0 times an
    # infinite inverse would be NaN.
    drawn = d.Weibull(tiny, tiny).sample((20_000,))
    assert bool((drawn.isfinite() & (drawn > 0)).all())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("concentration", [0.9e8, 1.1e8, 1e17, 1e20])
def test_von_mises_of_large_concentrations_keeps_its_law(concentration: float) -> None:
    fastdist.manual_seed(2)
    kappa = fastdist.tensor(concentration, dtype=fastdist.float64)
    drawn = d.VonMises(fastdist.zeros_like(kappa), kappa).sample((20_000,)).numpy()
    if concentration < 1e9:
        assert np.mean(drawn) == pytest.approx(0.0, abs=0.03 / concentration**0.5)
    assert np.std(drawn) == pytest.approx(concentration**-0.5, rel=0.03)


def test_von_mises_ends_at_the_edges_of_the_concentration() -> None:
    values = [0.0, 5e-324, 1e-310, 1.7e308, float("inf"), float("nan")]
    kappa = fastdist.tensor(values, dtype=fastdist.float64)
    drawn = d.VonMises(fastdist.ones(6, dtype=fastdist.float64), kappa, validate_args=False)
    assert drawn.sample((100,)).isnan().any(0).tolist() == [False] * 5 + [True]
    assert bool((drawn.sample((100,))[:, 3:5] - 1.0).abs().max() < 1e-12)


@pytest.mark.parametrize("failures", [1.0, 2.0, 4.0])
def test_chances_of_large_negative_binomial_counts_are_exact(failures: float) -> None:
    n = fastdist.tensor(failures, dtype=fastdist.float64)
    counts = fastdist.tensor([10.0, 1e6, 3e8, 2e9, 1e12, 1e18, 1e30], dtype=fastdist.float64)
    found = d.NegativeBinomial(n, logits=n.new_tensor(39.0)).log_prob(counts).numpy()
    x, odds = counts.numpy(), np.log1p(np.exp(-39.0))
    rise = sum((np.log((x + k) / k) for k in range(1, int(failures))), np.zeros(7))
    wanted = rise - x * odds - failures * (39.0 + odds)
    # Below 1e9 the formula subtracts logarithms of factorials, about 1e10 each, which costs digits.
    assert found == pytest.approx(wanted, rel=3e-8)
    assert found[4:] == pytest.approx(wanted[4:], rel=1e-13)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("n", [3, 5, 12])
def test_wishart_samples_of_few_degrees_of_freedom_have_factors(n: int, dtype: Any) -> None:
    fastdist.manual_seed(1)
    half = fastdist.randn(n, n, dtype=dtype)
    spread = half @ half.mT + 0.1 * fastdist.eye(n, dtype=dtype)
    with pytest.warns(UserWarning, match="Low df"):
        one = d.Wishart(n - 0.99, spread)
    drawn = one.sample((1000,))
    assert bool(one.support.check(drawn).all())
    assert bool(one.log_prob(drawn).isfinite().all())


def test_wishart_samples_of_many_degrees_of_freedom_keep_their_mean() -> None:
    fastdist.manual_seed(1)
    one = d.Wishart(9.0, fastdist.eye(3, dtype=fastdist.float64))
    drawn = one.sample((4000,))
    fastdist.testing.assert_close(drawn.mean(0), one.mean, rtol=0.05, atol=0.2)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "text",
    [
        "d.Gamma(t([1e4, 0.5]), t([1e4, 2.0]))",
        "d.Beta(t([1e4, 0.5]), t([2e4, 0.5]))",
        "d.Poisson(t([1e4, 3.0]))",
        "d.StudentT(t([1e4, 3.0]))",
        "d.InverseGamma(t([1e4, 3.0]), t([1e4, 3.0]))",
        "d.Dirichlet(t([1e4, 3.0, 5.0]))",
        "d.Normal(t([6e4, 0.0]), t([3e4, 1.0]))",
    ],
)
def test_densities_in_half_types_are_rounded_once(text: str, dtype: Any) -> None:
    """The density is that of float32, rounded once; the gradients have the half type."""
    fastdist.manual_seed(1)
    leaves: list[Any] = []
    one = family(text, dtype, leaves)
    value = one.sample((50,))
    wide_leaves = [leaf.detach().float().requires_grad_() for leaf in leaves]
    given = iter(wide_leaves)
    wide = eval(text, {"d": d, "t": lambda _: next(given)})
    wide._validate_args = False  # in float32 the rounded probabilities do not add up to 1
    found = one.log_prob(value)
    expected = wide.log_prob(value.float())
    assert found.dtype is dtype
    assert found.detach().equal(expected.detach().to(dtype))
    found.float().sum().backward()
    expected.sum().backward()
    for leaf, other in zip(leaves, wide_leaves, strict=True):
        assert leaf.grad.dtype is dtype
        fastdist.testing.assert_close(leaf.grad.float(), other.grad, rtol=0.05, atol=0.05)


def test_the_cdf_as_a_transform_never_reaches_0_or_1() -> None:
    x = fastdist.tensor([-1e3, -30.0, 0.0, 9.0, 1e3], dtype=fastdist.float64)
    for one in (d.Normal(x * 0, x * 0 + 1), d.Laplace(x * 0, x * 0 + 1), d.Cauchy(x * 0, 1e-300)):
        transform = d.CumulativeDistributionTransform(one)
        y = transform(x)
        assert bool(((y > 0) & (y < 1)).all())
        ends = fastdist.tensor([0.0, 5e-324, 0.3, 1.0, 1.0], dtype=fastdist.float64)
        assert bool(transform.inv(ends).isfinite().all())
        # Near 0 all digits of the cdf are exact, whereas 1 + erf would lose digits.
        fastdist.testing.assert_close(transform.inv(y)[1:3], x[1:3], rtol=1e-9, atol=1e-12)
