"""Operators on Tensors, with Tensors and numbers on either side."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd

ARITHMETIC = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("apply", ARITHMETIC)
def test_arithmetic_takes_tensors_and_numbers_on_both_sides(apply: Callable[..., Any]) -> None:
    a, b = np.array([1.0, 2.0, 3.0], np.float32), np.array([3.0, 2.0, 1.0], np.float32)
    same(apply(fd.tensor(a), fd.tensor(b)), apply(a, b))
    same(apply(fd.tensor(a), 2), apply(a, 2))
    same(apply(2, fd.tensor(a)), apply(2, a))
    same(apply(2.5, fd.tensor(a)), apply(2.5, a))


@pytest.mark.parametrize("apply", BITS)
def test_bits_take_integers_on_both_sides(apply: Callable[..., Any]) -> None:
    a, b = np.array([1, 2, 12]), np.array([3, 2, 1])
    same(apply(fd.tensor(a), fd.tensor(b)), apply(a, b))
    same(apply(fd.tensor(a), 2), apply(a, 2))
    same(apply(2, fd.tensor(b)), apply(2, b))


@pytest.mark.parametrize("apply", [operator.neg, operator.abs])
def test_signs(apply: Callable[..., Any]) -> None:
    a = np.array([1.0, -2.0], np.float32)
    same(apply(fd.tensor(a)), apply(a))


def test_invert_turns_bools_and_bits_round() -> None:
    assert (~fd.tensor([True, False])).tolist() == [False, True]
    assert (~fd.tensor([0, 5])).tolist() == [-1, -6]


def test_bits_of_floats_are_refused() -> None:
    with pytest.raises(RuntimeError, match="expected integer or bool tensors"):
        fd.ones(2) & fd.ones(2)


def test_an_operand_of_another_kind_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        fd.ones(2) + "one"
    assert (fd.ones(2) == "one") is False


def test_augmented_operators_change_the_tensor_itself() -> None:
    x = fd.tensor([1.0, 2.0])
    y = x
    x += 1
    x *= fd.tensor([2.0, 3.0])
    x -= 1
    x /= 2
    x **= 2
    assert y is x and x.tolist() == [2.25, 16.0]
