"""Pickling and copying of tensors: data is pickled as NumPy arrays; layouts are interned again."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..core.dense_order import undone, walk_order
from ..core.device import CPU, Device
from ..core.dtypes import DType, int64
from ..core.errors import GraphError, ShapeError
from ..core.short_repr import short_repr
from ..devices.backend import backend_of
from ..system.shared_block import Passage, block_of
from .layout import Layout
from .sparse import Coo, SparseLayout
from .storage import Storage
from .tensor import Tensor, layout_of, wrap


def reduce_ex(self: Tensor, protocol: Any) -> tuple[Any, ...]:
    """Return the pickled form of this tensor.

    Note    the result of an op is restored as a leaf. `.grad`, hooks, the graph and tangents are
            not saved. Views become separate tensors, unless multiprocessing sends their memory as
            shared memory
    """
    if self._layout.is_sparse:
        return (
            rebuild_sparse,
            (*parts_of(self), type(self)),
            getattr(self, "__dict__", None) or None,
        )
    layout = self._layout
    if layout.device.type == "meta":
        arguments: tuple[Any, ...] = (type(self), layout.dtype, layout.shape, layout.strides)
        state = getattr(self, "__dict__", None) or None
        return rebuild_meta, (*arguments, self._edge is not None), state
    array: Any = self.to_numpy()
    axes: tuple[Any, ...] = ()
    if block_of(array) is not None:
        array = Passage(array)
    elif not self._layout.contiguous:
        # NumPy's pickles preserve only C and Fortran order.
        order = walk_order(self._layout.shape, self._layout.strides)
        if order is not None:
            array, axes = array.transpose(order), (undone(order),)
    arguments = (type(self), array, layout.device, self._edge is not None, *axes)
    return rebuild, arguments, getattr(self, "__dict__", None) or None


def parts_of(tensor: Tensor) -> tuple[Any, ...]:
    """Return the arguments of rebuild_sparse for a sparse tensor. Coordinates and values are
    returned as Tensors, so that they are sent and copied like other Tensors. Before this call, the
    caller may have copied the coordinates of a GPU tensor to the CPU.

    Raises  RuntimeError if coordinates were changed and are now outside of the tensor's shape: the
            pickle could not be loaded
    """
    coo: Coo = tensor._array
    lengths = tensor._layout.shape[: coo.indices.shape[0]]
    if isinstance(coo.indices, np.ndarray) and not _are_inside(coo.indices, lengths):
        raise ShapeError(
            f"sparse tensor of shape {tensor._layout.shape}: its coordinates lie outside of it, "
            "from "
            f"{coo.indices.min()} to {coo.indices.max()}; they were changed after it was made, and "
            "cannot be saved, sent or copied"
        )
    device = tensor._layout.device
    where = CPU if isinstance(coo.indices, np.ndarray) else device
    indices = wrap(coo.indices, layout_of(coo.indices, where))
    values = wrap(coo.values, layout_of(coo.values, device))
    return indices, values, tensor._layout.shape, coo.is_coalesced, tensor._edge is not None


def rebuild_sparse(
    indices: Tensor,
    values: Tensor,
    shape: Any,
    is_coalesced: bool,
    requires_grad: bool,
    cls: type[Tensor] = Tensor,
) -> Tensor:
    """Return the sparse tensor that was pickled.

    The coordinates are copied before they are checked, because another tensor may share their
    memory, and compiled loops do not check them again.

    Raises  ValueError for parts that do not fit together
    """
    places, own, shape = indices._layout, values._layout, tuple(shape)
    if any(type(length) is not int for length in shape):
        # 2.0 == 2, so a layout with float sizes would be cached for equal int sizes as well.
        raise ShapeError(f"sparse tensor of shape {shape}: the sizes must be ints")
    axes = places.shape[0] if len(places.shape) == 2 else -1
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise ShapeError(
            f"a sparse tensor cannot be made as {short_repr(cls)}, which is not a class of tensors"
        )
    fits = axes >= 0 and own.shape == (places.shape[1], *shape[axes:]) and len(shape) >= axes
    fits = fits and places.dtype is int64
    coordinates: Any = np.array(indices.to_numpy(), order="C") if fits else None
    if not fits or not _are_inside(coordinates, shape[:axes]):
        raise ShapeError(
            f"sparse tensor of shape {shape}: coordinates of shape {places.shape} and "
            f"{places.dtype.name} and values of shape {own.shape} do not fit"
        )
    layout = SparseLayout.sparse(own.dtype, own.device, shape)
    if own.device is not CPU:
        coordinates = backend_of(own.device.type).from_numpy(coordinates, own.device.index)
    made = _bare(cls, Coo(coordinates, values._array, layout, bool(is_coalesced)), layout, None)
    return made.requires_grad_() if requires_grad else made


def _are_inside(places: np.ndarray[Any, Any], lengths: tuple[int, ...]) -> bool:
    if not places.size:
        return True
    inside: Any = (places >= 0).all() and (places.max(1) < np.array(lengths)).all()
    return bool(inside)


def rebuild(
    cls: type[Tensor],
    array: np.ndarray[Any, Any],
    device: Device,
    requires_grad: bool,
    axes: tuple[int, ...] | None = None,
) -> Tensor:
    """Return the tensor that was pickled. `axes` permutes the axes of `array`; None keeps them."""
    if not array.flags.writeable and block_of(array) is None:
        # pickle may return an array of memory that another object owns, such as a received message.
        array = array.copy(order="K")
    on_device = backend_of(device.type).from_numpy(array, device.index)
    if axes is not None:
        on_device = on_device.transpose(axes)
    tensor = _bare(cls, on_device, layout_of(on_device, device), None)
    return tensor.requires_grad_() if requires_grad else tensor


def rebuild_meta(
    cls: type[Tensor],
    dtype: DType,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    requires_grad: bool,
) -> Tensor:
    """Return the pickled tensor of the meta device, which has no data."""
    layout = Layout.of(dtype, Device("meta"), shape, strides)
    backend = backend_of("meta")
    array = backend.as_strided(backend.empty(shape, dtype.numpy), shape, layout.steps)
    tensor = _bare(cls, array, layout, None)
    return tensor.requires_grad_() if requires_grad else tensor


def copy_tensor(self: Tensor) -> Tensor:
    """Return another Tensor that uses the same memory. The new Tensor is a leaf, even if `self` is
    the result of an op.
    """
    twin = _bare(type(self), self._array, self._layout, self._storage)
    _take_attributes(twin, getattr(self, "__dict__", None))
    return twin.requires_grad_() if self._edge is not None else twin


def deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return a copy in separate memory, with a copy of `.grad`.

    If several tensors of one deepcopy share memory, their copies share memory too (CPU only).

    Raises  RuntimeError for a tensor that is the result of an op
    """
    known = memo.get(id(self))
    if known is not None:
        return known  # type: ignore[no-any-return]
    if self._edge is not None and not self._edge.is_accumulate:
        raise GraphError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment. Copy a result with .clone() or .detach().clone()"
        )
    if self._layout.is_sparse:
        twin = rebuild_sparse(*copy.deepcopy((*parts_of(self), type(self)), memo))
    else:
        array = _copy_array(self, memo)
        layout = layout_of(array, self._layout.device)
        twin = _bare(type(self), array, layout, _storage_twin(self._storage, memo))
    memo[id(self)] = twin
    if self._edge is not None:
        twin.requires_grad_()
    if self.grad is not None:
        twin.grad = copy.deepcopy(self.grad.detach(), memo)
    _take_attributes(twin, copy.deepcopy(getattr(self, "__dict__", None), memo))
    return twin


