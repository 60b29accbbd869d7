"""Tensors that depend on the inputs of a transform are recognized."""

from __future__ import annotations

import pytest

import fastdist as fd
from fastdist.graph.modes import tls
from fastdist.graph.transform_inputs import differentiating, follows_from_inputs


def test_what_follows_from_it_is_told_from_what_does_not() -> None:
    x, other = fd.ones(2, requires_grad=True), fd.ones(2, requires_grad=True)
    with differentiating([x * 1.0, y := x * 2.0]):
        assert follows_from_inputs([(y * other).sum()]) and follows_from_inputs([other, y[0]])
        assert not follows_from_inputs([x, other * x, fd.ones(2)])
        with differentiating([other]):
            assert follows_from_inputs([other * x]) and follows_from_inputs([y.exp()])
        assert not follows_from_inputs([other * x])
    assert tls.transform_inputs == () and not follows_from_inputs([y])


@pytest.mark.parametrize("place", [0, 1])
def test_what_follows_from_any_result_of_an_op_is_found(place: int) -> None:
    results = fd.linalg.eigh(fd.eye(2, requires_grad=True) * 2)
    with differentiating([results[place]]):
        assert follows_from_inputs([results[place] * 3])
        assert not follows_from_inputs([fd.ones(2, requires_grad=True) * 3, fd.ones(2)])
