"""Tensor: a raw array, the array's layout, and the tensor's edge in the autograd graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..core import dtypes
from ..core.device import CPU, Device
from ..core.errors import DeviceError, ShapeError
from ..core.folded_frames import fold
from ..core.memory_format import (
    MemoryFormat,
    MemoryLayout,
    axes_of,
    contiguous_format,
    sparse_coo,
    strided,
)
from ..core.short_repr import short_repr
from ..core.torch_function import NEVER_ASKED
from ..devices.backend import backend_of
from .axes import axis_number
from .layout import Layout, Shape, Size
from .methods import TensorMethods
from .printing import format_sparse, format_tensor
from .python_numbers import PythonNumbers
from .sparse import Coo
from .storage import BoundedStorage
from .subclasses import TensorType, be_tensor, call_for_subclass

if TYPE_CHECKING:
    from .storage import Storage
    from .view_steps import ViewSteps


OWN_TANGENT: tuple[Any, ...] = ()


class Extra:
    """Attributes that few tensors need: the base of a view, tangents, a `.grad` without an
    AccumulateGrad.
    """

    # Defaults are in the class: each view has an Extra, and sets only `base` and `replay`.
    base: Tensor | None = None
    # The chain of (view op, arguments) that makes this view from its base.
    replay: ViewSteps | None = None
    tangents: Any = None  # a ForwardGrad
    # Names the tensor of whose tangent this view's tangent is a view. None: the base. OWN_TANGENT:
    # no tensor, the tangent is not a view. Otherwise a tuple: the tensor, the number of steps in
    # `replay` to skip, and a list of steps that precede the rest of `replay`.
    tangent_root: tuple[Any, ...] | None = None
    grad: Tensor | None = None
    frozen: Any = None  # the AccumulateGrad of a leaf while it does not require grad
    name: str | None = None
    made_in_no_grad = False


class Tensor(PythonNumbers, TensorMethods, metaclass=TensorType):
    """A multi-dimensional array of one dtype on one device, with PyTorch's names and rules.

    Users call `fastdist.tensor`, `zeros`, `randn` ...; ops make an `empty_shell()` and fill its
    slots. `empty_shell()` runs no Python code, because each call of an op uses it.

    Note    `_array` is the backend's raw array, and `_layout` the interned Layout of that array.
            `_edge` is None (the tensor requires no grad), an AccumulateGrad (the tensor is a leaf),
            a Node, or an Edge (the tensor is one of several outputs of a Node)
    Raises  TypeError if the data are not numbers

    Args:
        *args: The lengths of the axes (the elements are then uninitialized), or one list of values.
        **kwargs: `device`; the default device if left out.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> x.shape, x.dtype, x.device
        (fastdist.Size([2, 2]), fastdist.float32, device(type='cpu'))
        >>> (x @ x.T)[0]
        tensor([ 5., 11.])
    """

    __slots__ = ("__dict__", "__weakref__", "_array", "_edge", "_extra", "_layout", "_storage")
    _array: Any
    _layout: Layout
    _edge: Any
    _extra: Extra | None
    _storage: Storage | None

    if TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call `func` for operands of this subclass. Return the result, with Tensors in it
        converted to this subclass.
        """
        return call_for_subclass(cls, func, types, args, kwargs)

    @staticmethod
    def _make_subclass(kind: type[Tensor], data: Any, require_grad: bool = False) -> Any:
        """Return `data.detach()`, which shares the memory of `data`, as an instance of `kind`."""
        return data.detach().as_subclass(kind).requires_grad_(require_grad)

    @property
    def shape(self) -> Size:
        """The lengths of the axes."""
        layout: Any = self._layout
        if layout.size is None:  # making a Size takes 55 of the 88 ns of this property
            layout.size = Size(layout.shape)
        return layout.size  # type: ignore[no-any-return]

    @property
    def layout(self) -> MemoryLayout:
        """The memory layout of the elements: strided or sparse."""
        return sparse_coo if self._layout.is_sparse else strided

    @property
    def dtype(self) -> dtypes.DType:
        """The type of the elements."""
        return self._layout.dtype

    @property
    def device(self) -> Device:
        """The device that holds the elements."""
        return self._layout.device

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._layout.shape)

    @property
    def itemsize(self) -> int:
        """The number of bytes of one element."""
        return self._layout.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The number of bytes of all elements, without gaps."""
        return self._layout.nbytes

    @property
    def is_cuda(self) -> bool:
        """True for a tensor on an NVIDIA GPU."""
        return self._layout.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """True for a tensor in main memory."""
        return self._layout.device is CPU

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    def size(self, dim: int | None = None) -> Size | int:
        """Return the shape, or the length of one axis.

        Raises  IndexError if dim is out of range

        Args:
            dim: The number of an axis; None for all lengths.

        Example:
            >>> torch.zeros(2, 3).size(), torch.zeros(2, 3).size(1)
            (fastdist.Size([2, 3]), 3)
        """
        try:
            return self.shape if dim is None else self._layout.shape[axis_number(self._layout, dim)]
        except Exception as error:
            fold(error)
            raise

    @overload
    def stride(self, dim: None = None) -> Shape: ...
    @overload
    def stride(self, dim: int) -> int: ...
    def stride(self, dim: int | None = None) -> Shape | int:
        """Return the strides in elements, or the stride of one axis.

        Raises  IndexError if dim is out of range

        Args:
            dim: The number of an axis; None for all strides.

        Example:
            >>> torch.zeros(2, 3).stride()
            (3, 1)
        """
        try:
            layout = self._layout
            strides = layout.strides
            base = None if self._extra is None else self._extra.base
            if base is not None and layout.contiguous and min(layout.shape, default=2) < 2:
                # Tensors whose strides differ only in axes of length 0 or 1 share a layout. The
                # array has the real ones, but 0 from NumPy in new axes and in empty arrays.
                own = [step // self.itemsize for step in self._array.strides]
                strides = tuple([s or usual for s, usual in zip(own, strides, strict=True)])
            return strides if dim is None else strides[axis_number(layout, dim)]
        except Exception as error:
            fold(error)
            raise

    def dim(self) -> int:
        """Return the number of axes.

        Example:
            >>> torch.zeros(2, 3).dim()
            2
        """
        return len(self._layout.shape)

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements.

        Example:
            >>> torch.zeros(2, 3).numel()
            6
        """
        return self._layout.numel

    nelement = numel

    def element_size(self) -> int:
        """Return the number of bytes of one element.

        Example:
            >>> torch.ones(1, dtype=torch.float64).element_size()
            8
        """
        return self._layout.dtype.itemsize

    def is_contiguous(self, memory_format: MemoryFormat = contiguous_format) -> bool:
        """Return whether the elements are without gaps in the order `memory_format`, which is C
        order by default.

        Raises  TypeError if memory_format is not a memory format

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.zeros(2, 3).t().is_contiguous()
            False
        """
        try:
            axes = axes_of(memory_format)
            if axes is None:
                return self._layout.contiguous
            return len(self._layout.shape) == len(axes) and self._layout.has_memory_order(axes)
        except Exception as error:
            fold(error)
            raise

    def is_floating_point(self) -> bool:
        """Return whether the dtype is a floating-point type.

        Example:
            >>> torch.ones(1).is_floating_point()
            True
        """
        return self._layout.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Return whether the dtype is complex.

        Example:
            >>> torch.ones(1, dtype=torch.complex64).is_complex()
            True
        """
        return self._layout.dtype.is_complex

    def is_signed(self) -> bool:
        """Return whether the dtype can represent negative numbers."""
        return self._layout.dtype.is_signed

    def get_device(self) -> int:
        """Return the index of the device; -1 for the CPU."""
        index = self._layout.device.index
        return -1 if index is None else index

    def data_ptr(self) -> int:
        """Return the address of the first element; 0 for an empty tensor.

        Raises  RuntimeError for a sparse tensor; DeviceError for a device whose memory has no
                address in this process

        Example:
            >>> x = torch.ones(2)
            >>> x[1:].data_ptr() - x.data_ptr()
            4
        """
        if self._layout.is_sparse:
            raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
        if not self._layout.numel:
            return 0
        address = getattr(self._array, "ctypes", None) or getattr(self._array, "data", None)
        value = getattr(address, "data", None) or getattr(address, "ptr", None)
        if value is None and not isinstance(self._array, np.ndarray):
            raise DeviceError(f"data_ptr: memory of {self.device} has no address in this process")
        return int(value or 0)

    @property
    def _version(self) -> int:
        return 0 if self._storage is None else self._storage.version

    def __dir__(self) -> list[str]:
        return sorted({*dir(type(self)), *vars(self)})

    def __len__(self) -> int:
        try:
            if not self._layout.shape:
                raise TypeError("len() of a 0-d tensor")
            return self._layout.shape[0]
        except Exception as error:
            fold(error)
            raise

    # Tensors are hashed by identity, because `==` is an op that compares elements.
    __hash__ = object.__hash__

    # Makes NumPy leave `array * tensor` to Tensor, which records it in the graph.
    __array_priority__ = 1000

    def __repr__(self) -> str:
        edge = self._edge
        is_leaf = edge is None or edge.is_accumulate
        default_dtype_name, tangent = self._repr_context()
        if self._layout.is_sparse:
            coo = self._array
            to_numpy = backend_of(self._layout.device.type).to_numpy
            return format_sparse(
                to_numpy(coo.indices),
                to_numpy(coo.values),
                self._layout.shape,
                self._layout.dtype.name,
                str(self._layout.device),
                edge is not None and is_leaf,
                None if is_leaf else edge.name(),
                default_dtype_name=default_dtype_name,
            )
        return format_tensor(
            self._array if self._layout.device.type == "meta" else self.to_numpy(),
            self._layout.dtype.name,
            str(self._layout.device),
            edge is not None and is_leaf,
            None if is_leaf else edge.name(),
            class_name="tensor" if type(self) in NEVER_ASKED else type(self).__name__,
            default_dtype_name=default_dtype_name,
            tangent=tangent,
        )

    def __format__(self, spec: str) -> str:
        if not self._layout.shape and (spec or self._layout.device.type != "meta"):
            return format(self.item(), spec)
        if spec:
            raise TypeError(
                f"unsupported format string passed to Tensor.__format__: {short_repr(spec)} for "
                f"shape {self._layout.shape}; format its elements"
            )
        return str(self)


be_tensor(Tensor)
# Makes a Tensor without values by type.__call__, so that TensorType.__call__ does not run.
empty_shell: Callable[[], Tensor] = type.__call__.__get__(Tensor)


def wrap(array: Any, layout: Layout) -> Tensor:
    """Return a Tensor of a raw array with the given layout; the Tensor is not part of any graph."""
    out = empty_shell()
    out._array = array
    out._layout = layout
    out._edge = out._extra = out._storage = None
    return out


def layout_of(array: Any, device: Device = CPU) -> Layout:
    """Return the layout of a backend's raw array."""
    if array.__class__ is np.ndarray and array.flags.c_contiguous:
        return Layout.of(dtypes.from_numpy(array.dtype), device, array.shape)
    if array.__class__ is Coo:
        return array.layout
    itemsize = array.dtype.itemsize
    strides = tuple([step // itemsize for step in array.strides])
    return Layout.of(dtypes.from_numpy(array.dtype), device, tuple(array.shape), strides)


_ONE_NUMBER = "the layout of one number that stands for all"


def layout_near(array: Any, layout: Layout) -> Layout:
    """Return the layout of a raw array on the device of `layout`. No look-up is needed if the array
    has `layout` itself.
    """
    if (
        layout.contiguous
        and array.__class__ is np.ndarray
        and array.shape == layout.shape
        and array.dtype is layout.dtype.numpy
    ):
        if array.flags.c_contiguous:
            return layout
        if not any(array.strides):
            # The gradient of a sum is one number that is expanded; its layout is cached.
            found: Layout | None = layout.routes.get(_ONE_NUMBER)
            return found or layout.routes.remember(_ONE_NUMBER, layout_of(array, layout.device))
    if (
        layout.contiguous
        and layout.device.index is not None
        and array.__class__ is not Coo
        and array.strides == layout.steps
        and array.shape == layout.shape
        and array.dtype is layout.dtype.numpy
    ):
        return layout
    return layout_of(array, layout.device)


def from_array(array: Any, device: Device = CPU) -> Tensor:
    """Return a Tensor that shares the memory of a backend's raw array."""
    return wrap(array, layout_of(array, device))


def from_users_array(array: np.ndarray[Any, Any]) -> Tensor:
    """Return a Tensor that shares memory with a NumPy array of the user.

    Raises  ValueError for strides that are not a multiple of the element size, such as the strides
            of a field of a structured array; TypeError for a dtype that fastdist does not have
    """
    itemsize = array.itemsize
    if not array.flags.c_contiguous and any(step % itemsize for step in array.strides):
        raise ShapeError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy "
            f"array to reallocate the memory: it has strides {array.strides} and elements of "
            f"{itemsize} bytes"
        )
    made = from_array(array)
    if array.base is not None:
        # The array may be a part of a larger allocation. The tensor must neither expose nor save
        # the rest of that memory.
        made._storage = BoundedStorage(array)
    return made
