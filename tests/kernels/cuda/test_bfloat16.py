"""CUDA kernels for bfloat16, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.devices.cuda import CudaBackend
from fastdist.nn import functional as F
from tests.fibre_shim.installed import cuda_on_fibres

NUMBERS = [[1.5, -0.0, 3e38], [0.1, 7.25, -9.0], [1e-40, 100.5, -3.0]]
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: x / (1.0 + x.abs()),
    "large factor": lambda x: x * 1e-30,
    "comparison": lambda x: x > 1.0,
    "to float16": lambda x: x.half(),
    "from float16": lambda x: x.half().bfloat16(),
    "to float64": lambda x: x.double(),
    "to int32": lambda x: x.clamp(-100, 200).int(),
    "from int64": lambda x: x.clamp(-100, 200).long().bfloat16(),
    "meets float16": lambda x: x + x.half(),
    "meets float32": lambda x: x * x.float(),
    "sum": lambda x: x.sum(0),
    "product": lambda x: x.clamp(-9, 9) @ x.clamp(-9, 9),
    "softmax": lambda x: F.softmax(x, 1),
    "log_softmax": lambda x: F.log_softmax(x.clamp(-9, 9), 0),
    "running sum": lambda x: x.clamp(-9, 9).cumsum(1),
    "running maximum": lambda x: x.cummax(1).values,
    "largest of windows": lambda x: F.max_pool2d(x[None, None], 2, 1),
    "batch norm of float32 parameters": lambda x: F.batch_norm(
        x.clamp(-9, 9), None, None, x.float()[1], training=True
    ),
    "mean of what meets": lambda x: x.clamp(-9, 9).scatter_reduce(0, x.long() * 0, x, "mean"),
    "strides": lambda x: x.t()[1:, ::2] * 2.0,
}


@pytest.fixture(autouse=True)
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_device_computes_bfloat16_as_the_cpu_does(name: str) -> None:
    x = fd.tensor(NUMBERS, dtype=fd.bfloat16)
    expected, found = PROGRAMS[name](x), PROGRAMS[name](x.to("cuda"))
    assert str(found.device) == "cuda:0" and found.dtype is expected.dtype
    np.testing.assert_allclose(
        found.cpu().double().numpy(), expected.double().numpy(), rtol=8e-3, atol=1e-6
    )


def test_rounding_is_that_of_the_cpu() -> None:
    x = fd.linspace(-3.0, 3.0, 500) * fd.logspace(-39.0, 38.0, 500)
    special = fd.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 3.4e38, 1.00390625])
    x = fd.cat([x, special])
    expected, found = x.bfloat16(), x.to("cuda").bfloat16().cpu()
    for one, other in ((found, expected), (found.signbit(), expected.signbit())):
        np.testing.assert_array_equal(one.double().numpy(), other.double().numpy())
    assert found.isnan().sum() == 1


def test_gradients_of_bfloat16_are_made_on_the_device() -> None:
    grads = []
    for device in ("cpu", "cuda"):
        x = fd.tensor(NUMBERS, dtype=fd.bfloat16).clamp(-9, 9).to(device).requires_grad_()
        F.softmax(x * x / fd.tensor(2, device=device), 1).exp().sum().backward()
        assert x.grad is not None and x.grad.dtype is fd.bfloat16
        grads.append(x.grad.cpu().double().numpy())
    np.testing.assert_allclose(*grads, rtol=2e-2, atol=2e-2)
