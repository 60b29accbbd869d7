"""Sums of a few long columns are as exact as float64 sums, for any number of rows."""

from __future__ import annotations

import numpy as np
import pytest

import fastdist as fd


@pytest.mark.parametrize(("rows", "columns"), [(10_000, 10), (9_973, 10), (65_537, 2), (2_048, 60)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_few_long_columns(rows: int, columns: int, dtype: str) -> None:
    x = np.random.default_rng(1).uniform(1.0, 3.0, (rows, columns)).astype(dtype)
    expected = x.astype(float).sum(0)
    tolerance = 1e-6 if dtype == "float32" else 1e-13
    for found in (fd.tensor(x).sum(0), fd.tensor(x).mean(0, True)[0] * rows):
        np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance)
