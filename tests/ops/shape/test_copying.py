"""Copies to devices lie as what they are copies of."""

from __future__ import annotations

import pytest

import fastdist as fd
from tests.dense_layouts import DENSE, GAPS


@pytest.mark.parametrize("name", [*DENSE, *GAPS])
def test_moves_keep_dense_layouts(name: str) -> None:
    here = {**DENSE, **GAPS}[name](fd.arange(120.0))
    there = here.to("sim:0")
    other, back = there.to("sim:1"), there.cpu()
    for moved in (there, other, back):
        assert moved.tolist() == here.tolist()
        assert name in GAPS or moved.stride() == here.stride()


def test_gradients_come_back_through_a_move() -> None:
    leaf = fd.arange(24.0).requires_grad_()
    moved = leaf.reshape(2, 3, 4).permute(2, 0, 1).to("sim:0").cpu()
    weights = fd.arange(24.0).reshape(4, 2, 3)
    (moved * weights).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == weights.permute(1, 2, 0).reshape(-1).tolist()
