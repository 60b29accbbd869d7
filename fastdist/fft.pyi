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
    """Return, for each j along dim, the sum over k of input[k] * exp(-2 * pi * i * j * k / n)."""
def fft2(input: Tensor, s: Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return fftn along the last two axes."""
def fftfreq(n: builtins.int, d: builtins.float = 1.0, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return the frequencies of the n results of fft, for samples at distance d. 0 and the positive
    frequencies come first, then the negative frequencies.
    """
def fftn(input: Tensor, s: Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return fft along each axis in dim: by default all axes or, with s, the last len(s) axes."""
def fftshift(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
    """Return input, rolled so that index 0 moves to the middle along dim, by default all axes."""
def hfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the real transform of n numbers. input holds the first n // 2 + 1 numbers; the others
    are conjugates of these.
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
    """Return the inverse of hfft for real input: the first n // 2 + 1 complex numbers."""
def ihfft2(input: Tensor, s: Any = None, dim: Sizes = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ihfftn along the last two axes."""
def ihfftn(input: Tensor, s: Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of hfftn for real input: half of the numbers along the last axis."""
def irfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of rfft: n real numbers. By default, n is 2 * (input.shape[dim] - 1)."""
def irfft2(input: Tensor, s: Any = None, dim: Sizes = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return irfftn along the last two axes."""
def irfftn(input: Tensor, s: Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of rfftn."""
def rfft(input: Tensor, n: builtins.int | None = None, dim: builtins.int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the first n // 2 + 1 numbers of fft for real input. These numbers determine the
    others.
    """
def rfft2(input: Tensor, s: Any = None, dim: Sizes = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return rfftn along the last two axes."""
def rfftfreq(n: builtins.int, d: builtins.float = 1.0, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return the frequencies of the n // 2 + 1 results of rfft, for n samples at distance d."""
def rfftn(input: Tensor, s: Sequence[builtins.int] | None = None, dim: builtins.int | Sequence[builtins.int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return rfft along the last axis in dim, followed by fft along the other axes."""
