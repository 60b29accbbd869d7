"""The names in this package that users of PyTorch look for first."""

from __future__ import annotations

import fastdist.distributed
import fastdist.distributed.autograd
import fastdist.distributed.nn.functional


def test_the_distributed_half_says_that_it_is_there() -> None:
    assert fastdist.distributed.is_available()
    assert fastdist.distributed.autograd.is_available()
    assert fastdist.distributed.rpc.is_available()
    assert "is_available" in dir(fastdist.distributed)


def test_collectives_with_derivatives_are_offered_above() -> None:
    functional = fastdist.distributed.nn.functional
    assert {*functional.__all__} < {*fastdist.distributed.nn.__all__}
    for name in functional.__all__:
        assert getattr(fastdist.distributed.nn, name) is getattr(functional, name)
