"""Every structured op and composite of the table on cuda, simulated by the CPU shim.

In this way the cases of an op also test its CUDA kernel. The shim runs CUDA threads in three
orders: a run without `slow` uses one order per case, and `slow` uses all. Without `slow`, only a
few cases run in dtypes other than float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim import cupy
from tests.fibre_shim.driver import SEEDS
from tests.fibre_shim.installed import cuda_on_fibres
from tests.ops.cases import Case, is_number_array
from tests.ops.test_table import ALL, by_op
from tests.properties import Properties, in_one_test_each

# The samples broadcast on purpose, and losses warn about broadcasting.
pytestmark = pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
ON_FIBRES = ALL
TURN = 60  # without `slow`, each other dtype runs one case in TURN
OTHERS = ("float64", "float16", "int64", "bfloat16")


def sampled(place: int) -> tuple[list[int], list[str]]:
    """Return the thread orders and the other dtypes that a case runs in without `slow`."""
    turn = place % TURN
    return [place % len(SEEDS)], [OTHERS[turn]] if turn < len(OTHERS) else []


def left_out(place: int) -> tuple[list[int], list[str]]:
    """Return the thread orders and the other dtypes that a case runs in only with `slow`."""
    orders, dtypes = sampled(place)
    return [one for one in SEEDS if one not in orders], [one for one in OTHERS if one not in dtypes]


def every_case_with(chosen: Callable[[int], tuple[list[int], list[str]]]) -> Any:
    cases = [
        pytest.param(*param.values, *chosen(place), id=param.id)
        for place, param in enumerate(ON_FIBRES)
    ]
    return in_one_test_each("op", "name, one, orders, dtypes", by_op(cases))


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def value_and_gradients(
    one: Case, arrays: list[np.ndarray], device: str, kind: str = "float32"
) -> list[Any]:
    moves_smoothly = one.differentiable and kind != "int64"
    leaves: list[Any] = []
    for array in arrays:
        moves = is_number_array(array)
        dtype = getattr(fd, kind) if moves else None
        needs = moves and moves_smoothly
        leaves.append(fd.tensor(array, dtype=dtype, device=device, requires_grad=needs))
    result = one.ours(*leaves)
    if moves_smoothly:
        result.sum().backward()
    found = [result.detach(), *[leaf.grad for leaf in leaves if leaf.grad is not None]]
    return [tensor.cpu() for tensor in found]


def numbers_of(tensor: Any) -> np.ndarray:
    """Return a tensor's elements; bfloat16 becomes float32, as NumPy does not have it."""
    numbers: np.ndarray = (tensor.float() if tensor.dtype == fd.bfloat16 else tensor).numpy()
    return numbers


@pytest.mark.one_in(5)
@every_case_with(sampled)
def test_cuda_computes_what_the_cpu_does(
    cuda: CudaBackend,
    name: str,
    one: Case,
    orders: list[int],
    dtypes: list[str],
    monkeypatch: pytest.MonkeyPatch,
    properties: Properties,
) -> None:
    check(name, one, orders, dtypes, monkeypatch, properties)


@pytest.mark.slow
@every_case_with(left_out)
def test_cuda_computes_what_the_cpu_does_in_all_orders_and_dtypes(
    cuda: CudaBackend,
    name: str,
    one: Case,
    orders: list[int],
    dtypes: list[str],
    monkeypatch: pytest.MonkeyPatch,
    properties: Properties,
) -> None:
    check(name, one, orders, dtypes, monkeypatch, properties)


def check(
    name: str,
    one: Case,
    orders: list[int],
    dtypes: list[str],
    monkeypatch: pytest.MonkeyPatch,
    properties: Properties,
) -> None:
    for order in orders:
        with properties(f"fibres in order {order}"), monkeypatch.context() as patch:
            patch.setattr(cupy, "schedule", [order])
            check_float32(name, one)
    for dtype in dtypes:
        with properties(dtype):
            check_dtype(name, one, dtype)


def check_float32(name: str, one: Case) -> None:
    arrays = one.arrays(f"{name} on fibres")
    expected = value_and_gradients(one, arrays, "cpu")
    found = value_and_gradients(one, arrays, "cuda:0")
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(numbers_of(ours), numbers_of(theirs), rtol=1e-5, atol=1e-5)


# The two devices may round half types differently: an op of several steps rounds whenever it stores
# a step's result, and may sum in another order.
TOLERANCE = {"float64": 1e-9, "float16": 1e-2, "bfloat16": 6e-2, "int64": 1e-5}


def check_dtype(name: str, one: Case, kind: str) -> None:
    """Compare the result on cuda, or the error, with that on the CPU."""
    arrays = one.arrays(f"{name} on fibres")
    try:
        expected = value_and_gradients(one, arrays, "cpu", kind)
    except (TypeError, RuntimeError, ValueError, NotImplementedError) as error:
        with pytest.raises(type(error)):
            value_and_gradients(one, arrays, "cuda:0", kind)
        return
    found = value_and_gradients(one, arrays, "cuda:0", kind)
    most = TOLERANCE[kind]
    for ours_of, theirs_of in zip(found, expected, strict=True):
        assert ours_of.dtype == theirs_of.dtype
        ours, theirs = numbers_of(ours_of), numbers_of(theirs_of)
        scale = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=1e-3))
        np.testing.assert_allclose(ours, theirs, rtol=most, atol=most * scale)
