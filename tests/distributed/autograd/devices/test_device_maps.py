"""Gradients of tensors on devices return to the devices that the tensors came from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.distributed import rpc
from tests.device_kinds import KINDS, kind_here, told
from tests.distributed.autograd.on_worker import on_worker
from tests.distributed.workers import Group


def init() -> None:
    kind = kind_here()
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=30, init_timeout=30)
    if os.environ["RANK"] == "0":
        options.set_device_map("w1", {f"{kind}:0": f"{kind}:1"})
    rpc.init_rpc(f"w{os.environ['RANK']}", rpc_backend_options=options)


def leave() -> None:
    rpc.shutdown()


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def group(kind: str) -> Iterator[Group]:
    group = Group(__file__, 2, told(kind))
    try:
        group.run_all(init)
        yield group
        group.run_all(leave)
        assert group.end() == [0, 0]
    finally:
        group.kill()


def square(x: Tensor, *others: Tensor) -> Any:
    assert str(x.device) == f"{kind_here()}:1"
    return x * x


def with_device(x: Tensor) -> tuple[str, Tensor]:
    return str(x.device), (x * 3).to("cpu")


@pytest.mark.seed("U5", "U9", "E30", "E36")
@on_worker(0)
def test_gradients_come_back_to_the_device_of_the_tensor_that_was_sent(kind: str) -> None:
    x = fastdist.tensor([1.0, 2.0], device=f"{kind}:0", requires_grad=True)
    unused = fastdist.tensor([1.0], device=f"{kind}:0", requires_grad=True)
    with da.context() as context_id:
        y = rpc.rpc_sync("w1", square, (x, unused))
        assert str(y.device) == f"{kind}:0"
        da.backward(context_id, [y.sum()])
        found = da.get_gradients(context_id)
        assert str(found[x].device) == str(found[unused].device) == f"{kind}:0"
        assert found[x].to("cpu").tolist() == [2.0, 4.0]
        assert found[unused].to("cpu").tolist() == [0.0]


@pytest.mark.seed("U5", "E16")
@on_worker(0)
def test_a_pass_may_begin_on_the_cpu_and_end_on_a_device(kind: str) -> None:
    x = fastdist.tensor([1.0, 2.0], device=f"{kind}:0", requires_grad=True)
    with da.context() as context_id:
        where, y = rpc.rpc_sync("w1", with_device, (x * 2,))
        assert (where, str(y.device)) == (f"{kind}:1", "cpu")
        da.backward(context_id, [y.sum()])
        assert da.get_gradients(context_id)[x].to("cpu").tolist() == [6.0, 6.0]


def loss_of(y: Tensor) -> Tensor:
    return (y.real * 2 + y.imag * 3).sum()


@pytest.mark.seed("U5", "U9")
@pytest.mark.parametrize("name", ["complex64", "complex128"])
@on_worker(0)
def test_complex_tensors_of_devices_go_there_and_their_gradients_back(kind: str, name: str) -> None:
    values = fastdist.tensor([1 + 2j, -0.5 + 1j, 3j], dtype=getattr(fastdist, name))
    here, there = values.clone().requires_grad_(), values.to(f"{kind}:0").requires_grad_()
    expected = here * here * (2 - 1j)
    loss_of(expected).backward()
    assert here.grad is not None
    for _ in range(3):  # through the CPU, then, once both workers agree, from device to device
        with da.context() as context_id:
            y = rpc.rpc_sync("w1", square, (there, there.detach())) * (2 - 1j)
            assert (str(y.device), y.dtype) == (f"{kind}:0", values.dtype)
            fastdist.testing.assert_close(y.detach().cpu(), expected.detach())
            da.backward(context_id, [loss_of(y)])
            found = da.get_gradients(context_id)[there]
            assert (str(found.device), found.dtype) == (f"{kind}:0", values.dtype)
            fastdist.testing.assert_close(found.cpu(), here.grad)


@pytest.mark.one_in(4, each=True)
@on_worker(0)
def test_a_pass_of_a_pass_goes_over_devices(kind: str) -> None:
    x = fastdist.tensor([1.0, 2.0], device=f"{kind}:0", requires_grad=True)
    with da.context() as context_id:
        y = rpc.rpc_sync("w1", square, (x,)) * x
        da.backward(context_id, [y.sum()], create_graph=True)
        (slope,) = da.get_gradients(context_id).values()
        assert slope.to("cpu").tolist() == [3.0, 12.0]
        da.backward(context_id, [(slope * slope).sum() / 2])
        found = da.get_gradients(context_id)[x].to("cpu").tolist()
        # The first pass gives 3 x^2. The second pass adds 3 x^2 * 6 x, through the slope.
        assert found == [3.0 + 18.0, 12.0 + 144.0]
