"""Layer, RMS and group normalisation, and local response normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from ..core.dtypes import DType
from ..core.sequences import all_of
from ..ops.create.creation import empty
from ..ops.nn.normalization import cross_map_lrn
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from . import functional, init
from .module import Module


class LayerNorm(Module):
    """Normalizes over the last axes to mean 0 and variance 1, then scales and shifts each element.

    Shape   (..., *normalized_shape) -> the same
    Source  Ba et al. 2016, "Layer Normalization"
    Raises  RuntimeError in a call, if the lengths of the input's last axes are not normalized_shape

    Args:
        normalized_shape: The lengths of the input's last axes, over which it is normalized.
        eps: Added to the variance, to avoid division by 0.
        elementwise_affine: Whether to learn a scale and a shift for each element.
        bias: Whether to learn the shift.
        device: The device of the parameters; the default device if None.
        dtype: The dtype of the parameters; the default dtype if None.

    Example:
        >>> nn.LayerNorm(3)(torch.tensor([[1.0, 2.0, 3.0]])).detach()
        tensor([[-1.2247,  0.0000,  1.2247]])
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        shape = normalized_shape
        self.normalized_shape = (
            (int(shape),) if isinstance(shape, int | Integral) else tuple(all_of(shape))
        )
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, is_wanted in (("weight", True), ("bias", bias)):
            parameter = None
            if elementwise_affine and is_wanted:
                parameter = Parameter(empty(self.normalized_shape, device=device, dtype=dtype))
            self.register_parameter(name, parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the scale to 1 and the shift to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return input, normalised over the last axes."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the shape and the options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root of the mean square over the last axes, then scales each element.

    Shape   (..., *normalized_shape) -> the same
    Source  Zhang and Sennrich 2019, "Root Mean Square Layer Normalization"
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        shape = normalized_shape
        self.normalized_shape = (
            (int(shape),) if isinstance(shape, int | Integral) else tuple(all_of(shape))
        )
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = None
        if elementwise_affine:
            weight = Parameter(empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the scale to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return x, normalised over the last axes."""
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the shape and the options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Normalizes groups of channels of each sample, then scales and shifts each channel.

    Each group gets mean 0 and variance 1.

    Shape   (N, C, ...) -> the same
    Source  Wu and He 2018, "Group Normalization"
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, is_wanted in (("weight", affine), ("bias", affine and bias)):
            made = empty(num_channels, device=device, dtype=dtype) if is_wanted else None
            self.register_parameter(name, None if made is None else Parameter(made))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the scale to 1 and the shift to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return input, normalised over groups of channels."""
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the numbers of groups and channels, and the options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divides each element by (k + alpha * m) ** beta, where m is the mean of the squares over
    `size` neighbouring channels.

    Shape   (N, C, ...) -> the same
    Source  Krizhevsky et al. 2012, "ImageNet classification with deep convolutional networks"
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Return input, normalised over neighbouring channels."""
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return size, alpha, beta and k."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """LocalResponseNorm of images as in Torch7.

    Near the first channel the window is not shortened but repeats the first channel.

    Shape   (N, C, H, W) -> the same
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Return input, normalised over neighbouring channels."""
        found: Tensor = cross_map_lrn(input, self.size, self.alpha, self.beta, self.k)
        return found

    def extra_repr(self) -> str:
        """Return size, alpha, beta and k."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
