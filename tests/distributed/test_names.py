"""Names that PyTorch's users ask for before anything else."""

from __future__ import annotations

import pytest

import fastdist.distributed
import fastdist.distributed.autograd
import fastdist.distributed.nn.functional


def test_the_distributed_half_says_that_it_is_there() -> None:
    assert fastdist.distributed.is_available()
    assert fastdist.distributed.autograd.is_available()
    assert fastdist.distributed.rpc.is_available()
    assert "is_available" in dir(fastdist.distributed)


@pytest.mark.parametrize("name", fastdist.distributed.nn.functional.__all__)
def test_what_needs_collectives_can_be_imported_and_says_that_it_is_not_there(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"nn.functional.{name}: fastdist does not "):
        getattr(fastdist.distributed.nn, name)(None)
