"""Calls on cuda: a launch is planned once per layout and is right for all later inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.errors import KernelError
from fastdist.devices.cuda import CudaBackend
from fastdist.kernels.cuda.prepared import PreparedTable
from tests.fibre_shim import cupy
from tests.fibre_shim.installed import cuda_on_fibres

F = fd.nn.functional
VALUES = np.random.default_rng(5).standard_normal((3, 8)).astype(np.float32)
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "row": lambda x, y: x * y[0],
    "number": lambda x, y: 1.5 - x,
    "where": lambda x, y: fd.where(x > 0, x, y),
    "turned": lambda x, y: x.t() * y.t(),
    "sum": lambda x, y: x.sum(1, keepdim=True),
    "softmax": lambda x, y: F.softmax(x, 1),
    "cumsum": lambda x, y: y.cumsum(0),
    "cummax": lambda x, y: x.cummax(1).values,
    "cast": lambda x, y: x.to(fd.float64),
}


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that will contain all plans made from now on."""
    keys, prepare = list[Any](), PreparedTable.prepare

    def spy(table: PreparedTable, key: Any, given: Any) -> Any:
        keys.append(key)
        return prepare(table, key, given)

    monkeypatch.setattr(PreparedTable, "prepare", spy)
    return keys


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that will contain the names of all kernels launched from now on."""
    names, run_text = list[str](), cupy.run_text

    def spy(source: str, name: str, *args: Any, **how: Any) -> None:
        names.append(name)
        run_text(source, name, *args, **how)

    monkeypatch.setattr(cupy, "run_text", spy)
    return names


def on_cuda(values: Any, index: int = 0, **how: Any) -> Any:
    return fd.tensor(values, device=f"cuda:{index}", **how)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("name", CALLS)
def test_a_later_call_plans_nothing_and_gives_what_the_cpu_gives(
    name: str, index: int, plans: list[Any]
) -> None:
    call = CALLS[name]
    call(on_cuda(VALUES, index), on_cuda(VALUES[::-1].copy(), index))
    call(on_cuda(VALUES, index), on_cuda(VALUES[::-1].copy(), index))
    plans.clear()
    x, y = VALUES * 2, VALUES[::-1] * 3
    found = call(on_cuda(x, index), on_cuda(y, index))
    assert plans == [] and found.device == fd.device("cuda", index)
    expected = call(fd.tensor(x), fd.tensor(y.copy()))
    assert found.dtype is expected.dtype and found.stride() == expected.stride()
    np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "name", [name for name in CALLS if name not in ("cast", "cumsum", "cummax")]
)
def test_gradients_plan_nothing_when_they_come_again(name: str, plans: list[Any]) -> None:
    def gradient(place: str) -> Any:
        x = fd.tensor(VALUES, device=place, requires_grad=True)
        y = fd.tensor(VALUES[::-1].copy(), device=place, requires_grad=True)
        out = CALLS[name](x, y)
        out.backward(fd.tensor(np.arange(out.numel(), dtype="f4"), device=place).view(out.shape))
        return [one.grad.cpu().numpy() for one in (x, y) if one.grad is not None]

    gradient("cuda"), gradient("cuda")
    plans.clear()
    found = gradient("cuda")
    assert plans == []
    for one, other in zip(found, gradient("cpu"), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [fd.float32, fd.bfloat16, fd.float64])
def test_a_pass_begins_and_ends_on_the_device(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = on_cuda(VALUES, requires_grad=True)
    loss = (x.to(dtype) * 2.0).sum()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("values were copied from or to the host")

    with monkeypatch.context() as patch:
        patch.setattr(cupy, "array", fail)
        patch.setattr(cupy, "asnumpy", fail)
        loss.backward()
    assert x.grad.cpu().tolist() == [[2.0] * 8] * 3


def test_one_tensor_in_two_places_says_nothing_of_the_next_call() -> None:
    x, y = on_cuda(VALUES), on_cuda(VALUES[::-1].copy())
    for _ in range(2):
        x * x
    np.testing.assert_array_equal((x * y).cpu().numpy(), VALUES * VALUES[::-1])
    q, k, v = (on_cuda(VALUES.reshape(1, 1, 3, 8) * i) for i in (1, 2, 3))
    for _ in range(2):
        F.scaled_dot_product_attention(q, q, q)
    found = F.scaled_dot_product_attention(q, k, v).cpu().numpy()
    expected = F.scaled_dot_product_attention(q.cpu(), k.cpu(), v.cpu()).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_memory_that_is_not_aligned_goes_another_way(launched: list[str]) -> None:
    x = on_cuda(np.arange(9, dtype=np.float32))
    for _ in range(2):
        launched.clear()
        assert (x[:8] + x[:8]).tolist() == list(range(0, 16, 2))
        assert (x[1:] + x[1:]).tolist() == list(range(2, 18, 2))
        assert launched == ["contiguous", "strided"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_a_number_is_that_of_the_call(dtype: str) -> None:
    x = on_cuda(np.arange(4, dtype=dtype))
    assert [(x * number).tolist() for number in (2, 3, 2)] == [
        [0, 2, 4, 6],
        [0, 3, 6, 9],
        [0, 2, 4, 6],
    ]


def test_a_sum_in_two_steps_has_scratch_of_its_own_at_each_call(launched: list[str]) -> None:
    x = on_cuda(np.ones(1 << 15, np.float32))
    assert [x.sum().item() for _ in range(3)] == [1 << 15] * 3
    assert launched == ["reduce"] * 6


def test_a_gradient_is_found_by_the_layouts_that_its_operands_have_by_then() -> None:
    square = np.arange(16, dtype=np.float32).reshape(4, 4)
    for turned in (False, True, False):
        x, w = on_cuda(square, requires_grad=True), on_cuda(square * 2, requires_grad=True)
        y = x * w
        if turned:
            w.data = w.detach().t().contiguous().t()
        y.sum().backward()
        np.testing.assert_array_equal(x.grad.cpu().numpy(), square * 2)


@pytest.mark.parametrize("index", [0, 1])
def test_kernels_of_a_pass_run_on_the_streams_of_their_nodes(
    index: int, backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For y = x * w on a side stream, both products of the backward pass run on that stream. The
    gradients of w from two streams are added on the stream that is current at backward().
    """
    seen, run_text = list[tuple[str, Any]](), cupy.run_text

    def spy(source: str, *args: Any, **how: Any) -> None:
        line = source.partition("\n")[0]
        seen.append((line, cupy.state.streams[cupy.state.device][-1]))
        assert cupy.state.device == index
        run_text(source, *args, **how)

    x, w = (on_cuda(VALUES, index, requires_grad=True) for _ in range(2))
    side = backend.stream(index)
    for _ in range(2):
        with side:
            y = x * w
        z = (y + w * 3.0).sum()
        with monkeypatch.context() as patch:
            patch.setattr(cupy, "run_text", spy)
            seen.clear()
            z.backward()
    there = [line for line, stream in seen if stream is side.native]
    assert there == ["// mul(g, other)", "// mul(g, input)"]
    assert {stream for _, stream in seen} == {side.native, cupy.Stream.null}
    assert "// x + y" in [line for line, stream in seen if stream is cupy.Stream.null]
    np.testing.assert_allclose(w.grad.cpu().numpy(), 2 * (VALUES + 3), rtol=1e-6)


