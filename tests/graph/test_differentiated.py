"""The claim that it is known what follows from what a function is differentiated by."""

from __future__ import annotations

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
