"""Helpers of distributions: broadcasting, probabilities and logits, lazy attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Generic, TypeVar, overload

from ..core.dtypes import DType
from ..core.short_repr import short_repr
from ..graph.modes import enable_grad
from ..namespace.limits import finfo
from ..ops.create.creation import tensor
from ..ops.create.random import randn
from ..ops.create.ranges import arange
from ..ops.nn.softmax import softmax
from ..ops.pointwise.masked import where
from ..ops.shape.rearranging import broadcast_tensors
from ..tensor.tensor import Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

NUMBER = (int, float)
euler_constant = 0.57721566490153286060
R = TypeVar("R")


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Return values as tensors broadcast to one shape; numbers get the first tensor's dtype.

    Raises  ValueError for a value that is neither a number nor a tensor
    """
    first = next((value for value in values if isinstance(value, Tensor)), None)
    tensors: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif not isinstance(value, NUMBER):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects "
                f"implementing __torch_function__. Got {type(value).__name__}: {short_repr(value)}"
            )
        elif first is None:
            tensors.append(tensor(float(value)))
        else:
            tensors.append(tensor(value, dtype=first.dtype, device=first.device))
    if all(one.shape == tensors[0].shape for one in tensors):
        return tuple(tensors)
    return tuple(broadcast_tensors(*tensors))


def sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Return the sum over the last `dim` axes."""
    return value if dim == 0 else value.sum(tuple(range(-dim, 0)))


# PyTorch's private name of this function; some packages import it.
_sum_rightmost = sum_rightmost


def _standard_normal(shape: Sequence[int], dtype: DType | None, device: Any) -> Tensor:
    """Return samples of the standard normal distribution; some packages import this function.

    Args:
        shape: The shape of the result.
        dtype: A floating-point or complex dtype; the default dtype if None.
        device: The device of the result; the default device if None.
    """
    return randn(shape, dtype=dtype, device=device)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return the probabilities for logits.

    Logits are log odds if is_binary, else unnormalised log probabilities along the last axis.
    """
    return logits.sigmoid() if is_binary else softmax(logits, dim=-1)


def finite_logs(x: Tensor) -> Tensor:
    """Return x, clamped to logarithms of normal (not subnormal) positive numbers of its dtype."""
    low, high = log_limits(x)
    return x.clamp(min=low, max=high)


def log_limits(x: Tensor) -> tuple[float, float]:
    """Return the logarithms of the smallest normal and the largest positive number of x's dtype.

    The range between them is narrowed by the possible rounding error.
    """
    limits = finfo(x.dtype)
    drawn_in = 1.0 - 4.0 * limits.eps
    return math.log(limits.tiny) * drawn_in, math.log(limits.max) * drawn_in


def kept_finite(x: Tensor) -> Tensor:
    """Return x with infinities clamped to its dtype's finite range; their gradient is 0."""
    limits = finfo(x.dtype)
    return x.clamp(min=limits.min, max=limits.max)


def kept_finite_in_halves(value: Tensor) -> Tensor:
    """Return value, with infinities of a half type clamped to the finite range.

    Note    for distributions whose samples overflow only in half types if the parameters are
            realistic. A clamp takes 7 us, a sixth of the time that sampling 1,000 numbers of a
            normal distribution takes (AMD EPYC, Zen 4)
    """
    return kept_finite(value) if value.dtype.itemsize == 2 else value


def open_unit_interval(x: Tensor) -> Tensor:
    """Return x, clamped to its dtype's numbers strictly between 0 and 1."""
    limits = finfo(x.dtype)
    return x.clamp(min=limits.tiny, max=1.0 - limits.eps / 2)


def log1p_square(x: Tensor) -> Tensor:
    """Return log(1 + x**2), also if the square overflows."""
    far = x.abs() > 1
    reach = x.masked_fill(~far, 1.0)
    low = where(far, reach.reciprocal(), x)
    return low.square().log1p() + 2 * reach.abs().log()


def clamp_probs(probs: Tensor) -> Tensor:
    """Return probs, clamped to [eps, 1 - eps], where eps is that of the dtype."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return the log odds of probs if is_binary, else the logarithms of probs."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property(Generic[R]):
    """An attribute that is computed, with gradients, when it is first read, and then stored."""

    def __init__(self, wrapped: Callable[[Any], R]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    @overload
    def __get__(self, instance: None, owner: Any = None) -> lazy_property[R]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> R: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the elements on and below the diagonal with offset diag, row by row.

    Shape   (..., n, n) -> (..., m)
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _lower(n, diag, mat)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return matrices with vec, row by row, on and below the diagonal of offset diag, and 0 above.

    Shape   (..., m) -> (..., n, n)
    """
    length = vec.shape[-1]
    root = ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5
    n = (-(1 + 2 * diag) + root) / 2
    if round(n) - n > finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    size = round(n)
    mat = vec.new_zeros((*vec.shape[:-1], size, size))
    mat[..., _lower(size, diag, vec)] = vec
    return mat


def on_diagonal(vec: Tensor) -> Tensor:
    """Return diagonal matrices with vec on their diagonals.

    Shape   (..., n) -> (..., n, n)
    """
    places = arange(vec.shape[-1], device=vec.device)
    return vec.unsqueeze(-1).masked_fill(places != places.unsqueeze(-1), 0)


def times_vector(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return the matrix-vector products, with broadcast batch axes."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _lower(n: int, diag: int, like: Tensor) -> Tensor:
    places = arange(n, device=like.device)
    return places < places.view(-1, 1) + (diag + 1)


def is_compatible(one: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether two shapes broadcast; leading axes of the longer shape do not matter."""
    return all(
        1 in (size, wanted) or size == wanted
        for size, wanted in zip(reversed(one), reversed(other), strict=False)
    )
