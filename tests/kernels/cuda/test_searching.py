"""CUDA searches in sorted rows and for true elements, run on the CPU shim, against the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.core.dtypes import bfloat16
from fastdist.kernels.cuda.index.searching import hits, plan_places
from fastdist.kernels.cuda.launch import Slot
from tests.fibre_shim.driver import SEEDS, run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("index.searching")
RNG = np.random.default_rng(4)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", bfloat16.numpy])
def test_numbers_find_their_places_in_one_row_and_row_by_row(dtype: Any, right: bool) -> None:
    rows = np.sort(RNG.integers(0, 20, (3, 17)), -1).astype(dtype)
    x = RNG.integers(0, 23, (3, 100)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        rows[:, -2:], x[:, 7] = np.nan, np.nan
    for among in (rows, rows[1], rows[:, :0]):
        expected = np.empty(x.shape, np.int64)
        cpu.sorted_places(x, among, expected, right)
        for seed in SEEDS:
            out = np.full(x.shape, -7)
            run(plan_places(x, np.ascontiguousarray(among), out, right=right), seed)
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_places_where_a_condition_holds_are_found_in_order(share: float) -> None:
    x = RNG.random(700) < share
    upto, expected = x.cumsum(), np.flatnonzero(x)
    launches: list[Any] = []
    slots = [Slot(i, one, launches, aligned=True) for i, one in enumerate((x, upto, expected))]
    hits(*slots)
    for seed in SEEDS:
        out = np.full(len(expected), -7)
        arrays = (x, upto, out)
        given = [
            step._replace(args=[arrays[a.place] if isinstance(a, Slot) else a for a in step.args])
            for step in launches
        ]
        run(given, seed)
        np.testing.assert_array_equal(out, expected)
