"""CUDA optimizer steps of touched rows, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cpu.sparse import touched_rows as cpu
from fastdist.kernels.cuda.sparse.touched_rows import plan
from tests.fibre_shim.driver import run


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("name", "arrays", "numbers"),
    [("adagrad", 2, [0.1, 1e-3]), ("sparse_adam", 3, [0.1, 0.9, 0.99, 1e-3])],
)
@pytest.mark.parametrize("rows", [[4, 0, 4, 7, 4], [2], []])
def test_steps_change_the_touched_rows(
    dtype: str, name: str, arrays: int, numbers: list[float], rows: list[int]
) -> None:
    random = np.random.default_rng(0)
    values = random.standard_normal((len(rows), 3)).astype(dtype)
    given = [random.random((8, 3)).astype(dtype) for _ in range(arrays)]
    order = np.argsort(np.array(rows, np.int64), kind="stable")
    places = np.array(rows, np.int64)[order]
    on_cpu, on_cuda = ([one.copy() for one in given] for _ in range(2))
    getattr(cpu, name)(values, places, order, *on_cpu, *numbers)
    run(plan(name, values, places, order, on_cuda, numbers), 0)
    tolerance = 2e-3 if dtype == "float16" else 1e-6
    for before, one, other in zip(given, on_cpu, on_cuda, strict=True):
        np.testing.assert_allclose(other, one, rtol=tolerance)
        assert sorted({*np.nonzero(one != before)[0]}) == sorted({*rows})
