"""Lengths, angles and distances of vectors along one axis."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import WORDS
from ...core.errors import DTypeError
from ...dispatch.composite import COMPOSITES, composite
from ...dispatch.target import GivenOut, store_in_out
from ...tensor.axes import Axes
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor


@composite(homes="functional", known_as="")
def normalize(
    input: Tensor, p: float = 2.0, dim: Axes = 1, eps: float = 1e-12, out: GivenOut = None
) -> Tensor:
    """Return input divided by its norm along dim, or by eps if eps is larger than the norm.

    Raises  RuntimeError if input is neither floating-point nor complex; IndexError if dim is out of
            range

    Args:
        input: A floating-point or complex tensor. A slice of zeros stays 0.
        p: The order of the norm.
        dim: The axis or axes over which norms are computed.
        eps: The smallest divisor, which prevents a division by 0.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> F.normalize(torch.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    result: Any = input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return store_in_out("normalize", out, result, (input,), "cast", "apart")


@composite(homes="function functional")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between x1 and x2 along dim. Norms smaller than eps are
    replaced by eps.
    """
    first, second = COMPOSITES["broadcast_tensors"].call(x1, x2)
    dtype = result_dtype([first, second])
    if not dtype.is_floating_point:
        raise DTypeError(
            "expected common dtype to be floating point, yet common dtype is "
            f"{WORDS[dtype]}: cast one with .float()"
        )
    first, second = first.to(dtype), second.to(dtype)
    lengths = [one.norm(2, dim, keepdim=True).clamp_min(eps) for one in (first, second)]
    return ((first / lengths[0]) * (second / lengths[1])).sum(dim)  # type: ignore[no-any-return]


@composite(homes="function functional", node="norm.1")
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Return the norms of x1 - x2 + eps along the last axis."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)
