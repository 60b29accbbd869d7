"""Copies batches to pinned memory: PyTorch has this function in its private file pin_memory.py."""

from __future__ import annotations

from typing import Any

from ....core.missing import explain_missing
from ....data.pinning import pinned
from ....devices.gpus import device_count

__all__ = ["pin_memory"]


def pin_memory(data: Any, device: Any = None) -> Any:
    """Return a batch with its tensors in pinned memory; without a GPU, return it unchanged.

    Args:
        data: Tensors in mappings and sequences of any depth.
        device: Ignored; pinned memory works with all GPUs.
    """
    return pinned(data) if device_count() else data


explain_missing(__name__)
