"""A context that PyTorch needs for tracing indexing under vmap; it has no effect here."""

from __future__ import annotations

from ..core.missing import explain_missing

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """A context that does nothing: vmap always supports `x[index]` with a batched index."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


explain_missing(__name__)
