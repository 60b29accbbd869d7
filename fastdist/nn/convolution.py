"""Convolution and transposed convolution layers for one to three axes."""

from __future__ import annotations

import math
from typing import Any

from ..core.dtypes import DType
from ..core.short_repr import short_repr
from ..ops.create.creation import empty
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from . import functional, init
from .module import Module

Ints = tuple[int, ...]
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
_CONVOLUTIONS = (None, functional.conv1d, functional.conv2d, functional.conv3d)
_TRANSPOSED = (
    None,
    functional.conv_transpose1d,
    functional.conv_transpose2d,
    functional.conv_transpose3d,
)


def repeated(value: Any, count: int) -> Any:
    """Return `value` as a tuple of `count` equal numbers; a tuple or list is returned unchanged."""
    return tuple(value) if isinstance(value, tuple | list) else (value,) * count


class _ConvNd(Module):
    """Base of all convolutions: sizes, weight and bias.

    Note    weight and bias are initialized uniformly between -1 / sqrt(fan_in) and 1 / sqrt(fan_in)
    """

    weight: Parameter
    bias: Parameter | None
    _axes = 0

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints,
        padding: str | Ints,
        dilation: Ints,
        transposed: bool,
        output_padding: Ints,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        _require_fitting(in_channels, out_channels, groups, stride, padding, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _ends(padding, kernel_size, dilation)
        first, second = in_channels, out_channels
        if not transposed:
            first, second = second, first
        shape = (first, second // groups, *kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values for weight and bias."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            inputs, _ = init.fans(self.weight)
            bound = 1 / math.sqrt(inputs) if inputs > 0 else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of input with the weight."""
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        axes, padding = self._axes, self.padding
        convolve: Any = _CONVOLUTIONS[axes]
        if self.padding_mode != "zeros":
            ends = self._reversed_padding_repeated_twice
            input, padding = functional.pad(input, ends, mode=self.padding_mode), (0,) * axes
        how = (self.stride, padding, self.dilation, self.groups)
        return convolve(input, weight, bias, *how)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Return the sizes, and the options that differ from their defaults."""
        told = [f"{self.in_channels}, {self.out_channels}"]
        told += [f"kernel_size={self.kernel_size}", f"stride={self.stride}"]
        if self.padding != (0,) * len(self.padding):
            told.append(f"padding={self.padding}")
        if self.dilation != (1,) * len(self.dilation):
            told.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.output_padding):
            told.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            told.append(f"groups={self.groups}")
        if self.bias is None:
            told.append("bias=False")
        if self.padding_mode != "zeros":
            told.append(f"padding_mode={self.padding_mode}")
        return ", ".join(told)


def _require_fitting(
    in_channels: int,
    out_channels: int,
    groups: int,
    stride: Ints,
    padding: str | Ints,
    padding_mode: str,
) -> None:
    if groups <= 0:
        raise ValueError(f"groups must be a positive integer, got {groups}")
    if in_channels % groups:
        raise ValueError(f"in_channels must be divisible by groups: {in_channels} by {groups}")
    if out_channels % groups:
        raise ValueError(f"out_channels must be divisible by groups: {out_channels} by {groups}")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {short_repr(padding)}, should be one of 'valid', 'same'"
            )
        if padding == "same" and any(step != 1 for step in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(
            f"padding_mode must be one of {', '.join(_PADDING_MODES)}, but got "
            f"padding_mode={short_repr(padding_mode)}"
        )


def _ends(padding: str | Ints, kernel_size: Ints, dilation: Ints) -> list[int]:
    """Return the numbers of elements to add, in the order of functional.pad: before and after the
    last axis, then before and after the axis in front of it, and so on.
    """
    if not isinstance(padding, str):
        return [n for before in reversed(padding) for n in (before, before)]
    if padding != "same":
        return [0, 0] * len(kernel_size)
    # strict=False, because a layer with too many sizes may be constructed: only a call of it fails.
    sizes = zip(dilation, kernel_size, strict=False)
    spans = [step * (length - 1) for step, length in sizes]
    return [n for both in reversed(spans) for n in (both // 2, both - both // 2)]


class _OfAxes(_ConvNd):
    """Base of Conv1d to Conv3d: an argument that is a single number applies to all axes."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Ints,
        stride: int | Ints = 1,
        padding: str | int | Ints = 0,
        dilation: int | Ints = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        axes = self._axes
        super().__init__(
            in_channels,
            out_channels,
            repeated(kernel_size, axes),
            repeated(stride, axes),
            padding if isinstance(padding, str) else repeated(padding, axes),
            repeated(dilation, axes),
            False,
            (0,) * axes,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )


class Conv1d(_OfAxes):
    """Convolves signals with a weight.

    Shape   (n, in_channels, length) -> (n, out_channels, positions); n is optional; weight is
            (out_channels, in_channels / groups, kernel)
    Raises  ValueError if groups does not divide the channels, or padding_mode is unknown;
            RuntimeError in a call, if the input has another number of channels or axes

    Args:
        in_channels: The number of channels of the input.
        out_channels: The number of channels of the result.
        kernel_size: The length of the kernel.
        stride: The step between two neighbouring positions of the kernel.
        padding: The number of zeros added at each end of the signal, or "same" or "valid".
        dilation: The distance in the input between two neighbouring elements of the kernel.
        groups: The number of groups into which the channels are divided.
        bias: Whether to add a learned number to each output channel.
        padding_mode: How padding is filled: "zeros", "reflect", "replicate" or "circular".
        device: The device of the parameters; the default device if None.
        dtype: The dtype of weight and bias; the default dtype if None.

    Example:
        >>> nn.Conv1d(3, 8, kernel_size=3)(torch.zeros(1, 3, 10)).shape
        fastdist.Size([1, 8, 8])
    """

    _axes = 1


class Conv2d(_OfAxes):
    """Convolves images with a weight.

    Shape   (n, in_channels, *image) -> (n, out_channels, *positions); n is optional; weight is
            (out_channels, in_channels / groups, *kernel)
    Raises  ValueError if groups does not divide the channels, or padding_mode is unknown;
            RuntimeError in a call, if the input has another number of channels or axes

    Args:
        in_channels: The number of channels of the input.
        out_channels: The number of channels of the result.
        kernel_size: The height and width of the kernel, or one number for both.
        stride: The step between two neighbouring positions of the kernel.
        padding: The number of zeros added on each side of the image, or "same" or "valid".
        dilation: The distance in the input between two neighbouring elements of the kernel.
        groups: The number of groups into which the channels are divided. Each group of output
            channels depends on one group of input channels alone.
        bias: Whether to add a learned number to each output channel.
        padding_mode: How padding is filled: "zeros", "reflect", "replicate" or "circular".
        device: The device of the parameters; the default device if None.
        dtype: The dtype of weight and bias; the default dtype if None.

    Example:
        >>> layer = nn.Conv2d(3, 8, kernel_size=3, padding=1)
        >>> layer(torch.zeros(1, 3, 6, 6)).shape
        fastdist.Size([1, 8, 6, 6])
    """

    _axes = 2


class Conv3d(_OfAxes):
    """Convolves volumes with a weight.

    Shape   (n, in_channels, *volume) -> (n, out_channels, *positions); n is optional; weight is
            (out_channels, in_channels / groups, *kernel)
    Raises  ValueError if groups does not divide the channels, or padding_mode is unknown;
            RuntimeError in a call, if the input has another number of channels or axes

    Args:
        in_channels: The number of channels of the input.
        out_channels: The number of channels of the result.
        kernel_size: The depth, height and width of the kernel, or one number for all.
        stride: The step between two neighbouring positions of the kernel.
        padding: The number of zeros added on each side of the volume, or "same" or "valid".
        dilation: The distance in the input between two neighbouring elements of the kernel.
        groups: The number of groups into which the channels are divided.
        bias: Whether to add a learned number to each output channel.
        padding_mode: How padding is filled: "zeros", "reflect", "replicate" or "circular".
        device: The device of the parameters; the default device if None.
        dtype: The dtype of weight and bias; the default dtype if None.

    Example:
        >>> nn.Conv3d(1, 2, kernel_size=3)(torch.zeros(1, 1, 4, 4, 4)).shape
        fastdist.Size([1, 2, 2, 2, 2])
    """

    _axes = 3


class _ConvTransposeNd(_ConvNd):
    """Base of ConvTranspose1d to ConvTranspose3d: an argument that is a single number applies to
    all axes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Ints,
        stride: int | Ints = 1,
        padding: int | Ints = 0,
        output_padding: int | Ints = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Ints = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}, got '
                f"{short_repr(padding_mode)}"
            )
        axes = self._axes
        super().__init__(
            in_channels,
            out_channels,
            repeated(kernel_size, axes),
            repeated(stride, axes),
            repeated(padding, axes),
            repeated(dilation, axes),
            True,
            repeated(output_padding, axes),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Return the transposed convolution of input with the weight.

        `output_size` selects one of the result sizes that the stride allows.

        Raises  ValueError for an output_size that the stride does not allow
        """
        more = self.output_padding
        if output_size is not None:
            more = self._output_padding(input, output_size)
        spread: Any = _TRANSPOSED[self._axes]
        given = (self.stride, self.padding, more, self.groups, self.dilation)
        return spread(input, self.weight, self.bias, *given)  # type: ignore[no-any-return]

    def _output_padding(self, input: Tensor, output_size: Any) -> Ints:
        axes, others = self._axes, input.dim() - self._axes
        asked = tuple(output_size)
        if len(asked) == input.dim():
            asked = asked[others:]
        if len(asked) != axes:
            raise ValueError(
                f"ConvTranspose{axes}D: for {input.dim()}D input, output_size must have {axes} or "
                f"{input.dim()} elements (got {len(asked)})"
            )
        padding: Any = self.padding
        sizes = zip(
            input.shape[others:], self.stride, padding, self.dilation, self.kernel_size, strict=True
        )
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in sizes]
        most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
        if any(not low <= n <= high for n, low, high in zip(asked, least, most, strict=True)):
            raise ValueError(
                f"requested an output size of {asked}, but valid sizes range from {least} to "
                f"{most} (for an input of {tuple(input.shape[others:])})"
            )
        return tuple([n - low for n, low in zip(asked, least, strict=True)])


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution of signals: the adjoint of Conv1d.

    Shape   (n, in_channels, length) -> (n, out_channels, positions); n is optional; weight is
            (in_channels, out_channels / groups, kernel)
    """

    _axes = 1


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of images: the adjoint of Conv2d.

    Shape   (n, in_channels, *image) -> (n, out_channels, *positions); n is optional; weight is
            (in_channels, out_channels / groups, *kernel)

    Args:
        in_channels: The number of channels of the input.
        out_channels: The number of channels of the result.
        kernel_size: The height and width of the kernel, or one number for both.
        stride: The distance in the result between two neighbouring elements of the input.
        padding: The number of elements cut off on each side of the result.
        output_padding: The number of elements added at the end of each axis of the result.
        groups: The number of groups into which the channels are divided.
        bias: Whether to add a learned number to each output channel.
        dilation: The distance in the result between two neighbouring elements of the kernel.
        padding_mode: Only "zeros" is allowed.
        device: The device of the parameters; the default device if None.
        dtype: The dtype of weight and bias; the default dtype if None.

    Example:
        >>> nn.ConvTranspose2d(8, 3, kernel_size=2, stride=2)(torch.zeros(1, 8, 3, 3)).shape
        fastdist.Size([1, 3, 6, 6])
    """

    _axes = 2


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of volumes: the adjoint of Conv3d.

    Shape   (n, in_channels, *volume) -> (n, out_channels, *positions); n is optional; weight is
            (in_channels, out_channels / groups, *kernel)
    """

    _axes = 3
