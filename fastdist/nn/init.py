"""Initialization of parameters: each function fills a tensor in place and returns it."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.caller_warning import warn_caller
from ..core.errors import ShapeError
from ..core.folded_frames import fold_public
from ..core.missing import show_public
from ..graph.modes import no_grad
from ..interpreters.batched_draws import draws_to_fill
from ..ops.create.random import require_std
from ..random_numbers.generator import Generator, default_generator_of
from ..tensor.tensor import Tensor
from .random_matrices import draw_orthogonal, draw_sparse
from .truncated_normal import draw_truncated

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

# The gain of each nonlinearity, by which initial weights are multiplied. A function that shrinks
# its inputs has a larger gain, to compensate for this.
_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 0.75,
}


class _Now(threading.local):
    """Whether uniform, normal and constant fills are skipped on this thread."""

    is_skipped = False


_now = _Now()


@contextmanager
def skipped() -> Iterator[None]:
    """Let uniform, normal and constant fills on this thread do nothing inside a `with` block."""
    before = _now.is_skipped
    _now.is_skipped = True
    try:
        yield
    finally:
        _now.is_skipped = before


Draw = Callable[[Sequence[int], "np.dtype[np.floating]"], np.ndarray]


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor for the initial weights of a layer that is followed by a nonlinearity.

    With this factor, the standard deviation stays about constant from one layer to the next.

    `param` is the negative slope of leaky_relu.

    Raises  ValueError for an unknown nonlinearity
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else float(param)
        return math.sqrt(2.0 / (1.0 + slope * slope))
    if nonlinearity not in _GAINS:
        raise ValueError(
            f"Unsupported nonlinearity {nonlinearity}; known: {', '.join(sorted(_GAINS))}, "
            "leaky_relu"
        )
    return _GAINS[nonlinearity]


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill a tensor with uniform numbers from [a, b).

    Raises  RuntimeError if tensor is neither floating-point nor complex, or a is above b

    Args:
        tensor: The tensor to fill, in place and without a record for autograd.
        a: The lower bound, which may occur.
        b: The upper bound, not below a.
        generator: The generator to draw from; the default one if None.

    Returns:
        The tensor itself.

    Example:
        >>> nn.init.uniform_(torch.empty(2, 3)).shape
        fastdist.Size([2, 3])
    """
    if not _now.is_skipped:
        with no_grad():
            tensor.uniform_(a, b, generator=generator)
    return tensor


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill a tensor with normal numbers.

    Raises  RuntimeError if tensor is neither floating-point nor complex, or std is negative

    Args:
        tensor: The tensor to fill, in place and without a record for autograd.
        mean: The mean of the normal distribution.
        std: The standard deviation of the normal distribution.
        generator: The generator to draw from; the default one if None.

    Returns:
        The tensor itself.

    Example:
        >>> nn.init.normal_(torch.empty(2, 3)).shape
        fastdist.Size([2, 3])
    """
    require_std(std)
    if not _now.is_skipped:
        with no_grad():
            tensor.normal_(mean, std, generator=generator)
    return tensor


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with numbers from a normal distribution that is truncated to [a, b].

    The interval [a, b] may be far from the mean.

    Raises  ValueError if [a, b] has zero probability, or if mean or std is not finite

    Args:
        tensor: The tensor to fill.
        mean: The mean before truncation.
        std: The standard deviation before truncation.
        a: The lower bound.
        b: The upper bound.
        generator: The generator to draw from; the default one if None.

    Example:
        >>> nn.init.trunc_normal_(torch.empty(100)).abs().max() <= 2
        tensor(True)
    """
    if not a <= b or not 0.0 < std < math.inf or not math.isfinite(mean):
        raise ValueError(
            f"trunc_normal_: there is no probability in [{a}, {b}] at mean {mean} and std {std}"
        )
    source = _generator(tensor, generator)
    return _write(
        tensor, draws_to_fill(tensor, lambda: draw_truncated(source, tensor, mean, std, a, b))
    )


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill a tensor with one number.

    Raises  TypeError if val is not a number

    Args:
        tensor: The tensor to fill, in place and without a record for autograd.
        val: The number; the dtype of tensor must be able to hold it.

    Returns:
        The tensor itself.

    Example:
        >>> nn.init.constant_(torch.empty(2), 3.0)
        tensor([3., 3.])
    """
    if _now.is_skipped:
        return tensor
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill a tensor with ones.

    Args:
        tensor: The tensor to fill.

    Example:
        >>> nn.init.ones_(torch.empty(2))
        tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill a tensor with zeros.

    Args:
        tensor: The tensor to fill, in place and without a record for autograd.

    Returns:
        The tensor itself.

    Example:
        >>> nn.init.zeros_(torch.ones(2))
        tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity matrix.

    Raises  ValueError for a tensor that is not a matrix
    """
    if tensor.ndim != 2:
        raise ValueError(f"eye_: only tensors with 2 dimensions are supported, got {tensor.shape}")
    return _write(tensor, np.eye(*tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight so that each output channel copies one input channel of its
    group, for as many channels as possible.

    Raises  ValueError for a tensor that is not a convolution's weight, or whose output channels
            cannot be split into the groups
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError(
            f"Only tensors with 3, 4, or 5 dimensions are supported, got {tensor.shape}"
        )
    channels, inputs, *kernel = tensor.shape
    if channels % groups:
        raise ValueError(f"dim 0 must be divisible by groups, got {channels} for {groups} groups")
    values = np.zeros(tensor.shape)
    middle: tuple[Any, ...] = tuple([n // 2 for n in kernel])
    for i in range(min(channels // groups, inputs)):
        values[(slice(i, None, channels // groups), i, *middle)] = 1.0
    return _write(tensor, values)


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Fill a matrix with normal numbers, and then set a fraction `sparsity` of the elements of each
    column, at random positions, to 0.

    Raises  ValueError for a tensor that is not a matrix
    Source  Martens 2010, "Deep learning via Hessian-free optimization"
    """
    if tensor.ndim != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got {tensor.shape}")
    draw = _generator(tensor, generator)
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    return _write(
        tensor, draws_to_fill(tensor, lambda: draw_sparse(draw, rows, columns, zeros, std))
    )


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill a tensor with uniform numbers between -a and a, for a = gain * sqrt(6 / (fan_in +
    fan_out)).

    Source  Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward
            neural networks"
    Raises  ValueError if tensor has fewer than two axes

    Args:
        tensor: The tensor to fill, with at least two axes.
        gain: The factor in the formula above, such as the result of `calculate_gain`.
        generator: The generator to draw from; the default one if None.

    Returns:
        The tensor itself.

    Example:
        >>> nn.init.xavier_uniform_(torch.empty(3, 2)).abs().max() < 1.2
        tensor(True)
    """
    bound = math.sqrt(3.0) * _xavier_deviation(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with normal numbers of mean 0 and standard deviation
    gain * sqrt(2 / (fan_in + fan_out)).
    """
    return normal_(tensor, 0.0, _xavier_deviation(tensor, gain), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with uniform numbers between -b and b, for b = gain * sqrt(3 / fan).

    The gain is calculate_gain(nonlinearity, a).

    Source  He et al. 2015, "Delving deep into rectifiers"
    Raises  ValueError if tensor has fewer than two axes, or mode or nonlinearity is unknown

    Args:
        tensor: The tensor to fill, with at least two axes.
        a: The negative slope, if the nonlinearity is leaky_relu.
        mode: Whether fan is "fan_in", which keeps the variance of activations in the forward pass,
            or "fan_out", which keeps the variance of gradients in the backward pass.
        nonlinearity: The name of the function that follows the layer.
        generator: The generator to draw from; the default one if None.

    Returns:
        The tensor itself.

    Example:
        >>> nn.init.kaiming_uniform_(torch.empty(3, 2)).shape
        fastdist.Size([3, 2])
    """
    if _has_none(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with normal numbers of mean 0 and standard deviation gain / sqrt(fan).

    The gain is calculate_gain(nonlinearity, a).

    Args:
        tensor: The tensor to fill, with at least two axes.
        a: The negative slope, if the nonlinearity is leaky_relu.
        mode: Whether fan is "fan_in", which keeps the variance of activations in the forward pass,
            or "fan_out", which keeps the variance of gradients in the backward pass.
        nonlinearity: The name of the function that follows the layer.
        generator: The generator to draw from; the default one if None.

    Example:
        >>> nn.init.kaiming_normal_(torch.empty(3, 2)).shape
        fastdist.Size([3, 2])
    """
    if _has_none(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_deviation(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with gain times a random matrix whose rows or columns are orthonormal.

    The rows of the matrix are the first axis of the tensor. Its columns are all other axes,
    flattened.

    Raises  ValueError for a tensor with fewer than two axes
    Source  Saxe et al. 2013, "Exact solutions to the nonlinear dynamics of learning"
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: needs 2 or more dimensions, got {tensor.shape}")
    rows = tensor.shape[0]
    columns = tensor.numel() // max(rows, 1)
    draw, shape = _generator(tensor, generator), tensor.shape

    def values() -> np.ndarray:
        return gain * draw_orthogonal(draw, rows, columns).reshape(shape)

    return _write(tensor, draws_to_fill(tensor, values))


def fans(tensor: Tensor) -> tuple[int, int]:
    """Return fan_in and fan_out of a weight: the number of inputs that contribute to each output,
    and the number of outputs to which each input contributes.

    Raises  ShapeError for a weight with fewer than two axes
    """
    if tensor.ndim < 2:
        raise ShapeError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, "
            f"got {tensor.shape}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


# Private names of PyTorch that some packages import.
_calculate_fan_in_and_fan_out = fans


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {list(modes)}")
    return fans(tensor)[modes.index(mode.lower())]


def _no_grad_uniform_(
    tensor: Tensor, a: float, b: float, generator: Generator | None = None
) -> Tensor:
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(
    tensor: Tensor, mean: float, std: float, generator: Generator | None = None
) -> Tensor:
    return normal_(tensor, mean, std, generator)


def _no_grad_trunc_normal_(
    tensor: Tensor,
    mean: float,
    std: float,
    a: float,
    b: float,
    generator: Generator | None = None,
) -> Tensor:
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    return constant_(tensor, val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 0.0)


def _has_none(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warn_caller("Initializing zero-element tensors is a no-op")
        return True
    return False


def _xavier_deviation(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / sum(fans(tensor)))


def _kaiming_deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _generator(tensor: Tensor, generator: Generator | None) -> Generator:
    return default_generator_of(tensor.device) if generator is None else generator


def _write(tensor: Tensor, values: Tensor | np.ndarray) -> Tensor:
    with no_grad():
        return tensor.copy_(values)


def _deprecated(newer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    name = newer.__name__.removesuffix("_")

    @functools.wraps(newer)
    def older(*args: Any, **kwargs: Any) -> Tensor:
        warn_caller(
            f"`nn.init.{name}` is now deprecated in favor of `nn.init.{newer.__name__}`.",
            FutureWarning,
        )
        return newer(*args, **kwargs)

    older.__name__ = older.__qualname__ = name
    older.__doc__ = f"Do what {newer.__name__} does: its older name."
    return older


uniform, normal = _deprecated(uniform_), _deprecated(normal_)
constant, eye = _deprecated(constant_), _deprecated(eye_)
xavier_uniform, xavier_normal = _deprecated(xavier_uniform_), _deprecated(xavier_normal_)
kaiming_uniform, kaiming_normal = _deprecated(kaiming_uniform_), _deprecated(kaiming_normal_)
dirac, sparse = _deprecated(dirac_), _deprecated(sparse_)
orthogonal = _deprecated(orthogonal_)


fold_public(__name__)
show_public(__name__)
