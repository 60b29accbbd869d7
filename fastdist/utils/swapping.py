"""Swaps the contents of two tensors."""

from __future__ import annotations

from ..core.errors import GraphError
from ..tensor.storage import Storage
from ..tensor.tensor import Tensor


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Swap the contents of two tensors: memory, class, attributes, gradient and position in the
    graph. Each reference to one of them then refers to the contents of the other.

    Raises  RuntimeError for a tensor with a live view, which would keep the old memory
    """
    for name, one in (("t1", t1), ("t2", t2)):
        if _has_views(one._storage, one):
            raise GraphError(f"Cannot swap {name} because a view of it is in use")
    first = {name: getattr(t1, name) for name in _PARTS}
    for name in _PARTS:
        setattr(t1, name, getattr(t2, name))
        setattr(t2, name, first[name])
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    for one in (t1, t2):
        if one._edge is not None and one._edge.is_accumulate:
            one._edge.attach(one)


_PARTS = ("_array", "_layout", "_edge", "_extra", "_storage", "__dict__")


def _has_views(storage: Storage | None, tensor: Tensor) -> bool:
    views = [] if storage is None else storage.living_views()
    return any(
        view is not tensor and view._extra is not None and view._extra.base is tensor
        for view in views
    )
