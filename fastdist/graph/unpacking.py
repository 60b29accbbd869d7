"""Reads the saved values of Nodes: checks them, and restores their edges in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from ..tensor.layout import Layout
from ..tensor.storage import Storage
from ..tensor.tensor import Tensor, wrap
from .modes import modes
from .node import Node, raise_changed, raise_released


def unpack_input(node: Node, tensor: Tensor | None, version: int, edge: Any) -> Tensor:
    """Return a saved input after checking its version, with the edge that it had when it was
    saved.
    """
    if tensor is None:
        raise_released(node)
    assert tensor is not None
    storage = tensor._storage
    if storage is not None and storage.version != version:
        raise_changed(node, tensor, tensor._layout, version, storage.version)
    if tensor._edge is edge:
        return tensor
    alias = wrap(tensor._array, tensor._layout)
    alias._edge, alias._extra, alias._storage = edge, tensor._extra, storage
    return alias


def unpack_spare(node: Node, tensor: Tensor, version: int, edge: Any) -> Tensor | None:
    """Return a saved input as unpack_input does; None if it was overwritten."""
    storage = tensor._storage
    if storage is not None and storage.version != version:
        return None
    return unpack_input(node, tensor, version, edge)


def unpack_output(
    node: Node, saved: tuple[Any, Storage, int, Any] | None, layout: Layout, edge: Any
) -> Tensor:
    """Return a saved output after checking its version, with its edge."""
    if saved is None:
        raise_released(node)
    assert saved is not None
    array, storage, version, tangents = saved
    if storage.version != version:
        raise_changed(node, None, layout, version, storage.version)
    alias = wrap(array, layout)
    alias._edge, alias._extra, alias._storage = edge, tangents, storage
    if tangents.__class__ is SavedView:
        alias._edge, alias._extra = tangents.edge(), tangents._extra
    return alias


# Results after the first are saved as the Tensors that the caller gets. They are new, so their
# version is 0 and is not stored.
def as_fresh(results: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return results; a result whose version is not 0 is replaced by an alias at version 0."""
    for one in results:
        storage = one._storage
        if storage is not None and storage.version:
            return tuple([one if one._version == 0 else _alias(one) for one in results])
    return results


def _alias(tensor: Tensor) -> Tensor:
    alias = wrap(tensor._array, tensor._layout)
    alias._edge, alias._extra = tensor._edge, tensor._extra
    return alias


def require_fresh(node: Node, results: Sequence[Tensor]) -> None:
    """Raise if one of a Node's saved results after the first was changed in place."""
    for one in results:
        storage = one._storage
        if storage is not None and storage.version:
            raise_changed(node, one, one._layout, 0, storage.version)


class SavedView:
    """The graph position of a saved output that an in-place op wrote into a view.

    Its gradient must go to the base's CopySlices, which holds the op's Node: sent directly to the
    op's Node, it would run that Node twice. The CopySlices is held weakly, because it holds the
    Node.
    """

    __slots__ = ("_array", "_extra", "layout", "node", "replay", "steps")

    def __init__(self, base: Tensor, extra: Any, replay: Callable[..., Tensor]) -> None:
        self._array, self.layout = base._array, base._layout
        self.node, self.steps, self.replay = ref(base._edge), extra.replay, replay
        # With tangents this makes a reference cycle, until the level ends and frees them.
        self._extra = extra if modes.special else None

    def edge(self) -> Any:
        """Return the edge of the view, recorded again over the base as it was when the output was
        saved.
        """
        base = wrap(self._array, self.layout)
        base._edge = self.node()
        return self.replay(base, self.steps)._edge
