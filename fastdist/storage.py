"""PyTorch's module of storages: `from fastdist.storage import UntypedStorage`."""

from __future__ import annotations

from .core.missing import explain_missing
from .tensor.typed_storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]

explain_missing(__name__)
