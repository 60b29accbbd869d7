"""Names that PyTorch's users ask for before anything else."""

from __future__ import annotations

import fastdist.distributed
import fastdist.distributed.autograd


def test_the_distributed_half_says_that_it_is_there() -> None:
    assert fastdist.distributed.is_available()
    assert fastdist.distributed.autograd.is_available()
    assert fastdist.distributed.rpc.is_available()
    assert "is_available" in dir(fastdist.distributed)
