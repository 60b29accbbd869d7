"""Linear layers."""

from __future__ import annotations

import math
from typing import Any

from ..core.dtypes import DType
from ..ops.create.creation import empty
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from . import functional, init
from .module import Module


class Identity(Module):
    """Returns its input; takes and ignores any constructor arguments.

    Example:
        >>> nn.Identity()(torch.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return input."""
        return input


class Linear(Module):
    """Computes y = x W^T + b.

    Shape   (..., in_features) -> (..., out_features); weight is (out_features, in_features)
    Note    weight and bias are initialized uniformly between -1/sqrt(in_features) and
            1/sqrt(in_features)
    Raises  RuntimeError in a call, if the length of the input's last axis is not in_features, or
            the input's dtype is not the weight's dtype

    Args:
        in_features: The length of the last axis of the input.
        out_features: The length of the last axis of the result.
        bias: Whether to add b.
        device: The device of the parameters; the default device if None.
        dtype: The dtype of weight and bias; the default dtype if None.

    Example:
        >>> layer = nn.Linear(3, 2)
        >>> layer(torch.ones(4, 3)).shape
        fastdist.Size([4, 2])
        >>> layer.weight.shape, layer.bias.shape
        (fastdist.Size([2, 3]), fastdist.Size([2]))
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values for weight and bias."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Return input W^T + b."""
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """Computes y = x1 W x2 + b, with one matrix W for each element of y.

    Shape   (..., in1_features), (..., in2_features) -> (..., out_features); weight is
            (out_features, in1_features, in2_features)
    Note    weight and bias are initialized uniformly between -1/sqrt(in1_features) and
            1/sqrt(in1_features)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values for weight and bias."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Return input1 W input2 + b."""
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
