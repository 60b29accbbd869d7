"""fastdist and other libraries share GPU memory by DLPack and __cuda_array_interface__."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim import cupy
from tests.fibre_shim.installed import cuda_on_fibres


@pytest.fixture(autouse=True)
def fibres(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    monkeypatch.setattr(cupy, "waited", [])
    yield from cuda_on_fibres(monkeypatch)


class Theirs:
    """An array of another library, which implements one of the two protocols."""

    def __init__(self, protocol: str, array: Any) -> None:
        self._array = array
        if protocol == "interface":
            type(self).__cuda_array_interface__ = property(  # type: ignore[attr-defined]
                lambda self: self._array.__cuda_array_interface__
            )


class OfInterface(Theirs):
    pass


class OfDLPack(Theirs):
    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._array.device.id

    def __dlpack__(self, **more: Any) -> Any:
        return self._array.__dlpack__(**more)


@pytest.mark.parametrize("kind", [OfInterface, OfDLPack])
def test_another_librarys_array_is_shared_and_kept(kind: type[Theirs]) -> None:
    with cupy.Device(1 if kind is OfDLPack else 0):
        array = cupy.array(np.arange(12, dtype=np.float32).reshape(3, 4)).transpose((1, 0))
    x: Any = fd.from_dlpack(kind("interface" if kind is OfInterface else "dlpack", array))
    assert x.data_ptr() == array.data.ptr and x.device.index == array.device.id
    assert x.stride() == (1, 4) and x.dtype is fd.float32
    x.add_(1)
    assert array.host[3, 2] == 12
    del array
    gc.collect()
    assert x[3].tolist() == [4, 8, 12]


@pytest.mark.parametrize("kind", [OfInterface, OfDLPack])
def test_work_on_what_is_shared_comes_after_what_made_it(kind: type[Theirs]) -> None:
    theirs, ours = fd.cuda.Stream(), fd.cuda.Stream()
    with theirs:
        array = cupy.array(np.ones(3, np.float32))
        if kind is OfInterface:
            interface = array.__cuda_array_interface__
            given: Any = type("Given", (), {"__cuda_array_interface__": interface, "a": array})()
            with ours:
                fd.as_tensor(given)
            assert cupy.waited == [(ours.cuda_stream, theirs.cuda_stream)]
            return
        with ours:
            x = fd.ones(3, device="cuda") * 2
            assert cupy.from_dlpack(x).data.ptr == x.data_ptr()
            x.__dlpack__(stream=theirs.cuda_stream)
            x.__dlpack__(stream=-1)  # -1: without a wait; the consumer orders its own stream
    assert cupy.waited == [
        (ours.cuda_stream, ours.cuda_stream),
        (theirs.cuda_stream, ours.cuda_stream),
    ]


def test_tensors_are_shared_by_both_protocols() -> None:
    x = fd.arange(6.0, device="cuda").view(2, 3).t()
    told = x.__cuda_array_interface__
    assert (told["shape"], told["typestr"], told["version"]) == ((3, 2), "<f4", 3)
    assert told["data"] == (x.data_ptr(), False) and told["strides"] == (4, 12)
    assert x.__dlpack_device__() == (2, 0)
    for shared in (cupy.asarray(x), cupy.from_dlpack(x)):
        shared.host[0, 0] = 7
        assert x[0, 0].item() == 7 and shared.strides == (4, 12)
        x.zero_()
    copied = x.__dlpack__(copy=True)._array
    assert copied.data.ptr != x.data_ptr()
    with pytest.raises(BufferError, match="DLPack's \\(2, 0\\), and \\(2, 1\\) was requested"):
        x.__dlpack__(dl_device=(2, 1))
    leaf = fd.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="requires_grad=True"):
        _ = leaf.__cuda_array_interface__
    with pytest.raises(AttributeError, match="non-CUDA tensor type: it is on cpu"):
        _ = fd.ones(1).__cuda_array_interface__


@pytest.mark.parametrize(("name", "behind"), [(b"dltensor", 0), (b"dltensor_versioned", 32)])
def test_a_capsule_says_on_which_gpu_its_memory_is(
    name: bytes, behind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = (ctypes.c_char * 128)()
    ctypes.c_int32.from_buffer(room, behind + 8).value = 2
    ctypes.c_int32.from_buffer(room, behind + 12).value = 1
    api = ctypes.pythonapi
    api.PyCapsule_New.restype = ctypes.py_object
    api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = api.PyCapsule_New(ctypes.addressof(room), name, None)

    def taken(owner: Any) -> Any:
        assert owner.__dlpack__(stream=1) is capsule and owner.__dlpack_device__() == (2, 1)
        with cupy.Device(1):
            return cupy.array(np.ones(2, np.float32))

    monkeypatch.setattr(cupy, "from_dlpack", taken)
    assert str(fd.utils.dlpack.from_dlpack(capsule).device) == "cuda:1"
