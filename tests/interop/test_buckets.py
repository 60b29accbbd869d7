"""Buckets of parameters by size equal PyTorch's, for random tensors, limits and indices."""

from __future__ import annotations

import random
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist

pytestmark = pytest.mark.interop("torch")

DTYPES = ("float32", "float64", "float16")


@pytest.mark.parametrize("seed", range(60))
def test_buckets_are_those_of_pytorch(seed: int) -> None:
    import torch

    rng = random.Random(seed)
    count = rng.randint(1, 9)
    kinds = [(rng.randint(0, 40), rng.choice(DTYPES[: rng.randint(1, 3)])) for _ in range(count)]
    limits = [rng.choice((1, 40, 80, 200, 4000)) for _ in range(rng.randint(1, 3))]
    sparse = [rng.random() < 0.2 for _ in range(count)] if rng.random() < 0.4 else []
    indices = rng.sample(range(count), count) if rng.random() < 0.4 else []

    def found(module: Any, assign: Any) -> Any:
        tensors = [module.zeros(size, dtype=getattr(module, name)) for size, name in kinds]
        return assign(tensors, limits, sparse, indices)

    ours = found(fd, dist._compute_bucket_assignment_by_size)
    theirs = found(torch, torch.distributed._compute_bucket_assignment_by_size)
    # With indices, the order of unfilled buckets in PyTorch depends on a hash table.
    if indices:
        ours, theirs = (sorted(zip(*one)) for one in (ours, theirs))
    assert ours == theirs
