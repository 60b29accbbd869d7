"""Tensors of the meta device have a shape, strides and a dtype, but no memory."""

from __future__ import annotations

import copy
import io
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import nn
from fastdist.devices.meta import MetaArray, new_array

META = fd.device("meta")


def empty(*shape: int, **more: Any) -> fd.Tensor:
    return fd.empty(*shape, device="meta", **more)


def test_the_device_has_no_index_and_tensors_of_meta_0_live_there() -> None:
    assert (str(META), META.type, META.index) == ("meta", "meta", None)
    assert fd.device("meta:0") != META
    assert pickle.loads(pickle.dumps(META)) is META
    assert fd.empty(1, device="meta:3").device is META


VIEWS = [
    lambda a: a[1],
    lambda a: a[:, ::-1, 1:],
    lambda a: a[..., None, 2],
    lambda a: a[3:1],
    lambda a: a[-1, 0, -2],
    lambda a: a.transpose((2, 0, 1)),
    lambda a: a.transpose((2, 0, 1))[:, 1],
    lambda a: a.reshape((2, 12)),
    lambda a: a.reshape((4, -1, 3)),
    lambda a: a[:, :, :2].reshape((6, 2)),
    lambda a: a.view(np.dtype(np.float64))[1],
    lambda a: a.view(np.dtype(np.int16)),
    lambda a: a[:0].reshape((3, 0)),
]


@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_views_have_the_geometry_of_numpys(number: int) -> None:
    look: Any = VIEWS[number]
    ours, numpys = look(new_array((2, 3, 4), np.float32)), look(np.zeros((2, 3, 4), np.float32))
    assert (ours.shape, ours.dtype, ours.ndim) == (numpys.shape, numpys.dtype, numpys.ndim)
    assert (ours.size, ours.nbytes) == (numpys.size, numpys.nbytes)
    if ours.size:
        assert ours.strides == numpys.strides


def test_a_reshape_that_no_view_has_is_an_array_of_its_own() -> None:
    base = new_array((2, 3, 4), np.float32)
    assert base.reshape((6, 4)).base is base
    assert base.transpose((2, 1, 0)).reshape((24,)).base is None


def test_an_index_or_a_size_that_does_not_fit_is_refused() -> None:
    array = new_array((2, 3), np.float32)
    with pytest.raises(IndexError, match="out of bounds"):
        array[2]
    with pytest.raises(IndexError, match="too many"):
        array[0, 0, 0]
    with pytest.raises(RuntimeError, match="6 elements"):
        array.reshape((4, 2))
    with pytest.raises(RuntimeError, match="whole elements"):
        array.view(np.dtype(np.float64))
    with pytest.raises(RuntimeError, match="overflowed"):
        empty(1 << 40, 1 << 40)


def test_values_are_refused_in_pytorchs_words() -> None:
    x = empty(2, 3)
    for ask in (x.cpu, x.tolist, lambda: fd.ones(2, 3).copy_(x), lambda: x.numpy(force=True)):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            ask()
    for read in (fd.Tensor.item, bool, float, int):
        with pytest.raises(RuntimeError, match=r"Tensor.item\(\) cannot be called on meta tensors"):
            read(empty())
    with pytest.raises(NotImplementedError, match="nonzero: cannot run with meta tensors"):
        x.nonzero()
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        x.numpy()
    with pytest.raises(NotImplementedError, match="no data"):
        len(MetaArray((2,), np.dtype(np.float32), (4,)))


def test_a_tensor_prints_its_size_in_place_of_values() -> None:
    assert repr(empty(2, 3)) == "tensor(..., device='meta', size=(2, 3))"
    counts = empty(2, dtype=fd.int64)
    assert repr(counts) == "tensor(..., device='meta', size=(2,), dtype=fastdist.int64)"
    assert "size=(), requires_grad=True" in repr(empty(requires_grad=True))
    assert f"{empty()}" == "tensor(..., device='meta', size=())"
    assert repr(empty(3).untyped_storage()).startswith("...\n[")


def test_metadata_are_those_of_any_tensor() -> None:
    x = empty(2, 3, dtype=fd.float64)
    assert (x.is_meta, fd.ones(1).is_meta, x.is_cpu, x.get_device()) == (True, False, False, -1)
    assert (x.numel(), x.element_size(), x.nbytes, x.data_ptr()) == (6, 8, 48, 0)
    assert (x[1].storage_offset(), x.T.stride(), x[:, None].shape) == (3, (1, 3), (2, 1, 3))
    assert x.untyped_storage().nbytes() == 48
    assert (x.to("meta") is x, fd.ones(2).to("meta").shape) == (True, (2,))


