"""Queries on a tensor; the queries for devices other than the CPU and CUDA return False."""

from __future__ import annotations

from typing import Any

from ..core.dense_order import undone, walk_order
from ..core.device import CPU, Device, no_such_device
from ..core.dtypes import WORDS, DType
from ..core.errors import DeviceError, ShapeError
from ..devices.backend import backend_of
from ..devices.gpus import device_count
from ..dispatch.inplace import copy_
from ..interpreters.sparse_rules import refusal
from ..ops.create.creation import empty
from ..ops.sparse import coordinates
from ..tensor.layout import memory_order
from ..tensor.tensor import Tensor, layout_of, wrap
from ..tensor.typed_storage import TYPED_STORAGES
from .typed_tensors import handle_to, new_of_dtype


def _answers_no(what: str) -> property:
    def answer(self: Tensor) -> bool:
        return False

    return property(answer, doc=f"False: no tensor here is {what}.")


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Return whether the tensor is in pinned (page-locked) CPU memory."""
    if self._layout.device is not CPU or self._layout.is_sparse or not device_count():
        return False
    backend: Any = backend_of("cuda")
    return bool(backend.is_pinned(self._array))


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Return a copy of the tensor in pinned memory, for asynchronous copies to a GPU. A tensor that
    is already pinned is returned unchanged.

    Raises  RuntimeError without a GPU, or for a tensor that is not on the CPU
    """
    if not device_count():
        raise RuntimeError(
            "Cannot access accelerator device when none is available. Pin memory only where "
            "cuda.is_available()"
        )
    if self._layout.device is not CPU or self._layout.is_sparse:
        kind = "sparse" if self._layout.is_sparse else self._layout.device.type
        raise RuntimeError(f"cannot pin '{kind}' tensor: only dense CPU tensors can be pinned")
    if is_pinned(self):
        return self
    layout = self._layout
    order = walk_order(layout.shape, layout.strides)
    shape = layout.shape if order is None else tuple([layout.shape[axis] for axis in order])
    made: Tensor = empty(shape, dtype=layout.dtype, pin_memory=True)
    if order is not None:
        array = made._array.transpose(undone(order))
        made = wrap(array, layout_of(array))
    return copy_(made, self)


def is_inference(self: Tensor) -> bool:
    """Return False: tensors made in inference_mode are ordinary tensors."""
    return False


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """Create a tensor in this tensor's dtype and on its device, as the legacy constructors do. The
    arguments are sizes for uninitialized memory, or data to copy. If the argument is a Tensor,
    return a new Tensor with the same memory.

    Raises  TypeError for a Tensor of another dtype or device

    Args:
        *args: Sizes, or data to copy.
        device: The device of the result; this tensor's if None.

    Example:
        >>> torch.ones(1).new([1, 2])
        tensor([1., 2.])
    """
    if self._layout.is_sparse:
        raise refusal("new", self)
    place = self._layout.device if device is None else device
    if len(args) == 1 and isinstance(args[0], Tensor):
        return handle_to(args[0], self._layout.dtype, Device.parse(place))
    return new_of_dtype(self._layout.dtype, args, place)


def _is_sparse(self: Tensor) -> bool:
    """Whether the tensor is sparse, with coordinates and values."""
    return self._layout.is_sparse


def sparse_dim(self: Tensor) -> int:
    """Return the number of axes with coordinates; 0 for a dense tensor."""
    return int(self._array.indices.shape[0]) if self._layout.is_sparse else 0


def dense_dim(self: Tensor) -> int:
    """Return the number of axes of each value."""
    return len(self._layout.shape) - sparse_dim(self)


