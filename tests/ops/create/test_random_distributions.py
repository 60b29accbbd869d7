"""Draws from named distributions have the right moments, and invalid parameters are rejected."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.ops.index import multinomial

COUNT = 40_000


def full(value: float) -> fd.Tensor:
    return fd.full((COUNT,), float(value))


# By name: (draws, mean, variance).
DRAWS: dict[str, tuple[Callable[[], fd.Tensor], float, float]] = {
    "exponential_": (lambda: full(0).exponential_(2.0), 0.5, 0.25),
    "geometric_": (lambda: full(0).geometric_(0.3), 1 / 0.3, 0.7 / 0.09),
    "geometric_ of integers": (lambda: full(0).long().geometric_(0.5).float(), 2.0, 2.0),
    "log_normal_": (
        lambda: full(0).log_normal_(0.5, 0.3),
        np.exp(0.5 + 0.045),
        np.exp(1.0 + 0.09) * (np.exp(0.09) - 1),
    ),
    "cauchy_": (lambda: full(0).cauchy_(1.0, 2.0).gt(3).to(fd.float32), 0.25, 0.1875),
    "poisson, counted": (lambda: fd.poisson(full(3)), 3.0, 3.0),
    "poisson, tried": (lambda: fd.poisson(full(40)), 40.0, 40.0),
    "binomial, counted": (lambda: fd.binomial(full(7), full(0.7)), 4.9, 1.47),
    "binomial, tried": (lambda: fd.binomial(full(100), full(0.4)), 40.0, 24.0),
    "binomial, mirrored": (lambda: fd.binomial(full(100), full(0.8)), 80.0, 16.0),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_has_the_moments_of_its_distribution(name: str) -> None:
    draw, mean, variance = DRAWS[name]
    fd.manual_seed(11)
    drawn = draw()
    assert float(drawn.mean()) == pytest.approx(mean, abs=5 * (variance / COUNT) ** 0.5)
    assert float(drawn.var()) == pytest.approx(variance, rel=0.08)


@pytest.mark.parametrize(
    "draw", [lambda n: fd.poisson(fd.full((n,), 12.0)), lambda n: fd.empty(n).exponential_()]
)
def test_forty_draws_are_twenty_and_twenty(draw: Callable[[int], fd.Tensor]) -> None:
    fd.manual_seed(5)
    whole = draw(40)
    fd.manual_seed(5)
    assert fd.equal(whole, fd.cat([draw(20), draw(20)]))


@pytest.mark.parametrize("device", ["sim:1", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_draws_the_same_on_every_device(device: str, replacement: bool) -> None:
    drawn = []
    for at in ("cpu", device):
        fd.manual_seed(7)
        found = fd.multinomial(fd.tensor([0.1, 0.2, 0.7], device=at), 2, replacement)
        assert str(found.device) == at
        drawn.append(found.tolist())
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("device", ["sim:1", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    "draw",
    [
        fd.poisson,
        lambda x: fd.binomial(x, x / 100.0),
        fd._standard_gamma,
        fd._sample_dirichlet,
    ],
)
def test_rejection_draws_nearly_the_same_on_every_device(
    draw: Callable[[fd.Tensor], fd.Tensor], device: str
) -> None:
    drawn = []
    for at in ("cpu", device):
        fd.manual_seed(7)
        drawn.append(draw(fd.tensor([50.0, 0.5, 0.0], device=at)).cpu())
    fd.testing.assert_close(*drawn)


def test_multinomial_draws_in_proportion_to_the_weights() -> None:
    fd.manual_seed(3)
    weights = fd.tensor([1.0, 2.0, 7.0])
    with_replacement = fd.multinomial(weights, COUNT, replacement=True)
    without = fd.multinomial(weights.expand(COUNT, 3), 2)
    for drawn in (with_replacement, without[:, 0]):
        shares = drawn.bincount(minlength=3) / COUNT
        np.testing.assert_allclose(shares.numpy(), [0.1, 0.2, 0.7], atol=0.012)
    assert bool((without[:, 0] != without[:, 1]).all())


def test_multinomial_never_draws_what_has_no_chance() -> None:
    weights = fd.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    assert fd.multinomial(weights, 1).tolist() == [[1], [2]]
    assert fd.multinomial(weights, 4, replacement=True).tolist() == [[1] * 4, [2] * 4]


def test_multinomial_writes_into_out_and_takes_a_generator() -> None:
    out = fd.empty(2, dtype=fd.int64)
    generators = [fd.Generator().manual_seed(4) for _ in range(2)]
    found = fd.multinomial(fd.ones(9), 2, generator=generators[0], out=out)
    assert found is out
    assert fd.equal(out, fd.ones(9).multinomial(2, generator=generators[1]))


ONES = fd.ones(3)
REFUSED = [
    (lambda: fd.multinomial(ONES, 4), "cannot sample n_sample > prob_dist.size(-1) samples"),
    (lambda: fd.multinomial(ONES, 0), "cannot sample n_sample <= 0 samples"),
    (lambda: fd.multinomial(ONES.long(), 1), "multinomial only supports floating-point dtypes"),
    (lambda: fd.multinomial(fd.ones(1, 2, 3), 1), "prob_dist must be 1 or 2 dim"),
    (lambda: fd.multinomial(-ONES, 1), "probability tensor contains either `inf`, `nan` or"),
    (lambda: fd.multinomial(ONES * 0, 1), "invalid multinomial distribution (sum of"),
    (lambda: fd.multinomial(ONES, 1, out=fd.empty(1)), "multinomial expects Long tensor out"),
    (lambda: fd.ones(3).exponential_(0), "exponential_ expects lambda > 0.0, but found lambda=0"),
    (lambda: ONES.long().exponential_(), "Exponential distribution is a continuous probability"),
    (lambda: fd.ones(3).geometric_(1), "geometric_ expects p to be in (0, 1), but got p=1"),
    (lambda: fd.ones(3).cauchy_(0, 0), "cauchy_ expects sigma > 0.0, but found sigma=0"),
    (lambda: fd.ones(3).log_normal_(0, -1), "log_normal_ expects std > 0.0, but found std=-1"),
    (lambda: fd.poisson(-ONES), "invalid Poisson rate, expected rate to be non-negative"),
    (lambda: fd.poisson(ONES.long()), "\"poisson_cpu\" not implemented for 'Long'"),
    (lambda: fd.binomial(ONES, ONES.double()), "Found dtype Double but expected Float"),
    (lambda: fd.rand(2, out=fd.empty(2), dtype=fd.float64), "dtype float64 does not match dtype"),
]


@pytest.mark.parametrize(("call", "text"), REFUSED)
def test_what_cannot_be_drawn_is_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(RuntimeError, match=re.escape(text)):
        call()


def test_nan_stays_nan_in_binomial() -> None:
    drawn = fd.binomial(fd.tensor([5.0, float("nan")]), fd.tensor([float("nan"), 0.5]))
    assert bool(drawn.isnan().all())


@pytest.mark.parametrize(
    "make",
    [
        lambda out: fd.rand(2, out=out),
        lambda out: fd.randn(2, out=out),
        lambda out: fd.randint(3, (2,), out=out),
        lambda out: fd.randperm(2, out=out),
        lambda out: fd.normal(0.0, 1.0, (2,), out=out),
        lambda out: fd.bernoulli(fd.ones(2), out=out),
        lambda out: fd.zeros(2, out=out),
        lambda out: fd.ones(2, out=out),
        lambda out: fd.full((2,), 3, out=out),
        lambda out: fd.arange(2, out=out),
        lambda out: fd.linspace(0, 1, 2, out=out),
        lambda out: fd.eye(2, 1, out=out).squeeze_(1),
    ],
)
def test_what_makes_tensors_writes_into_out(make: Callable[[fd.Tensor], fd.Tensor]) -> None:
    out = fd.empty(0, dtype=fd.float64)
    assert make(out) is out
    assert out.dtype is fd.float64
    assert out.shape == (2,)


CHANCES = np.where(np.arange(20000) % 3 == 0, 0.0, np.arange(20000) % 7 + 1.0)


@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16, fd.float64])
@pytest.mark.parametrize(("count", "replacement"), [(1, True), (10, True), (3000, True)])
def test_draws_of_all_dtypes_are_those_of_float32(
    dtype: fd.dtype, count: int, replacement: bool
) -> None:
    def drawn(kind: fd.dtype) -> list[int]:
        generator = fd.Generator().manual_seed(5)
        chances = fd.tensor(CHANCES, dtype=kind)
        return chances.multinomial(count, replacement, generator=generator).tolist()

    assert drawn(dtype) == drawn(fd.float32)


def test_chances_whose_sum_overflows_float32_are_drawn_from() -> None:
    chances = fd.zeros(20000)
    chances[[3, 19999]] = 3e38
    found = chances.multinomial(5, True, generator=fd.Generator().manual_seed(1))
    assert set(found.tolist()) <= {3, 19999}


@pytest.mark.parametrize(
    ("shape", "draws"), [((5,), 9), ((1, 5000), 9), ((7, 999), 1), ((64, 40), 10), ((3, 4100), 30)]
)
def test_multinomial_finds_places_as_a_running_sum_of_all_chances_does(
    shape: tuple[int, ...], draws: int
) -> None:
    random = np.random.default_rng(0)
    chances = random.integers(0, 5, shape).astype(np.float64)
    found = fd.multinomial(fd.tensor(chances), draws, True, generator=fd.Generator().manual_seed(7))
    source = fd.Generator().manual_seed(7)
    drawn = source.open_uniform((*shape[:-1], draws), np.dtype(np.float64))
    for row, numbers, places in zip(
        chances.reshape(-1, shape[-1]),
        drawn.reshape(-1, draws),
        found.numpy().reshape(-1, draws),
        strict=True,
    ):
        running = row.cumsum()
        np.testing.assert_array_equal(places, running.searchsorted(numbers * running[-1], "right"))


@pytest.mark.parametrize("scale", [1e308, 3e-320, 1.0])
def test_multinomial_takes_chances_whose_sum_is_too_large_or_too_small(scale: float) -> None:
    chances = fd.tensor([scale, 0.0, scale, scale], dtype=fd.float64)
    counts = np.bincount(fd.multinomial(chances, 3000, True).numpy(), minlength=4)
    assert counts[1] == 0 and counts[[0, 2, 3]].min() > 850


@pytest.mark.parametrize(("rows", "draws_of_a_row"), [(1, 2), (1, 600), (5, 2), (5, 600)])
def test_numbers_at_both_ends_find_places_that_have_a_chance(
    rows: int, draws_of_a_row: int
) -> None:
    random = np.random.default_rng(3)
    chances = random.random((rows, 4100)) * (random.random((rows, 4100)) < 0.3)
    chances[:, [0, -1]] = 0.0
    drawn = random.random((rows, draws_of_a_row))
    drawn[:, 0], drawn[:, 1] = 1e-300, np.nextafter(1.0, 0.0)
    found = multinomial._places(chances, drawn)
    assert (np.take_along_axis(chances, found, 1) > 0).all()


@pytest.mark.parametrize("dtype", [fd.float16, fd.bfloat16])
def test_draws_without_replacement_in_half_types_keep_their_law(dtype: Any) -> None:
    """In half types, random quotients overflow or tie, which would favour the first elements."""
    fd.manual_seed(1)
    large = fd.full((4000, 4), 6e4, dtype=dtype).multinomial(1)
    assert float((large == 0).double().mean()) == pytest.approx(0.25, abs=0.03)
    many = fd.full((4000, 1000), 60.0, dtype=dtype).multinomial(1)
    assert float((many < 500).double().mean()) == pytest.approx(0.5, abs=0.03)
    tiny = float(fd.finfo(dtype).smallest_normal) / 32
    possible = fd.tensor([0.0] * 4 + [tiny] * 4, dtype=dtype).expand(500, 8).multinomial(4)
    assert bool((possible >= 4).all())
