"""Operands of calls that no short path takes: arrays, numbers of NumPy, and what no op takes."""

from __future__ import annotations

import numpy as np
import pytest

import fastdist as fd
from fastdist.dispatch.call import as_operand_of


@pytest.mark.parametrize("array", [np.array([1.0, 2.0]), np.zeros(0), np.array(0.0)])
def test_an_array_is_an_operand_over_the_same_memory(array: np.ndarray) -> None:
    found = as_operand_of(array)
    assert isinstance(found, fd.Tensor) and found.dtype == fd.float64
    assert found.shape == array.shape and np.shares_memory(found.numpy(), array) == (array.size > 0)


@pytest.mark.parametrize("value", ["text", [1.0], object()])
def test_no_op_takes_other_things(value: object) -> None:
    assert as_operand_of(value) is NotImplemented
    with pytest.raises(TypeError, match=r"unsupported operand|add\(\)"):
        fd.ones(2) + value  # type: ignore[operator]


def test_numbers_of_numpy_are_numbers() -> None:
    assert as_operand_of(np.float32(2.5)) == 2.5
    assert type(as_operand_of(np.int64(3))) is int
