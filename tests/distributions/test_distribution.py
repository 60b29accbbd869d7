"""Common parts of all distributions: argument and value checks, expansion, divergences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import distributions as d


def t(*values: float) -> Any:
    return fastdist.tensor(values, dtype=fastdist.float64)


def test_an_invalid_parameter_is_told_with_its_constraint() -> None:
    with pytest.raises(ValueError, match=r"Expected parameter scale .* GreaterThan"):
        d.Normal(0.0, -1.0)
    d.Normal(0.0, -1.0, validate_args=False)


def test_a_value_outside_the_support_is_refused_unless_nothing_is_checked() -> None:
    with pytest.raises(ValueError, match=r"Expected value argument .* within the support"):
        d.Exponential(1.0).log_prob(fastdist.tensor(-1.0))
    with pytest.raises(ValueError, match=r"Value is not broadcastable"):
        d.Normal(t(0.0, 0.0), 1.0).log_prob(t(0.0, 0.0, 0.0))
    d.Distribution.set_default_validate_args(False)
    try:
        d.Exponential(1.0).log_prob(fastdist.tensor(-1.0))
    finally:
        d.Distribution.set_default_validate_args(True)


def test_a_subclass_with_its_own_init_must_expand_itself() -> None:
    class Own(d.Normal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match=r"must also define a custom .expand"):
        Own().expand((2,))


def test_files_of_pytorch_s_lead_to_the_families() -> None:
    from fastdist.distributions.beta import Beta
    from fastdist.distributions.one_hot_categorical import OneHotCategorical

    assert Beta is d.Beta and OneHotCategorical is d.OneHotCategorical


PAIRS: list[tuple[Any, Any]] = [
    (d.Normal(t(0.3), t(0.7)), d.Normal(t(-0.2), t(1.1))),
    (d.Normal(t(0.3), t(0.7)), d.Laplace(t(-0.2), t(1.1))),
    (d.Normal(t(0.3), t(0.7)), d.Gumbel(t(-0.2), t(1.1))),
    (d.Gamma(t(2.0), t(1.5)), d.Gamma(t(1.4), t(1.0))),
    (d.Gamma(t(2.0), t(1.5)), d.Normal(t(1.0), t(1.0))),
    (d.Beta(t(2.0), t(1.5)), d.Beta(t(1.4), t(1.0))),
    (d.Beta(t(2.0), t(1.5)), d.Gamma(t(1.4), t(1.0))),
    (d.Uniform(t(0.2), t(0.9)), d.Beta(t(1.4), t(1.2))),
    (d.Uniform(t(0.2), t(0.9)), d.Gamma(t(1.4), t(1.2))),
    (d.Exponential(t(1.3)), d.Gumbel(t(0.2), t(1.2))),
    (d.Pareto(t(1.0), t(4.0)), d.Gamma(t(1.4), t(1.2))),
    (d.Poisson(t(2.0)), d.Poisson(t(3.0))),
    (d.Geometric(t(0.4)), d.Geometric(t(0.5))),
    (d.LogNormal(t(0.3), t(0.7)), d.LogNormal(t(-0.2), t(1.1))),
    (d.Categorical(t(0.2, 0.8)), d.Categorical(t(0.5, 0.5))),
    (d.Dirichlet(t(2.0, 1.5, 3.0)), d.Dirichlet(t(1.0, 1.5, 2.0))),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("p", "q"), PAIRS, ids=lambda one: type(one).__name__)
def test_a_divergence_is_the_mean_of_the_difference_of_logarithms(p: Any, q: Any) -> None:
    fastdist.manual_seed(5)
    x = p.sample((40_000,))
    terms = (p.log_prob(x) - q.log_prob(x)).numpy().reshape(-1)
    error = 5 * terms.std() / 200 + 1e-6
    assert abs(terms.mean() - d.kl_divergence(p, q).item()) < error


def test_a_divergence_without_a_formula_is_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match=r"No KL\(p \|\| q\) is implemented for p type"):
        d.kl_divergence(d.StudentT(3.0), d.Normal(0.0, 1.0))


def test_where_q_has_no_density_the_divergence_is_infinite() -> None:
    assert d.kl_divergence(d.Normal(0.0, 1.0), d.Exponential(1.0)).item() == math.inf


TRANSFORMS: list[Any] = [
    d.ExpTransform(),
    d.SigmoidTransform(),
    d.TanhTransform(),
    d.SoftplusTransform(),
    d.AffineTransform(1.0, -2.0),
    d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)]),
    d.StickBreakingTransform(),
    d.CorrCholeskyTransform(),
]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda one: type(one).__name__)
def test_a_transform_has_its_inverse_and_its_values_lie_in_its_codomain(transform: Any) -> None:
    x = fastdist.tensor(np.random.default_rng(0).normal(size=(4, 3)))
    y = transform(x)
    assert bool(transform.codomain.check(y).all())
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), atol=1e-7)
    if transform.domain.event_dim == 0:
        slope = (transform(x + 1e-6) - transform(x - 1e-6)) / 2e-6
        jacobian = transform.log_abs_det_jacobian(x, y)
        np.testing.assert_allclose(jacobian.numpy(), slope.abs().log().numpy(), atol=1e-6)


@pytest.mark.parametrize("name", ["positive", "unit_interval", "simplex", "corr_cholesky"])
def test_registered_transforms_lead_into_the_constraint(name: str) -> None:
    constraint = getattr(d.constraints, name)
    x = fastdist.tensor(np.random.default_rng(0).normal(size=(4, 3)))
    for registry in (d.biject_to, d.transform_to):
        assert bool(constraint.check(registry(constraint)(x)).all())


def test_a_formula_may_be_registered_for_a_class_whose_metaclass_answers_issubclass() -> None:
    class Answers(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, d.Distribution)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, d.Distribution)

    class AnyLaw(metaclass=Answers):
        pass

    class Mine(d.Normal):
        pass

    from fastdist.distributions import kl

    kl.register_kl(Mine, AnyLaw)(lambda p, q: "by any")  # type: ignore[type-abstract]
    try:
        assert d.kl_divergence(Mine(0.0, 1.0), d.StudentT(3.0)) == "by any"
    finally:
        del kl._KL_REGISTRY[Mine, AnyLaw]
        kl._KL_MEMOIZE.clear()


def test_private_helpers_draw_and_sum() -> None:
    from fastdist.distributions.utils import _standard_normal, _sum_rightmost

    drawn = _standard_normal((3, 2), fastdist.float64, "cpu")
    assert (drawn.shape, drawn.dtype) == ((3, 2), fastdist.float64)
    assert _sum_rightmost(fastdist.ones(2, 3, 4), 2).tolist() == [12.0, 12.0]
