"""Random tensors: seeds repeat them, their moments are right, and they obey dtype and device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from tests.ops.cases import F

DRAWS: dict[str, Callable[[], fd.Tensor]] = {
    "rand": lambda: fd.rand(3, 4),
    "randn": lambda: fd.randn((3, 4), dtype=fd.float64),
    "randint": lambda: fd.randint(5, (3, 4)),
    "randperm": lambda: fd.randperm(12),
    "rand_like": lambda: fd.rand_like(fd.ones(12)),
    "randn_like": lambda: fd.randn_like(fd.ones(12)),
    "randint_like": lambda: fd.randint_like(fd.ones(12), 5),
    "normal": lambda: fd.normal(0.0, 1.0, (3, 4)),
    "bernoulli": lambda: fd.bernoulli(fd.full((64,), 0.5)),
    "bernoulli_": lambda: fd.zeros(64).bernoulli_(0.5),
    "uniform_": lambda: fd.zeros(12).uniform_(1, 2),
    "normal_": lambda: fd.zeros(12).normal_(1, 2),
    "random_": lambda: fd.zeros(12).random_(100),
    "dropout": lambda: F.dropout(fd.ones(64), 0.5),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_repeats_what_was_drawn(name: str) -> None:
    fd.manual_seed(7)
    first, second = DRAWS[name](), DRAWS[name]()
    fd.manual_seed(7)
    assert fd.equal(DRAWS[name](), first)
    assert not fd.equal(first, second)


def test_moments_are_those_of_the_distribution() -> None:
    fd.manual_seed(0)
    n = 100_000
    assert float(fd.rand(n).mean()) == pytest.approx(0.5, abs=0.01)
    assert float(fd.randn(n).std()) == pytest.approx(1.0, abs=0.02)
    assert float(fd.normal(fd.full((n,), 3.0), 2.0).mean()) == pytest.approx(3.0, abs=0.05)
    assert float(fd.zeros(n).uniform_(-2, 4).mean()) == pytest.approx(1.0, abs=0.05)
    assert float(fd.bernoulli(fd.full((n,), 0.2)).mean()) == pytest.approx(0.2, abs=0.01)
    assert float(F.dropout(fd.ones(n), 0.3).mean()) == pytest.approx(1.0, abs=0.02)


def test_integers_stay_in_their_range() -> None:
    drawn = fd.randint(-3, 4, (1000,))
    assert int(drawn.min()) == -3 and int(drawn.max()) == 3 and drawn.dtype is fd.int64
    assert sorted(fd.randperm(50).tolist()) == list(range(50))


def test_a_generator_of_one_s_own_leaves_the_default_alone() -> None:
    fd.manual_seed(1)
    expected = fd.rand(4)
    fd.manual_seed(1)
    fd.rand(4, generator=fd.Generator().manual_seed(5))
    assert fd.equal(fd.rand(4), expected)


def test_dropout_scales_what_it_keeps_and_its_gradient() -> None:
    x = fd.ones(1000, requires_grad=True)
    y = F.dropout(x, 0.25)
    y.sum().backward()
    assert x.grad is not None and fd.equal(x.grad, y.detach())
    assert y.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert F.dropout(x, 0.25, training=False) is x


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: F.dropout(fd.ones(2), 1.5), ValueError, "dropout probability has to be between"),
    (lambda: fd.randint(3, 3, (2,)), RuntimeError, "random_ expects 'from' to be less than 'to'"),
    (lambda: fd.zeros(2).normal_(0, -1), RuntimeError, "normal expects std >= 0.0"),
    (lambda: fd.zeros(2).uniform_(2, 1), RuntimeError, "uniform_ expects to return a [from, to)"),
    (lambda: fd.rand(2, dtype=fd.int64), RuntimeError, '"rand" not implemented for int64'),
]


@pytest.mark.parametrize(("call", "kind", "text"), WRONG, ids=[row[2][:20] for row in WRONG])
def test_what_cannot_be_drawn_is_refused(
    call: Callable[[], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(text)
