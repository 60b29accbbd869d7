"""The short path of ops on a device makes one launch, on the current stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.devices.backend import backend_of
from fastdist.dispatch.pointwise import PointwiseOp
from fastdist.dispatch.structured import StructuredOp
from fastdist.dispatch.view import ViewOp
from tests.dispatch.paths import general_calls

SIM: Any = backend_of("sim")
VALUES = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda x, y: x * y,
    "number": lambda x, y: 1.5 - x,
    "row": lambda x, y: x * y[0],
    "exp": lambda x, y: x.exp(),
    "clamp": lambda x, y: x.clamp(-0.5, 0.5),
    "where": lambda x, y: fd.where(x > 0, x, y),
    "two dtypes": lambda x, y: x * y.to(fd.float64),
    "a number of the CPU's": lambda x, y: x * fd.tensor(2),
    "integers in place": lambda x, y: (x * 1).mul_(y.to(fd.int64)),
    "float64 in place": lambda x, y: (x * 1).mul_(y.to(fd.float64)),
    "cast": lambda x, y: x.to(fd.float64),
    "turned cast": lambda x, y: x.t().to(fd.float64),
    "turned copy": lambda x, y: x.t().clone(),
    "turned": lambda x, y: x.t() * y.t(),
    "sum": lambda x, y: x.sum(1),
    "softmax": lambda x, y: fd.nn.functional.softmax(x, 1),
    "max": lambda x, y: x.max(1).values,
    "matmul": lambda x, y: x @ y.t(),
    "view": lambda x, y: x.t()[1],
    "test": lambda x, y: fd.isnan(x),
}
every_call = pytest.mark.parametrize("name", CALLS)


@pytest.mark.parametrize("dtype", [fd.float32, fd.bfloat16])
@every_call
def test_a_later_call_on_the_cpu_gives_the_layout_of_the_first(name: str, dtype: Any) -> None:
    x, y = fd.tensor(VALUES, dtype=dtype), fd.tensor(VALUES[::-1].copy(), dtype=dtype)
    first = CALLS[name](x, y)
    for _ in range(2):
        again = CALLS[name](x, y)
        assert again.dtype is first.dtype and again.stride() == first.stride()
        assert again.tolist() == first.tolist()


@every_call
def test_a_later_call_goes_the_short_way_and_gives_what_the_cpu_gives(name: str) -> None:
    call = CALLS[name]
    x, y = fd.tensor(VALUES, device="sim"), fd.tensor(VALUES[::-1].copy(), device="sim")
    call(x, y)
    with general_calls(PointwiseOp, StructuredOp, ViewOp) as went:
        found = call(x, y)
    assert went == []
    expected = call(x.cpu(), y.cpu())
    assert found.device == x.device and found.dtype is expected.dtype
    assert found.stride() == expected.stride()
    np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "test"])
def test_gradients_are_those_of_the_cpu(name: str) -> None:
    def gradient(device: str) -> Any:
        x = fd.tensor(VALUES, device=device, requires_grad=True)
        y = fd.tensor(VALUES[::-1].copy(), device=device)
        for _ in range(2):
            CALLS[name](x, y)
        return fd.autograd.grad(CALLS[name](x, y).sum(), x)[0].cpu().numpy()

    np.testing.assert_allclose(gradient("sim"), gradient("cpu"), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "test"])
def test_a_node_runs_on_the_stream_on_which_it_was_recorded(name: str) -> None:
    x = fd.tensor(VALUES, device="sim", requires_grad=True)
    y = fd.tensor(VALUES, device="sim")
    CALLS[name](x, y)
    stream = SIM.stream()
    with stream:
        node: Any = CALLS[name](x, y).grad_fn
    while node.next_functions:
        assert node.stream is stream
        node = node.next_functions[0][0] or node.next_functions[1][0]


def test_a_number_s_tensor_may_change_right_after_the_call(monkeypatch: Any) -> None:
    x, factor = fd.tensor(VALUES, device="sim"), fd.tensor(2.0)
    (x * factor).cpu()
    monkeypatch.setattr(SIM.behaviour, "lazy", True)
    product = x * factor
    factor.fill_(100.0)
    np.testing.assert_array_equal(product.cpu().numpy(), VALUES * 2)
