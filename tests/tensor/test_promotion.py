"""The default dtype, and dtypes of results that depend on it."""

from __future__ import annotations

import pytest

import fastdist
from fastdist.core.dtypes import DType
from fastdist.ops.reduce import reductions


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
        fastdist.set_default_dtype(fastdist.float64)  # another thread might do this
        return found

    x = fastdist.ones(5, 7, dtype=fastdist.int64)
    monkeypatch.setattr(reductions, "get_default_dtype", change_behind)
    try:
        assert x.logsumexp(1).dtype is fastdist.float32
        monkeypatch.undo()
        assert x.logsumexp(1).dtype is fastdist.float64
    finally:
        fastdist.set_default_dtype(fastdist.float32)


def test_the_bounds_of_clamp_and_what_is_clamped_meet_all_at_once() -> None:
    half = fastdist.tensor(0.5, dtype=fastdist.float64)
    found = fastdist.tensor([True, False]).clamp(half, fastdist.tensor([0.75]))
    assert found.dtype is fastdist.float32 and found.tolist() == [0.75, 0.5]
    # The other bound is a number, so the bound without axes counts as a number too.
    assert fastdist.tensor([1, 9]).clamp(half, 4).dtype is fastdist.float32
    assert (
        fastdist.tensor([1, 9]).clamp(fastdist.tensor(2, dtype=fastdist.uint8), half).dtype
        is fastdist.float64
    )


def test_ldexp_keeps_a_floating_dtype_and_scales_beyond_what_a_power_holds() -> None:
    half = fastdist.tensor([1.5], dtype=fastdist.float16)
    for power in (fastdist.tensor([3]), fastdist.tensor([3], dtype=fastdist.uint8)):
        found = fastdist.ldexp(half, power)
        assert found.dtype is fastdist.float16 and found.tolist() == [12.0]
    assert fastdist.ldexp(fastdist.tensor([2.0**-100]), fastdist.tensor([200])).tolist() == [
        2.0**100
    ]
    assert fastdist.ldexp(fastdist.tensor([3]), fastdist.tensor([-2])).tolist() == [0.75]
    x = fastdist.tensor([1.0], requires_grad=True)
    fastdist.ldexp(x, fastdist.tensor([3])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [8.0]


def test_a_negative_number_beside_uint8_is_itself_in_a_quotient() -> None:
    x = fastdist.tensor([1, 2, 4], dtype=fastdist.uint8)
    for _ in range(2):  # the second call uses the cached plan
        assert (x / -1).tolist() == [-1.0, -2.0, -4.0]
        assert (-1 / x).tolist() == [-1.0, -0.5, -0.25]
        assert (x * -1).tolist() == [255, 254, 252]  # a product stays uint8 and wraps around


HALVES = (fastdist.float16, fastdist.bfloat16)


@pytest.mark.parametrize("other", [*HALVES, fastdist.int16, fastdist.int64, fastdist.float64])
@pytest.mark.parametrize("half", HALVES)
def test_isin_finds_numbers_of_half_types_among_others(half: DType, other: DType) -> None:
    x, among = fastdist.tensor([1, 2, 3]).to(half), fastdist.tensor([3, 1, 5]).to(other)
    assert fastdist.isin(x, among).tolist() == [True, False, True]
    assert fastdist.isin(among, x).tolist() == [True, True, False]
