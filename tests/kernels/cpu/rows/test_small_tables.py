"""The table for summing rows, and NumPy's logarithm, against NumPy itself."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from fastdist.kernels.cpu.rows.small_tables import leaves_of, log_loop, table


def added_by_leaves(x: np.ndarray) -> np.float32:
    """Return the sum of a row, added in the order of the table."""
    waiting: list[np.float32] = []
    count, *leaves = leaves_of(len(x))
    begin = 0
    for length, joins in zip(leaves[::2], leaves[1::2], strict=True):
        part = x[begin : begin + length]
        whole = length - length % 8
        total = np.float32(0.0)
        if whole:
            eight = np.zeros(8, np.float32)
            for place in range(0, whole, 8):
                eight = eight + part[place : place + 8]
            pairs = eight[::2] + eight[1::2]
            total = (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])
        for one in part[whole:]:
            total = total + one
        waiting.append(total)
        for _ in range(joins):
            last = waiting.pop()
            waiting.append(waiting.pop() + last)
        begin += length
    assert (count, begin, len(waiting)) == (len(leaves) // 2, len(x), 1)
    return waiting[0]


@pytest.mark.parametrize("n", [1, 7, 8, 9, 64, 127, 128, 129, 300, 1000, 4096])
def test_rows_are_added_up_in_numpys_order(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((3, n)).astype(np.float32)
    expected = np.add.reduce(x, 1, None, None, False, 0.0)
    assert [added_by_leaves(row) for row in x] == expected.tolist()


def test_the_logarithm_is_called_as_numpy_calls_it() -> None:
    found = log_loop()
    assert found is not None
    x = np.random.default_rng(0).uniform(0.0, 10.0, 100)
    out = np.empty_like(x)
    loop = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(found[0])
    arrays = (ctypes.c_void_p * 2)(x.ctypes.data, out.ctypes.data)
    counts, steps = np.array([100]), np.array([8, 8])
    loop(arrays, counts.ctypes.data, steps.ctypes.data, found[1])
    assert out.tobytes() == np.log(x).tobytes()


def test_nobody_may_change_a_table() -> None:
    with pytest.raises(ValueError, match="read-only"):
        table(8)[0] = 1
