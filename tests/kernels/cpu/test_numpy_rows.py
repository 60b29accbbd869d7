"""NumPy gives the results of the compiled loops, for every kernel of row_steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.index.indices import ALL_INSIDE
from fastdist.kernels.cpu.rows import numpy_rows
from fastdist.kernels.cpu.rows.row_kernels import row_loop
from fastdist.kernels.cpu.rows.row_steps import KERNELS, Columns, First, Let, Short

BAND = 32
SHAPES = [(1, 1), (3, 7), (5, 3000), (70, 1001)]
STRANGE = [np.nan, np.inf, -np.inf]


def operand(kind: str, shape: tuple[int, int], bands: int, dtype: str, strange: float) -> Any:
    rows, n = shape
    drawn = np.random.default_rng(rows)
    if kind == "places":
        return drawn.integers(0, n, rows)
    if kind == "outside":
        return ALL_INSIDE.copy()
    if kind in ("numbers", "wide"):
        return drawn.uniform(0.5, 2.0, rows).astype(np.float64 if kind == "wide" else dtype)
    found = drawn.standard_normal(
        {"rows": shape, "bands": (bands, n), "columns": (n,), "totals": (n,)}[kind]
    )
    if kind == "rows" and strange != 0.0:
        found[rows // 2, n // 3] = strange
    return found.astype(dtype)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_the_compiled_one_within_rounding(name: str, dtype: str) -> None:
    kernel, tolerance = KERNELS[name], 1e-4 if dtype == "float32" else 1e-10
    has_bands = not isinstance(kernel, Short | Columns) and kernel.has_bands
    for rows, n in SHAPES:
        for strange in (0.0, *STRANGE):
            count = -(-rows // BAND) if has_bands else rows
            told = (float(rows), float(BAND)) if has_bands else (0.37, 0.0)
            given = [operand(k, (rows, n), count, dtype, strange) for _, k in kernel.operands]
            ours, theirs = ([one.copy() for one in given] for _ in range(2))
            numpy_rows.run(name, ours, count, n, *told)
            row_loop(name, dtype)(tuple(theirs), count, n, *told)
            for (operand_name, _), one, other in zip(kernel.operands, ours, theirs, strict=True):
                np.testing.assert_allclose(
                    one, other, tolerance, tolerance, err_msg=f"{operand_name} of {rows} x {n}"
                )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_of_a_row_are_rounded_to_its_dtype_as_the_loops_round_them(dtype: str) -> None:
    array = (1e4 + np.random.default_rng(0).standard_normal((2, 40))).astype(dtype)
    rows = numpy_rows._Rows([("x", "rows", array)], slice(0, 2), 40, 1 / 3, 0.0)
    rows.take([First("first", "x"), Let("third", "a", rounded=True), Let("wide", "a")])
    # The mean of as many numbers as fit into a vector of 64 bytes.
    few = array[:, : 64 // array.itemsize].astype(np.float64)
    expected = few.mean(1, keepdims=True).astype(dtype).astype(np.float64)
    assert rows.values["first"].tolist() == expected.tolist()
    assert rows.values["third"] == np.array(1 / 3, dtype).astype(np.float64)
    assert rows.values["wide"] == 1 / 3
