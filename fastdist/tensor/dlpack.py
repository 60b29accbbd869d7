"""DLPack: sharing memory with arrays of other libraries, in both directions, without a copy.

NumPy and CuPy make the capsules and keep the memory alive. This module adds the checks for tensors.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from ..core.device import CPU, Device
from ..core.folded_frames import folds, private_cause
from ..core.short_repr import short_repr
from ..devices.backend import backend_of
from .storage import storage_of
from .tensor import Tensor, from_array, from_users_array

# Device types in DLPack's header; 12 is the type of extension devices.
_CPU, _CUDA, _OTHER = 1, 2, 12
# NumPy supports the capsules of DLPack 1, which have a read-only flag, since NumPy 2.1.
_VERSION: Final = (1, 0)
_HAS_VERSIONS: Final = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)

_OBJECT: Final = ctypes.py_object
# The offset of the device (two int32) in the struct that a capsule points to. Before DLPack 1, only
# the data pointer precedes the device. In DLPack 1, the version, the manager context, the deleter
# and the flags also precede it.
_DEVICE_AT: Final = {b"dltensor": 8, b"dltensor_versioned": 40}


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """Return the device type by DLPack's numbering, and the device index."""
    device = self._layout.device
    if device is CPU:
        return _CPU, 0
    return _CUDA if device.type == "cuda" else _OTHER, device.index or 0


def dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Return a capsule through which another library shares this tensor's memory.

    Raises  BufferError for a tensor that requires grad, for a sparse tensor, for a `dl_device` that
            is not the tensor's device, and for a tensor that is not on the CPU or on a CUDA device
    """
    if self._layout.is_sparse:
        raise BufferError("Can't export tensors with layout other than torch.strided: to_dense()")
    if self._edge is not None:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    device = self._layout.device
    if device.type not in ("cpu", "cuda"):
        raise BufferError(f"no other library reads memory of {device}; use .cpu() first")
    storage_of(self)  # the other library may write from now on; later views share one version
    more: dict[str, Any] = {}
    if max_version is not None and (_HAS_VERSIONS or device is not CPU):
        more["max_version"] = max_version
    if dl_device is not None and tuple(dl_device) != dlpack_device(self):
        raise BufferError(
            f"the tensor is on {device}, DLPack's {dlpack_device(self)}, and {tuple(dl_device)} "
            "was requested; move it with .to()"
        )
    array = self._array
    if device is CPU:
        if stream not in (None, -1):
            raise RuntimeError(f"stream should be None on cpu, got {short_repr(stream)}")
        return (array.copy() if copy else array).__dlpack__(**more)
    return (array.copy() if copy else array).__dlpack__(stream=stream, **more)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor that uses the memory of another library's array, or of a capsule.

    Raises  BufferError for memory that cannot be shared, TypeError for an object that does not
            support DLPack
    Note    copy=True copies the memory; `device` moves the result. A write to read-only memory
            raises an error
    """
    if isinstance(ext_tensor, Tensor) and ext_tensor._layout.device.type == "sim":
        found = ext_tensor.detach()
    elif isinstance(ext_tensor, np.ndarray) and not _HAS_VERSIONS:
        # NumPy 2.0 cannot export a read-only array, and marks every array that it imports
        # read-only.
        found = from_users_array(ext_tensor)
    elif hasattr(ext_tensor, "__dlpack_device__"):
        kind, index = ext_tensor.__dlpack_device__()
        if int(kind) == _CUDA:
            place = Device("cuda", int(index))
            backend: Any = backend_of("cuda")
            found = from_array(backend.from_dlpack(ext_tensor), place)
        else:
            found = _from_capsule(_capsule_of(ext_tensor))
    elif hasattr(ext_tensor, "__cuda_array_interface__"):
        backend = backend_of("cuda")
        array = backend.from_interface(ext_tensor)
        found = from_array(array, Device("cuda", backend.index_of(array)))
    elif type(ext_tensor).__name__ == "PyCapsule":
        kind, index = _device_of(ext_tensor)
        if kind == _CUDA:
            backend = backend_of("cuda")
            array = backend.from_dlpack(_Handing(ext_tensor, (kind, index)))
            found = from_array(array, Device("cuda", index))
        else:
            found = _from_capsule(ext_tensor)
    else:
        raise TypeError(
            f"from_dlpack: a {type(ext_tensor).__name__} has no __dlpack__; expected an array of a "
            "library that knows DLPack, or a capsule"
        )
    if copy:
        found = found.clone()
    return found if device is None else found.to(device=device)


@folds
def to_dlpack(tensor: Tensor) -> Any:
    """Return a capsule of a tensor in the format before DLPack 1. Errors are those of `dlpack`."""
    return dlpack(tensor)


def cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """A dict that describes the memory of a tensor on a GPU. Numba, CuPy and others use the memory
    through it without a copy. The dict includes the stream to wait for (version 3 of the
    interface).

    Raises  AttributeError for other devices; RuntimeError for a tensor that requires grad
    """
    device = self._layout.device
    if device.type != "cuda":
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: it is on {device}; "
            "use .cuda(), or __array__"
        )
    if self._edge is not None:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires_grad=True: "
            "use var.detach() to get one that does not"
        )
    storage_of(self)  # the other library may write from now on; later views share one version
    found: dict[str, Any] = self._array.__cuda_array_interface__
    return found


class _Handing:
    """Gives NumPy and CuPy a capsule: an object whose DLPack methods return it and its device."""

    def __init__(self, capsule: Any, device: tuple[int, int] = (_CPU, 0)) -> None:
        self._capsule, self._device = capsule, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule


def _device_of(capsule: Any) -> tuple[int, int]:
    """Return the device type and index in a capsule; those of the CPU if it was consumed."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [_OBJECT]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [_OBJECT, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    if name not in _DEVICE_AT:
        return _CPU, 0
    begin = api.PyCapsule_GetPointer(capsule, name)
    kind, index = (ctypes.c_int32 * 2).from_address(begin + _DEVICE_AT[name])
    return kind, index


def _capsule_of(owner: Any) -> Any:
    if _HAS_VERSIONS:
        try:
            return owner.__dlpack__(max_version=_VERSION)
        except TypeError:
            pass  # a library from before DLPack 1
    return owner.__dlpack__()


def _from_capsule(capsule: Any) -> Tensor:
    says_read_only = '"dltensor_versioned"' in repr(capsule)
    try:
        array = np.from_dlpack(_Handing(capsule))
    except ValueError as error:
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed "
            f"only once, so you might have already constructed a tensor from it once. ({error})"
        ) from private_cause(error)
    if not array.flags.writeable and not says_read_only:
        # Capsules before DLPack 1 have no read-only flag. NumPy assumes that their memory is
        # read-only; all other libraries write to it.
        array = np.asarray(_Writable(array))
    return from_users_array(array)


class _Writable:
    """Writable access to the memory of an array that only NumPy considers read-only."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.base = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        interface["strides"] = array.strides
        self.__array_interface__ = interface


METHODS: dict[str, Any] = {
    "__cuda_array_interface__": property(cuda_array_interface),
    "__dlpack__": dlpack,
    "__dlpack_device__": dlpack_device,
}
