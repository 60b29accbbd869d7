"""Reads the saved values of Nodes: checks their versions, and restores their edges in the graph."""

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
    """Check the version of a saved input, and return it with the edge that it had when it was
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
    """Return a saved input as unpack_input does, or None if an in-place op has changed it."""
    storage = tensor._storage
    if storage is not None and storage.version != version:
        return None
    return unpack_input(node, tensor, version, edge)


def unpack_output(
    node: Node, saved: tuple[Any, Storage, int, Any] | None, layout: Layout, edge: Any
) -> Tensor:
    """Check the version of a saved output, and return the output with its edge."""
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


# For the second and later results of a call, a Node saves the Tensors that the caller gets. Their
# memory is new, so their version is 0, and the Node does not store it.
def as_fresh(results: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return `results`, with an alias at version 0 for each result whose version is not 0."""
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
    """Raise an error if the second or a later result that a Node saved was changed in place."""
    for one in results:
        storage = one._storage
        if storage is not None and storage.version:
            raise_changed(node, one, one._layout, 0, storage.version)


class SavedView:
    """The place in the graph of a saved output that an in-place op wrote into a view.

    The output's gradient must go to the base's CopySlices, which runs the op's Node. A gradient
    that goes directly to the op's Node would run that Node twice. This object refers only weakly to
    the CopySlices, because the CopySlices refers to the Node that saves this object.
    """

    __slots__ = ("_array", "_extra", "layout", "node", "replay", "steps")

    def __init__(self, base: Tensor, extra: Any, replay: Callable[..., Tensor]) -> None:
        self._array, self.layout = base._array, base._layout
        self.node, self.steps, self.replay = ref(base._edge), extra.replay, replay
        # With tangents, this reference makes a cycle until the level ends and frees the tangents.
        self._extra = extra if modes.special else None

    def edge(self) -> Any:
        """Record the view again on the base as the base was when the output was saved, and return
        the view's edge.
        """
        base = wrap(self._array, self.layout)
        base._edge = self.node()
        return self.replay(base, self.steps)._edge
