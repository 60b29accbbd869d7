"""Encodes tensors as a table and buffers, and decodes them; copies them from and to devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np

from fastdist.core.dense_order import dense_order, undone, walk_order
from fastdist.core.device import CPU, Device
from fastdist.core.dtypes import from_code
from fastdist.core.errors import DeviceError, DTypeError, MessageError
from fastdist.devices.backend import Event, Stream, backend_of, is_cpu_alone
from fastdist.devices.staging import HostCopies, copy_to_devices
from fastdist.distributed.arena.borrower import REVOKED
from fastdist.distributed.arena.lender import Lender
from fastdist.distributed.pipe.frames import Buffer
from fastdist.tensor.layout import Layout, contiguous_strides, strides_of
from fastdist.tensor.parameter import Parameter
from fastdist.tensor.tensor import Tensor, layout_of, wrap

from ..gpu_transport.cuda_ipc import CameOnDevice, LentPiece, Wanted
from .layout import MAX_BYTES, NO_CALL, NO_INDEX, PARAMETER, REQUIRES_GRAD, TensorEntry
from .places import place, place_alone

DeviceMap: TypeAlias = Mapping[Device, Device]

_DEVICE_TYPES: Final = ("cpu", "cuda", "sim")


def pack_tensors(
    tensors: Sequence[Tensor],
    device_map: DeviceMap | None = None,
    lender: Lender | None = None,
    message_id: int = NO_CALL,
    *,
    goals: Sequence[Device] = (),
) -> tuple[list[TensorEntry], list[Buffer]]:
    """Return the table and the buffers of tensors; tensors that share memory share a buffer.

    GPU tensors that `lender` can lend to the peer are not copied to the CPU. The target devices are
    `goals`, or come from the device map if `goals` is empty.

    Raises  DeviceError for a tensor on a device that is not in the map
    """
    if not tensors:
        return [], []
    arrays: list[np.ndarray[Any, Any]] = []
    for tensor in tensors:
        if tensor._layout.device is not CPU:
            return Departure(tensors, device_map, lender, message_id, goals=goals).finish()
        arrays.append(tensor._array)
    placed, buffers = place(arrays)
    entries = []
    for tensor, (buffer, offset, packed_strides) in zip(tensors, placed, strict=True):
        if not offset and packed_strides is None:
            entries.append(whole_entry(tensor, buffer))
            continue
        layout = tensor._layout
        strides = layout.strides if packed_strides is None else packed_strides
        fields = (layout.dtype.code, 0, NO_INDEX, _flags_of(tensor), layout.shape, strides)
        entries.append(TensorEntry(buffer, offset, *fields))
    return entries, buffers


class Departure:
    """Tensors for a message, some of which must first be copied from devices.

    The sending thread creates this object, so that its later work on the devices comes after the
    copies. With `is_late` the thread does not wait for the copies. So CPU tensors are copied
    immediately, because the program may change them afterwards.

    Thread  any may call finish
    Raises  DeviceError for a tensor on a device that is not in the map
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        device_map: DeviceMap | None,
        lender: Lender | None,
        message_id: int,
        *,
        goals: Sequence[Device] = (),
        is_late: bool = False,
    ) -> None:
        self._tensors = tensors
        self._goals = goals or [destination(one._layout.device, device_map) for one in tensors]
        self._lent = _lend(tensors, self._goals, lender, message_id)
        self._here = [i for i, tensor in enumerate(tensors) if tensor._layout.device is CPU]
        self._away = [
            i
            for i, tensor in enumerate(tensors)
            if tensor._layout.device is not CPU and i not in self._lent
        ]
        self._places, self._buffers = place([tensors[i]._array for i in self._here])
        if is_late and self._away:
            self._buffers = [bytearray(buffer) for buffer in self._buffers]
        # The copies have no gaps. They keep the order of the axes in memory if `walk_order` gives
        # one, and are in C order otherwise.
        given = [(tensors[i]._layout.device, tensors[i]._array) for i in self._away]
        self._copies = HostCopies(given, holds_back=is_late) if given else None

    @property
    def waits(self) -> bool:
        """Whether `finish` has to wait for a device."""
        return self._copies is not None

    def size_bytes(self) -> int:
        """Return the number of bytes of the tensors that the message contains."""
        sizes = [*map(len, self._buffers), *[self._tensors[i]._array.nbytes for i in self._away]]
        return sum(sizes)

    def finish(self) -> tuple[list[TensorEntry], list[Buffer]]:
        """Wait for the copies, and return the table and the buffers. Call this only once.

        Raises  the error of a device
        """
        tensors, buffers = self._tensors, self._buffers
        places = dict(zip(self._here, self._places, strict=True))
        if self._copies is not None:
            self._copies.wait()
            for i, array in zip(self._away, self._copies.arrays, strict=True):
                buffer, offset, _ = place_alone(array, buffers)
                places[i] = buffer, offset, _packed_strides(tensors[i]._layout)
        numbers: dict[LentPiece, int] = {}
        for i, (piece, start) in self._lent.items():
            if piece not in numbers:
                numbers[piece] = len(buffers)
                buffers.append(cast(Buffer, piece))
            places[i] = numbers[piece], start, _packed_strides(tensors[i]._layout)
        entries = []
        for i, tensor in enumerate(tensors):
            layout = tensor._layout
            buffer, offset, packed_strides = places[i]
            strides = layout.strides if packed_strides is None else packed_strides
            kind, index = _numbers_of(self._goals[i])
            fields = (layout.dtype.code, kind, index, _flags_of(tensor), layout.shape, strides)
            entries.append(TensorEntry(buffer, offset, *fields))
        return entries, buffers


