"""A step over many parameters equals separate steps of each, however they are grouped."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import Tensor, optim
from fastdist.kernels.cpu.pointwise.multi_tensor import LIMIT

METHODS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"maximize": True}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"betas": (0.9, 0.8)}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}),
    ("Adamax", {"maximize": True}),
    ("ASGD", {"t0": 2, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("RMSprop", {"weight_decay": 0.1}),
    ("Rprop", {}),
]
BIG = LIMIT // 2 + 1


def leaf(seed: int, shape: tuple[int, ...], dtype: Any = None, *, turned: bool = False) -> Tensor:
    values = np.random.default_rng(seed).standard_normal(shape)
    made = fastdist.tensor(values, dtype=dtype or fastdist.float32)
    return (made.t() if turned else made).requires_grad_()


def leaves() -> list[Tensor]:
    """Return parameters of two dtypes; some are transposed, empty or without axes."""
    return [
        leaf(0, (BIG,)),
        leaf(1, (2, BIG)),
        leaf(2, (BIG, 2), turned=True),
        leaf(3, (BIG,), fastdist.float64),
        leaf(4, (BIG,), fastdist.float64),
        leaf(5, (0, 3)),
        leaf(6, ()),
        leaf(7, (3,), fastdist.float16),
        leaf(8, (BIG,)),
    ]


def give_gradients(parameters: list[Tensor], step: int) -> None:
    rng = np.random.default_rng(step)
    for number, parameter in enumerate(parameters):
        grad = fastdist.tensor(rng.standard_normal(parameter.shape), dtype=parameter.dtype)
        # One gradient is missing in the first step, so that step counts differ.
        parameter.grad = None if (number, step) == (1, 0) else grad


def stepped(parameters: list[Tensor], optimizers: list[optim.Optimizer]) -> list[bytes]:
    for step in range(4):
        give_gradients(parameters, step)
        for optimizer in optimizers:
            optimizer.step()
    return [parameter.detach().numpy().tobytes() for parameter in parameters]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "options"), METHODS)
def test_a_group_steps_as_each_of_its_parameters_alone(name: str, options: dict[str, Any]) -> None:
    make = getattr(optim, name)
    alone, together = leaves(), leaves()
    expected = stepped(alone, [make([one], lr=0.1, **options) for one in alone])
    assert stepped(together, [make(together, lr=0.1, **options)]) == expected


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "options"), METHODS)
def test_parameters_that_share_memory_step_one_after_the_other(
    name: str, options: dict[str, Any]
) -> None:
    def shared() -> list[Tensor]:
        memory = leaf(9, (3 * BIG,)).detach()
        return [memory[at : at + 2 * BIG].detach().requires_grad_() for at in (0, BIG // 2, BIG)]

    make = getattr(optim, name)
    alone, together = shared(), shared()
    expected = stepped(alone, [make([one], lr=0.1, **options) for one in alone])
    assert stepped(together, [make(together, lr=0.1, **options)]) == expected


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "options"), METHODS)
def test_a_parameter_listed_twice_is_stepped_twice(name: str, options: dict[str, Any]) -> None:
    make = getattr(optim, name)
    once, twice = leaf(10, (2 * LIMIT,)), leaf(10, (2 * LIMIT,))
    steps = make([once], lr=0.1, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        double = make([twice, twice], lr=0.1, **options)
    for step in range(2):
        give_gradients([once, twice], 1)
        twice.grad = once.grad
        steps.step()
        steps.step()
        double.step()
        assert twice.tolist() == once.tolist(), step


@pytest.mark.parametrize(("name", "options"), METHODS)
def test_a_step_counts_as_one_that_changes_all_that_it_writes(
    name: str, options: dict[str, Any]
) -> None:
    parameters = [leaf(11, (BIG,)), leaf(12, (2, BIG))]
    optimizer = getattr(optim, name)(parameters, lr=0.1, **options)
    give_gradients(parameters, 1)
    optimizer.step()
    written = [*parameters, *(s for p in parameters for s in optimizer.state[p].values())]
    before = [one._version for one in written]
    kept = parameters[0] * parameters[0]
    optimizer.step()
    assert all(one._version > version for one, version in zip(written, before, strict=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()


def test_a_parameter_that_is_refused_leaves_those_before_it_stepped() -> None:
    first, last = leaf(13, (2 * LIMIT,)), leaf(14, (4, 2))
    expected = (first - 0.5).detach()
    optimizer = optim.Adam([first, last], lr=0.5, eps=0.0)
    first.grad = fastdist.ones_like(first)
    last.grad = fastdist.sparse_coo_tensor([[0]], [[1.0, 1.0]], (4, 2))
    with pytest.raises(RuntimeError, match="Adam does not support sparse gradients"):
        optimizer.step()
    np.testing.assert_allclose(first.detach(), expected, rtol=1e-5, atol=1e-6)
