"""Second derivatives of piecewise linear ops are zeros, as in PyTorch, in place and in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.nn import functional as F

LABELS = fd.tensor([0, 2])
LAYERS: dict[str, Callable[[Any], Any]] = {
    "relu": F.relu,
    "relu_": lambda x: x.clone().relu_(),
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "threshold": lambda x: F.threshold(x, 0.1, 2.0),
    "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "prelu": lambda x: F.prelu(x, fd.tensor([0.2])),
    "max_pool1d": lambda x: F.max_pool1d(x, 2),
    "max_pool2d": lambda x: F.max_pool2d(x.reshape(1, 2, 2, 2), 2),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x.reshape(1, 2, 2, 2), 2),
    "avg_pool3d": lambda x: F.avg_pool3d(x.reshape(1, 2, 2, 2), 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 3),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x.reshape(1, 2, 4), (1, 3)),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x.reshape(1, 2, 2, 2), (1, 2, 1)),
    "interpolate area": lambda x: F.interpolate(x.reshape(1, 2, 4), size=3, mode="area"),
    "pad reflect": lambda x: F.pad(x, (2, 1), mode="reflect"),
    "pad reflect 2": lambda x: F.pad(x.reshape(1, 2, 4), (2, 1, 1, 0), mode="reflect"),
    "pad replicate": lambda x: F.pad(x, (-1, 3), mode="replicate"),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(
        x.reshape(1, 2, 4), 2, output_size=(1, 2), _random_samples=fd.full((1, 1, 2), 0.5)
    ),
    "nll_loss": lambda x: F.nll_loss(x, LABELS, reduction="none"),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


def inputs() -> fd.Tensor:
    return fd.tensor([[-2.0, -0.3, 0.4, 2.0], [0.2, 1.5, -1.0, 7.0]], requires_grad=True)


@pytest.mark.one_in(4)
@every_layer
def test_the_second_gradient_is_zeros(name: str) -> None:
    x = inputs()
    y = LAYERS[name](x)
    (first,) = fd.autograd.grad(y, x, fd.ones_like(y), create_graph=True)
    (plain,) = fd.autograd.grad(LAYERS[name](x), x, fd.ones_like(y))
    assert first.requires_grad and fd.equal(first, plain)
    first.sum().backward(create_graph=True)
    assert x.grad is not None and x.grad.tolist() == fd.zeros(2, 4).tolist()


@pytest.mark.one_in(4)
@every_layer
def test_the_gradient_by_what_came_in_stays_what_it_was(name: str) -> None:
    x = inputs()
    y = LAYERS[name](x)
    g = fd.ones_like(y).requires_grad_()
    (first,) = fd.autograd.grad(y, x, g, create_graph=True)
    by_x, by_g = fd.autograd.grad(first.square().sum(), (x, g))
    assert not by_x.any() and by_g.any()


def test_curvature_of_a_network_of_steps_is_zeros_not_an_error() -> None:
    net = fd.nn.Sequential(fd.nn.Linear(1, 8), fd.nn.ReLU(), fd.nn.Linear(8, 1))
    x = fd.linspace(-1, 1, 5).reshape(5, 1).requires_grad_()
    (slope,) = fd.autograd.grad(net(x).sum(), x, create_graph=True)
    (curvature,) = fd.autograd.grad(slope.sum(), x)
    assert curvature.tolist() == fd.zeros(5, 1).tolist()


def test_each_of_a_batch_has_its_own() -> None:
    slope = fd.func.grad(lambda x: F.relu(x) * x)
    found = fd.func.vmap(fd.func.grad(slope))(fd.tensor([-1.0, 2.0]))
    assert found.tolist() == [0.0, 2.0]
    assert fd.func.hessian(lambda x: F.relu(x).sum())(fd.ones(2)).tolist() == [[0, 0], [0, 0]]


UNUSED: dict[str, Callable[[Any], Any]] = {
    "means of all": lambda x: F.adaptive_avg_pool2d(x.reshape(1, 2, 4), 1),
    "circular pads": lambda x: F.pad(x, (1, 1), mode="circular"),
    "other interpolations": lambda x: F.interpolate(x.reshape(1, 2, 4), size=3, mode="linear"),
    "index_select": lambda x: x.index_select(1, fd.tensor([0, 2])),
    "gather": lambda x: x.gather(1, fd.tensor([[0, 2], [1, 1]])),
}


@pytest.mark.parametrize("name", UNUSED)
def test_what_is_linear_all_through_has_none_as_in_pytorch(name: str) -> None:
    x = inputs()
    y = UNUSED[name](x)
    g = fd.ones_like(y).requires_grad_()
    (first,) = fd.autograd.grad(y, x, g, create_graph=True)
    assert fd.autograd.grad(first.sum(), x, allow_unused=True) == (None,)


def test_an_ordinary_pass_records_nothing_more() -> None:
    x = inputs()
    (first,) = fd.autograd.grad(F.relu(x).sum(), x)
    assert not first.requires_grad
