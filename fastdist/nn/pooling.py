"""Pooling modules, which call the functions of nn.functional with stored arguments."""

from __future__ import annotations

from typing import Any

from ..tensor.tensor import Tensor
from . import functional
from .convolution import repeated
from .module import Module


class _Pool(Module):
    # The name of the function in nn.functional.
    _function = ""

    def _pool(self, *arguments: Any, **options: Any) -> Tensor:
        found: Tensor = getattr(functional, self._function)(*arguments, **options)
        return found


class _MaxPool(_Pool):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """Return the maximum of each window, and its index if return_indices is set."""
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        """Return the options of the windows."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """Takes the maximum of each window along the last axis.

    Shape   (n, c, length) -> (n, c, windows); n is optional
    """

    _function = "max_pool1d"


class MaxPool2d(_MaxPool):
    """Takes the maximum of each window over the last two axes.

    Shape   (n, c, height, width) -> (n, c, rows, columns); n is optional
    Raises  RuntimeError in a call, if the padding is more than half the kernel, or the input has
            neither 3 nor 4 axes

    Args:
        kernel_size: The height and width of a window, or one number for both.
        stride: The step between two neighbouring windows; kernel_size if None.
        padding: The number of elements that are added on each side of the image; each is -inf.
        dilation: The distance between two neighbouring elements of a window.
        return_indices: Whether to return the indices of the maxima as well.
        ceil_mode: Whether to keep windows that start inside the image but end outside.

    Example:
        >>> nn.MaxPool2d(2)(torch.zeros(1, 1, 4, 4)).shape
        fastdist.Size([1, 1, 2, 2])
    """

    _function = "max_pool2d"


class MaxPool3d(_MaxPool):
    """Takes the maximum of each window over the last three axes.

    Shape   (n, c, depth, height, width) -> (n, c, layers, rows, columns); n is optional
    """

    _function = "max_pool3d"


class _MaxUnpool(_Pool):
    axes = 0

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, self.axes)
        self.stride = repeated(stride if stride is not None else kernel_size, self.axes)
        self.padding = repeated(padding, self.axes)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Return a tensor of zeros with the elements of input at indices."""
        return self._pool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """Return the options of the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Writes elements to the indices where MaxPool1d found them, and zeros elsewhere."""

    axes = 1
    _function = "max_unpool1d"


class MaxUnpool2d(_MaxUnpool):
    """Writes elements to the indices where MaxPool2d found them, and zeros elsewhere."""

    axes = 2
    _function = "max_unpool2d"


class MaxUnpool3d(_MaxUnpool):
    """Writes elements to the indices where MaxPool3d found them, and zeros elsewhere."""

    axes = 3
    _function = "max_unpool3d"


class _AvgPool(_Pool):
    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        """Return the options of the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """Averages each window along the last axis.

    Shape   (n, c, length) -> (n, c, windows); n is optional
    """

    _function = "avg_pool1d"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, 1)
        self.stride = repeated(stride if stride is not None else kernel_size, 1)
        self.padding = repeated(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Return the mean of each window."""
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPoolByDivisor(_AvgPool):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Return the mean of each window."""
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolByDivisor):
    """Averages each window over the last two axes.

    Shape   (n, c, height, width) -> (n, c, rows, columns); n is optional
    """

    _function = "avg_pool2d"


class AvgPool3d(_AvgPoolByDivisor):
    """Averages each window over the last three axes.

    Shape   (n, c, depth, height, width) -> (n, c, layers, rows, columns); n is optional
    """

    _function = "avg_pool3d"


class _LPPool(_Pool):
    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Return the p-norm of each window."""
        return self._pool(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        """Return the order of the norm and the options of the windows."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """Computes the p-norm of each window along the last axis.

    Shape   (n, c, length) -> (n, c, windows); n is optional
    """

    _function = "lp_pool1d"


class LPPool2d(_LPPool):
    """Computes the p-norm of each window over the last two axes.

    Shape   (n, c, height, width) -> (n, c, rows, columns); n is optional
    """

    _function = "lp_pool2d"


class LPPool3d(_LPPool):
    """Computes the p-norm of each window over the last three axes.

    Shape   (n, c, depth, height, width) -> (n, c, layers, rows, columns); n is optional
    """

    _function = "lp_pool3d"
