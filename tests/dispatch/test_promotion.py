"""The default dtype, and what depends on it."""

from __future__ import annotations

import fastdist


def test_set_default_dtype_reaches_ops_that_were_planned_before() -> None:
    x = fastdist.tensor([1, 2])
    assert x.logsumexp(0).dtype is fastdist.float32
    fastdist.set_default_dtype(fastdist.float64)
    try:
        assert x.logsumexp(0).dtype is fastdist.float64
    finally:
        fastdist.set_default_dtype(fastdist.float32)
