"""Formulas of SGD, Adam and AdamW; the expected numbers are results of PyTorch 2.13."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fastdist
from fastdist import Tensor, optim

WEIGHTS = [1.0, 2.0, 3.0, 4.0]
START = [1.0, -2.0, 0.5, 3.0]
MAKERS: dict[str, tuple[Callable[[list[Tensor]], optim.Optimizer], list[float]]] = {
    "plain": (
        lambda p: optim.SGD(p, lr=0.05),
        [0.7290000000000001, -1.024, 0.17149999999999999, 0.6479999999999999],
    ),
    "momentum": (
        lambda p: optim.SGD(p, lr=0.05, momentum=0.9),
        [0.486, -0.1239999999999998, -0.13900000000000007, -1.6200000000000003],
    ),
    "dampening and weight decay": (
        lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.1),
        [0.5364615137500001, -0.31291467750000007, -0.08328691812500001, -1.3067160337500001],
    ),
    "nesterov": (
        lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1),
        [0.30025055012499996, 0.2493048847499999, -0.1778805674375, -1.302688582125],
    ),
    "maximize": (
        lambda p: optim.SGD(p, lr=0.05, momentum=0.5, maximize=True, weight_decay=0.1),
        [1.440707375, -3.97652975, 1.3137611875, 10.093439624999998],
    ),
    "adam": (
        lambda p: optim.Adam(p, lr=0.1),
        [0.7015862729460302, -1.7006233916636408, 0.20487125044086524, 2.7003815230704395],
    ),
    "adam with weight decay": (
        lambda p: optim.Adam(
            p, lr=0.1, weight_decay=0.5, maximize=True, betas=(0.8, 0.9), eps=1e-3
        ),
        [1.3004030963270528, -2.3003637506355887, 0.8003988841904089, 3.3002841558446985],
    ),
    "amsgrad": (
        lambda p: optim.Adam(p, lr=0.5, amsgrad=True, betas=(0.5, 0.6)),
        [-0.1529822092265095, -0.5917381279555816, -0.1421637028926144, 1.5364205776686846],
    ),
    "adamw": (
        lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.5),
        [0.5749739307415966, -1.4310252432939143, 0.15050263207009523, 2.2880519095981073],
    ),
}


def train(name: str, start: Tensor, weights: Tensor, steps: int = 3) -> Tensor:
    optimizer = MAKERS[name][0]([start])
    for _ in range(steps):
        optimizer.zero_grad()
        (weights * start * start).sum().backward()
        optimizer.step()
    return start.detach()


@pytest.mark.parametrize("name", MAKERS)
def test_three_steps_end_where_pytorch_does(name: str) -> None:
    start = fastdist.tensor(START, dtype=fastdist.float64, requires_grad=True)
    weights = fastdist.tensor(WEIGHTS, dtype=fastdist.float64)
    assert train(name, start, weights).tolist() == pytest.approx(MAKERS[name][1], rel=1e-12)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MAKERS)
def test_large_and_strided_parameters_follow_the_same_formula(name: str) -> None:
    # NumPy computes a step of 4 numbers, and Numba computes a step of 8,192.
    start = fastdist.tensor(np.tile(START, (2048, 1)).T).t().requires_grad_()
    weights = fastdist.tensor(WEIGHTS, dtype=fastdist.float64)
    assert not start.is_contiguous()
    found = train(name, start, weights).numpy()
    assert found == pytest.approx(np.tile(MAKERS[name][1], (2048, 1)), rel=1e-12)


@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_parameters_on_other_devices_are_changed_there(name: str) -> None:
    start = fastdist.tensor(START, dtype=fastdist.float64, device="sim:0", requires_grad=True)
    weights = fastdist.tensor(WEIGHTS, dtype=fastdist.float64, device="sim:0")
    found = train(name, start, weights)
    assert str(found.device) == "sim:0"
    assert found.cpu().tolist() == pytest.approx(MAKERS[name][1], rel=1e-12)


def test_infinite_parameters_do_not_become_nan_by_a_decay_of_zero() -> None:
    parameter = fastdist.tensor([float("inf")], requires_grad=True)
    parameter.grad = fastdist.tensor([1.0])
    optim.SGD([parameter], lr=0.5).step()
    assert parameter.item() == float("inf")


def test_half_precision_is_rounded_once() -> None:
    parameter = fastdist.tensor([1.0], dtype=fastdist.float16, requires_grad=True)
    parameter.grad = fastdist.tensor([2.0], dtype=fastdist.float16)
    optim.SGD([parameter], lr=0.25).step()
    assert (parameter.dtype, parameter.item()) == (fastdist.float16, 0.5)
