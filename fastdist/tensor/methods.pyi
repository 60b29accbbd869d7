# Methods of Tensor that other rooms attach. Written by fastdist/namespace/stubs.py.
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, overload

from ..core.device import Device
from ..core.dtypes import DType
from ..random_numbers.generator import Generator
from ..core.memory_format import MemoryFormat, MemoryLayout
from ..ops import return_types
from ..graph.gradient_edge import Inputs
from .layout import Size
from .tensor import Tensor
from .typed_storage import TypedStorage, UntypedStorage

from types import EllipsisType
from typing import SupportsIndex

import numpy as np

DeviceLike = Device | str | builtins.int | None
DTypeLike = DType | type[builtins.int] | type[builtins.float]
NDArray = np.ndarray[Any, Any]
Number = builtins.int | builtins.float | builtins.complex
Scalar = Tensor | Number | np.generic
Operand = Scalar | NDArray
Sizes = SupportsIndex | Sequence[SupportsIndex]
_Index = SupportsIndex | slice | EllipsisType | Tensor | NDArray | None
Indices = _Index | list[Any] | tuple[Any, ...]

class TensorMethods:
    @property
    def H(self) -> Tensor:
        """The adjoint of a matrix.

        Raises  RuntimeError unless the tensor has 0 or 2 axes
        """
    @property
    def T(self) -> Tensor:
        """This tensor with its axes in the opposite order."""
    def __abs__(self) -> Tensor: ...
    def __add__(self, other: Operand) -> Tensor: ...
    def __and__(self, other: Operand) -> Tensor: ...
    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> NDArray:
        """Convert this tensor to a NumPy array, for np.asarray."""
    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: builtins.bool = False) -> Tensor:
        """Convert the results of NumPy functions on tensors to tensors."""
    def __contains__(self, element: Operand) -> builtins.bool:
        """Return whether any element equals `element`, a number or a tensor that broadcasts."""
    def __copy__(self) -> Tensor:
        """Return another Tensor that uses the same memory. The new Tensor is a leaf, even if `self` is
        the result of an op.
        """
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """A dict that describes the memory of a tensor on a GPU. Numba, CuPy and others use the memory
        through it without a copy. The dict includes the stream to wait for (version 3 of the
        interface).

        Raises  AttributeError for other devices; RuntimeError for a tensor that requires grad
        """
    def __deepcopy__(self, memo: dict[builtins.int, Any]) -> Tensor:
        """Return a copy in separate memory, with a copy of `.grad`.

        If several tensors of one deepcopy share memory, their copies share memory too (CPU only).

        Raises  RuntimeError for a tensor that is the result of an op
        """
    def __delitem__(self, index: Any) -> None: ...
    def __dlpack__(self, *, stream: Any = None, max_version: tuple[builtins.int, builtins.int] | None = None, dl_device: tuple[builtins.int, builtins.int] | None = None, copy: builtins.bool | None = None) -> Any:
        """Return a capsule through which another library shares this tensor's memory.

        Raises  BufferError for a tensor that requires grad, for a sparse tensor, for a `dl_device` that
                is not the tensor's device, and for a tensor that is not on the CPU or on a CUDA device
        """
    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]:
        """Return the device type by DLPack's numbering, and the device index."""
    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __floordiv__(self, other: Operand) -> Tensor: ...
    def __ge__(self, other: Operand) -> Tensor: ...
    def __getitem__(self, index: Indices) -> Tensor:
        """Return `input[index]`: a view for integers, slices, None and `...`, a copy for tensors."""
    def __gt__(self, other: Operand) -> Tensor: ...
    def __iadd__(self, other: Operand) -> Tensor: ...
    def __iand__(self, other: Operand) -> Tensor: ...
    def __ifloordiv__(self, other: Operand) -> Tensor: ...
    def __ilshift__(self, other: Operand) -> Tensor: ...
    def __imod__(self, other: Operand) -> Tensor: ...
    def __imul__(self, other: Operand) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __ior__(self, other: Operand) -> Tensor: ...
    def __ipow__(self, other: Operand) -> Tensor: ...
    def __irshift__(self, other: Operand) -> Tensor: ...
    def __isub__(self, other: Operand) -> Tensor: ...
    def __iter__(self) -> Iterator[Tensor]:
        """Iterate over the rows: views with a common Node, which collects their gradients."""
    def __itruediv__(self, other: Operand) -> Tensor: ...
    def __ixor__(self, other: Operand) -> Tensor: ...
    def __le__(self, other: Operand) -> Tensor: ...
    def __lshift__(self, other: Operand) -> Tensor: ...
    def __lt__(self, other: Operand) -> Tensor: ...
    def __matmul__(self, other: Operand) -> Tensor: ...
    def __mod__(self, other: Operand) -> Tensor: ...
    def __mul__(self, other: Operand) -> Tensor: ...
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __neg__(self) -> Tensor: ...
    def __or__(self, other: Operand) -> Tensor: ...
    def __pos__(self) -> Tensor:
        """Return input itself.

        Raises  RuntimeError for bool
        """
    def __pow__(self, other: Operand) -> Tensor: ...
    def __radd__(self, other: Operand) -> Tensor: ...
    def __rand__(self, other: Operand) -> Tensor: ...
    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Return the pickled form of this tensor.

        Note    the result of an op is restored as a leaf. `.grad`, hooks, the graph and tangents are
                not saved. Views become separate tensors, unless multiprocessing sends their memory as
                shared memory
        """
    def __reversed__(self) -> Tensor:
        """Return a copy with the first axis in reverse order."""
    def __rfloordiv__(self, other: Operand) -> Tensor: ...
    def __rlshift__(self, other: Operand) -> Tensor: ...
    def __rmatmul__(self, other: Operand) -> Tensor: ...
    def __rmod__(self, other: Operand) -> Tensor: ...
    def __rmul__(self, other: Operand) -> Tensor: ...
    def __ror__(self, other: Operand) -> Tensor: ...
    def __rpow__(self, other: Operand) -> Tensor: ...
    def __rrshift__(self, other: Operand) -> Tensor: ...
    def __rshift__(self, other: Operand) -> Tensor: ...
    def __rsub__(self, other: Operand) -> Tensor: ...
    def __rtruediv__(self, other: Operand) -> Tensor: ...
    def __rxor__(self, other: Operand) -> Tensor: ...
    def __setitem__(self, index: Indices, value: Operand) -> None:
        """Do `self[index] = value`, where value, a tensor or a number, is broadcast."""
    def __sub__(self, other: Operand) -> Tensor: ...
    def __truediv__(self, other: Operand) -> Tensor: ...
    def __xor__(self, other: Operand) -> Tensor: ...
    @property
    def _base(self) -> Tensor | None:
        """The base of this view; None for a tensor that is not a view."""
    def _indices(self) -> Any:
        """Return the indices of a sparse tensor, coalesced or not."""
    def _is_view(self) -> builtins.bool:
        """Whether this tensor is a view of another tensor."""
    def _make_wrapper_subclass(self, **kwargs: Any) -> Any:
        """Raise NotImplementedError: a tensor without memory that passes calls on is not supported: write __torch_function__ on a subclass that holds the tensor."""
    def _nnz(self) -> Any:
        """Return the nnz of a sparse tensor, coalesced or not."""
    def _repr_context(self) -> tuple[str, str | None]:
        """Return the default dtype, which printing omits, and the tangent at the innermost level as
        text.
        """
    def _typed_storage(self) -> TypedStorage:
        """Return the whole memory of which this tensor uses a part, as elements of its dtype."""
    def _values(self) -> Any:
        """Return the values of a sparse tensor, coalesced or not."""
    def abs(self, *, out: Tensor | None = None) -> Tensor:
        """Return the absolute value of each element; the gradient at 0 is 0.

        Raises  NotImplementedError if input is bool

        Args:
            input: A tensor of any dtype but bool. The smallest integer of a dtype, -128 in int8, is
                unchanged.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape. For complex input, the tensor is real.

        Example:
            >>> torch.abs(torch.tensor([-1.5, 2.0]))
            tensor([1.5000, 2.0000])
        """
    def abs_(self) -> Tensor:
        """Return the absolute value of each element; the gradient at 0 is 0.

        Raises  NotImplementedError if input is bool

        Args:
            input: A tensor of any dtype but bool. The smallest integer of a dtype, -128 in int8, is
                unchanged.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape. For complex input, the tensor is real.

        Example:
            >>> torch.abs(torch.tensor([-1.5, 2.0]))
            tensor([1.5000, 2.0000])
        """
    def absolute(self, *, out: Tensor | None = None) -> Tensor:
        """Return the absolute value of each element; the gradient at 0 is 0.

        Raises  NotImplementedError if input is bool

        Args:
            input: A tensor of any dtype but bool. The smallest integer of a dtype, -128 in int8, is
                unchanged.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape. For complex input, the tensor is real.

        Example:
            >>> torch.abs(torch.tensor([-1.5, 2.0]))
            tensor([1.5000, 2.0000])
        """
    def absolute_(self) -> Tensor:
        """Return the absolute value of each element; the gradient at 0 is 0.

        Raises  NotImplementedError if input is bool

        Args:
            input: A tensor of any dtype but bool. The smallest integer of a dtype, -128 in int8, is
                unchanged.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape. For complex input, the tensor is real.

        Example:
            >>> torch.abs(torch.tensor([-1.5, 2.0]))
            tensor([1.5000, 2.0000])
        """
    def acos(self, *, out: Tensor | None = None) -> Tensor:
        """Return the arc cosine of each element: the angle in radians, from 0 to pi.

        Args:
            input: A tensor of any shape and dtype. Real numbers outside of [-1, 1] give NaN.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.acos(torch.tensor([1.0, 0.0]))
            tensor([0.0000, 1.5708])
        """
    def acos_(self) -> Tensor:
        """Return the arc cosine of each element: the angle in radians, from 0 to pi.

        Args:
            input: A tensor of any shape and dtype. Real numbers outside of [-1, 1] give NaN.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.acos(torch.tensor([1.0, 0.0]))
            tensor([0.0000, 1.5708])
        """
    def acosh(self, *, out: Tensor | None = None) -> Tensor:
        """Return the non-negative inverse hyperbolic cosine of each element; NaN below 1."""
    def acosh_(self) -> Tensor:
        """Return the non-negative inverse hyperbolic cosine of each element; NaN below 1."""
    def add(self, other: Operand, *, alpha: builtins.complex = 1, out: Tensor | None = None) -> Tensor:
        """Return input + alpha * other.

        Shape   (...), (...) -> broadcast
        Raises  RuntimeError if the shapes do not broadcast; TypeError if `other` is neither a tensor
                nor a number

        Args:
            input: The first summand, a tensor of any dtype or a number. Integers wrap around: 255 + 1
                is 0 in uint8.
            other: The second summand, a tensor or a number.
            alpha: The number by which `other` is multiplied.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other, in their promoted dtype.

        Example:
            >>> torch.add(torch.tensor([1.0, 2.0]), 1, alpha=10)
            tensor([11., 12.])
        """
    def add_(self, other: Operand, *, alpha: builtins.complex = 1) -> Tensor:
        """Return input + alpha * other.

        Shape   (...), (...) -> broadcast
        Raises  RuntimeError if the shapes do not broadcast; TypeError if `other` is neither a tensor
                nor a number

        Args:
            input: The first summand, a tensor of any dtype or a number. Integers wrap around: 255 + 1
                is 0 in uint8.
            other: The second summand, a tensor or a number.
            alpha: The number by which `other` is multiplied.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other, in their promoted dtype.

        Example:
            >>> torch.add(torch.tensor([1.0, 2.0]), 1, alpha=10)
            tensor([11., 12.])
        """
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
        """Return beta * input + alpha * (the sum of the products of two batches of matrices)."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """In-place version of addbmm: writes the result into this tensor and returns it."""
    def addcdiv(self, tensor1: Operand, tensor2: Operand, *, value: builtins.complex = 1, out: Tensor | None = None) -> Tensor:
        """Return input + value * (tensor1 / tensor2).

        Raises  RuntimeError if tensor1 and tensor2 are integers
        """
    def addcdiv_(self, tensor1: Operand, tensor2: Operand, *, value: builtins.complex = 1) -> Tensor:
        """Return input + value * (tensor1 / tensor2).

        Raises  RuntimeError if tensor1 and tensor2 are integers
        """
    def addcmul(self, tensor1: Operand, tensor2: Operand, *, value: builtins.complex = 1, out: Tensor | None = None) -> Tensor:
        """Return input + value * tensor1 * tensor2.

        Raises  RuntimeError if all operands are bool
        """
    def addcmul_(self, tensor1: Operand, tensor2: Operand, *, value: builtins.complex = 1) -> Tensor:
        """Return input + value * tensor1 * tensor2.

        Raises  RuntimeError if all operands are bool
        """
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
        """Return beta * input + alpha * (mat1 @ mat2); input broadcasts."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """In-place version of addmm: writes the result into this tensor and returns it."""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
        """Return beta * input + alpha * (mat @ vec)."""
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """In-place version of addmv: writes the result into this tensor and returns it."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
        """Return beta * input + alpha * outer(vec1, vec2)."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """In-place version of addr: writes the result into this tensor and returns it."""
    def adjoint(self) -> Tensor:
        """Return a view with the last two axes swapped; complex numbers are conjugated.

        Raises  RuntimeError for a vector
        """
    def all(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return whether all elements over dim are nonzero; True if there are no elements.

        Raises  IndexError if dim is out of range

        Args:
            input: A tensor of any dtype. NaN counts as nonzero.
            dim: The axis or axes to reduce; all if None.
            keepdim: Whether the reduced axes stay, with length 1.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool, or of uint8 if input is uint8.

        Example:
            >>> torch.all(torch.tensor([[True, False], [True, True]]), dim=1)
            tensor([False,  True])
        """
    def allclose(self, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:
        """Return whether |input - other| <= atol + rtol * |other| for all elements, as a Python bool.

        Raises  RuntimeError if the dtypes differ, or the shapes do not broadcast

        Args:
            input: A tensor of any dtype. Without elements the result is True.
            other: The tensor to compare with.
            rtol: The tolerance relative to |other|, so input and other are not interchangeable; not
                negative.
            atol: The absolute tolerance, which matters near 0; not negative.
            equal_nan: Whether NaN is close to NaN.

        Example:
            >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
            True
        """
    def amax(self, dim: builtins.int | Sequence[builtins.int] | None = ..., keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return the maximum over dim; NaN if any element is NaN. Equal elements share the gradient.

        Raises  IndexError if dim is out of range, or an axis to reduce has no elements;
                NotImplementedError if input is complex

        Args:
            input: A real tensor; the axes to reduce must not be empty.
            dim: The axis or axes; all if empty.
            keepdim: Whether the reduced axes stay, with length 1.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.amax(torch.tensor([[1, 5], [7, 2]]), dim=0)
            tensor([7, 5])
        """
    def amin(self, dim: builtins.int | Sequence[builtins.int] | None = ..., keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return the minimum over dim; NaN if any element is NaN. Equal elements share the gradient.

        Raises  IndexError if dim is out of range, or an axis to reduce has no elements;
                NotImplementedError if input is complex

        Args:
            input: A real tensor; the axes to reduce must not be empty.
            dim: The axis or axes; all if empty.
            keepdim: Whether the reduced axes stay, with length 1.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.amin(torch.tensor([[1, 5], [7, 2]]), dim=0)
            tensor([1, 2])
        """
    def aminmax(self, *, dim: builtins.int | None = None, keepdim: builtins.bool = False, out: Any = None) -> return_types.aminmax:
        """Return the minimum and the maximum of all elements, or of the elements along dim."""
    def angle(self, *, out: Tensor | None = None) -> Tensor:
        """Return 0 for non-negative numbers, pi for negative numbers, and NaN for NaN. The gradient
        is 0.
        """
    def any(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return whether any element over dim is nonzero; False if there are no elements.

        Raises  IndexError if dim is out of range

        Args:
            input: A tensor of any dtype. NaN counts as nonzero.
            dim: The axis or axes to reduce; all if None.
            keepdim: Whether the reduced axes stay, with length 1.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool, or of uint8 if input is uint8.

        Example:
            >>> torch.any(torch.tensor([[False, False], [True, False]]), dim=1)
            tensor([False,  True])
        """
    def apply_(self, callable: Callable[[Any], Any]) -> Tensor:
        """Replace each element x by callable(x), one after another; this is slow.

        Raises  RuntimeError for a tensor that requires grad; TypeError if it is not on the CPU,
                or if callable does not return a number
        """
    def arccos(self, *, out: Tensor | None = None) -> Tensor:
        """Return the arc cosine of each element: the angle in radians, from 0 to pi.

        Args:
            input: A tensor of any shape and dtype. Real numbers outside of [-1, 1] give NaN.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.acos(torch.tensor([1.0, 0.0]))
            tensor([0.0000, 1.5708])
        """
    def arccos_(self) -> Tensor:
        """Return the arc cosine of each element: the angle in radians, from 0 to pi.

        Args:
            input: A tensor of any shape and dtype. Real numbers outside of [-1, 1] give NaN.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.acos(torch.tensor([1.0, 0.0]))
            tensor([0.0000, 1.5708])
        """
    def arccosh(self, *, out: Tensor | None = None) -> Tensor:
        """Return the non-negative inverse hyperbolic cosine of each element; NaN below 1."""
    def arccosh_(self) -> Tensor:
        """Return the non-negative inverse hyperbolic cosine of each element; NaN below 1."""
    def arcsin(self, *, out: Tensor | None = None) -> Tensor:
        """Return the arc sine of each element: the angle in radians, from -pi/2 to pi/2."""
    def arcsin_(self) -> Tensor:
        """Return the arc sine of each element: the angle in radians, from -pi/2 to pi/2."""
    def arcsinh(self, *, out: Tensor | None = None) -> Tensor:
        """Return the inverse hyperbolic sine of each element."""
    def arcsinh_(self) -> Tensor:
        """Return the inverse hyperbolic sine of each element."""
    def arctan(self, *, out: Tensor | None = None) -> Tensor:
        """Return the arc tangent of each element: the angle in radians, from -pi/2 to pi/2."""
    def arctan2(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the angle in radians, from -pi to pi, of the point (other, input).

        Args:
            input: The y coordinates of the points.
            other: The x coordinates of the points; a tensor that broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.atan2(torch.tensor([1.0]), torch.tensor([1.0]))
            tensor([0.7854])
        """
    def arctan2_(self, other: Operand) -> Tensor:
        """Return the angle in radians, from -pi to pi, of the point (other, input).

        Args:
            input: The y coordinates of the points.
            other: The x coordinates of the points; a tensor that broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.atan2(torch.tensor([1.0]), torch.tensor([1.0]))
            tensor([0.7854])
        """
    def arctan_(self) -> Tensor:
        """Return the arc tangent of each element: the angle in radians, from -pi/2 to pi/2."""
    def arctanh(self, *, out: Tensor | None = None) -> Tensor:
        """Return the inverse hyperbolic tangent of each element."""
    def arctanh_(self) -> Tensor:
        """Return the inverse hyperbolic tangent of each element."""
    def argmax(self, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return the index of the maximum, along dim or in the flattened tensor. Of several equal
        maxima, the first index is returned.

        Raises  IndexError if dim is out of range, or input has no elements; RuntimeError if input is
                bool or complex

        Args:
            input: A real tensor of any dtype but bool, not empty. NaN counts as the extremum.
            dim: The axis to search along; the flattened tensor if None.
            keepdim: Whether the reduced axes stay, with length 1.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of int64.

        Example:
            >>> torch.argmax(torch.tensor([[1, 5], [7, 2]]), dim=1)
            tensor([1, 0])
        """
    def argmin(self, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return the index of the minimum, along dim or in the flattened tensor. Of several equal
        minima, the first index is returned.

        Raises  IndexError if dim is out of range, or input has no elements; RuntimeError if input is
                bool or complex

        Args:
            input: A real tensor of any dtype but bool, not empty. NaN counts as the extremum.
            dim: The axis to search along; the flattened tensor if None.
            keepdim: Whether the reduced axes stay, with length 1.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of int64.

        Example:
            >>> torch.argmin(torch.tensor([[1, 5], [7, 2]]), dim=1)
            tensor([0, 1])
        """
    def argsort(self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return the indices that sort input along dim.

        Raises  IndexError if dim is out of range; NotImplementedError if input is complex

        Args:
            input: A real tensor of any dtype. NaN counts as largest.
            dim: The axis to sort along, by default the last.
            descending: Whether the largest element comes first.
            stable: Ignored: the order of equal elements is always kept.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of int64 of the shape of input.

        Example:
            >>> torch.argsort(torch.tensor([3, 1, 2]))
            tensor([1, 2, 0])
        """
    def argwhere(self) -> Tensor:
        """Return the indices of nonzero elements, one row for each element."""
    def as_strided(self, size: Sizes, stride: Any, storage_offset: builtins.int | None = None) -> Tensor:
        """Return a view of the memory of input with this size and stride. storage_offset is the number
        of elements before the view in the memory; None means the offset of input.
        """
    def as_strided_(self, size: Sizes, stride: Any, storage_offset: builtins.int | None = None) -> Tensor:
        """In-place version of as_strided: lets this tensor be that view, and returns it."""
    def as_strided_scatter(self, src: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:
        """Return a copy of input with src written to the view that as_strided makes of the copy."""
    def as_subclass(self, cls: Any) -> Any:
        """Return this tensor as an instance of cls, with the same memory and position in the graph.

        Raises  TypeError if cls is not a subclass of Tensor; RuntimeError for a conjugate or negative
                view, unless cls is Tensor
        """
    def asin(self, *, out: Tensor | None = None) -> Tensor:
        """Return the arc sine of each element: the angle in radians, from -pi/2 to pi/2."""
    def asin_(self) -> Tensor:
        """Return the arc sine of each element: the angle in radians, from -pi/2 to pi/2."""
    def asinh(self, *, out: Tensor | None = None) -> Tensor:
        """Return the inverse hyperbolic sine of each element."""
    def asinh_(self) -> Tensor:
        """Return the inverse hyperbolic sine of each element."""
    def atan(self, *, out: Tensor | None = None) -> Tensor:
        """Return the arc tangent of each element: the angle in radians, from -pi/2 to pi/2."""
    def atan2(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the angle in radians, from -pi to pi, of the point (other, input).

        Args:
            input: The y coordinates of the points.
            other: The x coordinates of the points; a tensor that broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.atan2(torch.tensor([1.0]), torch.tensor([1.0]))
            tensor([0.7854])
        """
    def atan2_(self, other: Operand) -> Tensor:
        """Return the angle in radians, from -pi to pi, of the point (other, input).

        Args:
            input: The y coordinates of the points.
            other: The x coordinates of the points; a tensor that broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.atan2(torch.tensor([1.0]), torch.tensor([1.0]))
            tensor([0.7854])
        """
    def atan_(self) -> Tensor:
        """Return the arc tangent of each element: the angle in radians, from -pi/2 to pi/2."""
    def atanh(self, *, out: Tensor | None = None) -> Tensor:
        """Return the inverse hyperbolic tangent of each element."""
    def atanh_(self) -> Tensor:
        """Return the inverse hyperbolic tangent of each element."""
    def backward(self, gradient: Tensor | None = None, retain_graph: builtins.bool | None = None, create_graph: builtins.bool = False, inputs: Inputs | None = None) -> None:
        """Add this tensor's gradients to the `.grad` of the graph's leaves, or only of `inputs`.

        Thread  runs in the calling thread; passes of other threads through the same leaves may overlap
        Raises  RuntimeError if this tensor does not require grad, or if it has several elements and no
                gradient is given

        Args:
            gradient: The gradient with respect to this tensor, of its shape; 1 if None, which only a
                tensor with one element allows.
            retain_graph: Whether to keep the graph for a second pass; the value of create_graph if
                None.
            create_graph: Whether to record the pass, for second derivatives.
            inputs: The tensors or graph edges whose `.grad` receives gradients: one, several, or a
                dict; all leaves if None.

        Example:
            >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
            >>> (x * x).sum().backward()
            >>> x.grad
            tensor([2., 4.])
        """
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
        """Return beta * input + alpha * bmm(batch1, batch2)."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
        """In-place version of baddbmm: writes the result into this tensor and returns it."""
    def bernoulli(self, p: Scalar | None = None, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
        """Return 1 with the probability that input or p gives, else 0.

        Raises  RuntimeError for a probability outside of [0, 1]; tensors are checked on the CPU only

        Args:
            input: The probability of each element. If p is given, only its shape and dtype are used.
            p: One probability for all elements, or a tensor of probabilities.
            generator: The generator to draw from; the default one if None.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
            tensor([0., 1.])
        """
    def bernoulli_(self, p: Scalar | None = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Set each element of this tensor to 1 with probability p, else to 0."""
    def bfloat16(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in bfloat16; itself if its dtype and layout are these already.

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.ones(1, dtype=torch.int16).bfloat16().dtype
            fastdist.bfloat16
        """
    def bincount(self, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
        """Return how often each integer occurs or, with weights, the sum of weights of each integer. On
        a GPU, this waits for the largest integer, which determines the length of the result.

        Dtype   int64; with weights, float32 if the weights are float32, else float64
        Raises  NotImplementedError for complex weights, which would lose their imaginary part;
                RuntimeError if input is not a vector of non-negative integers

        Args:
            input: A vector of non-negative integers.
            weights: A weight for each element of input; all 1 if None.
            minlength: The minimal length of the result.

        Example:
            >>> torch.bincount(torch.tensor([0, 2, 2]))
            tensor([1, 0, 2])
        """
    def bitwise_and(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the bitwise AND of input and other; for bools this is the logical AND."""
    def bitwise_and_(self, other: Operand) -> Tensor:
        """Return the bitwise AND of input and other; for bools this is the logical AND."""
    def bitwise_left_shift(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return input with its bits shifted left by `other` bits."""
    def bitwise_left_shift_(self, other: Operand) -> Tensor:
        """Return input with its bits shifted left by `other` bits."""
    def bitwise_not(self, *, out: Tensor | None = None) -> Tensor:
        """Return the bitwise complement of input; for bools this is the logical NOT."""
    def bitwise_not_(self) -> Tensor:
        """Return the bitwise complement of input; for bools this is the logical NOT."""
    def bitwise_or(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the bitwise OR of input and other; for bools this is the logical OR."""
    def bitwise_or_(self, other: Operand) -> Tensor:
        """Return the bitwise OR of input and other; for bools this is the logical OR."""
    def bitwise_right_shift(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return input with its bits shifted right by `other` bits; the sign does not change."""
    def bitwise_right_shift_(self, other: Operand) -> Tensor:
        """Return input with its bits shifted right by `other` bits; the sign does not change."""
    def bitwise_xor(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the bitwise XOR of input and other; for bools this is the logical XOR."""
    def bitwise_xor_(self, other: Operand) -> Tensor:
        """Return the bitwise XOR of input and other; for bools this is the logical XOR."""
    def bmm(self, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the products of two batches of matrices.

        Raises  RuntimeError if an argument does not have three axes, or the sizes do not fit

        Args:
            input: The left matrices, of shape (b, n, k), of any dtype but bool.
            mat2: The right matrices, of shape (b, k, m).
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of shape (b, n, m), for an input of shape (b, n, k).

        Example:
            >>> torch.bmm(torch.ones(4, 2, 3), torch.ones(4, 3, 5)).shape
            fastdist.Size([4, 2, 5])
        """
    def bool(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in bool; itself if its dtype and layout are these already.

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.ones(1, dtype=torch.int16).bool().dtype
            fastdist.bool
        """
    def broadcast_to(self, size: Sequence[builtins.int]) -> Tensor:
        """Return a view of input broadcast to this size.

        Raises  RuntimeError if an axis of input has neither length 1 nor the length given in size

        Args:
            input: A tensor of any dtype. The elements of the view share memory, so clone() it before
                writing.
            size: The shape of the result, as a tuple.

        Example:
            >>> torch.broadcast_to(torch.tensor([1, 2]), (2, 2))
            tensor([[1, 2],
                    [1, 2]])
        """
    def byte(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in uint8; itself if its dtype and layout are these already.

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.ones(1, dtype=torch.int16).byte().dtype
            fastdist.uint8
        """
    def cauchy_(self, median: builtins.float = 0, sigma: builtins.float = 1, *, generator: Generator | None = None) -> Tensor:
        """Fill this tensor with Cauchy numbers; sigma is half the interquartile range."""
    def cdouble(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in complex128; itself if its dtype and layout are these already.

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.ones(1, dtype=torch.int16).cdouble().dtype
            fastdist.complex128
        """
    def ceil(self, *, out: Tensor | None = None) -> Tensor:
        """Return each element rounded up to an integer; the gradient is 0.

        Raises  NotImplementedError if input is bool or complex

        Args:
            input: A real tensor of any dtype but bool. The dtype is kept, so integers are unchanged.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.ceil(torch.tensor([1.2, -1.2]))
            tensor([ 2., -1.])
        """
    def ceil_(self) -> Tensor:
        """Return each element rounded up to an integer; the gradient is 0.

        Raises  NotImplementedError if input is bool or complex

        Args:
            input: A real tensor of any dtype but bool. The dtype is kept, so integers are unchanged.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.ceil(torch.tensor([1.2, -1.2]))
            tensor([ 2., -1.])
        """
    def cfloat(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in complex64; itself if its dtype and layout are these already.

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.ones(1, dtype=torch.int16).cfloat().dtype
            fastdist.complex64
        """
    def char(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in int8; itself if its dtype and layout are these already.

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.ones(1, dtype=torch.int16).char().dtype
            fastdist.int8
        """
    def cholesky(self, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return the Cholesky factor; an older form of linalg.cholesky."""
    def cholesky_inverse(self, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return the inverse of the matrix whose Cholesky factor is input.

        Raises  LinAlgError if an element of the diagonal is 0
        """
    def cholesky_solve(self, input2: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return X with A @ X = input, where input2 is the Cholesky factor of A.

        Shape   (..., n, k), (..., n, n) -> (..., n, k); batch axes broadcast
        Note    if G is the gradient with respect to A, the gradient with respect to input2 is
                (G + G.mH) @ input2, which is not triangular
        """
    def chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Return at most `chunks` views along dim, all of the same length except the last one.

        Raises  RuntimeError if chunks is not positive, or input has no axes; IndexError if dim is out
                of range

        Args:
            input: A tensor of any dtype with at least one axis.
            chunks: The number of views to make; fewer, if the length is not enough: 6 elements in 4
                chunks give 3 views of 2.
            dim: The axis to divide, by default the first.

        Example:
            >>> [part.tolist() for part in torch.chunk(torch.arange(5), 2)]
            [[0, 1, 2], [3, 4]]
        """
    def clamp(self, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
        """Return input limited to the range from min to max. Both bounds may be numbers or tensors, and
        one may be None.

        Raises  RuntimeError if both bounds are None

        Args:
            input: A real tensor of any shape. NaN stays NaN.
            min: The lower bound; None means no lower bound.
            max: The upper bound; None means no upper bound. Where max is below min, the result is max.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.clamp(torch.tensor([-2.0, 0.5, 3.0]), min=0, max=1)
            tensor([0.0000, 0.5000, 1.0000])
        """
    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:
        """In-place version of clamp: writes the result into this tensor and returns it."""
    def clamp_max(self, max: Scalar | None, *, out: Tensor | None = None) -> Tensor:
        """Return the smaller of each element and the bound `max`."""
    def clamp_max_(self, max: Scalar | None) -> Tensor:
        """In-place version of clamp_max: writes the result into this tensor and returns it."""
    def clamp_min(self, min: Scalar | None, *, out: Tensor | None = None) -> Tensor:
        """Return the larger of each element and the bound `min`.

        Raises  NotImplementedError if input is complex; RuntimeError if the shapes do not broadcast

        Args:
            input: A real tensor of any shape. NaN stays NaN.
            min: The lower bound, a number or a tensor.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.clamp_min(torch.tensor([-1.0, 2.0]), 0)
            tensor([0., 2.])
        """
    def clamp_min_(self, min: Scalar | None) -> Tensor:
        """In-place version of clamp_min: writes the result into this tensor and returns it."""
    def clip(self, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
        """Return input limited to the range from min to max. Both bounds may be numbers or tensors, and
        one may be None.

        Raises  RuntimeError if both bounds are None

        Args:
            input: A real tensor of any shape. NaN stays NaN.
            min: The lower bound; None means no lower bound.
            max: The upper bound; None means no upper bound. Where max is below min, the result is max.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.clamp(torch.tensor([-2.0, 0.5, 3.0]), min=0, max=1)
            tensor([0.0000, 0.5000, 1.0000])
        """
    def clip_(self, min: Any = None, max: Any = None) -> Tensor:
        """In-place version of clamp: writes the result into this tensor and returns it."""
    def clone(self, *, memory_format: MemoryFormat | None = None) -> Tensor:
        """Return a copy of input with the same order of axes in memory. Gradients pass to input.

        Raises  RuntimeError if memory_format is channels_last, and input does not have four axes

        Args:
            input: A tensor of any dtype and device.
            memory_format: The order of the elements in memory; None means input's order.

        Returns:
            A new tensor. Its gradient is passed on to input. For a leaf, call `detach().clone()`.

        Example:
            >>> x = torch.ones(2)
            >>> y = x.clone()
            >>> y[0] = 5
            >>> x
            tensor([1., 1.])
        """
    def coalesce(self) -> Tensor:
        """Return the tensor with its entries sorted by coordinate, and entries with equal coordinates
        summed.
        """
    def conj(self) -> Tensor:
        """Return a view of the conjugates of complex numbers; real tensors are returned unchanged.

        Note    the view shares the memory of input, so writes into the view change input. is_conj() of
                the view is True, and resolve_conj() returns a copy. Each op computes the conjugates
                again, so resolve a view that is read often. The view is an instance of a subclass of
                Tensor: use isinstance(), not type(). If input is an instance of a user's subclass, the
                view is not an instance of that subclass. A sparse tensor is copied

        Args:
            input: A tensor of any shape and dtype.

        Example:
            >>> torch.conj(torch.tensor([1 + 2j])).resolve_conj()
            tensor([1.-2.j])
        """
    def conj_physical(self, *, out: Tensor | None = None) -> Tensor:
        """Return the conjugates of complex numbers; real tensors are returned unchanged."""
    def conj_physical_(self) -> Tensor:
        """Conjugate complex numbers in place."""
    def const_data_ptr(self) -> builtins.int:
        """Return the address of the first element; 0 for an empty tensor.

        Raises  RuntimeError for a sparse tensor; DeviceError for a device whose memory has no
                address in this process

        Example:
            >>> x = torch.ones(2)
            >>> x[1:].data_ptr() - x.data_ptr()
            4
        """
    def contiguous(self, memory_format: MemoryFormat = ...) -> Tensor:
        """Return the tensor with its elements in C order, or in the order of memory_format.

        Return the tensor itself if its elements are in that order already, otherwise a copy.

        Raises  RuntimeError if memory_format is channels_last, and the tensor does not have four axes

        Args:
            input: A tensor of any dtype and device.
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.zeros(2, 3).t().contiguous().stride()
            (2, 1)
        """
    def copy_(self, src: Any, non_blocking: builtins.bool = False) -> Tensor:
        """Write `src`, broadcast and cast, into this tensor, and return this tensor.

        Raises  RuntimeError if src does not broadcast to this shape, or if a gradient would be lost
        """
    def copysign(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return input with the signs of `other`, including the signs of zeros and NaNs."""
    def copysign_(self, other: Operand) -> Tensor:
        """Return input with the signs of `other`, including the signs of zeros and NaNs."""
    def corrcoef(self) -> Tensor:
        """Return the correlation coefficients of the rows of input, between -1 and 1."""
    def cos(self, *, out: Tensor | None = None) -> Tensor:
        """Return the cosine of each element; the elements are angles in radians.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result for inf is NaN.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.cos(torch.tensor([0.0, 1.0]))
            tensor([1.0000, 0.5403])
        """
    def cos_(self) -> Tensor:
        """Return the cosine of each element; the elements are angles in radians.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result for inf is NaN.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.cos(torch.tensor([0.0, 1.0]))
            tensor([1.0000, 0.5403])
        """
    def cosh(self, *, out: Tensor | None = None) -> Tensor:
        """Return the hyperbolic cosine of each element."""
    def cosh_(self) -> Tensor:
        """Return the hyperbolic cosine of each element."""
    def count_nonzero(self, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """Return the number of nonzero elements over dim."""
    def cov(self, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """Return the covariances of the rows of input. fweights holds the number of observations for
        each column, and aweights the weight of each column.
        """
    def cpu(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in main memory.

        Args:
            input: A tensor on any device.
            memory_format: The order of the elements in memory.

        Returns:
            The tensor itself if it is in main memory in that order, otherwise a copy. Gradients pass
            through the copy.

        Example:
            >>> torch.ones(2).cpu().device
            device(type='cpu')
        """
    def cross(self, other: Tensor, dim: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:
        """Return the cross products of vectors of three elements along dim, by default the first axis
        of length 3.
        """
    def cuda(self, device: DeviceLike = ..., non_blocking: builtins.bool = False, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return a copy of the tensor on a GPU. If the tensor is already on that GPU in the order of
        memory_format, return the tensor itself.

        Raises  DeviceError if there is no GPU

        Args:
            input: A tensor on any device.
            device: The GPU, as a number or a name such as "cuda:0"; the current GPU if None.
            non_blocking: Whether to return before the copy is complete.
            memory_format: The order of the elements in memory.

        Example:
            >>> x = torch.ones(2)
            >>> if torch.cuda.is_available():
            ...     x = x.cuda()
        """
    def cummax(self, dim: builtins.int, *, out: Any = None) -> return_types.cummax:
        """Return the cumulative maxima along dim, and the last index of each; NaN from a NaN on."""
    def cummin(self, dim: builtins.int, *, out: Any = None) -> return_types.cummin:
        """Return the cumulative minima along dim, and the last index of each; NaN from a NaN on."""
    def cumprod(self, dim: builtins.int, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
        """Return the cumulative product along dim.

        Dtype   integers and bool are multiplied in int64; floating -> the same
        """
    def cumprod_(self, dim: builtins.int, *, dtype: DTypeLike | None = None) -> Tensor:
        """In-place version of cumprod: writes the result into this tensor and returns it."""
    def cumsum(self, dim: builtins.int, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
        """Return the cumulative sum along dim.

        Dtype   integers and bool are added in int64; floating -> the same
        Raises  IndexError if dim is out of range

        Args:
            input: A tensor of any dtype. After a NaN, all sums are NaN.
            dim: The axis along which to add.
            dtype: The dtype of the additions and of the result; int64 for integers if None.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.cumsum(torch.tensor([1, 2, 3]), dim=0)
            tensor([1, 3, 6])
        """
    def cumsum_(self, dim: builtins.int, *, dtype: DTypeLike | None = None) -> Tensor:
        """In-place version of cumsum: writes the result into this tensor and returns it."""
    @property
    def data(self) -> Tensor:
        """A tensor with the same memory, outside of the graph; an assignment replaces the memory."""
    @data.setter
    def data(self, value: Tensor) -> None: ...
    def deg2rad(self, *, out: Tensor | None = None) -> Tensor:
        """Convert angles from degrees to radians."""
    def deg2rad_(self) -> Tensor:
        """Convert angles from degrees to radians."""
    def dense_dim(self) -> builtins.int:
        """Return the number of axes of each value."""
    def det(self) -> Tensor:
        """Return the determinant; an alias of linalg.det."""
    def detach(self) -> Tensor:
        """Return a view of the tensor that is outside of any graph and has no tangents.

        Args:
            input: A tensor of any dtype and device.

        Returns:
            A view; writing into it changes the tensor as well.

        Example:
            >>> x = torch.ones(2, requires_grad=True)
            >>> (x * 2).detach().requires_grad
            False
        """
    def detach_(self) -> Tensor:
        """Detach this tensor from its graph in place: it becomes a leaf without gradient or tangent.

        Raises  RuntimeError for a view, because its base would attach it to the graph again
        """
    def diag(self, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
        """Return the diagonal of a matrix as a vector, or a matrix with a vector on its diagonal.

        Raises  RuntimeError if input has neither one nor two axes

        Args:
            input: A vector or a matrix of any dtype; the matrix need not be square.
            diagonal: The index of the diagonal: 0 is the main diagonal, positive ones are above it.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.diag(torch.tensor([1, 2]))
            tensor([[1, 0],
                    [0, 2]])
            >>> torch.diag(torch.tensor([[1, 2], [3, 4]]))
            tensor([1, 4])
        """
    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        """Return matrices with the last axis of input on their diagonals.

        Args:
            input: A tensor of shape (..., n).
            offset: The index of the diagonal: 0 is the main diagonal, positive ones are above it.
            dim1: The axis of rows in the result.
            dim2: The axis of columns in the result.

        Example:
            >>> torch.diag_embed(torch.tensor([1, 2]))
            tensor([[1, 0],
                    [0, 2]])
        """
    def diagflat(self, offset: builtins.int = 0) -> Tensor:
        """Return a matrix with input's elements on the diagonal with the index `offset`."""
    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """Return a view whose last axis is the diagonal of the axes dim1 and dim2."""
    def diagonal_scatter(self, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """Return a copy of input with src written to the diagonal of the axes dim1 and dim2."""
    def diff(self, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
        """Return the n-th differences between neighbours along dim. First, `prepend` and `append` are
        joined to input.

        Raises  RuntimeError if input has no axes, or n is negative; IndexError if dim is out of range

        Args:
            input: A tensor with at least one axis. Differences of bool are exclusive or; unsigned
                integers wrap around.
            n: How many times to take differences.
            dim: The axis along which neighbours are subtracted; the result is n elements shorter there,
                or empty.
            prepend: A tensor to insert before input; nothing if None.
            append: A tensor to append to input; nothing if None.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.diff(torch.tensor([1, 4, 9]))
            tensor([3, 5])
        """
    def digamma(self, *, out: Tensor | None = None) -> Tensor:
        """Return the derivative of lgamma."""
    def digamma_(self) -> Tensor:
        """Return the derivative of lgamma."""
    def dim_order(self, *, ambiguity_check: builtins.bool = False) -> tuple[builtins.int, ...]:
        """Return the axes in order of decreasing stride.

        Raises  RuntimeError if `ambiguity_check` is true, and axes of length 1 or equal strides make
                the order ambiguous
        """
    def dist(self, other: Tensor, p: builtins.float = 2) -> Tensor:
        """Return the norm of order p of input - other."""
    def div(self, other: Operand, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
        """Return input / other; rounding_mode "floor" or "trunc" rounds the quotient to an integer.

        Raises  RuntimeError if the shapes do not broadcast, or rounding_mode is unknown; RuntimeError
                if integers are divided by 0 with a rounding_mode

        Args:
            input: The dividend, a tensor or a number.
            other: The divisor, a tensor or a number.
            rounding_mode: None for the true quotient, "trunc" to round toward 0, "floor" to round down.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other. For integers without a rounding_mode,
            the quotient has the default dtype.

        Example:
            >>> torch.div(torch.tensor([7, -7]), 2)
            tensor([ 3.5000, -3.5000])
            >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="floor")
            tensor([ 3, -4])
        """
    def div_(self, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """In-place version of div: writes the result into this tensor and returns it."""
    def divide(self, other: Operand, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
        """Return input / other; rounding_mode "floor" or "trunc" rounds the quotient to an integer.

        Raises  RuntimeError if the shapes do not broadcast, or rounding_mode is unknown; RuntimeError
                if integers are divided by 0 with a rounding_mode

        Args:
            input: The dividend, a tensor or a number.
            other: The divisor, a tensor or a number.
            rounding_mode: None for the true quotient, "trunc" to round toward 0, "floor" to round down.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other. For integers without a rounding_mode,
            the quotient has the default dtype.

        Example:
            >>> torch.div(torch.tensor([7, -7]), 2)
            tensor([ 3.5000, -3.5000])
            >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="floor")
            tensor([ 3, -4])
        """
    def divide_(self, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """In-place version of div: writes the result into this tensor and returns it."""
    def dot(self, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the inner product of two vectors.

        Raises  RuntimeError if an argument does not have one axis, the lengths differ, or the dtypes
                differ

        Args:
            input: The first vector, of any dtype but bool. Complex numbers are not conjugated: see
                vdot.
            tensor: The second vector, of the same length and dtype. The product of empty vectors is 0.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.dot(torch.tensor([1, 2]), torch.tensor([3, 4]))
            tensor(11)
        """
    def double(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in float64; itself if its dtype and layout are these already.

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.ones(1, dtype=torch.int16).double().dtype
            fastdist.float64
        """
    def dsplit(self, indices_or_sections: Sizes | Tensor) -> tuple[Tensor, ...]:
        """Return views of parts along the third axis."""
    def eig(self, **kwargs: Any) -> Any:
        """Raise RuntimeError: removed from PyTorch; use linalg.eig."""
    def eq(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether elements are equal; NaN is not equal to anything.

        Raises  RuntimeError if the shapes do not broadcast

        Args:
            input: A tensor of any dtype; numbers of different dtypes are compared by value.
            other: A tensor or a number; it broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool.

        Example:
            >>> torch.eq(torch.tensor([1, 2]), 2)
            tensor([False,  True])
        """
    def eq_(self, other: Operand) -> Tensor:
        """Return whether elements are equal; NaN is not equal to anything.

        Raises  RuntimeError if the shapes do not broadcast

        Args:
            input: A tensor of any dtype; numbers of different dtypes are compared by value.
            other: A tensor or a number; it broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool.

        Example:
            >>> torch.eq(torch.tensor([1, 2]), 2)
            tensor([False,  True])
        """
    def equal(self, other: Tensor) -> builtins.bool:
        """Return whether shapes and all elements are equal, as a Python bool; NaN is not equal to NaN.

        Raises  TypeError if other is not a tensor

        Args:
            input: A tensor of any shape and dtype. Numbers of different dtypes are compared by value;
                shapes do not broadcast.
            other: The tensor to compare with.

        Example:
            >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
            True
        """
    def erf(self, *, out: Tensor | None = None) -> Tensor:
        """Return the error function of each element."""
    def erf_(self) -> Tensor:
        """Return the error function of each element."""
    def erfc(self, *, out: Tensor | None = None) -> Tensor:
        """Return 1 - erf(input), precise even where erf is nearly 1."""
    def erfc_(self) -> Tensor:
        """Return 1 - erf(input), precise even where erf is nearly 1."""
    def erfinv(self, *, out: Tensor | None = None) -> Tensor:
        """Return the inverse error function of each element."""
    def erfinv_(self) -> Tensor:
        """Return the inverse error function of each element."""
    def exp(self, *, out: Tensor | None = None) -> Tensor:
        """Return e to the power of each element.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: The exponents, of any shape and dtype. exp(-inf) is 0, and results that are too large
                are inf.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.exp(torch.tensor([0.0, 1.0]))
            tensor([1.0000, 2.7183])
        """
    def exp2(self, *, out: Tensor | None = None) -> Tensor:
        """Return 2 to the power of each element."""
    def exp2_(self) -> Tensor:
        """Return 2 to the power of each element."""
    def exp_(self) -> Tensor:
        """Return e to the power of each element.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: The exponents, of any shape and dtype. exp(-inf) is 0, and results that are too large
                are inf.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.exp(torch.tensor([0.0, 1.0]))
            tensor([1.0000, 2.7183])
        """
    def expand(self, *sizes: Sizes) -> Tensor:
        """Return a view in which axes of length 1 are repeated without copying.

        -1 in sizes keeps the length of an axis.

        Raises  RuntimeError if an axis would change its length, which is not 1

        Args:
            input: A tensor of any dtype. The elements of the view share memory, so clone() it before
                writing.
            *sizes: The lengths of the axes of the result, as numbers or as one tuple. Additional
                lengths add axes in front.

        Example:
            >>> torch.tensor([[1], [2]]).expand(-1, 3)
            tensor([[1, 1, 1],
                    [2, 2, 2]])
        """
    def expand_as(self, other: Tensor) -> Tensor:
        """Return a view of input expanded to the shape of other.

        Raises  RuntimeError if an axis of input has neither length 1 nor its length in other

        Args:
            input: A tensor of any dtype. The elements of the view share memory, so clone() it before
                writing.
            other: The tensor whose shape is taken.

        Example:
            >>> torch.tensor([[1], [2]]).expand_as(torch.zeros(2, 3)).shape
            fastdist.Size([2, 3])
        """
    def expm1(self, *, out: Tensor | None = None) -> Tensor:
        """Return exp(input) - 1, precise near 0."""
    def expm1_(self) -> Tensor:
        """Return exp(input) - 1, precise near 0."""
    def exponential_(self, lambd: builtins.float = 1, *, generator: Generator | None = None) -> Tensor:
        """Fill this tensor with exponential numbers of rate lambd; none is 0 or infinite."""
    def fill_(self, value: Any) -> Tensor:
        """Write `value`, a number or a 0-d tensor, into every element.

        Raises  RuntimeError if value is a tensor with axes, or a number that the dtype cannot hold
        """
    def fill_diagonal_(self, fill_value: Scalar, wrap: builtins.bool = False) -> Tensor:
        """Set the elements of the diagonal, whose indices are all equal, to `fill_value`.

        If `wrap` is true, the diagonal of a tall matrix starts again after every width + 1 rows.

        Raises  RuntimeError for a 1-d tensor, or for more than two axes of unequal lengths
        """
    def fix(self, *, out: Tensor | None = None) -> Tensor:
        """Return input rounded towards 0; the gradient is 0."""
    def fix_(self) -> Tensor:
        """Return input rounded towards 0; the gradient is 0."""
    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Return input with the axes from start_dim to end_dim merged, as a view where possible.

        Raises  IndexError if start_dim or end_dim is out of range; RuntimeError if start_dim comes
                after end_dim

        Args:
            input: A tensor of any dtype; a 0-d tensor gives a vector of one element.
            start_dim: The first axis to merge.
            end_dim: The last axis to merge.

        Example:
            >>> torch.zeros(2, 3, 4).flatten(1).shape
            fastdist.Size([2, 12])
        """
    def flip(self, *dims: Sizes) -> Tensor:
        """Return a copy with the order of elements along dims reversed.

        Raises  IndexError if an axis is out of range; RuntimeError if an axis is given twice

        Args:
            input: A tensor of any dtype. Unlike NumPy, the result is not a view.
            *dims: The axes, as numbers or as one tuple.

        Example:
            >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), dims=(1,))
            tensor([[2, 1],
                    [4, 3]])
        """
    def fliplr(self) -> Tensor:
        """Return a copy with the order of columns reversed."""
    def flipud(self) -> Tensor:
        """Return a copy with the order of rows reversed."""
    def float(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in float32; itself if its dtype and layout are these already.

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.ones(1, dtype=torch.int16).float().dtype
            fastdist.float32
        """
    def float_power(self, exponent: Scalar, *, out: Tensor | None = None) -> Tensor:
        """Return input to the power of exponent, computed in float64, or in complex128 if an operand is
        complex.
        """
    def float_power_(self, exponent: Scalar) -> Tensor:
        """Compute float_power in place; input must have the result's dtype, float64 or complex128."""
    def floor(self, *, out: Tensor | None = None) -> Tensor:
        """Return each element rounded down to an integer; the gradient is 0.

        Raises  NotImplementedError if input is bool or complex

        Args:
            input: A real tensor of any dtype but bool. The dtype is kept, so integers are unchanged.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.floor(torch.tensor([1.8, -1.2]))
            tensor([ 1., -2.])
        """
    def floor_(self) -> Tensor:
        """Return each element rounded down to an integer; the gradient is 0.

        Raises  NotImplementedError if input is bool or complex

        Args:
            input: A real tensor of any dtype but bool. The dtype is kept, so integers are unchanged.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.floor(torch.tensor([1.8, -1.2]))
            tensor([ 1., -2.])
        """
    def floor_divide(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return input / other rounded down.

        Raises  RuntimeError if an integer is divided by 0, and in a backward pass
        """
    def floor_divide_(self, other: Operand) -> Tensor:
        """Return input / other rounded down.

        Raises  RuntimeError if an integer is divided by 0, and in a backward pass
        """
    def fmax(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the larger of two elements; if one is NaN, return the other one."""
    def fmin(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the smaller of two elements; if one is NaN, return the other one."""
    def fmod(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return input - trunc(input / other) * other; its sign is the sign of `input`, as in C."""
    def fmod_(self, other: Operand) -> Tensor:
        """Return input - trunc(input / other) * other; its sign is the sign of `input`, as in C."""
    def frac(self, *, out: Tensor | None = None) -> Tensor:
        """Return the fractional part of each element; it has the sign of the element."""
    def frac_(self) -> Tensor:
        """Return the fractional part of each element; it has the sign of the element."""
    def frexp(self, *, out: Any = None) -> Any:
        """Return (mantissa, exponent), where input is mantissa * 2**exponent and 0.5 <= |mantissa| < 1.
        If input is not on the CPU, the call waits for the device.

        Dtype   exponent is int32
        Raises  RuntimeError for integers and bool
        """
    def gather(self, dim: builtins.int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return elements of input at index along dim: `out[i][j] = input[index[i][j]][j]` for dim 0.

        Raises  RuntimeError if an index is out of range, or index has a wrong dtype or number of axes;
                IndexError if dim is out of range

        Args:
            input: A tensor of any dtype, with as many axes as index.
            dim: The axis to which the indices apply.
            index: Indices along dim, int64 or int32. Only axis dim may be longer than in input.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the shape of index and the dtype of input.

        Example:
            >>> x = torch.tensor([[1, 2], [3, 4]])
            >>> torch.gather(x, 1, torch.tensor([[0, 0], [1, 0]]))
            tensor([[1, 1],
                    [4, 3]])
        """
    def gcd(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the greatest common divisor of integers. The result is never negative."""
    def gcd_(self, other: Operand) -> Tensor:
        """Return the greatest common divisor of integers. The result is never negative."""
    def ge(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether input >= other."""
    def ge_(self, other: Operand) -> Tensor:
        """Return whether input >= other."""
    def geometric_(self, p: builtins.float, *, generator: Generator | None = None) -> Tensor:
        """Fill this tensor with numbers of trials (1, 2, ...) until the first success, if each trial
        succeeds with probability p.
        """
    def geqrf(self, *, out: Any = None) -> return_types.geqrf:
        """Return (a, tau), the arguments of householder_product. a holds R and, below R's diagonal, the
        Householder vectors; tau holds the scales of the reflections.

        Note    this function has no derivatives, as in PyTorch
        """
    def ger(self, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the outer product: each element of one vector times each element of another.

        Raises  RuntimeError if an argument does not have one axis

        Args:
            input: The first vector, of any dtype.
            vec2: The second vector, of any length; the dtypes are promoted.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A matrix of shape (n, m), for vectors of n and m elements.

        Example:
            >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
            tensor([[3, 4],
                    [6, 8]])
        """
    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward accumulated, for a leaf or for a result after `retain_grad`; None
        if there is none yet.
        """
    @grad.setter
    def grad(self, value: Tensor | None) -> None: ...
    @property
    def grad_dtype(self) -> DType:
        """The dtype of this tensor's gradient: the tensor's own dtype."""
    @property
    def grad_fn(self) -> Any:
        """The Node that made this tensor; None for leaves."""
    def greater(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether input > other."""
    def greater_(self, other: Operand) -> Tensor:
        """Return whether input > other."""
    def greater_equal(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether input >= other."""
    def greater_equal_(self, other: Operand) -> Tensor:
        """Return whether input >= other."""
    def gt(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether input > other."""
    def gt_(self, other: Operand) -> Tensor:
        """Return whether input > other."""
    def half(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in float16; itself if its dtype and layout are these already.

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.ones(1, dtype=torch.int16).half().dtype
            fastdist.float16
        """
    def hardshrink(self, lambd: builtins.float = 0.5, *, out: Tensor | None = None) -> Tensor:
        """Return input, with elements in [-lambd, lambd] set to 0."""
    def heaviside(self, values: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return 0 for negative input, 1 for positive input, and `values` where input is 0."""
    def heaviside_(self, values: Operand) -> Tensor:
        """Return 0 for negative input, 1 for positive input, and `values` where input is 0."""
    def histc(self, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0, *, out: Tensor | None = None) -> Tensor:
        """Return the number of elements in each of `bins` equal intervals from min to max. If min and
        max are equal, the intervals range from the smallest to the largest element. Elements outside
        the intervals are ignored.
        """
    def histogram(self, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: builtins.bool = False, out: Any = None) -> return_types.histogram:
        """Return (hist, bin_edges). hist holds the number of elements in each interval, or the sum of
        their weights. bins is a number of equal intervals, or a tensor of edges.
        """
    def hsplit(self, indices_or_sections: Sizes | Tensor) -> tuple[Tensor, ...]:
        """Return views of parts along the second axis, or along the only axis of a vector."""
    def hypot(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return sqrt(input**2 + other**2) without intermediate overflow.

        Raises  RuntimeError for integers
        """
    def hypot_(self, other: Operand) -> Tensor:
        """Return sqrt(input**2 + other**2) without intermediate overflow.

        Raises  RuntimeError for integers
        """
    def i0(self, *, out: Tensor | None = None) -> Tensor:
        """Return the modified Bessel function of the first kind of order 0."""
    def i0_(self) -> Tensor:
        """Return the modified Bessel function of the first kind of order 0."""
    def igamma(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the regularised lower incomplete gamma function P(a, x) for a = input, x = other."""
    def igamma_(self, other: Operand) -> Tensor:
        """Return the regularised lower incomplete gamma function P(a, x) for a = input, x = other."""
    def igammac(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the regularised upper incomplete gamma function Q(a, x) for a = input, x = other."""
    def igammac_(self, other: Operand) -> Tensor:
        """Return the regularised upper incomplete gamma function Q(a, x) for a = input, x = other."""
    @property
    def imag(self) -> Tensor:
        """The imaginary part as a view; RuntimeError for a real tensor."""
    @imag.setter
    def imag(self, value: Tensor) -> None: ...
    def index_add(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: builtins.float = 1, out: Tensor | None = None) -> Tensor:
        """Return input with slices of source, times alpha, added at the indices `index` along dim."""
    def index_add_(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: builtins.float = 1) -> Tensor:
        """In-place version of index_add: writes the result into this tensor and returns it."""
    def index_copy(self, dim: builtins.int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return input with the slices of source written at the indices `index` along dim."""
    def index_copy_(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        """In-place version of index_copy: writes the result into this tensor and returns it."""
    def index_fill(self, dim: builtins.int, index: Tensor, value: Any) -> Tensor:
        """Return input with value written to its slices at the indices `index` along dim."""
    def index_fill_(self, dim: builtins.int, index: Tensor, value: Any) -> Tensor:
        """In-place version of index_fill: writes the result into this tensor and returns it."""
    def index_put(self, indices: Any, values: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """Return a copy of input with values written, or added, at indices."""
    def index_put_(self, indices: Any, values: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """Write values into input[indices] or, if accumulate is true, add them; return input."""
    def index_reduce(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: str, *, include_self: builtins.bool = True, out: Tensor | None = None) -> Tensor:
        """Return input with the slices of source combined at the indices `index` along dim. Slices with
        the same index are reduced by prod, mean, amax or amin. The old values of input are reduced with
        them, unless include_self is False.
        """
    def index_reduce_(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: str, *, include_self: builtins.bool = True) -> Tensor:
        """In-place version of index_reduce: writes the result into this tensor and returns it."""
    def index_select(self, dim: builtins.int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return a copy of the slices of input at the indices `index` along dim.

        Raises  IndexError if dim or an index is out of range; RuntimeError if index is neither int32
                nor int64, or has several axes

        Args:
            input: A tensor of any dtype; the result has index.numel() slices along dim.
            dim: The axis to which the indices apply.
            index: The indices of slices, a vector of int64 or int32.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([1, 1]))
            tensor([[2, 2],
                    [4, 4]])
        """
    def indices(self) -> Tensor:
        """Return the coordinates of a coalesced sparse tensor, of shape (sparse axes, n)."""
    def inner(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the sums of products along the last axes of both tensors."""
    def int(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in int32; itself if its dtype and layout are these already.

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.ones(1, dtype=torch.int16).int().dtype
            fastdist.int32
        """
    def inverse(self, *, out: Tensor | None = None) -> Tensor:
        """Return the inverse; an alias of linalg.inv.

        Raises  RuntimeError if the matrices are not square, or one is singular

        Args:
            input: A square matrix, or a batch of square matrices.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.inverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
            tensor([[0.5000, 0.0000],
                    [0.0000, 0.2500]])
        """
    def ipu(self, device: DeviceLike = ..., non_blocking: builtins.bool = False, **more: Any) -> Tensor:
        """Raise RuntimeError: there is no ipu here."""
    def is_coalesced(self) -> builtins.bool:
        """Return whether input is known to have distinct and sorted coordinates."""
    def is_conj(self) -> builtins.bool:
        """Return whether the tensor is a lazily conjugated view."""
    def is_distributed(self) -> builtins.bool:
        """Return False: a tensor belongs to one process."""
    def is_inference(self) -> builtins.bool:
        """Return False: tensors made in inference_mode are ordinary tensors."""
    @property
    def is_ipu(self) -> builtins.bool:
        """False: no tensor here is on a Graphcore IPU."""
    @property
    def is_leaf(self) -> builtins.bool:
        """Whether no recorded op made this tensor."""
    @property
    def is_maia(self) -> builtins.bool:
        """False: no tensor here is on a Microsoft Maia."""
    @property
    def is_meta(self) -> builtins.bool:
        """True for a tensor on the device "meta": it has a shape, strides and a dtype, but no data."""
    @property
    def is_mkldnn(self) -> builtins.bool:
        """False: no tensor here is in oneDNN's format."""
    @property
    def is_mps(self) -> builtins.bool:
        """False: no tensor here is on an Apple GPU."""
    @property
    def is_mtia(self) -> builtins.bool:
        """False: no tensor here is on a Meta accelerator."""
    def is_neg(self) -> builtins.bool:
        """Return whether the tensor is a lazily negated view, such as `imag` of a conjugated view."""
    @property
    def is_nested(self) -> builtins.bool:
        """False: no tensor here is nested."""
    def is_nonzero(self) -> builtins.bool:
        """Return whether the only element of input is not 0.

        Raises  RuntimeError if input does not have exactly one element
        """
    def is_pinned(self, device: DeviceLike = ...) -> builtins.bool:
        """Return whether the tensor is in pinned (page-locked) CPU memory."""
    @property
    def is_quantized(self) -> builtins.bool:
        """False: no tensor here is quantized."""
    def is_same_size(self, other: Tensor) -> builtins.bool:
        """Return whether the shapes are equal."""
    def is_set_to(self, tensor: Tensor) -> builtins.bool:
        """Return whether both tensors have the same layout and begin at the same address."""
    def is_shared(self) -> builtins.bool:
        """Return whether other processes can share this tensor's memory. This is true after a call of
        share_memory_() on the tensor or its base, in this process or in the process that sent it.
        """
    @property
    def is_sparse(self) -> builtins.bool:
        """Whether the tensor is sparse, with coordinates and values."""
    @property
    def is_sparse_csr(self) -> builtins.bool:
        """False: no tensor here is sparse by rows."""
    @property
    def is_vulkan(self) -> builtins.bool:
        """False: no tensor here is on Vulkan."""
    @property
    def is_xla(self) -> builtins.bool:
        """False: no tensor here is on a TPU."""
    @property
    def is_xpu(self) -> builtins.bool:
        """False: no tensor here is on an Intel GPU."""
    def isclose(self, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:
        """Return whether |input - other| <= atol + rtol * |other|, element by element.

        Raises  RuntimeError if the dtypes differ, or the shapes do not broadcast

        Args:
            input: A tensor of any dtype. An infinity is close only to itself.
            other: The tensor to compare with.
            rtol: The tolerance relative to |other|, so input and other are not interchangeable; not
                negative.
            atol: The absolute tolerance, which matters near 0; not negative.
            equal_nan: Whether NaN is close to NaN.

        Returns:
            A tensor of bool.

        Example:
            >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]))
            tensor([ True, False])
        """
    def isfinite(self, *, out: Tensor | None = None) -> Tensor:
        """Return whether input is neither infinite nor NaN.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any dtype. A complex number is finite if both parts are; integers always
                are.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool of the same shape.

        Example:
            >>> torch.isfinite(torch.tensor([1.0, float("inf"), float("nan")]))
            tensor([ True, False, False])
        """
    def isinf(self, *, out: Tensor | None = None) -> Tensor:
        """Return whether input is inf or -inf.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any dtype. A complex number is infinite if one of its parts is.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool of the same shape.

        Example:
            >>> torch.isinf(torch.tensor([1.0, float("-inf")]))
            tensor([False,  True])
        """
    def isnan(self, *, out: Tensor | None = None) -> Tensor:
        """Return whether input is NaN.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any dtype. A complex number is NaN if one of its parts is; integers are
                not.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool of the same shape.

        Example:
            >>> torch.isnan(torch.tensor([1.0, float("nan")]))
            tensor([False,  True])
        """
    def isneginf(self, *, out: Tensor | None = None) -> Tensor:
        """Return whether input is -inf."""
    def isposinf(self, *, out: Tensor | None = None) -> Tensor:
        """Return whether input is +inf."""
    def isreal(self) -> Tensor:
        """Return True where the imaginary part is 0, which includes all real numbers."""
    def istft(self, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Tensor | None = None, center: builtins.bool = True, normalized: builtins.bool = False, onesided: builtins.bool | None = None, length: builtins.int | None = None, return_complex: builtins.bool = False) -> Tensor:
        """Return the signal for which stft, with the same arguments, returns input. If there is no such
        signal, return the least-squares approximation.

        `length` truncates the signal, or pads it with zeros
        Shape   (batch, frequencies, frames) or (frequencies, frames) -> (batch, samples)
        Raises  RuntimeError if a sample is under no window, or only under windows that are 0 there
        """
    def kron(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the Kronecker product: each element of input times all of other."""
    def kthvalue(self, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: Any = None) -> return_types.kthvalue:
        """Return (values, indices) of the k-th smallest element along dim; NaN sorts last."""
    def lcm(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the least common multiple of integers. The result is never negative. It is 0 if an
        operand is 0.
        """
    def lcm_(self, other: Tensor) -> Tensor:
        """In-place version of lcm: writes the result into this tensor and returns it."""
    def ldexp(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return input * 2**other.

        Dtype   a floating input keeps its dtype if other is an integer
        """
    def ldexp_(self, other: Tensor) -> Tensor:
        """In-place version of ldexp: writes the result into this tensor and returns it."""
    def le(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether input <= other."""
    def le_(self, other: Operand) -> Tensor:
        """Return whether input <= other."""
    def lerp(self, end: Operand, weight: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return input + weight * (end - input).

        Raises  RuntimeError if input has an integer dtype, if input and end have different dtypes, or
                if weight has axes and a different dtype than input

        Args:
            input: The result for weight 0, a floating-point or complex tensor. Weights outside of [0,
                1] extrapolate.
            end: The result for weight 1.
            weight: A number or a tensor.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.lerp(torch.tensor([0.0]), torch.tensor([10.0]), 0.25)
            tensor([2.5000])
        """
    def lerp_(self, end: Operand, weight: Operand) -> Tensor:
        """Return input + weight * (end - input).

        Raises  RuntimeError if input has an integer dtype, if input and end have different dtypes, or
                if weight has axes and a different dtype than input

        Args:
            input: The result for weight 0, a floating-point or complex tensor. Weights outside of [0,
                1] extrapolate.
            end: The result for weight 1.
            weight: A number or a tensor.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.lerp(torch.tensor([0.0]), torch.tensor([10.0]), 0.25)
            tensor([2.5000])
        """
    def less(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether input < other."""
    def less_(self, other: Operand) -> Tensor:
        """Return whether input < other."""
    def less_equal(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether input <= other."""
    def less_equal_(self, other: Operand) -> Tensor:
        """Return whether input <= other."""
    def lgamma(self, *, out: Tensor | None = None) -> Tensor:
        """Return the logarithm of the absolute value of gamma(input)."""
    def lgamma_(self) -> Tensor:
        """Return the logarithm of the absolute value of gamma(input)."""
    def log(self, *, out: Tensor | None = None) -> Tensor:
        """Return the natural logarithm of each element: -inf at 0, NaN for negative numbers.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
                real numbers do not.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.log(torch.tensor([1.0, 2.0, 0.0]))
            tensor([0.0000, 0.6931,   -inf])
        """
    def log10(self, *, out: Tensor | None = None) -> Tensor:
        """Return the logarithm to base 10 of each element: -inf at 0, NaN for negative numbers.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
                real numbers do not.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.log10(torch.tensor([100.0]))
            tensor([2.])
        """
    def log10_(self) -> Tensor:
        """Return the logarithm to base 10 of each element: -inf at 0, NaN for negative numbers.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
                real numbers do not.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.log10(torch.tensor([100.0]))
            tensor([2.])
        """
    def log1p(self, *, out: Tensor | None = None) -> Tensor:
        """Return the natural logarithm of 1 plus each element, precise near 0.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result is -inf at -1, and NaN below.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.log1p(torch.tensor([0.0, 1.0]))
            tensor([0.0000, 0.6931])
        """
    def log1p_(self) -> Tensor:
        """Return the natural logarithm of 1 plus each element, precise near 0.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result is -inf at -1, and NaN below.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.log1p(torch.tensor([0.0, 1.0]))
            tensor([0.0000, 0.6931])
        """
    def log2(self, *, out: Tensor | None = None) -> Tensor:
        """Return the logarithm to base 2 of each element: -inf at 0, NaN for negative numbers.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
                real numbers do not.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.log2(torch.tensor([8.0, 1.0]))
            tensor([3., 0.])
        """
    def log2_(self) -> Tensor:
        """Return the logarithm to base 2 of each element: -inf at 0, NaN for negative numbers.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
                real numbers do not.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.log2(torch.tensor([8.0, 1.0]))
            tensor([3., 0.])
        """
    def log_(self) -> Tensor:
        """Return the natural logarithm of each element: -inf at 0, NaN for negative numbers.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
                real numbers do not.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.log(torch.tensor([1.0, 2.0, 0.0]))
            tensor([0.0000, 0.6931,   -inf])
        """
    def log_normal_(self, mean: builtins.float = 1, std: builtins.float = 2, *, generator: Generator | None = None) -> Tensor:
        """Fill this tensor with exp(x), where x are normal numbers with the given mean and std."""
    def log_softmax(self, dim: builtins.int, dtype: DTypeLike | None = None, *, out: Tensor | None = None) -> Tensor:
        """Return log(softmax(input)) along dim, without overflow.

        Shape   (..., n, ...) -> (..., n, ...)
        Raises  NotImplementedError if input is not floating-point, and dtype is None; IndexError if dim
                is out of range

        Args:
            input: A floating-point tensor; integers need dtype. A slice with NaN or inf, or of -inf
                alone, gives NaN.
            dim: The axis along which the exponentials of the result add up to 1.
            dtype: The dtype to compute in, and of the result; None means the dtype of input.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.log_softmax(torch.tensor([1.0, 2.0]), dim=0)
            tensor([-1.3133, -0.3133])
        """
    def logaddexp(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return log(exp(input) + exp(other)) without overflow."""
    def logaddexp2(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return log2(2**input + 2**other) without overflow."""
    def logcumsumexp(self, dim: builtins.int, *, out: Tensor | None = None) -> Tensor:
        """Return log(cumsum(exp(input))) along dim, without overflow."""
    def logdet(self) -> Tensor:
        """Return the logarithm of the determinant: -inf if the determinant is 0, NaN if the determinant
        is negative. For complex matrices, the imaginary part of the logarithm is in (-pi, pi].
        """
    def logical_and(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether the elements of input and other are both nonzero.

        Raises  RuntimeError if the shapes do not broadcast

        Args:
            input: A tensor of any dtype. NaN counts as nonzero.
            other: The second tensor; it broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool.

        Example:
            >>> torch.logical_and(torch.tensor([1, 0]), torch.tensor([2, 3]))
            tensor([ True, False])
        """
    def logical_and_(self, other: Operand) -> Tensor:
        """Return whether the elements of input and other are both nonzero.

        Raises  RuntimeError if the shapes do not broadcast

        Args:
            input: A tensor of any dtype. NaN counts as nonzero.
            other: The second tensor; it broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool.

        Example:
            >>> torch.logical_and(torch.tensor([1, 0]), torch.tensor([2, 3]))
            tensor([ True, False])
        """
    def logical_not(self, *, out: Tensor | None = None) -> Tensor:
        """Return whether each element is 0.

        Args:
            input: A tensor of any dtype. NaN is not 0.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool of the same shape.

        Example:
            >>> torch.logical_not(torch.tensor([1, 0]))
            tensor([False,  True])
        """
    def logical_not_(self) -> Tensor:
        """Return whether each element is 0.

        Args:
            input: A tensor of any dtype. NaN is not 0.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool of the same shape.

        Example:
            >>> torch.logical_not(torch.tensor([1, 0]))
            tensor([False,  True])
        """
    def logical_or(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether the element of input or the element of other is nonzero."""
    def logical_or_(self, other: Operand) -> Tensor:
        """Return whether the element of input or the element of other is nonzero."""
    def logical_xor(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether exactly one of the elements of input and other is nonzero."""
    def logical_xor_(self, other: Operand) -> Tensor:
        """Return whether exactly one of the elements of input and other is nonzero."""
    def logit(self, eps: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:
        """Return log(input / (1 - input)). If eps is given, input is clamped to eps ... 1 - eps first.
        If eps is above 1/2, that range is empty: then input below eps becomes eps, and all other input
        becomes 1 - eps.
        """
    def logit_(self, eps: builtins.float | None = None) -> Tensor:
        """In-place version of logit: writes the result into this tensor and returns it."""
    def logsumexp(self, dim: Sizes, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return log(sum(exp(input))) over dim, without overflow.

        Raises  IndexError if dim is out of range

        Args:
            input: A tensor of any dtype; integers are converted to the default dtype. The result for no
                elements is -inf.
            dim: The axis, or several as a tuple.
            keepdim: Whether the reduced axes stay, with length 1.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.logsumexp(torch.tensor([1000.0, 1000.0]), dim=0)
            tensor(1000.6932)
        """
    def long(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in int64; itself if its dtype and layout are these already.

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.ones(1, dtype=torch.int16).long().dtype
            fastdist.int64
        """
    def lstsq(self, **kwargs: Any) -> Any:
        """Raise RuntimeError: removed from PyTorch; use linalg.lstsq, with its arguments the other way round."""
    def lt(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether input < other."""
    def lt_(self, other: Operand) -> Tensor:
        """Return whether input < other."""
    def lu(self, pivot: builtins.bool = True, get_infos: builtins.bool = False, *, out: Any = None) -> tuple[Tensor, ...]:
        """Return (LU, pivots), and info if get_infos is true; replaced by linalg.lu_factor."""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return X with A @ X = input; replaced by linalg.lu_solve."""
    @property
    def mH(self) -> Tensor:
        """This tensor with its last two axes swapped, and with complex numbers conjugated."""
    @property
    def mT(self) -> Tensor:
        """This tensor with its last two axes swapped; a 0-d tensor is returned unchanged.

        Raises  RuntimeError for a 1-d tensor
        """
    def map2_(self, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
        """Replace each element e by callable(e, x's element, y's element); this is slow.

        Raises  RuntimeError for a tensor that requires grad; TypeError if a tensor has another dtype or
                is not on the CPU, or if callable does not return a number
        """
    def map_(self, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
        """Replace x by callable(x, y), for all elements x of this tensor and y of `other`; it is slow.

        Raises  RuntimeError for a tensor that requires grad; TypeError if a tensor has another dtype or
                is not on the CPU, or if callable does not return a number
        """
    def masked_fill(self, mask: Operand, value: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return input with the elements replaced by `value` where mask is true.

        Raises  RuntimeError if mask is not bool, the shapes do not broadcast, or value is not one
                number

        Args:
            input: A tensor of any shape and dtype. The result has the broadcast shape of input and
                mask.
            mask: A tensor of bool that broadcasts with input.
            value: A number or a 0-d tensor. It is converted to the dtype of input: 1.5 becomes 1 in
                int64.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.tensor([1.0, 2.0]).masked_fill(torch.tensor([True, False]), 0.0)
            tensor([0., 2.])
        """
    def masked_fill_(self, mask: Operand, value: Operand) -> Tensor:
        """Return input with the elements replaced by `value` where mask is true.

        Raises  RuntimeError if mask is not bool, the shapes do not broadcast, or value is not one
                number

        Args:
            input: A tensor of any shape and dtype. The result has the broadcast shape of input and
                mask.
            mask: A tensor of bool that broadcasts with input.
            value: A number or a 0-d tensor. It is converted to the dtype of input: 1.5 becomes 1 in
                int64.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.tensor([1.0, 2.0]).masked_fill(torch.tensor([True, False]), 0.0)
            tensor([0., 2.])
        """
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """Return input with the elements of source, in order, written where mask is true.

        Raises  ShapeError if source has too few elements; on a GPU missing elements are NaN: see
                Note [Places outside] in index_range.py
        """
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """In-place version of masked_scatter: writes the result into this tensor and returns it."""
    def masked_select(self, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the elements of input where mask is true, as a vector. On a GPU, this waits for the
        number of these elements.

        Args:
            input: A tensor of any shape and dtype.
            mask: A tensor of bool that broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> x = torch.tensor([-1, 2, 3])
            >>> torch.masked_select(x, x > 0)
            tensor([2, 3])
        """
    def matmul(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the matrix product.

        Shape   (n), (n) -> (); (..., n, k), (..., k, m) -> (..., n, m), batch axes broadcast; a vector
                counts as a row on the left and as a column on the right, and its axis is dropped
        Raises  RuntimeError if the inner axes have different lengths, the batch axes do not broadcast,
                an operand has no axis (use mul), or the dtypes differ; NotImplementedError if the dtype
                is bool

        Args:
            input: The left operand, with at least one axis, of any dtype but bool.
            other: The right operand, of the same dtype, with at least one axis.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.matmul(torch.ones(2, 3), torch.ones(3)).shape
            fastdist.Size([2])
            >>> (torch.ones(5, 2, 3) @ torch.ones(3, 4)).shape
            fastdist.Size([5, 2, 4])
        """
    def matrix_exp(self) -> Tensor:
        """Return the exponential of matrices; an alias of linalg.matrix_exp."""
    def matrix_power(self, n: builtins.int, *, out: Tensor | None = None) -> Tensor:
        """Return the n-th power of each matrix; an alias of linalg.matrix_power."""
    @overload
    def max(self, *, out: Tensor | None = ...) -> Tensor:
        """Return the maximum of all elements. With dim, return (values, indices) along dim; with a
        second tensor, return the elementwise maximum of both tensors.

        Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

        Args:
            input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
            dim: An axis, or a second tensor to compare with; None for all elements.
            keepdim: Whether the reduced axes stay, with length 1.
            other: A second tensor to compare with, element by element; None reduces input.
            out: Tensors into which the result is written; new ones if None.

        Returns:
            A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
            the result is NaN.

        Example:
            >>> x = torch.tensor([[1, 5], [7, 2]])
            >>> torch.max(x)
            tensor(7)
            >>> torch.max(x, dim=1).indices
            tensor([1, 0])
        """
    @overload
    def max(self, dim: builtins.int, keepdim: builtins.bool = ..., *, out: Any = ...) -> return_types.max:
        """Return the maximum of all elements. With dim, return (values, indices) along dim; with a
        second tensor, return the elementwise maximum of both tensors.

        Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

        Args:
            input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
            dim: An axis, or a second tensor to compare with; None for all elements.
            keepdim: Whether the reduced axes stay, with length 1.
            other: A second tensor to compare with, element by element; None reduces input.
            out: Tensors into which the result is written; new ones if None.

        Returns:
            A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
            the result is NaN.

        Example:
            >>> x = torch.tensor([[1, 5], [7, 2]])
            >>> torch.max(x)
            tensor(7)
            >>> torch.max(x, dim=1).indices
            tensor([1, 0])
        """
    @overload
    def max(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor:
        """Return the maximum of all elements. With dim, return (values, indices) along dim; with a
        second tensor, return the elementwise maximum of both tensors.

        Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

        Args:
            input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
            dim: An axis, or a second tensor to compare with; None for all elements.
            keepdim: Whether the reduced axes stay, with length 1.
            other: A second tensor to compare with, element by element; None reduces input.
            out: Tensors into which the result is written; new ones if None.

        Returns:
            A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
            the result is NaN.

        Example:
            >>> x = torch.tensor([[1, 5], [7, 2]])
            >>> torch.max(x)
            tensor(7)
            >>> torch.max(x, dim=1).indices
            tensor([1, 0])
        """
    def maximum(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the larger of two elements; NaN if either is NaN. Equal elements share the gradient.

        Raises  NotImplementedError if an argument is complex; RuntimeError if the shapes do not
                broadcast

        Args:
            input: A real tensor; numbers of different dtypes are compared in the promoted dtype.
            other: The second tensor; it broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other, in their promoted dtype.

        Example:
            >>> torch.maximum(torch.tensor([1, 5]), torch.tensor([3, 2]))
            tensor([3, 5])
        """
    def mean(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
        """Return the mean over dim, or over all axes. The mean of no elements is NaN.

        Raises  RuntimeError for integers and bool, unless dtype is floating; IndexError if dim is out
                of range

        Args:
            input: A floating-point or complex tensor, or one of integers with dtype given.
            dim: The axis or axes to average over; all if None.
            keepdim: Whether the reduced axes stay, with length 1.
            dtype: The dtype of the computation and of the result; None means the dtype of input.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor without the axes dim, or with length 1 for each of them if keepdim is true.

        Example:
            >>> torch.mean(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
            tensor([1.5000, 3.5000])
        """
    @overload
    def median(self, *, out: Tensor | None = ...) -> Tensor:
        """Return the lower median of all elements, or along dim; NaN if any element is NaN.

        Raises  IndexError if dim is out of range, or the axis has no elements; RuntimeError if input is
                bool or complex

        Args:
            input: A real tensor of any dtype but bool. The median of no elements is NaN.
            dim: The axis; all elements if None.
            keepdim: Whether the reduced axes stay, with length 1.
            out: Tensors into which the result is written; new ones if None.

        Returns:
            A tensor; with dim, a pair with the fields `values` and `indices`.

        Example:
            >>> torch.median(torch.tensor([3, 1, 4, 2]))
            tensor(2)
        """
    @overload
    def median(self, dim: builtins.int, keepdim: builtins.bool = ..., *, out: Any = ...) -> return_types.median:
        """Return the lower median of all elements, or along dim; NaN if any element is NaN.

        Raises  IndexError if dim is out of range, or the axis has no elements; RuntimeError if input is
                bool or complex

        Args:
            input: A real tensor of any dtype but bool. The median of no elements is NaN.
            dim: The axis; all elements if None.
            keepdim: Whether the reduced axes stay, with length 1.
            out: Tensors into which the result is written; new ones if None.

        Returns:
            A tensor; with dim, a pair with the fields `values` and `indices`.

        Example:
            >>> torch.median(torch.tensor([3, 1, 4, 2]))
            tensor(2)
        """
    @overload
    def min(self, *, out: Tensor | None = ...) -> Tensor:
        """Return the minimum of all elements. With dim, return (values, indices) along dim; with a
        second tensor, return the elementwise minimum of both tensors.

        Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

        Args:
            input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
            dim: An axis, or a second tensor to compare with; None for all elements.
            keepdim: Whether the reduced axes stay, with length 1.
            other: A second tensor to compare with, element by element; None reduces input.
            out: Tensors into which the result is written; new ones if None.

        Returns:
            A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
            the result is NaN.

        Example:
            >>> x = torch.tensor([[1, 5], [7, 2]])
            >>> torch.min(x)
            tensor(1)
            >>> torch.min(x, dim=1).values
            tensor([1, 2])
        """
    @overload
    def min(self, dim: builtins.int, keepdim: builtins.bool = ..., *, out: Any = ...) -> return_types.min:
        """Return the minimum of all elements. With dim, return (values, indices) along dim; with a
        second tensor, return the elementwise minimum of both tensors.

        Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

        Args:
            input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
            dim: An axis, or a second tensor to compare with; None for all elements.
            keepdim: Whether the reduced axes stay, with length 1.
            other: A second tensor to compare with, element by element; None reduces input.
            out: Tensors into which the result is written; new ones if None.

        Returns:
            A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
            the result is NaN.

        Example:
            >>> x = torch.tensor([[1, 5], [7, 2]])
            >>> torch.min(x)
            tensor(1)
            >>> torch.min(x, dim=1).values
            tensor([1, 2])
        """
    @overload
    def min(self, other: Tensor, *, out: Tensor | None = ...) -> Tensor:
        """Return the minimum of all elements. With dim, return (values, indices) along dim; with a
        second tensor, return the elementwise minimum of both tensors.

        Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

        Args:
            input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
            dim: An axis, or a second tensor to compare with; None for all elements.
            keepdim: Whether the reduced axes stay, with length 1.
            other: A second tensor to compare with, element by element; None reduces input.
            out: Tensors into which the result is written; new ones if None.

        Returns:
            A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
            the result is NaN.

        Example:
            >>> x = torch.tensor([[1, 5], [7, 2]])
            >>> torch.min(x)
            tensor(1)
            >>> torch.min(x, dim=1).values
            tensor([1, 2])
        """
    def minimum(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the smaller of two elements; NaN if either is NaN. Equal elements share the gradient.

        Raises  NotImplementedError if an argument is complex; RuntimeError if the shapes do not
                broadcast

        Args:
            input: A real tensor; numbers of different dtypes are compared in the promoted dtype.
            other: The second tensor; it broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other, in their promoted dtype.

        Example:
            >>> torch.minimum(torch.tensor([1, 5]), torch.tensor([3, 2]))
            tensor([1, 2])
        """
    def mm(self, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the product of two matrices.

        Raises  RuntimeError if an argument is not a matrix, the inner axes differ, or the dtypes differ

        Args:
            input: The left matrix, of shape (n, k), of any dtype but bool. If k is 0, the product is 0.
            mat2: The right matrix, of shape (k, m).
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A matrix of shape (n, m), for an input of shape (n, k).

        Example:
            >>> torch.mm(torch.ones(2, 3), torch.ones(3, 1))
            tensor([[3.],
                    [3.]])
        """
    def mode(self, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: Any = None) -> return_types.mode:
        """Return (values, indices): the most frequent value along dim, and its last index. Of several
        equally frequent values, the smallest is returned. A NaN is not equal to another NaN; in PyTorch
        the result depends on the positions of the NaNs.
        """
    def module_load(self, other: Tensor, assign: builtins.bool = False) -> Tensor:
        """Return the tensor that load_state_dict stores instead of this tensor: this tensor's memory
        with the values of `other`; or, if `assign` is true, `other` itself, detached.
        """
    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """Return a view with the axes `source` moved to the positions `destination`.

        Raises  IndexError if an axis is out of range; RuntimeError if source and destination differ in
                length, or an axis is given twice

        Args:
            input: A tensor of any shape and dtype; its other axes keep their order.
            source: One axis or several axes.
            destination: The new position of each axis in `source`.

        Example:
            >>> torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape
            fastdist.Size([3, 4, 2])
        """
    def movedim(self, source: Any, destination: Any) -> Tensor:
        """Return a view with the axes `source` moved to the positions `destination`.

        Raises  IndexError if an axis is out of range; RuntimeError if source and destination differ in
                length, or an axis is given twice

        Args:
            input: A tensor of any shape and dtype; its other axes keep their order.
            source: One axis or several axes.
            destination: The new position of each axis in `source`.

        Example:
            >>> torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape
            fastdist.Size([3, 4, 2])
        """
    def msort(self, *, out: Tensor | None = None) -> Tensor:
        """Return input sorted along its first axis."""
    def mtia(self, device: DeviceLike = ..., non_blocking: builtins.bool = False, **more: Any) -> Tensor:
        """Raise RuntimeError: there is no mtia here."""
    def mul(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return input * other.

        Shape   (...), (...) -> broadcast
        Raises  RuntimeError if the shapes do not broadcast; TypeError if `other` is neither a tensor
                nor a number

        Args:
            input: The left factor: a tensor of any dtype or a number. Integers wrap around.
            other: The right factor: a tensor or a number.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other, in their promoted dtype.

        Example:
            >>> torch.mul(torch.tensor([1.0, 2.0]), 3)
            tensor([3., 6.])
        """
    def mul_(self, other: Operand) -> Tensor:
        """Return input * other.

        Shape   (...), (...) -> broadcast
        Raises  RuntimeError if the shapes do not broadcast; TypeError if `other` is neither a tensor
                nor a number

        Args:
            input: The left factor: a tensor of any dtype or a number. Integers wrap around.
            other: The right factor: a tensor or a number.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other, in their promoted dtype.

        Example:
            >>> torch.mul(torch.tensor([1.0, 2.0]), 3)
            tensor([3., 6.])
        """
    def multinomial(self, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
        """Return indices into each row of input, with probabilities proportional to the row's values.

        Shape   (n,) -> (num_samples,); (m, n) -> (m, num_samples)
        Raises  RuntimeError for weights that are negative, not finite or all 0, and for more draws
                without replacement than a row has elements; weights on other devices than the CPU are
                not checked, because a check would wait for the device

        Args:
            input: The weights, one row or several rows; they must not be negative.
            num_samples: The number of indices for each row.
            replacement: Whether an index may be drawn twice.
            generator: The generator to draw from; the default one if None.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 1)
            tensor([1])
        """
    def multiply(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return input * other.

        Shape   (...), (...) -> broadcast
        Raises  RuntimeError if the shapes do not broadcast; TypeError if `other` is neither a tensor
                nor a number

        Args:
            input: The left factor: a tensor of any dtype or a number. Integers wrap around.
            other: The right factor: a tensor or a number.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other, in their promoted dtype.

        Example:
            >>> torch.mul(torch.tensor([1.0, 2.0]), 3)
            tensor([3., 6.])
        """
    def multiply_(self, other: Operand) -> Tensor:
        """Return input * other.

        Shape   (...), (...) -> broadcast
        Raises  RuntimeError if the shapes do not broadcast; TypeError if `other` is neither a tensor
                nor a number

        Args:
            input: The left factor: a tensor of any dtype or a number. Integers wrap around.
            other: The right factor: a tensor or a number.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other, in their promoted dtype.

        Example:
            >>> torch.mul(torch.tensor([1.0, 2.0]), 3)
            tensor([3., 6.])
        """
    def mv(self, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the product of a matrix and a vector."""
    def mvlgamma(self, p: builtins.int, *, out: Tensor | None = None) -> Tensor:
        """Return the logarithm of the multivariate gamma function of dimension p."""
    def mvlgamma_(self, p: builtins.int) -> Tensor:
        """In-place version of mvlgamma: writes the result into this tensor and returns it."""
    @property
    def name(self) -> None:
        """None: tensors do not have names."""
    def nan_to_num(self, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:
        """Return input with NaN and infinities replaced by numbers.

        Raises  TypeError if nan, posinf or neginf is not a number

        Args:
            input: A tensor of any dtype. Integers are unchanged; both parts of complex numbers are
                replaced.
            nan: The replacement for NaN; 0 if None.
            posinf: The replacement for inf; the largest finite number of the dtype if None.
            neginf: The replacement for -inf; the smallest (negative) finite number if None.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.nan_to_num(torch.tensor([float("nan"), float("inf")]), posinf=9.0)
            tensor([0., 9.])
        """
    def nan_to_num_(self, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
        """In-place version of nan_to_num: writes the result into this tensor and returns it."""
    def nanmean(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return the mean over dim of the elements that are not NaN.

        Raises  RuntimeError for integers and bool
        """
    @overload
    def nanmedian(self, *, out: Tensor | None = ...) -> Tensor:
        """Return the lower median of the elements that are not NaN. With dim, return (values, indices)
        along dim.
        """
    @overload
    def nanmedian(self, dim: builtins.int, keepdim: builtins.bool = ..., *, out: Any = ...) -> return_types.nanmedian:
        """Return the lower median of the elements that are not NaN. With dim, return (values, indices)
        along dim.
        """
    def nanquantile(self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = 'linear', out: Tensor | None = None) -> Tensor:
        """Return the quantiles, for the probabilities q, of the elements that are not NaN."""
    def nansum(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return the sum over dim of the elements that are not NaN."""
    def narrow(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
        """Return a view of `length` elements along dim, from index start on.

        Raises  IndexError if dim or start is out of range; RuntimeError if start + length is beyond the
                axis, or length is negative

        Args:
            input: A tensor of any dtype with at least one axis.
            dim: The axis to shorten; negative numbers count from the end.
            start: The first index, an int or a 0-d tensor; negative numbers count from the end of the
                axis.
            length: The number of indices, which may be 0; start + length must not exceed the axis.

        Example:
            >>> torch.narrow(torch.arange(5), 0, 1, 3)
            tensor([1, 2, 3])
        """
    def narrow_copy(self, dim: builtins.int, start: builtins.int, length: builtins.int, *, out: Tensor | None = None) -> Tensor:
        """Return a copy of `length` elements along dim, from index start on."""
    def ne(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether elements differ; NaN differs from everything, including NaN.

        Args:
            input: A tensor of any dtype; numbers of different dtypes are compared by value.
            other: A tensor or a number; it broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool.

        Example:
            >>> torch.ne(torch.tensor([1, 2]), 2)
            tensor([ True, False])
        """
    def ne_(self, other: Operand) -> Tensor:
        """Return whether elements differ; NaN differs from everything, including NaN.

        Args:
            input: A tensor of any dtype; numbers of different dtypes are compared by value.
            other: A tensor or a number; it broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool.

        Example:
            >>> torch.ne(torch.tensor([1, 2]), 2)
            tensor([ True, False])
        """
    def neg(self, *, out: Tensor | None = None) -> Tensor:
        """Return each element with the opposite sign.

        Raises  RuntimeError if input is bool

        Args:
            input: A tensor of any dtype but bool. Unsigned integers wrap around: 1 becomes 255 in
                uint8.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.neg(torch.tensor([1, -2]))
            tensor([-1,  2])
        """
    def neg_(self) -> Tensor:
        """Return each element with the opposite sign.

        Raises  RuntimeError if input is bool

        Args:
            input: A tensor of any dtype but bool. Unsigned integers wrap around: 1 becomes 255 in
                uint8.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.neg(torch.tensor([1, -2]))
            tensor([-1,  2])
        """
    def negative(self, *, out: Tensor | None = None) -> Tensor:
        """Return each element with the opposite sign.

        Raises  RuntimeError if input is bool

        Args:
            input: A tensor of any dtype but bool. Unsigned integers wrap around: 1 becomes 255 in
                uint8.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.neg(torch.tensor([1, -2]))
            tensor([-1,  2])
        """
    def negative_(self) -> Tensor:
        """Return each element with the opposite sign.

        Raises  RuntimeError if input is bool

        Args:
            input: A tensor of any dtype but bool. Unsigned integers wrap around: 1 becomes 255 in
                uint8.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.neg(torch.tensor([1, -2]))
            tensor([-1,  2])
        """
    def new(self, *args: Any, device: DeviceLike = ...) -> Tensor:
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
    def new_empty(self, *size: Sizes, dtype: DTypeLike | None = None, device: DeviceLike = ..., **more: Any) -> Tensor:
        """Return an uninitialized tensor, by default in this tensor's dtype and on its device.

        Raises  TypeError if a length is not an integer, or if no length is given; RuntimeError if a
                length is negative

        Args:
            *size: The lengths of the axes, as numbers or as one tuple.
            dtype: The dtype; this tensor's if None.
            device: The device of the result; this tensor's if None.
            **more: Further arguments of `empty`.

        Example:
            >>> torch.ones(1, dtype=torch.int8).new_empty(2, 3).dtype
            fastdist.int8
        """
    def new_empty_strided(self, size: Sizes, stride: Any, dtype: DTypeLike | None = None, device: DeviceLike = ..., **more: Any) -> Tensor:
        """Return an uninitialized tensor with these lengths and strides, by default in this tensor's
        dtype and on its device.
        """
    def new_full(self, size: Sizes, fill_value: Scalar, dtype: DTypeLike | None = None, device: DeviceLike = ..., **more: Any) -> Tensor:
        """Return a tensor filled with fill_value, by default in this tensor's dtype and on its device.

        Raises  TypeError if size is not a tuple of integers, or fill_value is not a number;
                RuntimeError if a length is negative

        Args:
            size: The lengths of the axes, as a tuple.
            fill_value: The number; for an integer dtype, a fraction is cut off: 2.7 becomes 2.
            dtype: The dtype; this tensor's if None.
            device: The device of the result; this tensor's if None.
            **more: Further arguments of `full`.

        Example:
            >>> torch.ones(1).new_full((2,), 7)
            tensor([7., 7.])
        """
    def new_ones(self, *size: Sizes, dtype: DTypeLike | None = None, device: DeviceLike = ..., **more: Any) -> Tensor:
        """Return a tensor of ones, by default in this tensor's dtype and on its device.

        Raises  TypeError if a length is not an integer, or if no length is given; RuntimeError if a
                length is negative

        Args:
            *size: The lengths of the axes, as numbers or as one tuple.
            dtype: The dtype; this tensor's if None.
            device: The device of the result; this tensor's if None.
            **more: Further arguments of `ones`.

        Example:
            >>> torch.ones(1, dtype=torch.int64).new_ones(2)
            tensor([1, 1])
        """
    def new_tensor(self, data: Any, dtype: DTypeLike | None = None, device: DeviceLike = ..., **more: Any) -> Tensor:
        """Return a copy of data, by default in this tensor's dtype and on its device."""
    def new_zeros(self, *size: Sizes, dtype: DTypeLike | None = None, device: DeviceLike = ..., **more: Any) -> Tensor:
        """Return a tensor of zeros, by default in this tensor's dtype and on its device.

        Raises  TypeError if a length is not an integer, or if no length is given; RuntimeError if a
                length is negative

        Args:
            *size: The lengths of the axes, as numbers or as one tuple.
            dtype: The dtype; this tensor's if None.
            device: The device of the result; this tensor's if None.
            **more: Further arguments of `zeros`.

        Example:
            >>> torch.ones(1, dtype=torch.float64).new_zeros(2)
            tensor([0., 0.], dtype=fastdist.float64)
        """
    def nextafter(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return the next floating-point number after input in the direction of `other`, or `other`
        where both are equal. The derivative by input is 1, or 0 where both are equal.
        """
    def nextafter_(self, other: Operand) -> Tensor:
        """Return the next floating-point number after input in the direction of `other`, or `other`
        where both are equal. The derivative by input is 1, or 0 where both are equal.
        """
    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor:
        """Return the indices of nonzero elements. On a GPU, this waits for the number of elements.

        Raises  TypeError if input is not a tensor

        Args:
            input: A tensor of any dtype. NaN counts as nonzero; a 0-d tensor gives rows without
                columns.
            as_tuple: Whether to return one tensor for each axis instead of one row for each element.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of int64 of shape (count, number of axes), or a tuple of tensors of shape (count,).

        Example:
            >>> torch.nonzero(torch.tensor([[0, 1], [2, 0]]))
            tensor([[0, 1],
                    [1, 0]])
        """
    @overload
    def nonzero(self, *, as_tuple: Literal[True], out: Any = None) -> tuple[Tensor, ...]:
        """Return the indices of nonzero elements. On a GPU, this waits for the number of elements.

        Raises  TypeError if input is not a tensor

        Args:
            input: A tensor of any dtype. NaN counts as nonzero; a 0-d tensor gives rows without
                columns.
            as_tuple: Whether to return one tensor for each axis instead of one row for each element.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of int64 of shape (count, number of axes), or a tuple of tensors of shape (count,).

        Example:
            >>> torch.nonzero(torch.tensor([[0, 1], [2, 0]]))
            tensor([[0, 1],
                    [1, 0]])
        """
    @overload
    def nonzero(self, *, as_tuple: builtins.bool = False, out: Any = None) -> Any:
        """Return the indices of nonzero elements. On a GPU, this waits for the number of elements.

        Raises  TypeError if input is not a tensor

        Args:
            input: A tensor of any dtype. NaN counts as nonzero; a 0-d tensor gives rows without
                columns.
            as_tuple: Whether to return one tensor for each axis instead of one row for each element.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of int64 of shape (count, number of axes), or a tuple of tensors of shape (count,).

        Example:
            >>> torch.nonzero(torch.tensor([[0, 1], [2, 0]]))
            tensor([[0, 1],
                    [1, 0]])
        """
    def nonzero_static(self, *, size: builtins.int, fill_value: builtins.int = -1, out: Tensor | None = None) -> Tensor:
        """Return `size` rows: the indices of the first nonzero elements, then rows of fill_value."""
    def norm(self, p: builtins.float | str | None = 'fro', dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, out: Tensor | None = None, dtype: DTypeLike | None = None) -> Tensor:
        """Return the vector norm of order p over dim. "fro" means order 2, and "nuc" the sum of the
        singular values of a matrix.

        Raises  RuntimeError for integers and bool; IndexError if dim is out of range

        Args:
            input: A floating-point or complex tensor. The norm of no elements is 0.
            p: The order: a number, inf, "fro" or "nuc".
            dim: The axis or axes to reduce; all if None.
            keepdim: Whether the reduced axes stay, with length 1.
            out: A tensor into which the result is written; a new one if None.
            dtype: The dtype to compute in; None means the dtype of input.

        Example:
            >>> torch.norm(torch.tensor([3.0, 4.0]))
            tensor(5.)
        """
    def normal_(self, mean: builtins.float = 0.0, std: builtins.float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill this tensor with normal numbers of mean `mean` and standard deviation `std`."""
    def not_equal(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return whether elements differ; NaN differs from everything, including NaN.

        Args:
            input: A tensor of any dtype; numbers of different dtypes are compared by value.
            other: A tensor or a number; it broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool.

        Example:
            >>> torch.ne(torch.tensor([1, 2]), 2)
            tensor([ True, False])
        """
    def not_equal_(self, other: Operand) -> Tensor:
        """Return whether elements differ; NaN differs from everything, including NaN.

        Args:
            input: A tensor of any dtype; numbers of different dtypes are compared by value.
            other: A tensor or a number; it broadcasts with input.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of bool.

        Example:
            >>> torch.ne(torch.tensor([1, 2]), 2)
            tensor([ True, False])
        """
    def numpy(self, *, force: builtins.bool = False) -> NDArray:
        """Return the elements as a NumPy array that shares memory with this CPU tensor.

        Raises  RuntimeError for a tensor that requires grad while gradients are enabled, and TypeError
                for a tensor on another device, unless force is true; TypeError for bfloat16

        Args:
            force: Whether to detach, copy to the CPU, and resolve conjugate and negative views first.

        Example:
            >>> x = torch.zeros(2)
            >>> x.numpy()[0] = 5
            >>> x
            tensor([5., 0.])
        """
    def orgqr(self, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the first n columns of a product of reflections; an alias of
        linalg.householder_product.
        """
    def ormqr(self, input2: Tensor, input3: Tensor, left: builtins.bool = True, transpose: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
        """Return Q @ input3, or input3 @ Q if `left` is false. If `transpose` is true, Q.H replaces Q.
        Q has all m columns of the product of the reflections; see linalg.householder_product.

        Shape   (..., m, n), (..., n), (..., m, k) -> (..., m, k)
        """
    def outer(self, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the outer product: each element of one vector times each element of another.

        Raises  RuntimeError if an argument does not have one axis

        Args:
            input: The first vector, of any dtype.
            vec2: The second vector, of any length; the dtypes are promoted.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A matrix of shape (n, m), for vectors of n and m elements.

        Example:
            >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
            tensor([[3, 4],
                    [6, 8]])
        """
    @property
    def output_nr(self) -> builtins.int:
        """The index of this tensor among the outputs of its grad_fn; 0 for a leaf."""
    def permute(self, *dims: Sizes) -> Tensor:
        """Return a view with the axes in the order dims.

        Raises  RuntimeError if an axis is missing or given twice

        Args:
            input: A tensor of any shape and dtype.
            *dims: All axes in their new order, as numbers or as one tuple.

        Example:
            >>> torch.zeros(2, 3, 4).permute(2, 0, 1).shape
            fastdist.Size([4, 2, 3])
        """
    def pin_memory(self, device: DeviceLike = ...) -> Tensor:
        """Return a copy of the tensor in pinned memory, for asynchronous copies to a GPU. A tensor that
        is already pinned is returned unchanged.

        Raises  RuntimeError without a GPU, or for a tensor that is not on the CPU
        """
    def pinverse(self, rcond: builtins.float = 1e-15, *, out: Tensor | None = None) -> Tensor:
        """Return the pseudoinverse; see linalg.pinv, with rcond as its rtol."""
    def polygamma(self, n: builtins.int) -> Tensor:
        """Return the n-th derivative of digamma."""
    def polygamma_(self, n: builtins.int) -> Tensor:
        """In-place version of polygamma: writes the result into this tensor and returns it."""
    def positive(self) -> Tensor:
        """Return input itself.

        Raises  RuntimeError for bool
        """
    def pow(self, exponent: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return input to the power of exponent.

        Raises  RuntimeError if an integer is raised to a negative integer that is a Python number;
                RuntimeError if the shapes do not broadcast

        Args:
            input: The base: a tensor or a number.
            exponent: A tensor or a number.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and exponent.

        Example:
            >>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
            tensor([1., 4., 9.])
        """
    def pow_(self, exponent: Operand) -> Tensor:
        """Return input to the power of exponent.

        Raises  RuntimeError if an integer is raised to a negative integer that is a Python number;
                RuntimeError if the shapes do not broadcast

        Args:
            input: The base: a tensor or a number.
            exponent: A tensor or a number.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and exponent.

        Example:
            >>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
            tensor([1., 4., 9.])
        """
    def prelu(self, weight: Tensor) -> Tensor:
        """Return input where it is positive, and weight * input elsewhere. weight is one number, or one
        number for each channel.
        """
    def prod(self, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
        """Return the product over dim, or over all axes.

        Dtype   integers and bool are multiplied in int64; floating -> the same
        Raises  IndexError if dim is out of range

        Args:
            input: A tensor of any dtype. The product of no elements is 1.
            dim: The axis to multiply along; all axes if None.
            keepdim: Whether the reduced axes stay, with length 1.
            dtype: The dtype of the products and of the result; int64 for integers if None.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.prod(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
            tensor([3., 8.])
        """
    def put(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """Return input with source written at flat indices, or added there if `accumulate` is true."""
    def put_(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """In-place version of put: writes the result into this tensor and returns it."""
    def qr(self, some: builtins.bool = True, *, out: Any = None) -> return_types.qr:
        """Return (Q, R); replaced by linalg.qr."""
    def quantile(self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = 'linear', out: Tensor | None = None) -> Tensor:
        """Return the quantiles for the probabilities q, of all elements or along dim. A quantile is NaN
        if any element is NaN.

        Args:
            input: A tensor of float32 or float64 that is not empty.
            q: A probability from 0 to 1, or a tensor of probabilities.
            dim: The axis; all elements if None.
            keepdim: Whether the reduced axes stay, with length 1.
            interpolation: How to interpolate: "linear", "lower", "higher", "midpoint" or "nearest".
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.quantile(torch.tensor([1.0, 2.0, 3.0]), 0.5)
            tensor(2.)
        """
    def rad2deg(self, *, out: Tensor | None = None) -> Tensor:
        """Convert angles from radians to degrees."""
    def rad2deg_(self) -> Tensor:
        """Convert angles from radians to degrees."""
    def random_(self, from_: builtins.int = 0, to: builtins.int | None = None, *, generator: Generator | None = None) -> Tensor:
        """Fill this tensor with integers drawn uniformly from [from, to); a single argument is `to`."""
    def ravel(self) -> Tensor:
        """Return input as a vector, as a view where possible.

        Args:
            input: A tensor of any shape and dtype.

        Example:
            >>> torch.zeros(2, 3).ravel().shape
            fastdist.Size([6])
        """
    @property
    def real(self) -> Tensor:
        """The real part of a complex tensor, as a view; a real tensor is returned unchanged."""
    @real.setter
    def real(self, value: Tensor) -> None: ...
    def reciprocal(self, *, out: Tensor | None = None) -> Tensor:
        """Return 1 divided by each element.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result for 0 is inf, and for -0 it is -inf.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.reciprocal(torch.tensor([2.0, 4.0]))
            tensor([0.5000, 0.2500])
        """
    def reciprocal_(self) -> Tensor:
        """Return 1 divided by each element.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result for 0 is inf, and for -0 it is -inf.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.reciprocal(torch.tensor([2.0, 4.0]))
            tensor([0.5000, 0.2500])
        """
    def record_stream(self, stream: Any) -> None:
        """Do not reuse this tensor's memory until the stream's currently queued work is done. On the
        CPU this has no effect.
        """
    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any:
        """Call hook(grad) each time this tensor's gradient is computed. If the hook returns a Tensor,
        this Tensor replaces the gradient.

        Raises  RuntimeError for a tensor that does not require grad

        Args:
            hook: A function of the gradient.

        Returns:
            A handle, whose `remove()` removes the hook.

        Example:
            >>> x = torch.ones(2, requires_grad=True)
            >>> handle = x.register_hook(lambda gradient: 10 * gradient)
            >>> x.sum().backward()
            >>> x.grad
            tensor([10., 10.])
        """
    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Any:
        """Call hook(tensor) each time after a gradient was added to this leaf's `.grad`.

        Raises  RuntimeError unless the tensor is a leaf and requires grad
        """
    def relu(self, *, out: Tensor | None = None) -> Tensor:
        """Return the larger of 0 and each element; the gradient at 0 is 0.

        Raises  RuntimeError if input is bool or complex

        Args:
            input: A real tensor of any dtype but bool. NaN stays NaN.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.relu(torch.tensor([-1.0, 2.0]))
            tensor([0., 2.])
        """
    def relu_(self) -> Tensor:
        """Return the larger of 0 and each element; the gradient at 0 is 0.

        Raises  RuntimeError if input is bool or complex

        Args:
            input: A real tensor of any dtype but bool. NaN stays NaN.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.relu(torch.tensor([-1.0, 2.0]))
            tensor([0., 2.])
        """
    def remainder(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return input - floor(input / other) * other; its sign is that of `other`, as in Python."""
    def remainder_(self, other: Operand) -> Tensor:
        """Return input - floor(input / other) * other; its sign is that of `other`, as in Python."""
    def renorm(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float, *, out: Tensor | None = None) -> Tensor:
        """Return input, where each slice along dim with a norm of order p above maxnorm is scaled down
        to the norm maxnorm.
        """
    def renorm_(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
        """In-place version of renorm: writes the result into this tensor and returns it."""
    def repeat(self, *repeats: Any) -> Tensor:
        """Return input repeated along each axis; for more numbers than axes, axes are added in front.

        Raises  RuntimeError if there are fewer numbers than axes, or a number is negative

        Args:
            input: A tensor of any dtype. NumPy's repeat is repeat_interleave here.
            *repeats: The number of repetitions for each axis, as numbers or as one tuple.

        Example:
            >>> torch.tensor([1, 2]).repeat(2, 2)
            tensor([[1, 2, 1, 2],
                    [1, 2, 1, 2]])
        """
    def repeat_interleave(self, repeats: Any = None, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor:
        """Return input with each element, or each slice along dim, repeated. With a single argument,
        which holds counts, return each index as often as its count.

        Raises  RuntimeError if a count is negative or not an integer, or there is not one count for
                each slice; IndexError if dim is out of range

        Args:
            input: The tensor; or the counts, if repeats is left out.
            repeats: A count for all, or a tensor with one count for each element or slice. If None,
                input has the counts, and the result is indices.
            dim: The axis; if None, input is flattened.
            output_size: The length of the result; computed if None, for which the call waits for a GPU.

        Example:
            >>> torch.repeat_interleave(torch.tensor([1, 2]), 2)
            tensor([1, 1, 2, 2])
            >>> torch.tensor([1, 2]).repeat_interleave(torch.tensor([1, 3]))
            tensor([1, 2, 2, 2])
        """
    @property
    def requires_grad(self) -> builtins.bool:
        """Whether this tensor needs gradients."""
    @requires_grad.setter
    def requires_grad(self, value: builtins.bool) -> None: ...
    def requires_grad_(self, requires_grad: builtins.bool = True) -> Tensor:
        """Turn gradients of this leaf on or off; return the tensor.

        Raises  RuntimeError to turn gradients off for a tensor that an op made, or on for a dtype that
                is not floating-point or complex; TypeError for a value that is not a bool
        """
    def reshape(self, *sizes: Sizes, shape: Sizes | None = None) -> Tensor:
        """Return the elements with another shape, as a view if strides allow it, otherwise as a copy.

        Raises  RuntimeError if the number of elements differs

        Args:
            input: A tensor of any dtype with as many elements as the new shape.
            *sizes: The lengths of the axes of the result, as numbers or as one tuple. One length may be
                -1, which is replaced by the length that follows from the others.
            shape: The same as sizes, under NumPy's name; None: sizes are given.

        Example:
            >>> torch.arange(6).reshape(2, -1)
            tensor([[0, 1, 2],
                    [3, 4, 5]])
        """
    def reshape_as(self, other: Tensor) -> Tensor:
        """Return input with the shape of other, as a view where possible.

        Args:
            input: A tensor of any shape and dtype.
            other: The tensor whose shape is taken.

        Example:
            >>> torch.arange(4).reshape_as(torch.zeros(2, 2)).shape
            fastdist.Size([2, 2])
        """
    def resize(self, *sizes: Sizes) -> Tensor:
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
    def resize_(self, *sizes: Sizes, memory_format: MemoryFormat | None = None) -> Tensor:
        """Change this tensor's sizes. The elements are then in C order, or in the order of
        memory_format. The contents of the memory are kept; new memory is uninitialized. Return the
        tensor.

        Raises  RuntimeError if the tensor requires grad, or if memory_format does not fit the sizes
        Note    if the memory is too small, the tensor gets new memory, and its views keep the old one
        """
    def resize_as(self, tensor: Tensor) -> Tensor:
        """Return this tensor with the sizes of another one. Deprecated: use `reshape_as`.

        Raises  RuntimeError if the number of elements differs
        """
    def resize_as_(self, the_template: Tensor, *, memory_format: MemoryFormat | None = None) -> Tensor:
        """Resize this tensor to the sizes of the_template. With preserve_format, also use the order of
        the_template if that is channels_last. The errors are those of `resize_`.
        """
    def resolve_conj(self) -> Tensor:
        """Return a copy of a conjugated view; any other tensor is returned unchanged."""
    def resolve_neg(self) -> Tensor:
        """Return a copy of a negated view; any other tensor is returned unchanged."""
    def retain_grad(self) -> None:
        """Keep this result's gradient in `.grad` after backward.

        Raises  RuntimeError for a tensor that does not require grad
        """
    @property
    def retains_grad(self) -> builtins.bool:
        """Whether retain_grad was called on this result."""
    def roll(self, shifts: Any, dims: Sizes | None = None) -> Tensor:
        """Return a copy with elements shifted along dims; elements shifted past the end reappear at the
        front.

        Args:
            input: A tensor of any shape and dtype.
            shifts: The number of positions to shift by: one number, or one for each axis in dims.
            dims: The axis or axes. If None, the tensor is shifted as a vector of all its elements.

        Example:
            >>> torch.roll(torch.tensor([1, 2, 3]), 1)
            tensor([3, 1, 2])
        """
    def rot90(self, k: builtins.int = 1, dims: Sizes = ...) -> Tensor:
        """Return a copy rotated by k * 90 degrees, from the first axis of dims towards the second."""
    def round(self, *, decimals: builtins.int = 0, out: Tensor | None = None) -> Tensor:
        """Return each element rounded to a number of decimals; ties are rounded to the even neighbour.

        Raises  NotImplementedError if input is bool or complex

        Args:
            input: A real tensor of any dtype but bool; with decimals other than 0, a floating-point
                tensor.
            decimals: The number of decimals; -1 rounds to tens, -2 to hundreds, and so on.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.round(torch.tensor([0.5, 1.5, 2.345]), decimals=0)
            tensor([0., 2., 2.])
        """
    def round_(self, *, decimals: builtins.int = 0) -> Tensor:
        """In-place version of round: writes the result into this tensor and returns it."""
    def rsqrt(self, *, out: Tensor | None = None) -> Tensor:
        """Return 1 divided by the square root of each element.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result is inf at 0, and NaN for negative real
                numbers.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.rsqrt(torch.tensor([4.0, 1.0]))
            tensor([0.5000, 1.0000])
        """
    def rsqrt_(self) -> Tensor:
        """Return 1 divided by the square root of each element.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result is inf at 0, and NaN for negative real
                numbers.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.rsqrt(torch.tensor([4.0, 1.0]))
            tensor([0.5000, 1.0000])
        """
    def scatter(self, dim: builtins.int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None, out: Tensor | None = None) -> Tensor:
        """Return input with src, a tensor or a number, written at index along dim. With reduce "add" or
        "multiply", src is combined with the old values.

        Raises  IndexError if dim is out of range; RuntimeError if an index is out of range or not an
                integer, or the dtypes of input and src differ

        Args:
            input: A tensor of any dtype, which is not changed. Of several values for one element, any
                one may be written.
            dim: The axis to which the indices apply.
            index: Indices along dim, in int64.
            src: A tensor at least as large as index, or a number; None: value is given.
            value: A number, instead of src; None: src is given.
            reduce: "add" or "multiply" to combine with the elements of input; None to replace them.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.zeros(2, 3).scatter(1, torch.tensor([[2], [0]]), 1.0)
            tensor([[0., 0., 1.],
                    [1., 0., 0.]])
        """
    def scatter_(self, dim: builtins.int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor:
        """In-place version of scatter: writes the result into this tensor and returns it."""
    def scatter_add(self, dim: builtins.int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return input with src added at index along dim."""
    def scatter_add_(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
        """In-place version of scatter_add: writes the result into this tensor and returns it."""
    def scatter_reduce(self, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True, out: Tensor | None = None) -> Tensor:
        """Return input with src combined at index along dim. Elements of src with the same index are
        reduced by sum, prod, mean, amax or amin. The old value of input is reduced with them, unless
        include_self is False.
        """
    def scatter_reduce_(self, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True) -> Tensor:
        """In-place version of scatter_reduce: writes the result into this tensor and returns it."""
    def select(self, dim: builtins.int, index: builtins.int) -> Tensor:
        """Return a view of the elements at one index along dim; the view does not have that axis.

        Raises  IndexError if dim or index is out of range

        Args:
            input: A tensor of any dtype with at least one axis.
            dim: The axis to remove; negative numbers count from the end.
            index: The index along dim; negative numbers count from the end.

        Example:
            >>> torch.select(torch.tensor([[1, 2], [3, 4]]), 1, 0)
            tensor([1, 3])
        """
    def select_scatter(self, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
        """Return a copy of input with src written to the slice at index along dim."""
    def set_(self, source: Any = None, storage_offset: builtins.int = 0, size: Sizes = ..., stride: Any = None) -> Tensor:
        """Make this tensor use the memory of another tensor, of a storage, or of a part of a storage.
        Without arguments, the tensor gets an empty memory. Return the tensor.

        Raises  RuntimeError if source has another dtype or device, if elements would be outside of the
                storage, or if the tensor requires grad and the call is not in no_grad
        Note    unlike in PyTorch, a storage that is too small is not enlarged
        """
    def sgn(self, *, out: Tensor | None = None) -> Tensor:
        """Return the signs of real numbers (-1, 0 or 1), or complex numbers divided by their absolute
        values.
        """
    def sgn_(self) -> Tensor:
        """In-place version of sgn: writes the result into this tensor and returns it."""
    def share_memory_(self) -> Tensor:
        """Move this tensor, in place, to memory that other processes can share; return the tensor.

        If the tensor, or a view of it, is later sent to a `fastdist.multiprocessing` process, queue or
        pipe, the receiver's tensor uses the same memory. Tensors that are not shared are copied when
        they are sent. `pickle`, `copy.deepcopy` and `clone` still copy. A tensor that is already shared
        keeps its memory.

        Device  cpu, on Linux only
        Thread  only while no other thread uses the memory
        Raises  DeviceError for another device; SharedMemoryError where the system has no shared memory
        Note    existing views are moved too, and existing NumPy arrays are not; the call searches all
                living objects. As in PyTorch, `.grad` is not sent: each process has a separate `.grad`.
                Each call keeps one file descriptor (two before Python 3.13) until the memory is freed;
                `Module.share_memory` makes one call for all its tensors. If the tensor is sent through
                a queue or pipe, the sender must not end before the receiver has received the tensor
        """
    def short(self, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in int16; itself if its dtype and layout are these already.

        Args:
            memory_format: The order of the elements in memory.

        Example:
            >>> torch.ones(1, dtype=torch.int16).short().dtype
            fastdist.int16
        """
    def sigmoid(self, *, out: Tensor | None = None) -> Tensor:
        """Return 1 / (1 + exp(-x)) for each element x.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result is 1 for inf, and 0 for -inf.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.sigmoid(torch.tensor([0.0, 2.0]))
            tensor([0.5000, 0.8808])
        """
    def sigmoid_(self) -> Tensor:
        """Return 1 / (1 + exp(-x)) for each element x.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result is 1 for inf, and 0 for -inf.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.sigmoid(torch.tensor([0.0, 2.0]))
            tensor([0.5000, 0.8808])
        """
    def sign(self, *, out: Tensor | None = None) -> Tensor:
        """Return the sign of each element as -1, 0 or 1; the gradient is 0.

        Raises  NotImplementedError if input is complex (use sgn)

        Args:
            input: A real tensor of any dtype. The sign of NaN is 0.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.sign(torch.tensor([-3.0, 0.0, 2.0]))
            tensor([-1.,  0.,  1.])
        """
    def sign_(self) -> Tensor:
        """Return the sign of each element as -1, 0 or 1; the gradient is 0.

        Raises  NotImplementedError if input is complex (use sgn)

        Args:
            input: A real tensor of any dtype. The sign of NaN is 0.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.sign(torch.tensor([-3.0, 0.0, 2.0]))
            tensor([-1.,  0.,  1.])
        """
    def signbit(self, *, out: Tensor | None = None) -> Tensor:
        """Return whether the sign bit of each element is set, which includes -0.0."""
    def sin(self, *, out: Tensor | None = None) -> Tensor:
        """Return the sine of each element; the elements are angles in radians.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result for inf is NaN.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.sin(torch.tensor([0.0, 1.0]))
            tensor([0.0000, 0.8415])
        """
    def sin_(self) -> Tensor:
        """Return the sine of each element; the elements are angles in radians.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result for inf is NaN.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.sin(torch.tensor([0.0, 1.0]))
            tensor([0.0000, 0.8415])
        """
    def sinc(self, *, out: Tensor | None = None) -> Tensor:
        """Return sin(pi * input) / (pi * input), and 1 at 0."""
    def sinc_(self) -> Tensor:
        """Return sin(pi * input) / (pi * input), and 1 at 0."""
    def sinh(self, *, out: Tensor | None = None) -> Tensor:
        """Return the hyperbolic sine of each element."""
    def sinh_(self) -> Tensor:
        """Return the hyperbolic sine of each element."""
    def slice_scatter(self, src: Tensor, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1, *, out: Tensor | None = None) -> Tensor:
        """Return a copy of input with src written to the slice start:end:step along dim."""
    def slogdet(self, *, out: Any = None) -> return_types.slogdet:
        """Return (sign, logabsdet); an alias of linalg.slogdet."""
    def smm(self, mat: Tensor) -> Tensor:
        """Return the product of a sparse and a dense matrix as a sparse matrix."""
    def softmax(self, dim: builtins.int, dtype: DTypeLike | None = None, *, out: Tensor | None = None) -> Tensor:
        """Return exp(input) divided by its sum along dim, without overflow.

        Shape   (..., n, ...) -> (..., n, ...)
        Raises  IndexError if dim is out of range; NotImplementedError if input is not floating-point,
                and dtype is None

        Args:
            input: A floating-point tensor; integers need dtype. A slice with NaN or inf, or of -inf
                alone, gives NaN.
            dim: The axis along which the result adds up to 1.
            dtype: The dtype to compute in, and of the result; None means the dtype of input.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.softmax(torch.tensor([1.0, 2.0, 3.0]), dim=0)
            tensor([0.0900, 0.2447, 0.6652])
        """
    def solve(self, **kwargs: Any) -> Any:
        """Raise RuntimeError: removed from PyTorch; use linalg.solve, with its arguments the other way round."""
    def sort(self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, out: Any = None) -> return_types.sort:
        """Return the elements sorted along dim. NaN counts as largest; equal elements keep their order.

        Raises  IndexError if dim is out of range; NotImplementedError if input is complex

        Args:
            input: A real tensor of any dtype.
            dim: The axis to sort along, by default the last.
            descending: Whether the largest element comes first.
            stable: Ignored: the order of equal elements is always kept.
            out: A pair of tensors into which the values and indices are written; new ones if None.

        Returns:
            A pair with the fields `values` and `indices`.

        Example:
            >>> torch.sort(torch.tensor([3, 1, 2]))
            fastdist.return_types.sort(
            values=tensor([1, 2, 3]),
            indices=tensor([1, 2, 0]))
        """
    def sparse_dim(self) -> builtins.int:
        """Return the number of axes with coordinates; 0 for a dense tensor."""
    def sparse_mask(self, mask: Tensor) -> Tensor:
        """Return a sparse tensor of input's elements at mask's coordinates, with any repetitions."""
    def split(self, split_size_or_sections: Any = None, dim: builtins.int = 0, *, split_size: Any = None) -> tuple[Tensor, ...]:
        """Return views of the parts along dim, either of one length or of a list of lengths. With one
        length, the last part may be shorter.

        Raises  RuntimeError if a size is negative, the sizes do not add up to the length of the axis,
                or the one length is 0 although that of the axis is not; IndexError if dim is out of
                range

        Args:
            tensor: A tensor of any dtype with at least one axis.
            split_size_or_sections: The length of each view, or a list of lengths; None: see split_size.
                The length may be 0 if that of the axis is 0: the result is then one empty view.
            dim: The axis to divide, by default the first.
            split_size: split_size_or_sections, under the name that the method uses; None: not used.

        Example:
            >>> [part.tolist() for part in torch.split(torch.arange(5), 2)]
            [[0, 1], [2, 3], [4]]
            >>> [part.tolist() for part in torch.split(torch.arange(5), [1, 4])]
            [[0], [1, 2, 3, 4]]
        """
    def split_with_sizes(self, split_sizes: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Return views of the parts of input whose lengths along dim are split_sizes."""
    def sqrt(self, *, out: Tensor | None = None) -> Tensor:
        """Return the square root of each element; NaN below 0.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. Negative complex numbers have a root, negative real
                numbers do not.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.sqrt(torch.tensor([4.0, 2.0]))
            tensor([2.0000, 1.4142])
        """
    def sqrt_(self) -> Tensor:
        """Return the square root of each element; NaN below 0.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. Negative complex numbers have a root, negative real
                numbers do not.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.sqrt(torch.tensor([4.0, 2.0]))
            tensor([2.0000, 1.4142])
        """
    def square(self, *, out: Tensor | None = None) -> Tensor:
        """Return the square of each element.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. Squares of integers that are too large wrap around.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape and dtype; bool gives int64.

        Example:
            >>> torch.square(torch.tensor([1.0, -3.0]))
            tensor([1., 9.])
        """
    def square_(self) -> Tensor:
        """Return the square of each element.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. Squares of integers that are too large wrap around.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape and dtype; bool gives int64.

        Example:
            >>> torch.square(torch.tensor([1.0, -3.0]))
            tensor([1., 9.])
        """
    def squeeze(self, dim: Sizes | None = None) -> Tensor:
        """Return a view without the axes of length 1. If dim is given, only axes in dim are removed.

        Raises  IndexError if an axis is out of range

        Args:
            input: A tensor of any dtype. Axes in dim whose length is not 1 stay.
            dim: The axis or axes to remove; if None, all axes of length 1.

        Example:
            >>> torch.zeros(1, 2, 1).squeeze().shape
            fastdist.Size([2])
            >>> torch.zeros(1, 2, 1).squeeze(0).shape
            fastdist.Size([2, 1])
        """
    def squeeze_(self, dim: Sizes | None = None) -> Tensor:
        """In-place version of squeeze: lets this tensor be that view, and returns it."""
    def std(self, dim: Sizes | builtins.bool | None = None, unbiased: builtins.bool = True, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, out: Tensor | None = None) -> Tensor:
        """Return the standard deviation over dim, the square root of the variance; see var.

        Raises  RuntimeError for integers and bool; IndexError if dim is out of range

        Args:
            input: A floating-point or complex tensor. The result for one element is NaN, unless
                correction is 0.
            dim: The axis or axes; all if None.
            unbiased: Whether to divide by the number of elements minus 1; older than `correction`.
            keepdim: Whether the reduced axes stay, with length 1.
            correction: Subtracted from the number of elements; None means 1, or 0 if unbiased is False.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.std(torch.tensor([1.0, 2.0, 3.0]))
            tensor(1.)
        """
    def stft(self, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Tensor | None = None, center: builtins.bool = True, pad_mode: str = 'reflect', normalized: builtins.bool = False, onesided: builtins.bool | None = None, return_complex: builtins.bool | None = None, align_to_window: builtins.bool | None = None) -> Tensor:
        """Return the transforms of frames of n_fft samples, times the window. Frames begin hop_length
        samples apart, by default n_fft // 4.

        center=True pads both ends by pad_mode, so that the first frame is centered on the first sample;
        normalized=True divides by sqrt(n_fft); onesided=True omits the redundant half of each transform
        Shape   (batch, samples) or (samples) -> (batch, frequencies, frames)
        Raises  RuntimeError for lengths that do not fit together
        """
    def storage(self) -> TypedStorage:
        """Return the whole memory of which this tensor uses a part, as elements of its dtype."""
    def storage_offset(self) -> builtins.int:
        """Return the number of elements from the start of the whole memory to the tensor's start."""
    def storage_type(self) -> Any:
        """Return the class of the dtype's storage, such as FloatStorage."""
    def sub(self, other: Operand, *, alpha: builtins.complex = 1, out: Tensor | None = None) -> Tensor:
        """Return input - alpha * other.

        Raises  RuntimeError for a bool tensor: use logical_xor for two bool tensors; RuntimeError if
                the shapes do not broadcast

        Args:
            input: The minuend, a tensor or a number. Integers wrap around: 0 - 1 is 255 in uint8.
            other: The subtrahend, a tensor or a number.
            alpha: The number by which `other` is multiplied.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other, in their promoted dtype.

        Example:
            >>> torch.sub(torch.tensor([3, 4]), 1, alpha=2)
            tensor([1, 2])
        """
    def sub_(self, other: Operand, *, alpha: builtins.complex = 1) -> Tensor:
        """Return input - alpha * other.

        Raises  RuntimeError for a bool tensor: use logical_xor for two bool tensors; RuntimeError if
                the shapes do not broadcast

        Args:
            input: The minuend, a tensor or a number. Integers wrap around: 0 - 1 is 255 in uint8.
            other: The subtrahend, a tensor or a number.
            alpha: The number by which `other` is multiplied.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other, in their promoted dtype.

        Example:
            >>> torch.sub(torch.tensor([3, 4]), 1, alpha=2)
            tensor([1, 2])
        """
    def subtract(self, other: Operand, *, alpha: builtins.complex = 1, out: Tensor | None = None) -> Tensor:
        """Return input - alpha * other.

        Raises  RuntimeError for a bool tensor: use logical_xor for two bool tensors; RuntimeError if
                the shapes do not broadcast

        Args:
            input: The minuend, a tensor or a number. Integers wrap around: 0 - 1 is 255 in uint8.
            other: The subtrahend, a tensor or a number.
            alpha: The number by which `other` is multiplied.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other, in their promoted dtype.

        Example:
            >>> torch.sub(torch.tensor([3, 4]), 1, alpha=2)
            tensor([1, 2])
        """
    def subtract_(self, other: Operand, *, alpha: builtins.complex = 1) -> Tensor:
        """Return input - alpha * other.

        Raises  RuntimeError for a bool tensor: use logical_xor for two bool tensors; RuntimeError if
                the shapes do not broadcast

        Args:
            input: The minuend, a tensor or a number. Integers wrap around: 0 - 1 is 255 in uint8.
            other: The subtrahend, a tensor or a number.
            alpha: The number by which `other` is multiplied.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other, in their promoted dtype.

        Example:
            >>> torch.sub(torch.tensor([3, 4]), 1, alpha=2)
            tensor([1, 2])
        """
    def sum(self, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
        """Return the sum over dim, or over all axes.

        Shape   (..., n, ...) -> (..., ...), or (..., 1, ...) with keepdim
        Dtype   integers and bool are added in int64; floating -> the same
        Raises  IndexError if an axis does not exist

        Args:
            input: A tensor of any dtype. The sum of no elements is 0; one NaN makes the sum NaN.
            dim: The axis or axes to sum over; all if None.
            keepdim: Whether the reduced axes stay, with length 1.
            dtype: The dtype of the additions and of the result; int64 for integers if None.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor without the axes dim, or with length 1 for each of them if keepdim is true.

        Example:
            >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
            >>> torch.sum(x)
            tensor(10.)
            >>> x.sum(dim=0, keepdim=True)
            tensor([[4., 6.]])
        """
    def sum_to_size(self, *size: Sizes) -> Tensor:
        """Return the sum of input over the axes along which size would be broadcast to the shape of
        input.

        Raises  RuntimeError if size does not broadcast to input's shape
        """
    def svd(self, some: builtins.bool = True, compute_uv: builtins.bool = True, *, out: Any = None) -> return_types.svd:
        """Return (U, S, V), an older form of linalg.svd. Without compute_uv, U and V are zeros.

        Args:
            input: A floating-point or complex tensor of matrices, of shape (..., n, m).
            some: Whether U and V have only as many columns as there are singular values.
            compute_uv: Whether to compute U and V.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.svd(torch.diag(torch.tensor([3.0, 2.0]))).S
            tensor([3., 2.])
        """
    def swapaxes(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """Return a view with two axes swapped."""
    def swapaxes_(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """In-place version of swapaxes: lets this tensor be that view, and returns it."""
    def swapdims(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """Return a view with two axes swapped."""
    def swapdims_(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """In-place version of swapdims: lets this tensor be that view, and returns it."""
    def symeig(self, **kwargs: Any) -> Any:
        """Raise RuntimeError: removed from PyTorch; use linalg.eigh, or linalg.eigvalsh for values alone; UPLO='U' for upper=True."""
    def t(self) -> Tensor:
        """Return a view of the transpose of a tensor with at most two axes.

        Raises  RuntimeError if input has more than two axes

        Args:
            input: A tensor of any dtype. The view of a vector or a 0-d tensor has the same shape.

        Example:
            >>> torch.zeros(2, 3).t().shape
            fastdist.Size([3, 2])
        """
    def t_(self) -> Tensor:
        """In-place version of t: lets this tensor be that view, and returns it."""
    def take(self, index: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the elements of the flattened input at the indices `index`."""
    def take_along_dim(self, indices: Tensor, dim: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:
        """Return elements of input at indices along dim, or of the flattened input if dim is None."""
    def tan(self, *, out: Tensor | None = None) -> Tensor:
        """Return the tangent of each element; the elements are angles in radians.

        Args:
            input: A tensor of any shape and dtype. The result for inf is NaN.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.tan(torch.tensor([0.0]))
            tensor([0.])
        """
    def tan_(self) -> Tensor:
        """Return the tangent of each element; the elements are angles in radians.

        Args:
            input: A tensor of any shape and dtype. The result for inf is NaN.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.tan(torch.tensor([0.0]))
            tensor([0.])
        """
    def tanh(self, *, out: Tensor | None = None) -> Tensor:
        """Return the hyperbolic tangent of each element.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result is 1 for inf, and -1 for -inf.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.tanh(torch.tensor([0.0, 1.0]))
            tensor([0.0000, 0.7616])
        """
    def tanh_(self) -> Tensor:
        """Return the hyperbolic tangent of each element.

        Raises  TypeError if input is neither a tensor nor a number

        Args:
            input: A tensor of any shape and dtype. The result is 1 for inf, and -1 for -inf.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the same shape; integers give the default dtype.

        Example:
            >>> torch.tanh(torch.tensor([0.0, 1.0]))
            tensor([0.0000, 0.7616])
        """
    def tensor_split(self, indices_or_sections: Sizes | Tensor, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Return views of the parts of input along dim. If indices_or_sections is an int, it is the
        number of parts; if they cannot be equal, the first parts are longer by 1. Otherwise, it holds
        the indices at which the second and later parts begin.
        """
    def tile(self, *dims: Sizes) -> Tensor:
        """Return input repeated along its axes.

        If there are fewer numbers than axes, the first axes are not repeated.

        Args:
            input: A tensor of any shape and dtype.
            *dims: The number of repetitions for each of the last axes, as numbers or as one tuple.

        Example:
            >>> torch.tile(torch.tensor([1, 2]), (2,))
            tensor([1, 2, 1, 2])
        """
    def to(self, *args: Any, dtype: DTypeLike | None = None, device: DeviceLike = ..., non_blocking: builtins.bool = False, copy: builtins.bool = False, memory_format: MemoryFormat | None = ...) -> Tensor:
        """Return the tensor in another dtype or on another device, or itself if nothing changes.

        Raises  RuntimeError for a device that does not exist, TypeError if a dtype or a device is given
                twice

        Args:
            input: A tensor of any dtype. In an integer dtype, fractions are cut off.
            *args: A dtype, a device, a device and a dtype, or a tensor whose dtype and device are used.
            dtype: The dtype of the result; unchanged if None.
            device: The device of the result; unchanged if None.
            non_blocking: Whether to return before the copy is complete. This applies to copies from
                pinned memory to a GPU, and to copies from a GPU to main memory.
            copy: Whether to copy even if nothing changes.
            memory_format: The order of the elements in memory. A tensor in another order is copied.
                PyTorch makes such a copy only if memory_format is channels_last.

        Example:
            >>> torch.tensor([1, 2]).to(torch.float64)
            tensor([1., 2.], dtype=fastdist.float64)
            >>> torch.ones(2).to("cpu", dtype=torch.int32)
            tensor([1, 1], dtype=fastdist.int32)
        """
    def to_dense(self, dtype: DTypeLike | None = None, *, masked_grad: builtins.bool | None = None) -> Tensor:
        """Return input as a dense tensor. The gradient of a sparse input is sparse, with the
        coordinates of the input.

        Raises  TypeError if dtype is not a dtype

        Args:
            input: A tensor of any layout; a dense tensor is returned unchanged.
            dtype: The dtype of the result; unchanged if None.
            masked_grad: Whether the gradient is sparse; True if None.

        Example:
            >>> torch.eye(2).to_sparse().to_dense()
            tensor([[1., 0.],
                    [0., 1.]])
        """
    def to_sparse(self, sparse_dim: Any = None, *, layout: Any = None) -> Tensor:
        """Return input as a sparse tensor of its nonzero elements. If sparse_dim is given, only the
        first sparse_dim axes are sparse, and each entry is a slice over the remaining axes.
        """
    def to_sparse_coo(self) -> Tensor:
        """Return input as a sparse tensor."""
    def topk(self, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True, *, out: Any = None) -> return_types.topk:
        """Return the k largest or smallest elements along dim, sorted.

        Raises  IndexError if dim is out of range, or the axis has fewer than k elements; RuntimeError
                if input is bool or complex

        Args:
            input: A real tensor of any dtype but bool. NaN counts as largest.
            k: The number of elements to return, from 0 to the length of the axis.
            dim: The axis to search along, by default the last.
            largest: Whether to return the largest elements, or the smallest ones.
            sorted: Ignored: the elements are always sorted.
            out: A pair of tensors into which the values and indices are written; new ones if None.

        Returns:
            A pair with the fields `values` and `indices`.

        Example:
            >>> torch.topk(torch.tensor([3, 1, 4, 1]), 2)
            fastdist.return_types.topk(
            values=tensor([4, 3]),
            indices=tensor([2, 0]))
        """
    def trace(self) -> Tensor:
        """Return the sum of the main diagonal of a matrix.

        Raises  RuntimeError if the tensor is not a matrix

        Args:
            input: A matrix of any dtype; it need not be square. Integers are added in int64.

        Example:
            >>> torch.eye(3).trace()
            tensor(3.)
        """
    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Return a view with two axes swapped.

        Raises  IndexError if an axis is out of range

        Args:
            input: A tensor of any shape and dtype.
            dim0: The first axis; negative numbers count from the end.
            dim1: The second axis; negative numbers count from the end.

        Example:
            >>> torch.zeros(2, 3, 4).transpose(0, 2).shape
            fastdist.Size([4, 3, 2])
        """
    def transpose_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """In-place version of transpose: lets this tensor be that view, and returns it."""
    def triangular_solve(self, A: Tensor, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False, *, out: Any = None) -> return_types.triangular_solve:
        """Return (X, copy of A) with A @ X = input; an older form of linalg.solve_triangular."""
    def tril(self, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
        """Return a copy with zeros above the diagonal of each matrix."""
    def tril_(self, diagonal: builtins.int = 0) -> Tensor:
        """In-place version of tril: writes the result into this tensor and returns it."""
    def triu(self, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
        """Return a copy with zeros below the diagonal of each matrix.

        Raises  RuntimeError if input has fewer than two axes

        Args:
            input: Matrices of any dtype, of shape (..., n, m).
            diagonal: The lowest diagonal to keep: 0 is the main diagonal, positive ones are above it.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.triu(torch.ones(2, 2))
            tensor([[1., 1.],
                    [0., 1.]])
        """
    def triu_(self, diagonal: builtins.int = 0) -> Tensor:
        """In-place version of triu: writes the result into this tensor and returns it."""
    def true_divide(self, other: Operand, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
        """Return input / other; rounding_mode "floor" or "trunc" rounds the quotient to an integer.

        Raises  RuntimeError if the shapes do not broadcast, or rounding_mode is unknown; RuntimeError
                if integers are divided by 0 with a rounding_mode

        Args:
            input: The dividend, a tensor or a number.
            other: The divisor, a tensor or a number.
            rounding_mode: None for the true quotient, "trunc" to round toward 0, "floor" to round down.
            out: A tensor into which the result is written; a new one if None.

        Returns:
            A tensor of the broadcast shape of input and other. For integers without a rounding_mode,
            the quotient has the default dtype.

        Example:
            >>> torch.div(torch.tensor([7, -7]), 2)
            tensor([ 3.5000, -3.5000])
            >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="floor")
            tensor([ 3, -4])
        """
    def true_divide_(self, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """In-place version of div: writes the result into this tensor and returns it."""
    def trunc(self, *, out: Tensor | None = None) -> Tensor:
        """Return input rounded towards 0; the gradient is 0."""
    def trunc_(self) -> Tensor:
        """Return input rounded towards 0; the gradient is 0."""
    def type(self, dtype: Any = None, non_blocking: builtins.bool = False, memory_format: MemoryFormat | None = ...) -> Any:
        """Return the tensor cast to dtype, or input itself if it has that dtype. Without dtype, return
        the name of the tensor's type as a string, such as "fastdist.FloatTensor".
        """
    def type_as(self, other: Tensor) -> Tensor:
        """Return input in the dtype of other.

        Raises  TypeError if other is not a tensor

        Args:
            input: A tensor of any shape and dtype. From floating-point to integers, fractions are cut
                off.
            other: The tensor whose dtype is used.

        Example:
            >>> torch.tensor([1, 2]).type_as(torch.zeros(1, dtype=torch.float64))
            tensor([1., 2.], dtype=fastdist.float64)
        """
    def unbind(self, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Return a view for each index along dim; the views do not have that axis.

        Raises  IndexError if dim is out of range

        Args:
            input: A tensor of any dtype. An axis without elements gives an empty tuple.
            dim: The axis to remove, by default the first.

        Example:
            >>> [row.tolist() for row in torch.tensor([[1, 2], [3, 4]]).unbind()]
            [[1, 2], [3, 4]]
        """
    def unflatten(self, dim: builtins.int, sizes: Sequence[builtins.int]) -> Tensor:
        """Return input with the axis dim split into several axes."""
    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        """Return a view of all windows of `size` elements along `dimension`; the elements of a window
        are along a new last axis.

        Raises  IndexError if dimension is out of range; RuntimeError if size is longer than the axis,
                or step is not positive

        Args:
            dimension: The axis along which windows are taken; negative numbers count from the end.
            size: The length of a window.
            step: The distance between the starts of two windows.

        Example:
            >>> torch.arange(5).unfold(0, 3, 2)
            tensor([[0, 1, 2],
                    [2, 3, 4]])
        """
    def uniform_(self, from_: builtins.float = 0.0, to: builtins.float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill this tensor with numbers drawn uniformly from [from, to)."""
    @overload
    def unique(self, sorted: builtins.bool = ..., return_inverse: Literal[False] = ..., return_counts: Literal[False] = ..., dim: builtins.int | None = ...) -> Tensor:
        """Return the distinct elements, or the distinct slices along dim, sorted. On a GPU, the call
        waits for the number of distinct elements.

        Raises  RuntimeError for slices without elements; IndexError if dim is out of range

        Args:
            input: A tensor of any dtype. Each NaN counts as distinct.
            sorted: Ignored: the elements are always sorted.
            return_inverse: Whether to also return, for each element, its index in the result.
            return_counts: Whether to also return how often each element occurs.
            dim: The axis whose slices are compared; elements are compared if None.

        Returns:
            A tensor, or a tuple of this tensor, the inverse indices and the counts, as requested.

        Example:
            >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
            (tensor([1, 3]), tensor([1, 2]))
        """
    @overload
    def unique(self, sorted: builtins.bool = ..., return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..., dim: builtins.int | None = ...) -> Any:
        """Return the distinct elements, or the distinct slices along dim, sorted. On a GPU, the call
        waits for the number of distinct elements.

        Raises  RuntimeError for slices without elements; IndexError if dim is out of range

        Args:
            input: A tensor of any dtype. Each NaN counts as distinct.
            sorted: Ignored: the elements are always sorted.
            return_inverse: Whether to also return, for each element, its index in the result.
            return_counts: Whether to also return how often each element occurs.
            dim: The axis whose slices are compared; elements are compared if None.

        Returns:
            A tensor, or a tuple of this tensor, the inverse indices and the counts, as requested.

        Example:
            >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
            (tensor([1, 3]), tensor([1, 2]))
        """
    @overload
    def unique_consecutive(self, return_inverse: Literal[False] = ..., return_counts: Literal[False] = ..., dim: builtins.int | None = ...) -> Tensor:
        """Return the first element of each run of equal elements, or the first slice of each run of
        equal slices along dim. If input is not on the CPU, the call waits for the device.
        """
    @overload
    def unique_consecutive(self, return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..., dim: builtins.int | None = ...) -> Any:
        """Return the first element of each run of equal elements, or the first slice of each run of
        equal slices along dim. If input is not on the CPU, the call waits for the device.
        """
    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Return at most `chunks` views along dim, all of the same length except the last one.

        Raises  RuntimeError if chunks is not positive, or input has no axes; IndexError if dim is out
                of range

        Args:
            input: A tensor of any dtype with at least one axis.
            chunks: The number of views to make; fewer, if the length is not enough: 6 elements in 4
                chunks give 3 views of 2.
            dim: The axis to divide, by default the first.

        Example:
            >>> [part.tolist() for part in torch.chunk(torch.arange(5), 2)]
            [[0, 1, 2], [3, 4]]
        """
    def unsafe_split(self, split_size_or_sections: Any = None, dim: builtins.int = 0, *, split_size: Any = None) -> tuple[Tensor, ...]:
        """Return views of the parts along dim, either of one length or of a list of lengths. With one
        length, the last part may be shorter.

        Raises  RuntimeError if a size is negative, the sizes do not add up to the length of the axis,
                or the one length is 0 although that of the axis is not; IndexError if dim is out of
                range

        Args:
            tensor: A tensor of any dtype with at least one axis.
            split_size_or_sections: The length of each view, or a list of lengths; None: see split_size.
                The length may be 0 if that of the axis is 0: the result is then one empty view.
            dim: The axis to divide, by default the first.
            split_size: split_size_or_sections, under the name that the method uses; None: not used.

        Example:
            >>> [part.tolist() for part in torch.split(torch.arange(5), 2)]
            [[0, 1], [2, 3], [4]]
            >>> [part.tolist() for part in torch.split(torch.arange(5), [1, 4])]
            [[0], [1, 2, 3, 4]]
        """
    def unsafe_split_with_sizes(self, split_sizes: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
        """Return views of the parts of input whose lengths along dim are split_sizes."""
    def unsqueeze(self, dim: builtins.int) -> Tensor:
        """Return a view with a new axis of length 1 at dim.

        Raises  IndexError if dim is out of range

        Args:
            input: A tensor of any shape and dtype.
            dim: The position of the new axis; -1 means after the last axis.

        Example:
            >>> torch.tensor([1, 2]).unsqueeze(1).shape
            fastdist.Size([2, 1])
        """
    def unsqueeze_(self, dim: builtins.int) -> Tensor:
        """In-place version of unsqueeze: lets this tensor be that view, and returns it."""
    def untyped_storage(self) -> UntypedStorage:
        """Return the whole memory of which this tensor uses a part, as bytes."""
    def values(self) -> Tensor:
        """Return the values of a coalesced sparse tensor, of shape (n, dense axes...)."""
    def var(self, dim: Sizes | builtins.bool | None = None, unbiased: builtins.bool = True, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, out: Tensor | None = None) -> Tensor:
        """Return the variance over dim: the sum of squared deviations divided by (number of elements -
        correction).

        Raises  RuntimeError for integers and bool; IndexError if dim is out of range

        Args:
            input: A floating-point or complex tensor. The result for one element is NaN, unless
                correction is 0.
            dim: The axis or axes; all if None.
            unbiased: Whether to divide by the number of elements minus 1; older than `correction`.
            keepdim: Whether the reduced axes stay, with length 1.
            correction: Subtracted from the number of elements; None means 1, or 0 if unbiased is False.
            out: A tensor into which the result is written; a new one if None.

        Example:
            >>> torch.var(torch.tensor([1.0, 2.0, 3.0]))
            tensor(1.)
            >>> torch.var(torch.tensor([1.0, 3.0]), correction=0)
            tensor(1.)
        """
    def vdot(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return the inner product of two vectors. If the first vector is complex, it is conjugated."""
    def view(self, *size: Sizes) -> Tensor:
        """Return a view with another shape. Given a dtype, return a view of the same bytes as elements
        of that dtype.

        Raises  RuntimeError if no view can have this shape; `reshape` copies in this case

        Args:
            input: A tensor whose strides allow the shape; a contiguous one allows any.
            *size: The lengths of the axes, as numbers or as one tuple (one length may be -1), or a
                dtype.

        Returns:
            A view. Writing into the view also changes input.

        Example:
            >>> x = torch.arange(6)
            >>> x.view(2, 3)
            tensor([[0, 1, 2],
                    [3, 4, 5]])
            >>> torch.ones(1).view(torch.int32)
            tensor([1065353216], dtype=fastdist.int32)
        """
    def view_as(self, other: Tensor) -> Tensor:
        """Return a view of input with the shape of other.

        Raises  RuntimeError if the number of elements differs, or the shape cannot be a view of input

        Args:
            input: A tensor of any dtype with as many elements as other.
            other: The tensor whose shape is taken.

        Example:
            >>> torch.arange(4).view_as(torch.zeros(2, 2)).shape
            fastdist.Size([2, 2])
        """
    def view_as_complex(self) -> Tensor:
        """Return a complex view, in which each pair of real numbers along the last axis is one number.

        Raises  RuntimeError for a dtype other than float16, float32 and float64, or for strides that
                do not allow the view
        """
    def view_as_real(self) -> Tensor:
        """Return a view of complex numbers as pairs of real numbers along a new last axis.

        Raises  RuntimeError for real numbers

        Args:
            input: A complex tensor of shape (...); the result has the shape (..., 2).

        Example:
            >>> torch.view_as_real(torch.tensor([1 + 2j]))
            tensor([[1., 2.]])
        """
    @property
    def volatile(self) -> builtins.bool:
        """False, as for PyTorch's tensors since 0.4."""
    def vsplit(self, indices_or_sections: Sizes | Tensor) -> tuple[Tensor, ...]:
        """Return views of parts along the first axis; input must have at least two axes."""
    def where(self, condition: Operand, other: Operand) -> Tensor:
        """Return the elements of this tensor where `condition` holds, and of `other` elsewhere.

        Raises  RuntimeError if the shapes do not broadcast

        Args:
            condition: A tensor of bool that broadcasts with this tensor.
            other: A number or a tensor.

        Example:
            >>> x = torch.tensor([-1.0, 2.0])
            >>> x.where(x > 0, 0.0)
            tensor([0., 2.])
        """
    def xlogy(self, other: Operand, *, out: Tensor | None = None) -> Tensor:
        """Return input * log(other), or 0 where input is 0 and other is not NaN."""
    def xlogy_(self, other: Operand) -> Tensor:
        """Return input * log(other), or 0 where input is 0 and other is not NaN."""
    def xpu(self, device: DeviceLike = ..., non_blocking: builtins.bool = False, **more: Any) -> Tensor:
        """Raise RuntimeError: there is no xpu here."""
    def zero_(self) -> Tensor:
        """Write 0 into every element."""
