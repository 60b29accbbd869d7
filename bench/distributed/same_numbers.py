"""Random numbers that are the same in fastdist and PyTorch, whichever is imported as `torch`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def draw(*shape: int, seed: int, scale: float = 1.0) -> Any:
    """Return normally distributed numbers in float32."""
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return torch.from_numpy(values.astype(np.float32))
