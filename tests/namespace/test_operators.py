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


class _Swapped:
    """Implements every reflected operator."""

    def _answer(self, other: Any) -> str:
        return f"swapped {type(other).__name__}"

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _answer
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = __rmatmul__ = _answer


@pytest.mark.parametrize(
    "name",
    [
        "iadd",
        "isub",
        "imul",
        "itruediv",
        "ifloordiv",
        "imod",
        "ipow",
        "iand",
        "ior",
        "ixor",
        "ilshift",
        "irshift",
    ],
)
def test_an_in_place_operator_leaves_what_it_does_not_know_to_the_other(name: str) -> None:
    x: Any = fd.tensor([1, 2])
    for _ in range(2):
        assert getattr(operator, name)(x, _Swapped()) == "swapped Tensor"
    with pytest.raises(TypeError, match="unsupported operand type"):
        getattr(operator, name)(x, "word")
    assert x.tolist() == [1, 2]


def test_an_in_place_method_refuses_what_it_does_not_know() -> None:
    with pytest.raises(TypeError, match="add_"):
        fd.ones(2).add_(_Swapped())


def test_an_array_of_numpy_times_a_tensor_is_a_recorded_product() -> None:
    x = fd.ones(2, 2, requires_grad=True)
    found: Any = np.eye(2, dtype=np.float32) @ x
    assert isinstance(found, fd.Tensor) and found.tolist() == x.tolist()
    found.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