def _lend(
    tensors: Sequence[Tensor], goals: Sequence[Device], lender: Lender | None, message_id: int
) -> dict[int, tuple[LentPiece, int]]:
    """Lend GPU tensors; return a dictionary: index of a lent tensor -> (piece, offset in it)."""
    found: dict[int, tuple[LentPiece, int]] = {}
    if lender is None or lender.devices is None:
        return found
    groups: dict[tuple[Device, Device], list[int]] = {}
    for i, (tensor, goal) in enumerate(zip(tensors, goals, strict=True)):
        if goal is not CPU and tensor._layout.numel:
            groups.setdefault((tensor._layout.device, goal), []).append(i)
    for (mine, theirs), numbers in groups.items():
        arrays = [_in_memory_order(tensors[i]) for i in numbers]
        lent = lender.devices.lend(mine, theirs, arrays, message_id)
        if lent is not None:
            piece, starts = lent
            found.update((i, (piece, start)) for i, start in zip(numbers, starts, strict=True))
    return found


def _in_memory_order(tensor: Tensor) -> Any:
    """Return the array of a tensor, with its axes in the order of decreasing strides."""
    order = walk_order(tensor._layout.shape, tensor._layout.strides)
    return tensor._array if order is None else tensor._array.transpose(order)


def _order_of(layout: Layout) -> tuple[int, ...] | None:
    return None if layout.contiguous else dense_order(layout.shape, layout.strides)


def _packed_strides(layout: Layout) -> tuple[int, ...]:
    """Return the strides of a tensor that is sent without gaps."""
    strides = strides_of(layout.shape, walk_order(layout.shape, layout.strides))
    return contiguous_strides(layout.shape) if strides is None else strides


def _flags_of(tensor: Tensor) -> int:
    flags = 0 if tensor._edge is None else REQUIRES_GRAD
    return flags | PARAMETER if tensor.__class__ is Parameter else flags


def whole_entry(tensor: Tensor, buffer: int) -> TensorEntry:
    """Return the entry of a CPU tensor that begins at the start of its buffer."""
    layout, flags = tensor._layout, _flags_of(tensor)
    key = ("rpc", flags, buffer)
    entry: TensorEntry | None = layout.routes.get(key)
    if entry is None:
        code, shape, strides = layout.dtype.code, layout.shape, layout.strides
        entry = TensorEntry(buffer, 0, code, 0, NO_INDEX, flags, shape, strides)
        layout.routes.remember(key, entry)
    return entry


def unpack_tensors(
    entries: Sequence[TensorEntry], buffers: Sequence[Buffer]
) -> tuple[list[Tensor], list[bool]]:
    """Return the tensors in buffers, without a graph, and whether each required grad when sent.

    Raises  MessageError for a tensor that does not fit its buffer; DeviceError for a device that
            this worker does not have
    """
    tensors: list[Tensor] = []
    for entry in entries:
        if entry.device_type:
            tensors = _unpack_with_devices(entries, buffers)
            break
        tensors.append(_unpack(entry, buffers[entry.buffer]))
    return tensors, [bool(entry.flags & REQUIRES_GRAD) for entry in entries]


