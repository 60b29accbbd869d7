"""PyTorch's functions that choose attention kernels: calls are accepted and have no effect.

fastdist computes attention in blocks or with whole matrices, depending on the sizes alone: see
ops/nn/attention_blocks.py. bias.py has causal masks, and flex_attention.py has attention with
user-defined functions of the scores.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...core.missing import load_later
from ...core.short_repr import short_repr

if TYPE_CHECKING:
    from . import bias, flex_attention

__all__ = ["SDPBackend", "bias", "flex_attention", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """PyTorch's implementations of scaled_dot_product_attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Accept the attention kernels that are allowed in a `with` block, and ignore them.

    Raises  AssertionError for a backend that is not an SDPBackend
    """
    given = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(one, SDPBackend) for one in given):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend instances: got "
            f"{short_repr(backends)}"
        )
    yield


# Loaded on first use, because few programs need these two modules.
load_later(__name__, {"bias": "", "flex_attention": ""})