def _bare(cls: type[Tensor], array: Any, layout: Layout, storage: Storage | None) -> Tensor:
    tensor: Tensor = object.__new__(cls)
    tensor._array, tensor._layout, tensor._storage = array, layout, storage
    tensor._edge = tensor._extra = None
    return tensor


def _take_attributes(tensor: Tensor, attributes: dict[str, Any] | None) -> None:
    if attributes:
        tensor.__dict__.update(attributes)


def _storage_twin(storage: Storage | None, memo: dict[int, Any]) -> Storage | None:
    if storage is None:
        return None
    twin: Storage = memo.setdefault(id(storage), Storage())
    return twin


def _copy_array(tensor: Tensor, memo: dict[int, Any]) -> Any:
    array, layout = tensor._array, tensor._layout
    if isinstance(array, np.ndarray):
        owner = _owner(array)
        if owner is not array and owner.flags.forc and owner.flags.writeable:
            return _same_place(array, owner, memo)
        if owner is array and array.flags.forc:
            return _twin_of(array, memo)
    backend = backend_of(layout.device.type)
    order = walk_order(layout.shape, layout.strides)
    given = array if order is None else array.transpose(order)
    room = backend.empty(given.shape, layout.dtype.numpy, layout.device.index)
    backend.copy_into(room, given)
    return room if order is None else room.transpose(undone(order))


def _twin_of(array: np.ndarray[Any, Any], memo: dict[int, Any]) -> np.ndarray[Any, Any]:
    twin: np.ndarray[Any, Any] | None = memo.get(id(array))
    if twin is None:
        twin = memo[id(array)] = array.copy(order="K")
    return twin


def _owner(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _same_place(
    view: np.ndarray[Any, Any], owner: np.ndarray[Any, Any], memo: dict[int, Any]
) -> np.ndarray[Any, Any]:
    """Copy the memory of `owner`, once per `memo`, and return the copy's view like `view`."""
    twin = _twin_of(owner, memo)
    start = view.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    place: np.ndarray[Any, Any] = np.ndarray(
        view.shape, view.dtype, _bytes_of(twin), start, view.strides
    )
    return place


def _bytes_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return `array` or its transpose, whichever is in C order: np.ndarray needs such a buffer."""
    return array if array.flags.c_contiguous else array.T


METHODS = {"__reduce_ex__": reduce_ex, "__copy__": copy_tensor, "__deepcopy__": deepcopy}
