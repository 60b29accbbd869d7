"""Each family is compared with PyTorch's results and its own samples, expansion and gradients."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import distributions as d
from tests.distributions.recipes import DIVERGENCES, FAMILIES, SECONDS, WITHIN

TORCH = json.loads((Path(__file__).parent / "torch_results.json").read_text())
PAIRS = [(name, what) for name, row in TORCH["families"].items() for what in row]
# The tolerance for quantiles, which PyTorch and fastdist round differently.
TOLERANCE = 1e-7
# The exact value where the log odds are 40, for which PyTorch returns 0.
EXACT = {("Bernoulli of logits", "stddev"): (1, math.exp(-20))}


def t(value: Any) -> Any:
    return fastdist.tensor(value, dtype=fastdist.float64)


def made(text: str, tensor: Callable[[Any], Any] = t) -> Any:
    return eval(text, {"d": d, "t": tensor})


def family(name: str) -> Any:
    return made(FAMILIES[name][0])


def numbers(expected: Any) -> np.ndarray[Any, Any]:
    """Return the numbers of a JSON entry, in which strings represent NaN and infinities."""
    return np.array(expected, dtype=object).astype(np.float64)


def test_every_family_has_a_recipe() -> None:
    names = {
        name
        for name in d.__all__
        if isinstance(getattr(d, name), type) and issubclass(getattr(d, name), d.Distribution)
    }
    assert names - {"Distribution", "ExponentialFamily"} == {one.split()[0] for one in FAMILIES}
    assert FAMILIES.keys() == TORCH["families"].keys()


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "what"), PAIRS)
def test_numbers_are_those_of_pytorch(name: str, what: str) -> None:
    one, at = family(name), t(FAMILIES[name][1])
    if what in ("log_prob", "cdf"):
        found = getattr(one, what)(at)
    elif what == "icdf":
        found = one.icdf(t([[0.1], [0.5], [0.9]]))
    elif what == "entropy":
        found = one.entropy()
    else:
        found = getattr(one, what)
    expected = numbers(TORCH["families"][name][what])
    if (name, what) in EXACT:
        place, number = EXACT[name, what]
        assert expected[place] == 0
        expected[place] = number
    np.testing.assert_allclose(found.numpy(), expected, TOLERANCE, 1e-12)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("pair", DIVERGENCES)
def test_divergences_are_those_of_pytorch(pair: str) -> None:
    first, second = pair.split()
    p = made(WITHIN) if first == "Uniform" else family(first)
    found = d.kl_divergence(p, made(SECONDS[second])).detach().numpy()
    np.testing.assert_allclose(found, numbers(TORCH["divergences"][pair]), TOLERANCE, 1e-12)


COUNT = 20_000
# For families that have no mean, or no formula for it: a function of the samples, and its mean.
STATISTICS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "Categorical": (lambda x: x.double(), [3 / 2, 3 / 2]),
    "Categorical of logits": (lambda x: (x == 2).double(), 0.99982),
    "LKJCholesky": (lambda x: x[:, :, 1, 0].square(), [1 / 2, 1 / 7]),
    "LogisticNormal": (lambda x: (x[:, 0] / (1 - x[:, 0])).log(), 0.1 - math.log(2)),
    "RelaxedBernoulli": (lambda x: (x > 0.5).double(), [0.3, 0.6]),
    "VonMises": (lambda x: (x - t([0.3, -1.0])).sin(), 0),
    "RelaxedOneHotCategorical": (lambda x: (x.argmax(-1) == 2).double(), 0.5),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", FAMILIES)
def test_samples_have_the_mean_of_the_family(name: str) -> None:
    fastdist.manual_seed(1)
    one = family(name)
    drawn = one.sample((COUNT,))
    assert drawn.shape == (COUNT, *one.batch_shape, *one.event_shape)
    mean = TORCH["families"][name].get("mean")
    if name in STATISTICS:
        measure, mean = STATISTICS[name]
        drawn = measure(drawn)
    elif mean is None or not np.isfinite(numbers(mean)).all():
        # Without a finite mean, use the cdf of the samples, which is uniform in (0, 1).
        drawn, mean = one.cdf(drawn), 0.5
    found = drawn.double().numpy()
    error = np.abs(found.mean(0) - numbers(mean))
    assert (error <= 5 * found.std(0) / math.sqrt(COUNT) + 1e-12).all()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_batch_is_expanded(name: str) -> None:
    one, at = family(name), t(FAMILIES[name][1])
    wide = one.expand((3, 2, *one.batch_shape))
    assert wide.batch_shape == (3, 2, *one.batch_shape) and wide.event_shape == one.event_shape
    assert wide.sample((4,)).shape == (4, *wide.batch_shape, *wide.event_shape)
    axes = at.dim() - len(one.event_shape) - len(one.batch_shape)
    given = at.reshape(*at.shape[:axes], 1, 1, *at.shape[axes:]) if axes > 0 else at
    found, expected = wide.log_prob(given), one.log_prob(at)
    assert found.shape[-len(wide.batch_shape) :] == wide.batch_shape
    for each in found.movedim((-len(wide.batch_shape), 1 - len(wide.batch_shape)), (0, 1)).flatten(
        0, 1
    ):
        np.testing.assert_array_equal(each.numpy(), expected.numpy())


WITH_GRADIENTS = [name for name in FAMILIES if family(name).has_rsample]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients_reach_the_parameters_through_samples(name: str) -> None:
    fastdist.manual_seed(2)
    leaves: list[Any] = []

    def leaf(value: Any) -> Any:
        leaves.append(t(value).requires_grad_())
        return leaves[-1]

    one = made(FAMILIES[name][0], leaf)
    x = one.rsample((5,))
    weights = t(np.random.default_rng(0).standard_normal(tuple(x.shape)).tolist())
    given = fastdist.autograd.grad((x * weights).sum(), leaves, None, True, allow_unused=True)
    assert any(g is not None and bool((g != 0).any()) for g in given)
    assert all(g is None or bool(g.isfinite().all()) for g in given)
    if "cdf" not in TORCH["families"][name] or name in NO_SLOPE:
        return
    # The derivative of a sample by a parameter p is -(dF/dp) / density, where F is the cdf.
    chance, fixed = one.cdf(x.detach()), x.detach()
    density = one.log_prob(fixed).exp().detach()
    expected = fastdist.autograd.grad(
        -(chance * weights / density).sum(), leaves, allow_unused=True
    )
    for g, e in zip(given, expected, strict=True):
        if e is not None:
            np.testing.assert_allclose(
                (g if g is not None else e * 0).numpy(), e.numpy(), 1e-6, 1e-9
            )


# Families whose cdf has no gradient for the parameters, or whose rsample does not invert the cdf.
NO_SLOPE = {"Chi2", "Gamma", "InverseGamma"}
