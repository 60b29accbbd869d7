"""Every structured op and composite of the table on cuda, whose kernels fibres run on the CPU.

So the row of cases that an op has is the test of its CUDA twin as well. Fibres take turns in three
orders: each case has one of them in an ordinary run, and all under `slow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim import cupy
from tests.fibre_shim.driver import SEEDS
from tests.fibre_shim.installed import cuda_on_fibres
from tests.ops import linalg_cases
from tests.ops.cases import Case, is_number_array
from tests.ops.test_table import ALL

# The table broadcasts on purpose, and the losses warn of it.
pytestmark = pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
# Matrices are factored by CuPy's own functions, which fibres have not: tests/kernels/cuda has them.
ON_FIBRES = [param for param in ALL if param.values[0] not in linalg_cases.CASES]
IN_ALL_ORDERS = [
    pytest.param(
        *param.values,
        seed,
        id=f"{param.id}-{seed}",
        marks=[] if place % len(SEEDS) == seed else [pytest.mark.slow],
    )
    for place, param in enumerate(ON_FIBRES)
    for seed in SEEDS
]


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def value_and_gradients(one: Case, arrays: list[np.ndarray], device: str) -> list[np.ndarray]:
    leaves: list[Any] = []
    for array in arrays:
        moves = is_number_array(array)
        dtype = fd.float32 if moves else None
        needs = moves and one.differentiable
        leaves.append(fd.tensor(array, dtype=dtype, device=device, requires_grad=needs))
    result = one.ours(*leaves)
    if one.differentiable:
        result.sum().backward()
    found = [result.detach(), *[leaf.grad for leaf in leaves if leaf.grad is not None]]
    return [tensor.cpu().numpy().copy() for tensor in found]


@pytest.mark.parametrize(("name", "one", "order"), IN_ALL_ORDERS)
def test_cuda_computes_what_the_cpu_does(
    cuda: CudaBackend, name: str, one: Case, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cupy, "schedule", [order])
    arrays = one.arrays(f"{name} on fibres")
    expected = value_and_gradients(one, arrays, "cpu")
    found = value_and_gradients(one, arrays, "cuda:0")
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