def _entries(name: str) -> Any:
    def entries(self: Tensor) -> Any:
        if not self._layout.is_sparse:
            raise NotImplementedError(
                f"Could not run 'aten::{name}' with arguments from the "
                f"'{self._layout.device.type.upper()}' backend: a dense tensor holds no "
                "coordinates; "
                "to_sparse() makes one that does"
            )
        if name == "_nnz":
            return int(self._array.indices.shape[1])
        return coordinates.indices_of(self) if name == "_indices" else coordinates.values_of(self)

    entries.__name__ = entries.__qualname__ = name
    entries.__doc__ = f"Return the {name[1:]} of a sparse tensor, coalesced or not."
    return entries


def dim_order(self: Tensor, *, ambiguity_check: bool = False) -> tuple[int, ...]:
    """Return the axes in order of decreasing stride.

    Raises  RuntimeError if `ambiguity_check` is true, and axes of length 1 or equal strides make
            the order ambiguous
    """
    shape, strides = self._layout.shape, self.stride()
    steps = [step for n, step in zip(shape, strides, strict=True) if n != 1]
    if ambiguity_check and (len(set(steps)) < len(shape) or 0 in steps):
        raise ShapeError(
            "The tensor does not have unique dim order, or cannot map to exact one of the given "
            "memory formats."
        )
    # An axis of length 1 or stride 0 keeps its position.
    order = memory_order(self._layout)
    return tuple(range(len(shape)) if order is None else order)


def is_distributed(self: Tensor) -> bool:
    """Return False: a tensor belongs to one process."""
    return False


def record_stream(self: Tensor, stream: Any) -> None:
    """Do not reuse this tensor's memory until the stream's currently queued work is done. On the
    CPU this has no effect.
    """
    backend_of(self._layout.device.type).record_stream(self._array, stream)


def storage_type(self: Tensor) -> Any:
    """Return the class of the dtype's storage, such as FloatStorage."""
    return TYPED_STORAGES[f"{WORDS[self._layout.dtype]}Storage"]


def _name(self: Tensor) -> None:
    """None: tensors do not have names."""


def _is_meta(self: Tensor) -> bool:
    """True for a tensor on the device "meta": it has a shape, strides and a dtype, but no data."""
    return self._layout.device.type == "meta"


def _volatile(self: Tensor) -> bool:
    """False, as for PyTorch's tensors since 0.4."""
    return False


def _grad_dtype(self: Tensor) -> DType:
    """The dtype of this tensor's gradient: the tensor's own dtype."""
    return self._layout.dtype


def _refused(type: str) -> Any:
    def move(self: Tensor, device: Any = None, non_blocking: bool = False, **more: Any) -> Tensor:
        raise DeviceError(no_such_device(type))

    move.__name__ = move.__qualname__ = type
    move.__doc__ = f"Raise RuntimeError: there is no {type} here."
    return move


METHODS: dict[str, Any] = {
    **{type: _refused(type) for type in ("ipu", "mtia", "xpu")},
    "const_data_ptr": Tensor.data_ptr,
    "dim_order": dim_order,
    "grad_dtype": property(_grad_dtype),
    "is_distributed": is_distributed,
    "name": property(_name),
    "record_stream": record_stream,
    "storage_type": storage_type,
    "volatile": property(_volatile),
    "_indices": _entries("_indices"),
    "_nnz": _entries("_nnz"),
    "_values": _entries("_values"),
    "dense_dim": dense_dim,
    "is_sparse": property(_is_sparse),
    "sparse_dim": sparse_dim,
    "is_inference": is_inference,
    "is_meta": property(_is_meta),
    "is_pinned": is_pinned,
    "new": new,
    "pin_memory": pin_memory,
    **{
        f"is_{word}": _answers_no(what)
        for word, what in (
            ("ipu", "on a Graphcore IPU"),
            ("maia", "on a Microsoft Maia"),
            ("mkldnn", "in oneDNN's format"),
            ("mps", "on an Apple GPU"),
            ("mtia", "on a Meta accelerator"),
            ("nested", "nested"),
            ("quantized", "quantized"),
            ("sparse_csr", "sparse by rows"),
            ("vulkan", "on Vulkan"),
            ("xla", "on a TPU"),
            ("xpu", "on an Intel GPU"),
        )
    },
}
