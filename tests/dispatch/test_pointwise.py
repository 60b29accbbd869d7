"""Computation dtypes of pointwise ops, and rejected dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist


@pytest.mark.parametrize(
    "difference",
    [lambda b: 1 - b, lambda b: b - 1.5, lambda b: fastdist.ones(2) - b, lambda b: True - b],
)
def test_sub_refuses_a_bool_whatever_the_other_is(difference: Callable[[Any], Any]) -> None:
    with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with"):
        difference(fastdist.tensor([True, False]))


def test_neg_refuses_bool() -> None:
    with pytest.raises(RuntimeError, match="Negation, the `-` operator, on a bool tensor is not"):
        -fastdist.tensor(True)


def test_add_refuses_a_fraction_of_integers() -> None:
    x = fastdist.tensor([1, 2])
    with pytest.raises(RuntimeError, match="For integral input tensors, argument alpha must not"):
        fastdist.add(x, x, alpha=0.5)


def test_add_keeps_bool_whatever_alpha_is() -> None:
    x = fastdist.tensor([True, False])
    assert fastdist.add(x, x, alpha=3).dtype is fastdist.bool


def test_a_result_walks_memory_as_a_transposed_operand_with_an_axis_of_one_does() -> None:
    x = fastdist.ones(3, 2).unsqueeze(0).permute(0, 2, 1)
    assert x.exp().stride()[1:] == (1, 2)


def test_gradients_of_an_op_with_a_bool_operand_are_computed_in_floating_point() -> None:
    x = fastdist.tensor([0.5, 2.0], requires_grad=True)
    fastdist.atan2(fastdist.tensor([True, False]), x).sum().backward()
    assert x.grad.tolist() == pytest.approx([-0.8, 0.0])
