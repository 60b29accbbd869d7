"""The floating-point operations of a block are counted."""

from __future__ import annotations

import pytest

import fastdist
from fastdist.utils.flop_counter import FlopCounterMode


def test_a_product_counts_two_operations_for_each_of_its_terms(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with FlopCounterMode() as counter:
        fastdist.ones(2, 3) @ fastdist.ones(3, 4)
    assert counter.get_total_flops() == 48
    assert sum(counter.get_flop_counts()["Global"].values()) == 48
    assert "48" in capsys.readouterr().out


def test_formulas_of_a_users_own_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="leave custom_mapping out"):
        FlopCounterMode(custom_mapping={"op": len})
