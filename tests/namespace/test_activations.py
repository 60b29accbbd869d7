"""Activations accept `inplace` after their numbers, even where their op does not declare it."""

from __future__ import annotations

import inspect

import pytest

import fastdist as fd
from fastdist.dispatch.op import OPS
from fastdist.nn import functional as F

NAMES = [name for name, op in OPS.items() if "activation" in op.homes]
TWINS = [name for name, op in OPS.items() if "activation_" in op.homes]
GIVEN = {"threshold": (0.5, 2.0)}


@pytest.mark.parametrize("name", NAMES)
def test_an_activation_is_written_over_its_input_if_asked(name: str) -> None:
    call, numbers = getattr(F, name), GIVEN.get(name, ())
    x = fd.tensor([-1.5, -0.25, 0.75])
    usual = [p.default for p in inspect.signature(call).parameters.values()][1:-1]
    expected = call(x, *numbers)
    assert not fd.equal(expected, x)
    assert call(x, *(numbers or usual), True) is x and fd.equal(x, expected)


@pytest.mark.parametrize("name", TWINS)
def test_an_in_place_twin_does_the_same(name: str) -> None:
    numbers = GIVEN.get(name, ())
    x = fd.tensor([-1.5, -0.25, 0.75])
    expected = getattr(F, name)(x, *numbers)
    assert getattr(F, f"{name}_")(x, *numbers) is x and fd.equal(x, expected)


def test_gradients_pass_through_an_activation_in_place() -> None:
    leaf = fd.tensor([-1.0, 2.0], requires_grad=True)
    F.leaky_relu(leaf * 1, 0.5, inplace=True).sum().backward()
    assert leaf.grad.tolist() == [0.5, 1.0]
