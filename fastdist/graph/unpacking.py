"""Reading the saved values of Nodes: they are checked, and get back their edges in the graph."""

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
    """Return a saved input, checked, with the place in the graph that it had when it was saved."""
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
    """Return a saved output, checked, with its edge."""
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


# Results after the first are saved as the Tensors that the caller gets: fresh, at version 0, which
# is not stored with them.
def as_fresh(results: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return results; one that an in-place op will write to is replaced by its alias."""
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
    """The place in the graph of an output that an in-place op wrote into a view.

    Its gradient is sent to the base's CopySlices, which holds the op's Node: sent to the Node
    itself it would run that one twice. The CopySlices is held weakly, because it holds the Node.
    """

    __slots__ = ("_array", "_extra", "layout", "node", "replay", "steps")

    def __init__(self, base: Tensor, extra: Any, replay: Callable[..., Tensor]) -> None:
        self._array, self.layout = base._array, base._layout
        self.node, self.steps, self.replay = ref(base._edge), extra.replay, replay
        # With tangents there is a cycle, until they are freed with their level.
        self._extra = extra if modes.special else None

    def edge(self) -> Any:
        """Return the edge of the view, recorded again over the base of that time."""
        base = wrap(self._array, self.layout)
        base._edge = self.node()
        return self.replay(base, self.steps)._edge
