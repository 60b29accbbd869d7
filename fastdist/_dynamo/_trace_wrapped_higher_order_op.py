"""A context that PyTorch needs to trace indexing within vmap; here vmap indexes in any case."""

from __future__ import annotations

from ..core.missing import explain_missing

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """Do nothing, as a context: vmap computes `x[index]` with an index of the batch."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


explain_missing(__name__)
