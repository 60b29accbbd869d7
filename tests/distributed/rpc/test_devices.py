"""Device maps to missing devices make a group fail before its first call."""

from __future__ import annotations

from typing import Any

import pytest

from fastdist.core.errors import RpcError
from fastdist.distributed.rpc.devices import require_devices_of_maps
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.store import HashStore


@pytest.mark.parametrize(
    ("maps", "text"),
    [
        ({"w1": {"cpu": "cpu"}}, "invalid target node names in its device maps: w1; the group has"),
        ({"w0": {"cpu": "cuda:99"}}, "unexpected target devices in its device map for w0: cuda:99"),
    ],
)
def test_a_device_map_that_leads_nowhere_is_named(maps: dict[str, Any], text: str) -> None:
    me = Record("w0", 0, 1, 100, {}, maps, "none")
    with pytest.raises(RpcError, match=f"Node w0 has {text}"):
        require_devices_of_maps(HashStore(), me, [me], 5.0)
