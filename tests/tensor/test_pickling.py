"""Pickled and copied tensors equal the originals."""

from __future__ import annotations

import copy
import functools
import io
import pickle
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.ops.shape.basic_index import basic_index
from fastdist.tensor.parameter import Parameter
from fastdist.tensor.pickling import rebuild
from tests.dense_layouts import DENSE, GAPS


class Named(Tensor):
    """A subclass with attributes."""


def matrix(**options: object) -> Tensor:
    return fd.tensor(np.arange(6.0).reshape(2, 3), **options)


def again(value: object, protocol: int = pickle.HIGHEST_PROTOCOL) -> object:
    return pickle.loads(pickle.dumps(value, protocol))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: fd.tensor(3.5), id="0-d"),
        pytest.param(lambda: fd.tensor([True, False]), id="bool"),
        pytest.param(lambda: fd.tensor([], dtype=fd.int8), id="empty"),
        pytest.param(lambda: matrix(requires_grad=True), id="leaf"),
        pytest.param(lambda: matrix().t(), id="transposed"),
        pytest.param(lambda: fd.ones(1, 3).expand(4, 3), id="expanded"),
        pytest.param(lambda: fd.ones(2, device="sim:1"), id="sim"),
    ],
)
def test_pickled_tensor_is_what_it_was(make: Callable[[], Tensor], protocol: int) -> None:
    # The tensor is made inside the test, because other tests reset the simulated devices.
    tensor = make()
    found = again(tensor, protocol)
    assert found.dtype is tensor.dtype and found.device is tensor.device
    assert found.requires_grad == tensor.requires_grad and found.tolist() == tensor.tolist()


def _forking(tensor: Tensor) -> object:
    return pickle.loads(bytes(ForkingPickler.dumps(tensor)))


def _apart(tensor: Tensor) -> object:
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(tensor, 5, buffer_callback=buffers.append)
    return pickle.loads(pickled, buffers=buffers)


