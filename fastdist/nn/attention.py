"""Which way attention is computed, under PyTorch's names, of which each is taken and none chooses.

Blocks or matrices follow from the sizes alone: see ops/nn/attention_blocks.py.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ..core.short_repr import short_repr


class SDPBackend(enum.IntEnum):
    """The ways in which PyTorch may compute scaled_dot_product_attention."""

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
    """Allow attention these ways only, within the block; here all stand for the one that suits.

    Raises  AssertionError for what is no SDPBackend
    """
    given = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(one, SDPBackend) for one in given):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend instances: got "
            f"{short_repr(backends)}"
        )
    yield
