"""In-place changes of a tensor's memory and of its sizes: `set_`, `resize_`."""

from __future__ import annotations

from typing import Any

from ...core.caller_warning import warn_caller
from ...core.errors import DTypeError, GraphError, ShapeError
from ...core.folded_frames import folds
from ...core.memory_format import FORMATS, MemoryFormat, axes_of, preserve_format
from ...core.sequences import all_of
from ...core.short_repr import short_repr
from ...devices.backend import backend_of
from ...graph.inplace_history import require_may_change
from ...graph.lazy_conj_neg import LazyConjNeg
from ...graph.modes import tls
from ...interpreters.sparse_rules import is_sparse, refusal
from ...tensor.layout import Shape, contiguous_strides, count_elements
from ...tensor.memory import flat_of, reach, root_of, storage_offset, view_at
from ...tensor.methods import DeviceLike
from ...tensor.storage import BoundedStorage
from ...tensor.tensor import Tensor, layout_of
from ...tensor.typed_storage import TypedStorage, UntypedStorage


@folds
def set_(
    self: Tensor,
    source: Any = None,
    storage_offset: int = 0,
    size: Any = None,
    stride: Any = None,
) -> Tensor:
    """Make this tensor use the memory of another tensor, of a storage, or of a part of a storage.
    Without arguments, the tensor gets an empty memory. Return the tensor.

    Raises  RuntimeError if source has another dtype or device, if elements would be outside of the
            storage, or if the tensor requires grad and the call is not in no_grad
    Note    unlike in PyTorch, a storage that is too small is not enlarged
    """
    require_may_change(self, writing=False)
    if tls.grad and self._edge is not None:
        raise RuntimeError(
            "derivative for set_ is not implemented: the graph knows this tensor by the shape that "
            "it was made with; call it in no_grad(), or on a detach()"
        )
    for one in (self, source):
        if is_sparse(one):
            raise refusal("set_", one)
    dtype, device = self._layout.dtype, self._layout.device
    if isinstance(source, LazyConjNeg):
        source = source.value  # the underlying memory, as in PyTorch
    if isinstance(source, Tensor) and size is None:
        _require_kind(source._layout.dtype, dtype, source._layout.device, device)
        return _take(self, source._array, root_of(source))
    if isinstance(source, Tensor):
        source = TypedStorage(
            wrap_storage=UntypedStorage.around(flat_of(source), source._layout.device),
            dtype=source._layout.dtype,
        )
    if source is None:
        source = UntypedStorage(0, device=device)
    if not isinstance(source, TypedStorage | UntypedStorage):
        raise TypeError(
            f"set_(): argument 'source' must be a Tensor or a storage, not {type(source).__name__}"
        )
    _require_kind(getattr(source, "dtype", dtype), dtype, source.device, device)
    flat = source.untyped().raw
    shape = (flat.nbytes // dtype.itemsize - storage_offset,) if size is None else _sizes(size)
    strides = contiguous_strides(shape) if stride is None else _sizes(stride)
    require_inside(shape, strides, storage_offset, dtype.itemsize, flat.nbytes)
    array = view_at(flat, dtype.numpy, device, storage_offset, shape, strides)
    source.untyped()._is_own = False
    return _take(self, array, flat)


def _require_kind(given: Any, wanted: Any, device: DeviceLike, here: Any) -> None:
    if given is not wanted:
        raise DTypeError(
            f"Could not set tensor of type {given.name} to a tensor of type {wanted.name}"
        )
    if device is not here:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{here}" to a storage on '
            f'different device "{device}".  This is no longer allowed; the devices must match.'
        )


def _sizes(given: Any) -> Shape:
    if isinstance(given, int):
        return (given,)
    numbers = all_of(given)
    for n in numbers:
        if not hasattr(n, "__index__"):
            raise TypeError(f"sizes and strides must be integers, got {short_repr(given)}")
    return tuple([n.__index__() for n in numbers])


def require_inside(shape: Shape, strides: Shape, offset: int, itemsize: int, nbytes: int) -> None:
    """Raise RuntimeError unless the elements given by shape, strides and offset are within nbytes
    of memory.
    """
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    if len(shape) != len(strides):
        raise ShapeError(
            f"mismatch in length of strides and shape: {len(strides)} strides, {len(shape)} sizes"
        )
    if min(shape, default=0) < 0 or min(strides, default=0) < 0:
        raise RuntimeError(f"sizes and strides must not be negative, got {shape} and {strides}")
    needed = (offset + reach(shape, strides)) * itemsize if count_elements(shape) else 0
    if needed > nbytes:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, "
            f"and itemsize {itemsize} requiring a storage size of {needed} are out of bounds for "
            f"storage of size {nbytes}"
        )