def test_copies_and_files_keep_the_layout() -> None:
    x = empty(2, 3).T.requires_grad_()
    file = io.BytesIO()
    fd.save({"x": x, "p": nn.Parameter(empty(4))}, file)
    file.seek(0)
    loaded = fd.load(file)
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), loaded["x"]):
        assert (twin.is_meta, twin.shape, twin.stride()) == (True, (3, 2), (1, 3))
        assert twin.requires_grad
    assert isinstance(loaded["p"], nn.Parameter)


def test_a_file_of_values_loads_without_them() -> None:
    file = io.BytesIO()
    fd.save(fd.ones(2, 3).T, file)
    file.seek(0)
    found = fd.load(file, map_location="meta")
    assert (found.is_meta, found.shape, found.stride()) == (True, (3, 2), (1, 3))


def test_a_block_or_a_default_makes_tensors_there() -> None:
    with META:
        assert fd.randperm(3).is_meta
        assert fd.tensor([1.0]).is_meta
        assert fd.ones(2, device="cpu").is_cpu
    fd.set_default_device("meta")
    try:
        assert fd.arange(5).is_meta
    finally:
        fd.set_default_device(None)
    assert fd.arange(5).is_cpu


def test_draws_leave_the_cpus_stream_alone() -> None:
    before = fd.get_rng_state()
    empty(3).normal_().uniform_()
    fd.rand(3, device="meta")
    nn.Linear(2, 3, device="meta")
    assert fd.equal(before, fd.get_rng_state())


def test_large_tensors_take_no_memory() -> None:
    fd.arange(3, device="meta")  # loads what the first call needs
    tracemalloc.start()
    try:
        size = 1 << 36
        with META:
            made = [fd.zeros(size), fd.rand(size), fd.arange(size), fd.full((size,), 2.0)]
        layer = nn.Linear(1 << 20, 1 << 18, device="meta")  # one terabyte
        made.append(made[0] + made[1])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert layer.weight.nbytes == 1 << 40
    assert made[-1].shape == (size,)
    assert peak < 1 << 20


LAYERS = [
    (nn.Linear, (3, 4), (2, 3)),
    (nn.Conv2d, (3, 4, 3), (2, 3, 8, 8)),
    (nn.ConvTranspose2d, (3, 4, 3), (2, 3, 8, 8)),
    (nn.BatchNorm2d, (3,), (2, 3, 8, 8)),
    (nn.LayerNorm, (8,), (2, 8)),
    (nn.GroupNorm, (1, 3), (2, 3, 8)),
    (nn.LSTM, (3, 4), (5, 2, 3)),
    (nn.TransformerEncoderLayer, (8, 2), (5, 2, 8)),
]


@pytest.mark.parametrize(("layer", "sizes", "shape"), LAYERS)
def test_layers_are_built_run_and_differentiated(layer: Any, sizes: Any, shape: Any) -> None:
    with META:
        module = layer(*sizes)
    given = fd.empty(shape, device="meta", requires_grad=True)
    found, expected = module(given), layer(*sizes)(fd.ones(shape))
    if isinstance(found, tuple):
        found, expected = found[0], expected[0]
    assert (found.shape, found.stride()) == (expected.shape, expected.stride())
    found.sum().backward()
    assert found.grad_fn is not None
    for parameter in (given, *module.parameters()):
        assert parameter.grad.is_meta
        assert parameter.grad.shape == parameter.shape
    fd.optim.Adam(module.parameters()).step()


def test_modules_leave_the_device_by_to_empty_or_by_assign() -> None:
    module, full = nn.Linear(2, 3, device="meta"), nn.Linear(2, 3)
    with pytest.raises(NotImplementedError, match=r"use Module.to_empty\(\) instead of Module.to"):
        module.to("cpu")
    assert module.to_empty(device="cpu").weight.is_cpu
    module.to("meta")
    with pytest.warns(UserWarning, match="is a no-op"):
        module.load_state_dict(full.state_dict())
    assert module.weight.is_meta
    module.load_state_dict(full.state_dict(), assign=True)
    assert isinstance(module.weight, nn.Parameter)
    assert fd.equal(module.weight, full.weight)
    with pytest.raises(RuntimeError, match=r'named "weight".*Cannot copy out of meta tensor'):
        full.load_state_dict(nn.Linear(2, 3, device="meta").state_dict())


def test_parameters_may_be_replaced_as_they_are_registered(monkeypatch: Any) -> None:
    register = nn.Module.register_parameter

    def on_meta(self: nn.Module, name: str, parameter: Any) -> None:
        register(self, name, parameter)
        if parameter is not None:
            self._parameters[name] = nn.Parameter(self._parameters[name].to("meta"))

    monkeypatch.setattr(nn.Module, "register_parameter", on_meta)
    assert all(one.is_meta for one in nn.TransformerEncoderLayer(8, 2).parameters())


def test_tensors_of_two_devices_do_not_meet() -> None:
    with pytest.raises(RuntimeError, match="at least two devices"):
        empty(2) + fd.ones(2)
    assert (empty(2) + fd.tensor(2.0)).is_meta
