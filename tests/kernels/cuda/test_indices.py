"""With a bad index, no CUDA kernel accesses memory outside of its arrays (on the CPU shim).

A read at a bad index gives NaN or an integer far outside, and nothing is written. A GPU raises no
error: see Note [Places outside] in ops/index/indexing.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim import cupy
from tests.fibre_shim.installed import cuda_on_fibres
from tests.forked import outcomes
from tests.kernels.index_calls import BAD, CALLS, Room, kernels_with_indices


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


class DeviceRoom(Room):
    """Arrays of the device, which the CPU shim surrounds with guards at each launch."""

    def array(self, values: Any, dtype: Any = None) -> Any:
        return cupy.asarray(np.ascontiguousarray(values, dtype))

    def spread(self, values: Any, shape: tuple[int, ...]) -> Any:
        return cupy.broadcast_to(self.array(values), shape)


def call(backend: CudaBackend, name: str) -> str:
    """Return "lives" if a kernel, called with bad indices, does nothing forbidden."""
    _, _, function = name.rpartition(".")
    kernels = SimpleNamespace(**{function: backend.kernel(name)})
    for bad in BAD:
        for one in CALLS[name](kernels, DeviceRoom(), False, bad):
            one()  # the CPU shim raises for a write outside of an array
    return "lives"


# Kernels whose index arrays no other code can write. A check would need registers that spill.
PRIVATE = {
    "nn.weighted_neighbours.weigh": (
        "a table that ops/nn/weighted_neighbours.py makes from shapes, and never shows"
    )
}


def test_no_kernel_touches_other_memory_by_an_index_that_nobody_checked(cuda: CudaBackend) -> None:
    names = [name for name in kernels_with_indices() if name not in PRIVATE]
    assert outcomes(names, lambda name: call(cuda, name)) == dict.fromkeys(names, "lives")


def test_hits_writes_only_where_a_hit_can_be(cuda: CudaBackend) -> None:
    def run(_: str) -> str:
        for bad in BAD:
            upto = np.array([1, 1, bad, 3])
            given = [cupy.asarray(one) for one in (np.ones(4, bool), upto, np.zeros(3, np.int64))]
            cuda.kernel("index.searching.hits")(*given)
        return "lives"

    assert outcomes(["hits"], run) == {"hits": "lives"}