def _take(target: Tensor, array: Any, memory: Any) -> Tensor:
    """Make target use array, which is a part of memory, and increment target's version."""
    version = target._version
    target._array = array
    if target._extra is not None:
        # target is no longer a view of its old base.
        target._extra.base = target._extra.replay = None
    target._layout = layout_of(array, target._layout.device)
    target._storage = BoundedStorage(memory)
    target._storage.version = version + 1
    if target._edge is not None and target._edge.is_accumulate:
        target._edge.attach(target)
    return target


def resize_(self: Tensor, *sizes: Any, memory_format: MemoryFormat | None = None) -> Tensor:
    """Change this tensor's sizes. The elements are then in C order, or in the order of
    memory_format. The contents of the memory are kept; new memory is uninitialized. Return the
    tensor.

    Raises  RuntimeError if the tensor requires grad, or if memory_format does not fit the sizes
    Note    if the memory is too small, the tensor gets new memory, and its views keep the old one
    """
    if self._edge is not None:
        raise GraphError("cannot resize variables that require grad")
    given = sizes[0] if len(sizes) == 1 and not hasattr(sizes[0], "__index__") else sizes
    shape = _sizes(given)
    if min(shape, default=0) < 0:
        raise ShapeError(
            f"Trying to create tensor with negative dimension {short_repr(min(shape))}: "
            f"{short_repr(shape)}"
        )
    strides = _strides(shape, memory_format)
    if shape == self._layout.shape and (memory_format is None or strides == self._layout.strides):
        return self
    dtype, device = self._layout.dtype, self._layout.device
    flat, offset = flat_of(self), storage_offset(self)
    backend = backend_of(device.type)
    needed = (offset + count_elements(shape)) * dtype.itemsize
    if needed > flat.nbytes:
        fresh = backend.empty((needed // dtype.itemsize,), dtype.numpy, device.index)
        old = flat[: flat.nbytes // dtype.itemsize * dtype.itemsize].view(dtype.numpy)
        backend.copy_into(fresh[: old.shape[0]], old)
        flat = fresh.view(flat.dtype)
    array = view_at(flat, dtype.numpy, device, offset, shape, strides)
    return _take(self, array, flat)


def _strides(shape: Shape, memory_format: MemoryFormat | None) -> Shape:
    """Return the strides of a tensor without gaps that has this shape and this memory format."""
    if memory_format is not None:
        axes_of(memory_format)
    order = None if memory_format is None else memory_format.order(len(shape))
    if order is None:
        return contiguous_strides(shape)
    packed = contiguous_strides(tuple([shape[axis] for axis in order]))
    return tuple([packed[order.index(axis)] for axis in range(len(order))])


def resize_as_(
    self: Tensor, the_template: Tensor, *, memory_format: MemoryFormat | None = None
) -> Tensor:
    """Resize this tensor to the sizes of the_template. With preserve_format, also use the order of
    the_template if that is channels_last. The errors are those of `resize_`.
    """
    if memory_format is preserve_format:
        fitting = (one for one in FORMATS.values() if one.axes is not None)
        memory_format = next((f for f in fitting if the_template.is_contiguous(f)), None)
        memory_format = None if the_template._layout.contiguous else memory_format
    return resize_(self, the_template._layout.shape, memory_format=memory_format)


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Return whether both tensors have the same layout and begin at the same address."""
    if self._layout is not tensor._layout:
        return False
    if is_sparse(self):
        return self._array is tensor._array
    data_ptr = backend_of(self._layout.device.type).data_ptr
    same = data_ptr(self._array) == data_ptr(tensor._array)
    return same and storage_offset(self) == storage_offset(tensor)


@folds
def resize(self: Tensor, *sizes: Any) -> Tensor:
    """Return this tensor with other sizes. Deprecated: use `reshape`.

    Raises  RuntimeError if the number of elements differs

    Args:
        *sizes: The lengths of the axes.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     torch.arange(4).resize(2, 2).shape
        fastdist.Size([2, 2])
    """
    warn_caller("non-inplace resize is deprecated", once=True)
    given = sizes[0] if len(sizes) == 1 and not hasattr(sizes[0], "__index__") else sizes
    shape, numel = _sizes(given), self._layout.numel
    if count_elements(shape) != numel:
        raise ShapeError(
            f"requested resize to {list(shape)} ({count_elements(shape)} elements in total), but "
            f"the given tensor has a size of {list(self._layout.shape)} ({numel} elements). "
            "autograd's resize can only change the shape of a given tensor, while preserving the "
            "number of elements."
        )
    return self.reshape(shape)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """Return this tensor with the sizes of another one. Deprecated: use `reshape_as`.

    Raises  RuntimeError if the number of elements differs
    """
    return resize(self, tensor._layout.shape)


METHODS: dict[str, Any] = {
    "resize": resize,
    "resize_as": resize_as,
    "set_": set_,
    "resize_": resize_,
    "resize_as_": resize_as_,
    "is_set_to": is_set_to,
}
