"""Remote references after their worker has left the group."""

from __future__ import annotations

import os

import pytest

from fastdist.core.errors import RpcError
from fastdist.distributed import rpc
from tests.distributed.workers import run_group


def keep_references_over_the_end() -> None:
    rpc.init_rpc(f"w{os.environ['RANK']}")
    if os.environ["RANK"] == "1":
        rpc.shutdown()
        return
    mine, other = rpc.RRef([1, 2]), rpc.remote("w1", int, ("7",))
    assert other.to_here() == 7
    rpc.shutdown()
    assert (other.owner(), other.owner_name()) == (rpc.WorkerInfo("w1", 1), "w1")
    assert not other.is_owner()
    with pytest.raises(RpcError) as raised:
        other.to_here()
    assert str(raised.value).startswith(
        f"{other} has been deleted. Cannot call to_here() on it after deletion."
    )
    assert "name=w1" in str(raised.value)
    # A local value remains usable.
    assert mine.local_value() == [1, 2] and mine.owner_name() == "w0"


@pytest.mark.one_in(8)
def test_a_reference_names_its_owner_after_shutdown_and_says_that_it_is_deleted() -> None:
    run_group(keep_references_over_the_end, 2)
