"""The default dtype, and what depends on it."""

from __future__ import annotations

import pytest

import fastdist
from fastdist.core.dtypes import DType
from fastdist.ops import reductions


def test_set_default_dtype_reaches_ops_that_were_planned_before() -> None:
    x = fastdist.tensor([1, 2])
    assert x.logsumexp(0).dtype is fastdist.float32
    fastdist.set_default_dtype(fastdist.float64)
    try:
        assert x.logsumexp(0).dtype is fastdist.float64
    finally:
        fastdist.set_default_dtype(fastdist.float32)


def test_a_plan_that_is_made_while_the_default_dtype_changes_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def change_behind() -> DType:
        found = fastdist.get_default_dtype()
        fastdist.set_default_dtype(fastdist.float64)  # as another thread may
        return found

    x = fastdist.ones(5, 7, dtype=fastdist.int64)
    monkeypatch.setattr(reductions, "get_default_dtype", change_behind)
    try:
        assert x.logsumexp(1).dtype is fastdist.float32
        monkeypatch.undo()
        assert x.logsumexp(1).dtype is fastdist.float64
    finally:
        fastdist.set_default_dtype(fastdist.float32)
