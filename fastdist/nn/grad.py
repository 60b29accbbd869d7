"""Functions for the gradients of convolutions with respect to input and weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.differentiate import grad
from ..core.missing import explain_missing
from ..graph.modes import enable_grad
from ..ops.create.creation import zeros
from ..tensor.tensor import Tensor
from . import functional as F

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _of_input(convolve: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    def gradient(
        input_size: Any,
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        kept, options = weight.detach(), (stride, padding, dilation, groups)
        return _at(input_size, grad_output, lambda place: convolve(place, kept, None, *options))

    return _named(gradient, name, "input", "input_size is its shape")


def _of_weight(convolve: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    def gradient(
        input: Tensor,
        weight_size: Any,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        kept, options = input.detach(), (stride, padding, dilation, groups)
        return _at(weight_size, grad_output, lambda place: convolve(kept, place, None, *options))

    return _named(gradient, name, "weight", "weight_size is its shape")


def _at(size: Any, grad_output: Tensor, convolve: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the gradient of a convolution with respect to the argument of `convolve`, whose shape
    is `size`.

    The convolution is linear in this argument, so the gradient does not depend on the argument's
    value. Therefore zeros are used as the argument.
    """
    with enable_grad():
        place: Any = zeros(tuple(size), dtype=grad_output.dtype)
        place = place.to(grad_output.device).requires_grad_()
        (found,) = grad(convolve(place), (place,), (grad_output,))
    return found


def _named(
    function: Callable[..., Tensor], name: str, of: str, shape: str
) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Return the gradient of a convolution's {of}, from that of its result; {shape}."
    )
    return function


conv1d_input = _of_input(F.conv1d, "conv1d_input")
conv2d_input = _of_input(F.conv2d, "conv2d_input")
conv3d_input = _of_input(F.conv3d, "conv3d_input")
conv1d_weight = _of_weight(F.conv1d, "conv1d_weight")
conv2d_weight = _of_weight(F.conv2d, "conv2d_weight")
conv3d_weight = _of_weight(F.conv3d, "conv3d_weight")

explain_missing(__name__)
