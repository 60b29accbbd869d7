"""Values, gradients and errors at points that random samples do not reach."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd

INF = math.inf


def test_xlogy_passes_no_gradient_where_none_arrives() -> None:
    x = fd.tensor([1.0, 2.0, 3.0, 0.0], requires_grad=True)
    fd.xlogy(x, fd.tensor([-1.0, INF, 2.0, -1.0])).backward(fd.tensor([0.0, 0.0, 0.0, 1.0]))
    assert x.grad.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_xlogy_s_gradient_is_differentiated_where_it_is_nothing() -> None:
    x = fd.tensor([2.0], requires_grad=True)
    seed = fd.tensor([0.0], requires_grad=True)
    (g,) = fd.autograd.grad(fd.xlogy(x, fd.tensor([math.e])), x, seed, create_graph=True)
    (second,) = fd.autograd.grad(g.sum(), seed)
    assert second.item() == pytest.approx(1.0)


def test_a_product_of_one_factor_passes_its_gradient_on() -> None:
    x = fd.tensor([[math.nan, INF, 0.0]], requires_grad=True)
    x.cumprod(0).sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0, 1.0]]


def test_expanded_memory_is_filled_with_one_number() -> None:
    x = fd.zeros(3, 1)
    assert x.expand(3, 4).fill_(2).tolist() == [[2.0] * 4] * 3
    assert x.tolist() == [[2.0], [2.0], [2.0]]
    assert x.expand(2, 3, 1).zero_().tolist() == [[[0.0]] * 3] * 2
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.expand(3, 4).add_(1)


def test_a_filled_expanded_result_passes_no_gradient() -> None:
    w = fd.ones(3, 1, requires_grad=True)
    y = w * 2
    y.expand(3, 4).fill_(5.0)
    y.sum().backward()
    assert y.tolist() == [[5.0], [5.0], [5.0]] and w.grad.tolist() == [[0.0], [0.0], [0.0]]


def test_expanded_memory_that_may_not_be_written_is_not_filled() -> None:
    import numpy as np

    array = np.zeros((3, 1), np.float32)
    array.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        fd.from_numpy(array).fill_(1)


def test_of_several_copies_to_one_place_the_last_stays() -> None:
    x = fd.zeros(3, 2)
    found = x.index_copy(0, fd.tensor([1, 1]), fd.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert found.tolist() == [[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: x.narrow(0, 0, 1), r"narrow\(\) cannot be applied to a 0-dim tensor."),
        (lambda x: x.split(1), "split expects at least a 1-dimensional tensor"),
        (lambda x: x.split_with_sizes([1]), "split expects at least a 1-dimensional tensor"),
        (lambda x: x.chunk(1), "chunk expects at least a 1-dimensional tensor"),
        (lambda x: x.flipud(), "Input must be >= 1-d."),
        (lambda x: x.fliplr(), "Input must be >= 2-d."),
        (lambda x: x.index_add(0, fd.tensor([0, 0]), fd.ones(3)), r"Number of indices \(2\)"),
        (lambda x: x.index_copy(0, fd.tensor([0]), fd.ones(3)), r"Number of indices \(1\)"),
    ],
)
def test_what_needs_an_axis_says_so(call: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call(fd.tensor(1.0))


@pytest.mark.parametrize(
    "spread",
    [
        lambda x: x.std(1),
        lambda x: x.std(1) ** 2,
        lambda x: x.norm(dim=1) ** 2,
        lambda x: x.norm(3, dim=1),
        lambda x: x.norm(4, dim=1),
    ],
    ids=["std", "squared std", "squared norm", "norm 3", "norm 4"],
)
def test_the_slope_where_nothing_deviates_is_differentiated(
    spread: Callable[[fd.Tensor], fd.Tensor],
) -> None:
    x = fd.zeros(2, 2, requires_grad=True)
    (slope,) = fd.autograd.grad(spread(x).sum(), x, create_graph=True)
    (second,) = fd.autograd.grad((slope * slope).sum(), x)
    assert slope.tolist() == [[0.0, 0.0]] * 2 and second.tolist() == [[0.0, 0.0]] * 2


@pytest.mark.parametrize("extreme", [lambda x: x.max(), lambda x: (-x).min()], ids=["max", "min"])
def test_an_infinite_gradient_of_an_extreme_reaches_no_other_element(
    extreme: Callable[[fd.Tensor], fd.Tensor],
) -> None:
    x = fd.tensor([1.0, 3.0, 3.0], requires_grad=True)
    (g,) = fd.autograd.grad(extreme(x), x, fd.tensor(INF))
    assert g.abs().tolist() == [0.0, INF, INF]


SECOND: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "logsigmoid at 0": (fd.nn.functional.logsigmoid, 0.0, -0.25),
    "softplus far up": (fd.nn.functional.softplus, 100.0, 0.0),
    "softplus at infinity": (fd.nn.functional.softplus, INF, 0.0),
    "elu far up": (fd.nn.functional.elu, 100.0, 0.0),
    "selu far up": (fd.nn.functional.selu, 100.0, 0.0),
    "celu far up": (fd.nn.functional.celu, 100.0, 0.0),
    "mish far up": (fd.nn.functional.mish, 100.0, 0.0),
    "x ** 0 at 0": (lambda x: x**0, 0.0, 0.0),
    "sinc at 0": (fd.sinc, 0.0, -(math.pi**2) / 3),
    "sinc near 0": (fd.sinc, 1e-30, -(math.pi**2) / 3),
    "cross entropy of a weighed logit at 0": (
        lambda x: fd.nn.functional.binary_cross_entropy_with_logits(
            x, fd.tensor([1.0]), pos_weight=fd.tensor(3.0)
        ),
        0.0,
        0.75,
    ),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_where_another_branch_overflows_or_has_a_kink(name: str) -> None:
    call, point, second = SECOND[name]
    x = fd.tensor([point], requires_grad=True)
    (slope,) = fd.autograd.grad(call(x).sum(), x, create_graph=True)
    (found,) = fd.autograd.grad(slope.sum(), x)
    assert found.item() == pytest.approx(second, rel=1e-6)


def test_sinc_keeps_the_digits_of_its_slope_near_0() -> None:
    x = fd.tensor([1e-3, 1e-30, 0.09, 0.1], requires_grad=True)
    fd.sinc(x).sum().backward()
    p = [math.pi * one for one in x.tolist()]
    exact = [math.pi * (-q / 3 + q**3 / 30 - q**5 / 840 + q**7 / 45360) for q in p]
    assert x.grad.tolist() == pytest.approx(exact, rel=1e-5)


def test_softplus_and_the_shrinks_take_their_numbers_by_place() -> None:
    functional = fd.nn.functional
    x = fd.tensor([-2.0, 0.3, 2.0])
    assert functional.softplus(x, 2.0, 1.0)[2].item() == 2.0
    assert functional.hardshrink(x, 1.0).tolist() == [-2.0, 0.0, 2.0]
    assert functional.softshrink(x, 1.0).tolist() == [-1.0, 0.0, 1.0]
