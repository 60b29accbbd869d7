"""Names of fastdist.data that PyTorch has in its private file worker.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.missing import find_late
from ....data import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Return the four 32-bit words with which a worker seeds NumPy.

    Source  M. E. O'Neill's seed_seq_fe128, which numpy.random.SeedSequence implements
    """
    words = (worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0)
    return [int(word) for word in np.random.SeedSequence(words).generate_state(4)]


def __getattr__(name: str) -> Any:
    """Return the current `WorkerInfo` of this process for the private name `_worker_info`."""
    if name == "_worker_info":
        return get_worker_info()
    return find_late(__name__, name)