WAYS = {
    **{f"protocol {n}": functools.partial(again, protocol=n) for n in range(2, 6)},
    "queues": _forking,
    "out of band": _apart,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("device", ["cpu", "sim:0"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_dense_layouts_keep_their_strides(way: Callable[[Tensor], Tensor], device: str) -> None:
    for name, make in DENSE.items():
        for dtype in (fd.float32, fd.bfloat16, fd.complex64, fd.bool):
            tensor = make(fd.arange(120).to(dtype).to(device))
            assert not tensor.is_contiguous()
            found = way(tensor)
            assert (name, found.stride()) == (name, tensor.stride())
            assert found._layout is tensor._layout and found.tolist() == tensor.tolist()
    for make in GAPS.values():
        assert way(make(fd.arange(120).to(device))).tolist() == make(fd.arange(120)).tolist()


def test_parameters_and_lazy_views_keep_their_strides() -> None:
    weight = Parameter(fd.ones(2, 3, 4, 5).to(memory_format=fd.channels_last))
    found = again(weight)
    assert type(found) is Parameter and found.requires_grad
    assert found.is_contiguous(memory_format=fd.channels_last) and not found.is_contiguous()
    lazy = fd.ones(2, 3, 4, dtype=fd.complex64).mul(1j).permute(2, 0, 1).conj()
    assert again(lazy).stride() == lazy.stride() and again(lazy).tolist() == lazy.tolist()


def test_pickles_of_before_name_no_axes() -> None:
    found = rebuild(Tensor, np.ones((2, 3)), fd.device("cpu"), False)
    assert found.stride() == (3, 1) and found.tolist() == [[1.0] * 3] * 2


def test_layout_of_a_pickled_tensor_is_interned() -> None:
    assert again(matrix())._layout is matrix()._layout


def test_pickled_parameter_is_a_parameter() -> None:
    found = again(Parameter(matrix(), requires_grad=False))
    assert type(found) is Parameter and not found.requires_grad


def test_pickled_result_comes_back_as_a_leaf() -> None:
    found = again(matrix(requires_grad=True) * 2.0)
    assert found.is_leaf and found.requires_grad


def test_pickled_tensor_can_be_changed_and_trained() -> None:
    found = again(fd.tensor([1.0, 2.0], requires_grad=True))
    (found * found).sum().backward()
    with fd.no_grad():
        found.sub_(found.grad)
    assert found.tolist() == [-1.0, -2.0]


def test_out_of_band_buffers_are_not_written_to_unless_they_may_be() -> None:
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(matrix(), 5, buffer_callback=buffers.append)
    lent = [bytes(buffer.raw()) for buffer in buffers]
    found = pickle.loads(data, buffers=lent)
    found.add_(1.0)
    assert found.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_attributes_of_a_subclass_travel_along() -> None:
    named = Named()
    plain = matrix()
    named._array, named._layout = plain._array, plain._layout
    named._edge = named._extra = named._storage = None
    named.label = ["weights"]
    for found in (again(named), copy.copy(named), copy.deepcopy(named)):
        assert type(found) is Named and found.label == ["weights"]
    assert copy.deepcopy(named).label is not named.label


def test_copy_is_another_handle_to_the_same_memory() -> None:
    x = matrix(requires_grad=True)
    twin = copy.copy(x)
    with fd.no_grad():
        twin.mul_(2.0)
    assert x.tolist() == twin.tolist() and twin is not x and twin.is_leaf
    assert twin.requires_grad and twin.grad is None


def test_deepcopy_of_a_leaf_has_memory_and_grad_of_its_own() -> None:
    x = matrix(requires_grad=True)
    (x * x).sum().backward()
    twin = copy.deepcopy(x)
    with fd.no_grad():
        twin.zero_()
        twin.grad.zero_()
    assert x.tolist() == matrix().tolist() and x.grad.tolist() == (matrix() * 2.0).tolist()
    assert twin.requires_grad and twin.is_leaf


def test_deepcopy_of_a_result_is_refused() -> None:
    with pytest.raises(
        RuntimeError,
        match=r"^Only Tensors created explicitly by the user \(graph leaves\) support the deepcopy",
    ):
        copy.deepcopy(matrix(requires_grad=True) * 2.0)


def test_deepcopy_keeps_one_tensor_one() -> None:
    x = matrix()
    a, b = copy.deepcopy([x, x])
    assert a is b and a is not x


def test_deepcopy_keeps_shared_memory_shared() -> None:
    x = matrix()
    base, row, flipped = copy.deepcopy([x, basic_index.public(x, (1,)), x.t()])
    row.add_(10.0)
    assert base.tolist() == [[0.0, 1.0, 2.0], [13.0, 14.0, 15.0]] == flipped.t().tolist()
    assert base._version == flipped._version == 1 and x.tolist() == matrix().tolist()


def test_deepcopy_of_views_alone_shares_too() -> None:
    x = matrix()
    first, second = copy.deepcopy([basic_index.public(x, (0,)), x.view(6)])
    first.fill_(7.0)
    assert second.tolist() == [7.0, 7.0, 7.0, 3.0, 4.0, 5.0]


def test_deepcopy_on_a_device_stays_there() -> None:
    x = fd.ones(3, device="sim:0", requires_grad=True)
    twin = copy.deepcopy(x)
    assert twin.device is x.device and twin.to("cpu").tolist() == [1.0] * 3


@pytest.mark.parametrize("place", [3, -1, 10**12, -(2**63)])
@pytest.mark.parametrize("way", [pickle.dumps, copy.deepcopy, lambda x: fd.save(x, io.BytesIO())])
def test_sparse_tensors_whose_coordinates_were_spoilt_are_refused_as_they_are_saved(
    way: Any, place: int
) -> None:
    x = fd.sparse_coo_tensor(fd.tensor([[0, 1, 2]]), fd.ones(3, 4), (3, 4)).coalesce()
    x._indices()[0, 1] = place
    with pytest.raises(RuntimeError, match="its coordinates lie outside of it"):
        way(x)
