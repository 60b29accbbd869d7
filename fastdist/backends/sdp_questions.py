"""Queries for PyTorch's attention kernels, which fastdist does not have."""

from __future__ import annotations

from typing import Any, NamedTuple


class SDPAParams(NamedTuple):
    """The arguments of one call of attention."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any = None
    dropout: float = 0.0
    is_causal: bool = False
    enable_gqa: bool = False


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return False: fastdist has its own attention kernel."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


def current_flash_attention_impl() -> None:
    """Return None: no other implementation can be chosen."""


def list_flash_attention_impls() -> list[Any]:
    """Return an empty list: no other implementation can be chosen."""
    return []


def restore_flash_attention_impl() -> None:
    """Do nothing: no other implementation can be chosen."""
