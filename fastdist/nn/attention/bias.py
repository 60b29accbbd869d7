"""Causal masks for scaled_dot_product_attention, aligned to the upper left or lower right."""

from __future__ import annotations

import enum
from typing import Any

from ...core.missing import explain_missing
from ...core.torch_function import disabled_torch_function
from ...ops.create.creation import ones
from ...tensor.tensor import Tensor

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """The corner of the mask at which the diagonal starts (upper left) or ends (lower right)."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A bool mask for attention: in the row of each query, True for the keys up to the diagonal, to
    which the query may attend.

    Args:
        variant: The corner of the mask at which the diagonal starts or ends.
        seq_len_q: The number of queries.
        seq_len_kv: The number of keys.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int
    __torch_function__ = disabled_torch_function

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        ahead = seq_len_kv - seq_len_q if variant == CausalVariant.LOWER_RIGHT else 0
        mask = ones(seq_len_q, seq_len_kv).tril(ahead) > 0
        made: Any = mask.as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made  # type: ignore[no-any-return]

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        """Do nothing: __new__ has made the mask."""

    def _materialize(self, device: Any = None) -> Tensor:
        """Return the mask as an ordinary Tensor."""
        plain: Tensor = self.as_subclass(Tensor)
        return plain.to(device or self.device)


def causal_upper_left(*size: int) -> CausalBias:
    """Return the mask whose diagonal starts in the upper left corner.

    Query i attends to the keys 0 to i.

    Args:
        size: The number of queries and the number of keys.
    """
    return _of_size(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """Return the mask whose diagonal ends in the lower right corner.

    The last query attends to all keys.

    Args:
        size: The number of queries and the number of keys.
    """
    return _of_size(CausalVariant.LOWER_RIGHT, size)


def _of_size(variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise RuntimeError(f"a causal mask has 2 sizes, queries and keys, but got {size}")
    return CausalBias(variant, *size)


explain_missing(__name__)
