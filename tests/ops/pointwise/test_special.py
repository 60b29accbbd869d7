"""Special functions where NumPy has no formula: values in the tails, and gradients of samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastdist as fd

NAN, INF = math.nan, math.inf


def at(name: str, *points: Any) -> list[float]:
    tensors = [fd.tensor(values, dtype=fd.float64) for values in points]
    found: list[float] = getattr(fd.special, name)(*tensors).tolist()
    return found


# The expected values are results of SciPy 1.17.
@pytest.mark.parametrize(
    ("name", "points", "expected"),
    [
        ("i0e", [[100.0, -20.5, INF, NAN]], [0.03994437929909668, 0.08866442901574523, 0.0, NAN]),
        ("i1e", [[100.0, -20.5, INF]], [0.03974415302513025, -0.08647411349408725, 0.0]),
        ("erfcx", [[-30.0, 12.0, 1e9]], [INF, 0.046854221014893, 5.6418958354775e-10]),
        ("ndtri", [[0.0, 1.0, -0.1, 1e-200]], [-INF, INF, NAN, -30.205594269]),
        ("log_ndtr", [[-100.0, -1.0, 40.0]], [-5005.52420869, -1.84102164501, 0.0]),
        ("entr", [[0.0, -1.0, NAN, INF]], [0.0, -INF, NAN, -INF]),
        ("xlog1py", [[0.0, 0.0, 2.0], [-1.0, NAN, 1.0]], [0.0, NAN, 2 * math.log(2)]),
        ("zeta", [[1.0, 0.5, 2.0, 3.0], [2.0, 2.0, -1.0, -0.5]], [INF, NAN, INF, 0.414398322118]),
        ("gammainc", [[0.0, 2.0, 2.0, -1.0], [1.0, 0.0, INF, 1.0]], [1.0, 0.0, 1.0, NAN]),
        ("gammaincc", [[200.0, 0.3], [260.0, 4.0]], [4.750012444300866e-05, 0.002022510645610877]),
    ],
)
def test_values_in_the_tails_and_at_the_edges(
    name: str, points: list[list[float]], expected: list[float]
) -> None:
    np.testing.assert_allclose(at(name, *points), expected, rtol=1e-7)


def test_names_of_special_are_those_of_the_package() -> None:
    assert fd.special.expit is fd.sigmoid
    assert fd.special.multigammaln is fd.mvlgamma
    with pytest.raises(AttributeError, match=r"module 'fastdist.special' has no attribute 'i2'"):
        fd.special.i2  # noqa: B018


@pytest.mark.parametrize("concentration", [0.1, 1.0, 5.0, 200.0, 20_000.0])
def test_gamma_numbers_have_their_moments_and_pass_gradients_on(concentration: float) -> None:
    """The mean of a gamma distribution is its concentration, so the mean gradient is 1."""
    fd.manual_seed(2)
    count = 4000
    given = fd.full((count,), concentration, dtype=fd.float64, requires_grad=True)
    drawn = fd._standard_gamma(given)
    drawn.sum().backward()
    assert float(drawn.mean()) == pytest.approx(
        concentration, abs=5 * (concentration / count) ** 0.5
    )
    assert given.grad is not None
    spread = float(given.grad.std()) / count**0.5
    assert float(given.grad.mean()) == pytest.approx(1.0, abs=5 * spread)


def test_no_gamma_number_is_0() -> None:
    drawn = fd._standard_gamma(fd.full((500,), 1e-6))
    assert float(drawn.min()) == np.finfo(np.float32).tiny


def test_dirichlet_shares_add_up_to_1() -> None:
    given = fd.tensor([[0.5, 1.0, 8.0]] * 3, requires_grad=True)
    drawn = fd._sample_dirichlet(given)
    np.testing.assert_allclose(drawn.sum(-1).tolist(), [1.0] * 3, rtol=1e-6)
    drawn[:, 0].sum().backward()
    assert given.grad is not None
    assert bool(given.grad.isfinite().all())
