# The functions of fastdist.fft. Written by fastdist/namespace/stubs.py.
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, overload

from .core.device import Device
from .core.dtypes import DType
from .random_numbers.generator import Generator
from .core.memory_format import MemoryFormat, MemoryLayout
from .ops import return_types
from .tensor.methods import DeviceLike, DTypeLike, Indices, NDArray, Number
from .tensor.methods import Operand, Scalar, Sizes
from .tensor.layout import Size
from .tensor.tensor import Tensor

def fft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return sum(input[k] * exp(-2 * pi * i * j * k / n)) over k, for j along dim."""
def fft2(input: Tensor, s: Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return fftn along the last two axes."""
def fftfreq(n: builtins.int, d: builtins.float = 1.0, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return to which frequencies the numbers of fft belong, of n samples d apart: 0 first, those
    below 0 behind the others.
    """
def fftn(input: Tensor, s: Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return fft along each of dim: all axes, or as many of the last as s has lengths."""
def fftshift(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
    """Return input with the place 0 moved to the middle of dim, of all axes unless told."""
def hfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the real transform of n numbers of which input is the first half, and the other its
    conjugates.
    """
def hfft2(input: Tensor, s: Any = None, dim: Sizes = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return hfftn along the last two axes."""
def hfftn(input: Tensor, s: Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return hfft along the last axis of dim, after fft along the other axes of dim."""
def ifft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of fft."""
def ifft2(input: Tensor, s: Any = None, dim: Sizes = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ifftn along the last two axes."""
def ifftn(input: Tensor, s: Any = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of fftn."""
def ifftshift(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
    """Return the inverse of fftshift."""
def ihfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the half that hfft makes real numbers of."""
def ihfft2(input: Tensor, s: Any = None, dim: Sizes = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ihfftn along the last two axes."""
def ihfftn(input: Tensor, s: Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the half that hfftn makes real numbers of."""
def irfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the real numbers that rfft makes input of: n, an even number unless told."""
def irfft2(input: Tensor, s: Any = None, dim: Sizes = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return irfftn along the last two axes."""
def irfftn(input: Tensor, s: Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the real numbers that rfftn makes input of."""
def rfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the first n // 2 + 1 numbers of fft of real ones, from which the others follow."""
def rfft2(input: Tensor, s: Any = None, dim: Sizes = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return rfftn along the last two axes."""
def rfftfreq(n: builtins.int, d: builtins.float = 1.0, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return to which frequencies the numbers of rfft belong, of n samples d apart."""
def rfftn(input: Tensor, s: Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return rfft along the last of dim, and fft of that along the others."""
