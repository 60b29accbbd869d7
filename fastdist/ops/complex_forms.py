"""Ops whose kernels support only real numbers: for complex numbers, they are composites."""

from __future__ import annotations

import math
from typing import Any

from ..tensor.axes import Dims
from ..tensor.tensor import Tensor
from .create.creation import ones_like, zeros_like
from .nn.activation import silu, softsign
from .nn.convolution_sums import convolve, convolve_back, correlate
from .nn.losses import absolute_difference
from .nn.unfold import add_patches, lay_out_patches
from .pointwise.angle import angle as angle_
from .pointwise.arithmetic import abs as abs_
from .pointwise.complex_numbers import complex_of, complex_size, imaginary_part, real_part
from .pointwise.lerp import lerp
from .pointwise.transcendental import logaddexp
from .reduce.cumulative_extremes import cummax_along, logcumsumexp
from .reduce.cumulative_sums import moved, recurrence
from .reduce.reductions import logsumexp


def _angle(input: Tensor) -> Any:
    """Return the angles of complex numbers, in radians."""
    real, imag = real_part(input), imaginary_part(input)
    nothing = input == 0
    found = imag.atan2(real.where(~nothing, ones_like(real)))
    return found.where(~nothing, imag.detach().atan2(real.detach()))


def _distance(input: Tensor, target: Tensor) -> Any:
    return (input - target).abs()


def _softsign(input: Tensor) -> Any:
    return input / (1 + input.abs())


def _silu(input: Tensor) -> Any:
    return input * input.sigmoid()


def _logaddexp(input: Any, other: Any) -> Any:
    # The value with the larger real part is subtracted, so that exp cannot overflow.
    is_first = real_part(input) >= real_part(other)
    high, low = input.where(is_first, other), other.where(is_first, input)
    return high + (low - high).exp().log1p()


def _lerp(input: Tensor, end: Tensor, weight: Tensor) -> Any:
    lerp.require_meaning((input, end, weight))
    return input + weight * (end - input)


def _logsumexp(input: Tensor, dim: Dims, keepdim: bool) -> Any:
    # The largest real part is subtracted if it is finite, so that exp cannot overflow.
    right = real_part(input.detach())
    most = right.amax(dim, True) if input._layout.numel else right.sum(dim, True)
    most = most.masked_fill(~most.isfinite(), 0.0)
    found = (input - most).exp().sum(dim, True).log() + most
    if keepdim or not input._layout.shape:
        return found
    return found.squeeze(dim)


def _logcumsumexp(input: Tensor, dim: int) -> Any:
    if not input._layout.shape:
        return input * 1
    # s[k] = sum(exp(input[:k + 1] - top[k])) is computed by a recurrence: s[k] is a multiple of
    # s[k - 1] plus a term. top[k] is the complex value with the largest real part in input[:k + 1];
    # its imaginary part is subtracted too, so that angles are relative to it.
    right = real_part(input.detach()).masked_fill(input.isnan(), math.nan)
    most, place = cummax_along(right, dim)
    found = input.gather(dim, place)
    top = found.detach().masked_fill(~most.isfinite(), 0.0)
    kept = (moved(top, dim, first=0.0) - top).exp()
    kept = kept.masked_fill(moved(most, dim, first=-math.inf) == -math.inf, 0.0)
    sums = recurrence(kept, (input - top).exp(), dim, backwards=False)
    return (sums.log() + top).where(most != math.inf, found)


abs_.complex_decomposition = complex_size
angle_.complex_decomposition = _angle
absolute_difference.complex_decomposition = _distance
softsign.complex_decomposition = _softsign
logcumsumexp.complex_decomposition = _logcumsumexp
logsumexp.complex_decomposition = _logsumexp
silu.complex_decomposition = _silu
logaddexp.complex_decomposition = _logaddexp
lerp.complex_decomposition = _lerp

# Kernels that are linear in one tensor are applied to its real and imaginary parts. Kernels that
# are linear in each of two tensors, such as convolutions, are applied to pairs of parts.


def _by_parts(op: Any) -> None:
    def complex_decomposition(input: Tensor, *attributes: Any) -> Any:
        parts = [op.general((part,), attributes) for part in _parts(input)]
        return complex_of(*parts)

    op.complex_decomposition = complex_decomposition


def _parts(input: Tensor) -> tuple[Any, Any]:
    """Return the real and imaginary parts of numbers; real numbers have the imaginary part 0."""
    if not input._layout.dtype.is_complex:
        return input, zeros_like(input)
    return real_part(input).contiguous(), imaginary_part(input).contiguous()


def _by_products(op: Any) -> None:
    def complex_decomposition(input: Tensor, weight: Tensor, *more: Any) -> Any:
        bias = more[:1] if len(op.tensors) == 3 else ()
        none, attributes = (None,) * len(bias), more[len(bias) :]

        def product(a: Tensor, b: Tensor) -> Any:
            return op.general((a, b, *none), attributes)

        (re, im), (w_re, w_im) = _parts(input), _parts(weight)
        # Three real products instead of four, as in PyTorch.
        a, b = product(re, w_re), product(im, w_im)
        found = complex_of(a - b, product(re + im, w_re + w_im) - a - b)
        if not bias or bias[0] is None:
            return found
        return found + bias[0].reshape(-1, *(1,) * (len(found._layout.shape) - 2))

    op.complex_decomposition = complex_decomposition


for _linear in (lay_out_patches, add_patches):
    _by_parts(_linear)
for _product in (convolve, convolve_back, correlate):
    _by_products(_product)