@pytest.mark.parametrize("index", [0, 1])
def test_a_later_call_in_place_plans_nothing(index: int, plans: list[Any]) -> None:
    x, y = on_cuda(VALUES, index), on_cuda(VALUES * 2, index)
    for _ in range(3):
        plans.clear()
        x.add_(y).mul_(0.5).sub_(y[0], alpha=2)
    assert plans == []
    expected = VALUES.copy()
    for _ in range(3):
        expected = (expected + VALUES * 2) * np.float32(0.5) - VALUES[0] * 4
    np.testing.assert_allclose(x.cpu().numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["add", "sum"])
def test_what_fails_in_a_launch_is_a_kernel_error(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **how: Any) -> None:
        raise cupy.CUDADriverError("an illegal memory access")

    x, y = on_cuda(VALUES), on_cuda(VALUES)
    for _ in range(2):
        CALLS[name](x, y)
    monkeypatch.setattr(cupy, "run_text", fail)
    with pytest.raises(KernelError, match="cuda: an illegal memory access"):
        CALLS[name](x, y)


def test_a_table_of_many_layouts_starts_again() -> None:
    x = on_cuda(np.arange(300, dtype=np.float32))
    w = on_cuda(np.ones(1, np.float32), requires_grad=True)
    table = PreparedTable(lambda *given: None)
    for n in range(300):
        table.prepare(n, [x[:n]._array, w._array])
    assert len(table) <= 256 and 299 in table
