"""Copies batches to pinned memory, so that the copies to a GPU can be asynchronous."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from ..tensor.tensor import Tensor


def pinned(batch: Any) -> Any:
    """Return a batch with its Tensors in pinned memory, also Tensors in mappings, sequences and
    named tuples. For an object with a method `pin_memory()`, return the result of that method.

    Raises  RuntimeError without a GPU
    """
    if isinstance(batch, str | bytes):
        return batch
    if isinstance(batch, Tensor) or hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    if isinstance(batch, Mapping):
        held = {key: pinned(value) for key, value in batch.items()}
        if isinstance(batch, MutableMapping):
            # A copy of the container keeps attributes that are not items.
            kept = copy.copy(batch)
            kept.update(held)
            return kept
        return held
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(pinned, batch))
    if isinstance(batch, tuple):
        return [*map(pinned, batch)]  # a list, as in PyTorch
    if isinstance(batch, MutableSequence):
        sequence = copy.copy(batch)
        for place, value in enumerate(batch):
            sequence[place] = pinned(value)
        return sequence
    return [*map(pinned, batch)] if isinstance(batch, Sequence) else batch
