"""Tensors as a table and buffers, and back; and what waits for those on their way to devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from fastdist.core.device import CPU, Device
from fastdist.core.dtypes import from_code
from fastdist.core.errors import DeviceError, DTypeError, MessageError
from fastdist.devices.backend import Event, Stream, backend_of, is_cpu_alone
from fastdist.devices.staging import HostCopies, copy_to_devices
from fastdist.distributed.arena.borrower import GONE
from fastdist.distributed.pipe.frames import Buffer
from fastdist.tensor.layout import Layout
from fastdist.tensor.parameter import Parameter
from fastdist.tensor.tensor import Tensor, wrap

from .layout import MAX_BYTES, NO_INDEX, PARAMETER, REQUIRES_GRAD, TensorEntry

DeviceMap: TypeAlias = Mapping[Device, Device]

_DEVICE_TYPES: Final = ("cpu", "cuda", "sim")


def pack_tensors(
    tensors: Sequence[Tensor], device_map: DeviceMap | None = None
) -> tuple[list[TensorEntry], list[Buffer]]:
    """Return table and buffers of tensors; those that share memory share a buffer.

    Raises  DeviceError for a tensor on a device that the map does not name
    """
    if not tensors:
        return [], []
    arrays: list[np.ndarray[Any, Any]] = []
    for tensor in tensors:
        if tensor.facts.device is not CPU:
            arrays = _host_arrays(tensors)
            break
        arrays.append(tensor.array)
    placed, buffers = _place(arrays)
    entries = []
    for tensor, (buffer, offset, packed_strides) in zip(tensors, placed, strict=True):
        layout = tensor.facts
        if layout.device is CPU and not offset and packed_strides is None:
            entries.append(whole_entry(tensor, buffer))
            continue
        kind, index = _destination(layout.device, device_map)
        strides = layout.strides if packed_strides is None else packed_strides
        facts = (layout.dtype.code, kind, index, _flags_of(tensor), layout.shape, strides)
        entries.append(TensorEntry(buffer, offset, *facts))
    return entries, buffers


def _flags_of(tensor: Tensor) -> int:
    flags = 0 if tensor.edge is None else REQUIRES_GRAD
    return flags | PARAMETER if tensor.__class__ is Parameter else flags


def whole_entry(tensor: Tensor, buffer: int) -> TensorEntry:
    """Return the entry of a tensor on the CPU that begins where its buffer does."""
    layout, flags = tensor.facts, _flags_of(tensor)
    key = ("rpc", flags, buffer)
    entry: TensorEntry | None = layout.plans.get(key)
    if entry is None:
        code, shape, strides = layout.dtype.code, layout.shape, layout.strides
        entry = TensorEntry(buffer, 0, code, 0, NO_INDEX, flags, shape, strides)
        layout.plans.remember(key, entry)
    return entry


def unpack_tensors(
    entries: Sequence[TensorEntry], buffers: Sequence[Buffer]
) -> tuple[list[Tensor], list[bool]]:
    """Return the tensors in buffers, outside of any graph, and which of them required grad.

    Raises  MessageError for a tensor that does not fit its buffer; DeviceError for a device that
            this worker does not have
    """
    tensors: list[Tensor] = []
    is_away = False
    for entry in entries:
        tensors.append(_unpack(entry, buffers[entry.buffer]))
        is_away = is_away or entry.device_type != 0
    if is_away:
        _move_to_devices(tensors, entries)
    return tensors, [bool(entry.flags & REQUIRES_GRAD) for entry in entries]


def unpack_leaves(entries: Sequence[TensorEntry], buffers: Sequence[Buffer]) -> list[Tensor]:
    """Return the tensors in buffers, which belong to no graph.

    Raises  as unpack_tensors
    """
    tensors: list[Tensor] = []
    for entry in entries:
        if entry.device_type:
            tensors, requires_grad = unpack_tensors(entries, buffers)
            make_leaves(tensors, requires_grad)
            return tensors
        tensor = _unpack(entry, buffers[entry.buffer])
        if entry.flags & REQUIRES_GRAD:
            tensor.requires_grad_(True)
        tensors.append(tensor)
    return tensors


def make_leaves(tensors: Sequence[Tensor], requires_grad: Sequence[bool]) -> None:
    """Let tensors that required grad where they come from, and have no history here, be leaves."""
    for tensor, wanted in zip(tensors, requires_grad, strict=False):
        if wanted and tensor.edge is None:
            tensor.requires_grad_(True)


def _host_arrays(tensors: Sequence[Tensor]) -> list[np.ndarray[Any, Any]]:
    """Return the values of tensors; those of devices are waited for, all at once."""
    arrays = [tensor.array for tensor in tensors]
    away = [i for i, tensor in enumerate(tensors) if tensor.facts.device is not CPU]
    copies = HostCopies([(tensors[i].facts.device, arrays[i]) for i in away])
    copies.wait()
    for i, array in zip(away, copies.arrays, strict=True):
        arrays[i] = array
    return arrays


def _destination(device: Device, device_map: DeviceMap | None) -> tuple[int, int]:
    if device is CPU:
        return 0, NO_INDEX
    target = device_map.get(device) if device_map else None
    if target is None:
        raise DeviceError(
            "TensorPipe RPC backend only supports CPU tensors by default, please move your tensors "
            "to CPU before sending them over RPC, or call set_device_map on "
            "TensorPipeRpcBackendOptions to explicitly configure device mapping. "
            f"A tensor is on {device}, for which the device map of this call has no entry"
        )
    return _numbers_of(target)


def device_pair(mine: Device, theirs: Device) -> tuple[int, int, int, int]:
    """Return an entry of a device map in the numbers of the wire."""
    return *_numbers_of(mine), *_numbers_of(theirs)


def devices_of_pair(pair: tuple[int, int, int, int]) -> tuple[Device, Device]:
    """Return an entry of a device map that came: a device of the sender's, and ours.

    Raises  MessageError for a type of device that there is not
    """
    theirs_type, theirs_index, mine_type, mine_index = pair
    return _device_of(theirs_type, theirs_index), _device_of(mine_type, mine_index)


def _numbers_of(device: Device) -> tuple[int, int]:
    return _DEVICE_TYPES.index(device.type), NO_INDEX if device.index is None else device.index


def _device_of(kind: int, index: int) -> Device:
    if kind >= len(_DEVICE_TYPES):
        raise MessageError(f"unknown device type {kind}")
    return Device.parse(Device(_DEVICE_TYPES[kind], None if index == NO_INDEX else index))


# Where one array lies: its buffer, the offset in bytes, and its strides in elements if they differ
# from the tensor's own.
_Place: TypeAlias = tuple[int, int, tuple[int, ...] | None]


def _place(arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[list[_Place], list[Buffer]]:
    buffers: list[Buffer] = []
    places: list[_Place] = []
    if len(arrays) == 1:
        return [_place_alone(arrays[0], buffers)], buffers
    shared: dict[int, list[int]] = {}
    for i, array in enumerate(arrays):
        shared.setdefault(id(_owner(array)), []).append(i)
    found: dict[int, _Place] = {}
    for members in shared.values():
        if len(members) > 1:
            _place_together(arrays, members, found, buffers)
    for i, array in enumerate(arrays):
        places.append(found[i] if i in found else _place_alone(array, buffers))
    return places, buffers


def _place_alone(array: np.ndarray[Any, Any], buffers: list[Buffer]) -> _Place:
    if array.flags.c_contiguous:
        buffers.append(_memory_of(array))
        return len(buffers) - 1, 0, None
    copied = np.ascontiguousarray(array)
    buffers.append(_memory_of(copied))
    return len(buffers) - 1, 0, tuple(step // array.itemsize for step in copied.strides)


def _memory_of(array: np.ndarray[Any, Any]) -> Buffer:
    if not array.size:
        return b""
    if array.dtype.isbuiltin == 1:
        return array.data.cast("B")
    # bfloat16 is ml_dtypes', whose arrays give out no buffer; a view of their bytes does.
    return array.reshape(-1).view(np.uint8).data


def _place_together(
    arrays: Sequence[np.ndarray[Any, Any]],
    members: list[int],
    found: dict[int, _Place],
    buffers: list[Buffer],
) -> None:
    """Give arrays that overlap one buffer from the first byte of them to the last."""
    first = arrays[members[0]]
    if first.size and all(arrays[i] is first for i in members):
        # As the gradients of x + y are.
        place = _place_alone(first, buffers)
        found.update((i, place) for i in members)
        return
    whole = _bytes_of(_owner(arrays[members[0]]))
    if whole is None or any(step < 0 for i in members for step in arrays[i].strides):
        return
    start = whole.__array_interface__["data"][0]
    spans = sorted(
        (*np.lib.array_utils.byte_bounds(arrays[i]), i) for i in members if arrays[i].size
    )
    while spans:
        low, high, i = spans.pop(0)
        together = [(low, i)]
        while spans and spans[0][0] < high:
            next_low, next_high, i = spans.pop(0)
            together.append((next_low, i))
            high = max(high, next_high)
        if len(together) > 1:
            for at, i in together:
                found[i] = (len(buffers), at - low, None)
            buffers.append(whole[low - start : high - start].data)


def _owner(array: np.ndarray[Any, Any]) -> Any:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array if array.base is None else array.base


def _bytes_of(owner: Any) -> np.ndarray[Any, Any] | None:
    """Return all memory of owner as bytes without copying, or None where that is not possible."""
    if isinstance(owner, np.ndarray):
        if owner.flags.c_contiguous:
            return owner.reshape(-1).view(np.uint8)
        return owner.T.reshape(-1).view(np.uint8) if owner.flags.f_contiguous else None
    try:
        return np.frombuffer(owner, np.uint8)
    except (TypeError, ValueError, BufferError):
        return None


def _move_to_devices(tensors: list[Tensor], entries: Sequence[TensorEntry]) -> None:
    """Put what is bound for devices there, all at once."""
    away = [i for i, entry in enumerate(entries) if entry.device_type]
    devices = [_device_of(entries[i].device_type, entries[i].device_index) for i in away]
    arrays, _ = copy_to_devices([tensors[i].array for i in away], devices)
    for i, array, device in zip(away, arrays, devices, strict=True):
        layout, flags = tensors[i].facts, entries[i].flags
        there = wrap(array, Layout.of(layout.dtype, device, layout.shape))
        is_parameter = flags & PARAMETER
        tensors[i] = Parameter(there, bool(flags & REQUIRES_GRAD)) if is_parameter else there


def _unpack(entry: TensorEntry, buffer: Buffer) -> Tensor:
    """Return a tensor as it came, on the CPU; no parameter yet if it is bound for a device."""
    geometry = _geometry(entry.dtype, entry.sizes, entry.strides)
    layout = geometry.facts
    if entry.flags & REQUIRES_GRAD and not layout.dtype.may_have_gradient:
        raise MessageError(f"a tensor of {layout.dtype.name} that requires grad")
    array: np.ndarray[Any, Any]
    if not layout.numel:
        array = np.empty(layout.shape, layout.dtype.numpy)
    elif entry.offset + geometry.extent_bytes > len(buffer):
        if buffer is GONE:
            raise MessageError(
                f"a tensor of shape {entry.sizes} was taken back by its sender before it was read "
                "here: the call had ended, or the connection had broken"
            )
        raise MessageError(
            f"a tensor of shape {entry.sizes}, strides {entry.strides} and dtype "
            f"{layout.dtype.name} at byte {entry.offset} does not fit its buffer of "
            f"{len(buffer)} bytes"
        )
    else:
        array = np.ndarray(layout.shape, layout.dtype.numpy, buffer, entry.offset, geometry.steps)
    tensor = wrap(array, layout)
    if entry.flags & PARAMETER and not entry.device_type:
        return Parameter(tensor, bool(entry.flags & REQUIRES_GRAD))
    return tensor


class _Geometry(NamedTuple):
    """What follows from a dtype code, a shape and strides: steps in bytes are None in C order."""

    facts: Layout
    extent_bytes: int
    steps: tuple[int, ...] | None


@functools.lru_cache(256)
def _geometry(dtype_code: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> _Geometry:
    try:
        dtype = from_code(dtype_code)
    except DTypeError as error:
        raise MessageError(str(error)) from error
    elements, last, largest = 1, 0, dtype.itemsize
    for length, step in zip(shape, strides, strict=True):
        elements *= length
        last += (length - 1) * step
        largest *= length or 1
    if largest > MAX_BYTES:
        # With steps of 0 it may fit its buffer all the same; whoever copies it would find out.
        raise MessageError(f"a tensor of shape {shape}, {largest} bytes; at most {MAX_BYTES}")
    layout = Layout.of(dtype, CPU, shape, strides if elements else None)
    steps = None if layout.contiguous else tuple([step * dtype.itemsize for step in strides])
    return _Geometry(layout, (last + 1) * dtype.itemsize, steps)


# Note [Events in Futures]
# Nobody waits for tensors on their way to a device: what is queued behind the copies, on the
# streams of the thread that opened the message, sees them. Who waits for a Future may have other
# streams. So the Future of an answer holds events behind the copies, and whoever takes its value
# lets its own streams wait for them; the CPU does not.


def arrival_of(tensors: Sequence[Tensor]) -> Callable[[], None] | None:
    """Return what lets the current streams of the thread that calls it wait for those of tensors
    that are on their way to devices; None if all are on the CPU.

    Thread  the one that opened their message; what it returns: any
    Source  PyTorch, aten/src/ATen/core/ivalue_inl.h, Future::synchronizeWithCurrentStreams
    """
    by_device: dict[Device, list[Any]] = {}
    for tensor in () if is_cpu_alone() else tensors:
        if tensor.facts.device.index is not None:
            by_device.setdefault(tensor.facts.device, []).append(tensor.array)
    if not by_device:
        return None
    points: list[tuple[Device, Stream, Event]] = []
    for device in by_device:
        stream = backend_of(device.type).current_stream(device.index)
        points.append((device, stream, stream.record_event()))

    def follow() -> None:
        for device, stream, event in points:
            backend = backend_of(device.type)
            here = backend.current_stream(device.index)
            if here == stream:
                continue
            here.wait_event(event)
            for array in by_device[device]:
                backend.record_stream(array, here)

    return follow