def _unpack_with_devices(entries: Sequence[TensorEntry], buffers: Sequence[Buffer]) -> list[Tensor]:
    tensors: list[Any] = [None] * len(entries)
    away: list[int] = []
    by_piece: dict[int, list[int]] = {}
    for i, entry in enumerate(entries):
        buffer = buffers[entry.buffer]
        if isinstance(buffer, CameOnDevice):
            by_piece.setdefault(entry.buffer, []).append(i)
            continue
        tensors[i] = _unpack(entry, buffer)
        if entry.device_type:
            away.append(i)
    _move_to_devices(tensors, entries, away)
    for number, members in by_piece.items():
        _take_from_piece(cast(CameOnDevice, buffers[number]), tensors, entries, members)
    return tensors


def _take_from_piece(
    piece: CameOnDevice, tensors: list[Any], entries: Sequence[TensorEntry], members: Sequence[int]
) -> None:
    """Copy the tensors in a peer's piece to their device, which is the same for all of them."""
    device = _device_of(entries[members[0]].device_type, entries[members[0]].device_index)
    wanted, orders = [], []
    for i in members:
        entry = entries[i]
        geometry = _geometry(entry.dtype, entry.sizes, entry.strides)
        layout = geometry.layout
        if entry.flags & REQUIRES_GRAD and not layout.dtype.may_have_gradient:
            raise MessageError(f"a tensor of {layout.dtype.name} that requires grad")
        is_within = entry.offset + geometry.extent_bytes <= piece.size
        order = _order_of(layout)
        if not ((layout.contiguous or order is not None) and is_within):
            raise MessageError(
                f"a tensor of shape {entry.sizes}, strides {entry.strides} at byte "
                f"{entry.offset} of a GPU's {piece.size} bytes: it must be packed, and within"
            )
        if device.type != "cuda" or _device_of(entry.device_type, entry.device_index) != device:
            raise MessageError(f"a tensor bound for {device} in memory of a GPU for another")
        shape = layout.shape if order is None else tuple([layout.shape[axis] for axis in order])
        wanted.append(Wanted(entry.offset, shape, layout.dtype.numpy))
        orders.append(order)
    arrays = piece.owner.copy_out(piece, wanted, device.index or 0)
    for i, array, order in zip(members, arrays, orders, strict=True):
        as_sent = array if order is None else array.transpose(undone(order))
        tensors[i] = _on_device(as_sent, device, entries[i].flags)


