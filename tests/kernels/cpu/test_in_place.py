"""Kernels whose output is one of their inputs."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.core.scalar import parse
from fastdist.kernels.cpu.pointwise import SMALL_LIMIT, kernel_for

# One more than several blocks, so that the last one is short.
COUNT = 2 * SMALL_LIMIT + 77


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("which", [0, 1])
def test_the_output_may_be_any_input(dtype: type, which: int) -> None:
    arrays = [np.arange(COUNT, dtype=dtype), np.linspace(0, 1, COUNT, dtype=dtype)]
    expected = arrays[0] - 2 * arrays[1]
    kernel_for(parse("a - T(2) * b", ("a", "b"))).run(arrays, arrays[which])
    assert arrays[which] == pytest.approx(expected)


def test_the_output_may_be_a_strided_input() -> None:
    whole = np.arange(4.0 * COUNT).reshape(2 * COUNT, 2).T[:, ::2]
    expected = whole * whole + 1
    kernel_for(parse("a * a + T(1)", ("a",))).run([whole], whole)
    assert (whole == expected).all()


def test_the_output_may_be_rows_of_an_input_with_gaps() -> None:
    memory = np.ones((300, 50))
    part = memory[:, :40]
    kernel_for(parse("a + T(1)", ("a",))).run([part], part)
    assert (memory[:, :40] == 2.0).all()
    assert (memory[:, 40:] == 1.0).all()


def test_an_output_that_only_begins_where_an_input_does_is_computed_from_the_old_values() -> None:
    memory = np.arange(2.0 * COUNT)
    expected = memory[::2] + 1
    kernel_for(parse("a + T(1)", ("a",))).run([memory[::2]], memory[:COUNT])
    assert (memory[:COUNT] == expected).all()
