"""The claim that it is known what follows from what a function is differentiated by."""

from __future__ import annotations

import pytest

import fastdist as fd
from fastdist.graph.differentiated import differentiating, is_differentiated
from fastdist.graph.modes import tls


def test_what_follows_from_it_is_told_from_what_does_not() -> None:
    x, other = fd.ones(2, requires_grad=True), fd.ones(2, requires_grad=True)
    with differentiating([x * 1.0, y := x * 2.0]):
        assert is_differentiated([(y * other).sum()]) and is_differentiated([other, y[0]])
        assert not is_differentiated([x, other * x, fd.ones(2)])
        with differentiating([other]):
            assert is_differentiated([other * x]) and is_differentiated([y.exp()])
        assert not is_differentiated([other * x])
    assert tls.differentiated == () and not is_differentiated([y])


@pytest.mark.parametrize("place", [0, 1])
def test_what_follows_from_any_result_of_an_op_is_found(place: int) -> None:
    results = fd.linalg.eigh(fd.eye(2, requires_grad=True) * 2)
    with differentiating([results[place]]):
        assert is_differentiated([results[place] * 3])
        assert not is_differentiated([fd.ones(2, requires_grad=True) * 3, fd.ones(2)])