def unpack_leaves(entries: Sequence[TensorEntry], buffers: Sequence[Buffer]) -> list[Tensor]:
    """Return the tensors in buffers; make leaves of the tensors that required grad when sent.

    Raises  the errors of unpack_tensors
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
    """Make leaves of the tensors that required grad at the sender and have no history here."""
    for tensor, wanted in zip(tensors, requires_grad, strict=False):
        if wanted and tensor._edge is None:
            tensor.requires_grad_(True)


def destination(device: Device, device_map: DeviceMap | None) -> Device:
    """Return the peer's device for a tensor that is on `device` of this worker.

    Raises  DeviceError for a device that is not in the map
    """
    if device is CPU:
        return CPU
    if device.type == "meta":
        raise DeviceError(
            "a tensor on the meta device cannot be sent: it has no data. Send its shape and dtype, "
            "and make it there with empty(shape, dtype=dtype, device='meta')"
        )
    target = device_map.get(device) if device_map else None
    if target is None:
        raise DeviceError(
            "TensorPipe RPC backend only supports CPU tensors by default, please move your tensors "
            "to CPU before sending them over RPC, or call set_device_map on "
            "TensorPipeRpcBackendOptions to explicitly configure device mapping. "
            f"A tensor is on {device}, for which the device map of this call has no entry"
        )
    return target


def device_pair(mine: Device, theirs: Device) -> tuple[int, int, int, int]:
    """Encode an entry of a device map as numbers: type and index of `mine`, then of `theirs`."""
    return *_numbers_of(mine), *_numbers_of(theirs)


def devices_of_pair(pair: tuple[int, int, int, int]) -> tuple[Device, Device]:
    """Return the devices in an encoded entry of a device map: the sender's, and this worker's.

    Raises  MessageError for an unknown type of device
    """
    theirs_type, theirs_index, mine_type, mine_index = pair
    return _device_of(theirs_type, theirs_index), _device_of(mine_type, mine_index)


def _numbers_of(device: Device) -> tuple[int, int]:
    return _DEVICE_TYPES.index(device.type), NO_INDEX if device.index is None else device.index


def _device_of(kind: int, index: int) -> Device:
    if kind >= len(_DEVICE_TYPES):
        raise MessageError(f"unknown device type {kind}")
    return Device.parse(Device(_DEVICE_TYPES[kind], None if index == NO_INDEX else index))


def _move_to_devices(
    tensors: list[Any], entries: Sequence[TensorEntry], away: Sequence[int]
) -> None:
    """Copy the tensors `away` from the CPU to their devices, all in one step."""
    devices = [_device_of(entries[i].device_type, entries[i].device_index) for i in away]
    arrays, _ = copy_to_devices([tensors[i]._array for i in away], devices)
    for i, array, device in zip(away, arrays, devices, strict=True):
        tensors[i] = _on_device(array, device, entries[i].flags)


def _on_device(array: Any, device: Device, flags: int) -> Tensor:
    there = wrap(array, layout_of(array, device))
    return Parameter(there, bool(flags & REQUIRES_GRAD)) if flags & PARAMETER else there


def _unpack(entry: TensorEntry, buffer: Buffer) -> Tensor:
    """Return an entry's tensor, on the CPU; a Parameter if `entry` says so and targets the CPU."""
    geometry = _geometry(entry.dtype, entry.sizes, entry.strides)
    layout = geometry.layout
    if entry.flags & REQUIRES_GRAD and not layout.dtype.may_have_gradient:
        raise MessageError(f"a tensor of {layout.dtype.name} that requires grad")
    array: np.ndarray[Any, Any]
    if not layout.numel:
        array = np.empty(layout.shape, layout.dtype.numpy)
    elif entry.offset + geometry.extent_bytes > len(buffer):
        if buffer is REVOKED:
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
        try:
            array = np.ndarray(
                layout.shape, layout.dtype.numpy, buffer, entry.offset, geometry.steps
            )
        except TypeError:
            raise MessageError("a tensor of the CPU in memory of a GPU") from None
    tensor = wrap(array, layout)
    if entry.flags & PARAMETER and not entry.device_type:
        return Parameter(tensor, bool(entry.flags & REQUIRES_GRAD))
    return tensor


class _Geometry(NamedTuple):
    """The layout for a dtype code, a shape and strides; `steps`, in bytes, is None in C order."""

    layout: Layout
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
        # With strides of 0 the tensor could fit its buffer, but a copy of it would be too large.
        raise MessageError(f"a tensor of shape {shape}, {largest} bytes; at most {MAX_BYTES}")
    layout = Layout.of(dtype, CPU, shape, strides if elements else None)
    steps = None if layout.contiguous else tuple([step * dtype.itemsize for step in strides])
    return _Geometry(layout, (last + 1) * dtype.itemsize, steps)


# Note [Events in Futures]
# The CPU does not wait for tensors that are being copied to a device. Work on the streams of the
# thread that opened the message is queued behind the copies. A thread that waits for a Future may
# use other streams. So the Future of an answer holds events that are recorded behind the copies. A
# thread that reads the Future's value makes its own streams wait for these events; the CPU does not
# wait.


def arrival_of(tensors: Sequence[Tensor]) -> Callable[[], None] | None:
    """Return a function that makes the calling thread's streams wait for the tensors' copies.

    Return None if all tensors are on the CPU.

    Thread  the thread that opened the message of the tensors; the returned function: any
    Source  PyTorch, aten/src/ATen/core/ivalue_inl.h, Future::synchronizeWithCurrentStreams
    """
    by_device: dict[Device, list[Any]] = {}
    for tensor in () if is_cpu_alone() else tensors:
        if tensor._layout.device.index is not None:
            array: Any = tensor._array
            parts = (array.indices, array.values) if tensor._layout.is_sparse else (array,)
            # The coordinates of a sparse tensor may still be on the CPU.
            there = [one for one in parts if not isinstance(one, np.ndarray)]
            by_device.setdefault(tensor._layout.device, []).extend(there)
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
