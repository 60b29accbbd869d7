"""The contents of a sparse tensor: coordinates, values, and a layout that marks it as sparse.

A sparse tensor is a Tensor whose `_array` is a Coo and whose `_layout` is a SparseLayout. So code
that passes raw arrays on (the engine, hooks, `wrap`) also passes Coo objects on, and no code for
dense tensors needs a check. A SparseLayout is neither ordinary nor contiguous and caches no routes.
So no short path finds a route, and all of them call the op's `general`. `general` finds the rule
for sparse operands (interpreters/sparse_rules.py), or raises an error with an explanation. If a Coo
is passed to NumPy nevertheless, NumPy can add it; every other operation raises an error with an
explanation.

If a coordinate has several entries, their sum is the value. `is_coalesced` means that each
coordinate has at most one entry, and that the entries are sorted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from ..core.device import CPU, Device
from ..core.dtypes import DType, int64
from ..core.short_repr import short_repr
from ..devices.backend import backend_of
from .layout import Layout, RouteTable, Shape, count_elements

_OURS = __name__.partition(".")[0] + "."
# The functions that convert a tensor for NumPy or Python.
_TO_NUMPY = frozenset({"numpy", "to_numpy", "__array__", "__array_interface__", "tolist"})


class _NoRoutes(RouteTable):
    """A table that stores nothing: routes for dense memory do not apply to sparse tensors."""

    __slots__ = ()

    def remember(self, key: Any, route: Any) -> Any:
        """Return `route` without storing it."""
        return route


class SparseLayout(Layout):
    """The dtype, device and shape of a sparse tensor. Compare layouts with `is`."""

    __slots__ = ()
    is_sparse: ClassVar[bool] = True
    _made: ClassVar[WeakValueDictionary[tuple[Any, ...], SparseLayout]] = WeakValueDictionary()

    @classmethod
    def sparse(cls, dtype: DType, device: Device, shape: Shape) -> SparseLayout:
        """Return the unique sparse layout with these properties."""
        key = (dtype, device, shape)
        found = cls._made.get(key)
        if found is not None:
            return found
        made: SparseLayout = object.__new__(cls)
        made.dtype, made.device, made.shape = dtype, device, shape
        # Strides are 0, as in PyTorch: a sparse tensor does not have strided memory.
        made.strides = (0,) * len(shape)
        made.numel = count_elements(shape)
        made.contiguous = made.ordinary = made.tiny = False
        made.routes, made.uniform_routes, made.size = _NoRoutes(), {}, None
        with cls._interned_lock:
            return cls._made.setdefault(key, made)

    def with_shape(self, shape: Shape) -> Layout:
        """Return the sparse layout with another shape."""
        return SparseLayout.sparse(self.dtype, self.device, shape)

    def with_dtype(self, dtype: DType) -> Layout:
        """Return the sparse layout with another dtype."""
        return SparseLayout.sparse(dtype, self.device, self.shape)

    def __repr__(self) -> str:
        return "fastdist.sparse_coo"


class Coo:
    """The raw array of a sparse tensor: (sparse axes, n) int64 coordinates, and values of shape
    (n, *dense axes).

    Thread  immutable
    """

    __slots__ = ("indices", "is_coalesced", "layout", "values")

    def __init__(
        self, indices: Any, values: Any, layout: SparseLayout, is_coalesced: bool = False
    ) -> None:
        self.indices, self.values, self.layout = indices, values, layout
        # With fewer than two entries, no coordinate can have more than one entry.
        self.is_coalesced = is_coalesced or indices.shape[1] < 2

    @property
    def shape(self) -> Shape:
        """The shape of the tensor that this array represents."""
        return self.layout.shape

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of the values."""
        return self.layout.dtype.numpy

    @property
    def strides(self) -> Shape:
        """Raise NotImplementedError: the data of a sparse tensor is not in one block of memory that
        could be shared, shown or saved.
        """
        raise _refusal("its storage")

    def plus(self, other: Coo) -> Coo:
        """Return the sum, which has the entries of both operands, one after the other."""
        device = self.layout.device
        return Coo(
            joined([self.indices, other.indices], 1, device),
            joined([self.values, other.values], 0, device),
            self.layout,
        )

    def sum_of_entries(self) -> Any:
        """Return the sum of all values, computed in their dtype, as a Python number."""
        values = backend_of(self.layout.device.type).to_numpy(self.values)
        return values.sum(dtype=values.dtype).item()

    def without_entries(self, dtype: DType, device: Device) -> Coo:
        """Return zeros with the same shape and the same sparse axes."""
        empty, axes = backend_of(device.type).empty, self.indices.shape[0]
        layout = SparseLayout.sparse(dtype, device, self.layout.shape)
        return Coo(
            empty((axes, 0), int64.numpy, device.index),
            empty((0, *layout.shape[axes:]), dtype.numpy, device.index),
            layout,
            is_coalesced=True,
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if ufunc is not np.add or method != "__call__" or len(inputs) != 2:
            raise _refusal(f"NumPy's {ufunc.__name__}")
        outs = options.get("out")
        one, other = inputs
        if isinstance(one, Coo) and isinstance(other, Coo) and outs is None:
            return one.plus(other)
        dense, entries = (other, one) if isinstance(one, Coo) else (one, other)
        if not isinstance(entries, Coo) or isinstance(dense, Coo):
            raise _refusal("NumPy's add")
        room = np.array(dense) if outs is None else outs[0]
        if outs is not None and room is not dense:
            np.copyto(room, dense)
        backend_of("cpu").kernel("sparse.coordinates.add_entries")(
            entries.values, entries.indices, room
        )
        return room

    def __add__(self, other: Any) -> Any:
        return np.add(self, other)

    __radd__ = __add__

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        asked = _asked()
        text = "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first."
        if asked in _TO_NUMPY:
            raise TypeError(text)
        raise NotImplementedError(f"{asked}() is not implemented for sparse tensors: {text}")

    def __getitem__(self, index: Any) -> Any:
        raise _refusal(f"indexing with {short_repr(index)}")


def _refusal(what: str) -> NotImplementedError:
    asked = _asked()
    return NotImplementedError(
        f"{asked}(): {what} is not implemented for sparse tensors; call to_dense() first, or work "
        "on _indices() and _values()"
    )


def _asked() -> str:
    """Return the name of the fastdist function that the user called, for an error message."""
    frame, name = sys._getframe(1), ""
    while frame is not None and (room := frame.f_globals.get("__name__", "")).startswith(_OURS):
        # Skip the wrappers that dispatch puts around functions: their names are not those of the
        # functions.
        if not room.startswith(f"{_OURS}dispatch.") and frame.f_code.co_name.isidentifier():
            name = frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return name


def joined(arrays: Sequence[Any], axis: int, device: Device) -> Any:
    """Concatenate raw arrays of a device along an axis."""
    if device is CPU:
        return np.concatenate(arrays, axis)
    backend = backend_of(device.type)
    shape = list(arrays[0].shape)
    shape[axis] = sum(array.shape[axis] for array in arrays)
    room = backend.empty(tuple(shape), arrays[0].dtype, device.index)
    at = 0
    for array in arrays:
        end = at + array.shape[axis]
        backend.copy_into(room[(slice(None),) * axis + (slice(at, end),)], array)
        at = end
    return room
