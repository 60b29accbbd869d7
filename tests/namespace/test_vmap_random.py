"""Random draws inside vmap: which calls get equal numbers, for each random function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist import nn
from fastdist.dispatch.composite import checked
from fastdist.func import vmap
from fastdist.nn import functional as F

Draw = Callable[[Any], Any]


def _attention(value: Any) -> Any:
    ones = fd.ones(1, 9, 2)
    return F.scaled_dot_product_attention(ones, ones, ones + value, dropout_p=0.5)


# Functions of a 0-d tensor x, which is 0 in each call.
NEW: dict[str, Draw] = {
    "rand": lambda x: fd.rand(2),
    "rand_like": lambda x: fd.rand_like(x.expand(2)),
    "rand_like of one tensor": lambda x: fd.rand_like(fd.ones(2)),
    "rand of a half type": lambda x: fd.rand(9, dtype=fd.float16),
    "randn": lambda x: fd.randn(2),
    "randn_like": lambda x: fd.randn_like(x.expand(2)),
    "complex": lambda x: fd.view_as_real(fd.randn(2, dtype=fd.complex64)),
    "randint": lambda x: fd.randint(10**6, (2,)),
    "randint_like": lambda x: fd.randint_like(x.expand(2), 10**6),
    "rounded randint": lambda x: fd.randint(0, 1000, (9,), dtype=fd.bfloat16),
    "randperm": lambda x: fd.randperm(20),
    "normal of numbers": lambda x: fd.normal(0.0, 1.0, (2,)),
    "normal of a mean": lambda x: fd.normal(x.expand(2), 1.0),
    "normal of a deviation": lambda x: fd.normal(fd.zeros(2), x.expand(2) + 1.0),
    "bernoulli": lambda x: fd.bernoulli(x.expand(40) + 0.5),
    "bernoulli of one tensor": lambda x: fd.bernoulli(fd.full((40,), 0.5)),
    "poisson": lambda x: fd.poisson(x.expand(20) + 50.0),
    "poisson of one tensor": lambda x: fd.poisson(fd.full((20,), 50.0)),
    "binomial": lambda x: fd.binomial(x.expand(20) + 50.0, fd.full((20,), 0.5)),
    "gamma": lambda x: fd._standard_gamma(x.expand(2) + 1.0),
    "gamma of one tensor": lambda x: fd._standard_gamma(fd.ones(2)),
    "dirichlet": lambda x: fd._sample_dirichlet(x.expand(2) + 1.0),
    "multinomial": lambda x: fd.multinomial(x.expand(2, 30) + 1.0, 20),
    "multinomial of one tensor": lambda x: fd.multinomial(fd.ones(30), 20),
    "multinomial, repeated": lambda x: fd.multinomial(x.expand(2, 30) + 1.0, 20, True),
    "multinomial of one tensor, repeated": lambda x: fd.multinomial(fd.ones(30), 20, True),
    "dropout": lambda x: F.dropout(x.expand(40) + 1.0),
    "dropout of one tensor": lambda x: F.dropout(fd.ones(40)),
    "alpha_dropout": lambda x: F.alpha_dropout(x.expand(40) + 1.0, training=True),
    "dropout2d": lambda x: F.dropout2d(x.expand(1, 40, 1, 1) + 1.0),
    "rrelu": lambda x: F.rrelu(x.expand(9) - 1.0, training=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x.expand(9)),
    "attention": _attention,
    "attention of one tensor": lambda x: _attention(0.0),
    "fractional pooling": lambda x: F.fractional_max_pool2d(
        fd.arange(900.0).view(1, 9, 10, 10), 2, output_size=(7, 7)
    ),
    "svd_lowrank": lambda x: fd.svd_lowrank(fd.arange(100.0).square().sin().view(10, 10), 2)[0],
    "a distribution": lambda x: fd.distributions.StudentT(3.0).sample((2,)),
}
IN_PLACE: dict[str, Draw] = {
    "exponential_": lambda x: x.exponential_(),
    "normal_": lambda x: x.normal_(),
    "uniform_": lambda x: x.uniform_(),
    "bernoulli_": lambda x: x.bernoulli_(0.5),
    "bernoulli_ of a tensor": lambda x: x.bernoulli_(fd.full((4, 10), 0.5)),
    "random_": lambda x: x.random_(10**6),
    "cauchy_": lambda x: x.cauchy_(),
    "geometric_": lambda x: x.geometric_(0.1),
    "log_normal_": lambda x: x.log_normal_(),
    "trunc_normal_": nn.init.trunc_normal_,
    "orthogonal_": nn.init.orthogonal_,
    "sparse_": lambda x: nn.init.sparse_(x, 0.5),
    "kaiming_uniform_": nn.init.kaiming_uniform_,
}
ALL = NEW | {
    name: lambda x, fill=fill: fill(x.expand(4, 10) * 1) for name, fill in IN_PLACE.items()
}


def _distinct(found: fd.Tensor) -> int:
    """Return how many of the results of 12 calls are different by more than rounding errors."""
    rows = found.detach().double().reshape(12, -1)
    near = fd.isclose(rows[:, None], rows[None], rtol=1e-4, atol=1e-6, equal_nan=True).all(-1)
    return len({tuple(row) for row in near.tolist()})


@pytest.mark.one_in(5)
@pytest.mark.parametrize("outer", ["same", "different"])
@pytest.mark.parametrize("inner", ["same", "different"])
@pytest.mark.parametrize("name", ALL)
def test_calls_get_equal_or_different_numbers(name: str, inner: str, outer: str) -> None:
    fd.manual_seed(2)
    found = vmap(vmap(ALL[name], randomness=inner), randomness=outer)(fd.zeros(3, 4))
    assert found.shape[:2] == (3, 4)
    assert _distinct(found) == (4 if inner == "different" else 1) * (
        3 if outer == "different" else 1
    )
    by_outer = _distinct(found[:, :1].expand(found.shape))
    assert by_outer == (1 if outer == "same" else 3)


@pytest.mark.parametrize("name", ALL)
def test_an_outer_vmap_without_randomness_refuses_a_draw(name: str) -> None:
    with pytest.raises(RuntimeError, match="called random operation while in randomness error"):
        vmap(vmap(ALL[name], randomness="different"))(fd.zeros(3, 4))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", ALL)
def test_an_empty_batch_of_draws_has_the_shape_of_one(name: str) -> None:
    one = ALL[name](fd.zeros(()))
    found = vmap(ALL[name], randomness="different")(fd.zeros(0))
    assert (found.shape, found.dtype) == ((0, *one.shape), one.dtype)


@pytest.mark.parametrize(
    "draw",
    [
        lambda size: fd.rand(*size, 3),
        lambda size: fd.randn(*size, 3, dtype=fd.complex128),
        lambda size: fd.randint(-5, 10**9, (*size, 3)),
        lambda size: fd.bernoulli(fd.full((*size, 9), 0.25)),
        lambda size: fd.binomial(fd.full((*size, 3), 90.0), fd.full((*size, 3), 0.25)),
        lambda size: fd._sample_dirichlet(fd.ones(*size, 3)),
        lambda size: F.dropout(fd.ones(*size, 9)),
        lambda size: F.gumbel_softmax(fd.zeros(*size, 9)),
    ],
)
def test_different_numbers_are_those_of_one_larger_draw(draw: Callable[..., Any]) -> None:
    fd.manual_seed(4)
    whole = draw((3, 2))
    fd.manual_seed(4)
    nested = vmap(
        vmap(vmap(lambda x: draw(()), randomness="different"), randomness="same"),
        randomness="different",
    )
    found = nested(fd.zeros(3, 4, 2))
    expected = whole[:, None].expand(3, 4, 2, -1)
    fd.testing.assert_close(found, expected, rtol=0.0, atol=0.0)


def test_equal_numbers_serve_different_parameters() -> None:
    rates = fd.tensor([[20.0, 30.0, 40.0], [50.0, 60.0, 70.0]])

    def draw(rate: Any) -> Any:
        return fd.poisson(rate.expand(5), generator)

    generator = fd.Generator().manual_seed(1)
    nested = vmap(vmap(draw, randomness="different"), randomness="same")
    found = nested(rates)
    for i in range(2):
        generator.manual_seed(1)
        expected = fd.poisson(rates[i, :, None].expand(3, 5), generator)
        fd.testing.assert_close(found[i], expected, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("name", IN_PLACE)
def test_one_tensor_cannot_hold_different_numbers(name: str) -> None:
    target, columns = fd.ones(4, 10), fd.zeros(3, 4, 10)
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        vmap(lambda x: IN_PLACE[name](target), randomness="different")(fd.zeros(3))
    inner = vmap(lambda x, y: IN_PLACE[name](x), (None, 0), randomness="different")
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        vmap(inner, (0, None), randomness="same")(columns, fd.zeros(2))
    vmap(lambda x: IN_PLACE[name](target), randomness="same")(fd.zeros(3))
    assert not (target == 1).all()


@pytest.mark.parametrize("draw", [fd.rand, fd.randn])
def test_a_draw_does_not_write_into_out(draw: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match="has no batching rule"):
        vmap(lambda x: draw(2, out=fd.empty(2)), randomness="different")(fd.zeros(3))


def test_draws_inside_vmap_take_the_arguments_of_draws_outside() -> None:
    like = fd.zeros(4, 2, 3, 5, 6)
    found = vmap(lambda x: fd.rand_like(x, memory_format=fd.channels_last), randomness="different")(
        like
    )
    assert found[0].is_contiguous(memory_format=fd.channels_last)
    for draw in (
        lambda x: fd.rand(2, requires_grad=True),
        lambda x: fd.randint(0, 1000, (9,), dtype=fd.bfloat16, requires_grad=True),
        lambda x: fd.randperm(9, dtype=fd.float32, requires_grad=True),
    ):
        assert vmap(draw, randomness="different")(fd.zeros(4)).requires_grad


@checked
def _reads(input: fd.Tensor, generator: Any = None) -> fd.Tensor:
    """Draw numbers in a function that vmap calls once for each element."""
    return fd.rand(2, generator=generator) + float(input)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("inner", ["same", "different"])
@pytest.mark.parametrize("outer", ["same", "different"])
@pytest.mark.parametrize("own_generator", [False, True])
def test_functions_called_in_a_loop_draw_like_others(
    inner: str, outer: str, own_generator: bool
) -> None:
    generator = fd.Generator() if own_generator else None
    expected = (4 if inner == "different" else 1) * (3 if outer == "different" else 1)

    def read(x: Any) -> Any:
        return _reads(x, generator)

    both = vmap(vmap(read, randomness=inner), randomness=outer)
    assert _distinct(both(fd.zeros(3, 4))) == expected

    def read_outer(x: Any) -> Any:
        """Read a tensor that is a batch at the outer level alone."""
        return vmap(lambda y: read(x), randomness=inner)(fd.zeros(4))

    found = vmap(read_outer, randomness=outer)(fd.zeros(3))
    assert found.shape == (3, 4, 2)
    assert _distinct(found) == expected


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_chunks_draw_like_one_batch(randomness: str) -> None:
    found = vmap(lambda x: fd.rand(2), randomness=randomness, chunk_size=5)(fd.zeros(12))
    assert _distinct(found) == (1 if randomness == "same" else 12)


@pytest.mark.parametrize("device", ["sim:1", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    "draw",
    [
        lambda at: fd.rand(2, device=at),
        lambda at: fd.randn(2, device=at, dtype=fd.complex64),
        lambda at: fd.randint(0, 1000, (9,), device=at, dtype=fd.bfloat16),
        lambda at: fd.randperm(20, device=at),
        lambda at: fd.poisson(fd.full((20,), 50.0, device=at)),
        lambda at: fd.multinomial(fd.ones(30, device=at), 20),
        lambda at: fd.multinomial(fd.ones(30, device=at), 20, True),
        lambda at: F.dropout(fd.ones(40, device=at)),
    ],
)
def test_devices_draw_like_the_cpu(draw: Callable[[str], Any], device: str) -> None:
    fd.manual_seed(5)
    found = vmap(vmap(lambda x: draw(device), randomness="different"), randomness="different")(
        fd.zeros(3, 4)
    )
    assert str(found.device) == device
    assert _distinct(fd.view_as_real(found.cpu()) if found.is_complex() else found.cpu()) == 12
