"""Access to the recorded graph: its Nodes, and hooks that store saved values elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from ..core.folded_frames import folds
from ..core.missing import explain_missing
from ..engine.execution_order import current_graph_task_execution_order
from ..graph.gradient_edge import GradientEdge, get_gradient_edge
from ..graph.node import Node, RemovableHandle
from ..graph.saved_tensors import disable_hooks, pop_hooks, push_hooks
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor


@folds
def increment_version(tensor: Tensor) -> None:
    """Record that code outside of fastdist changed the tensor's memory in place."""
    storage_of(tensor).bump()


class saved_tensors_hooks:
    """In this block, in this thread, Nodes save the results of pack_hook(tensor). When a gradient
    needs the value, unpack_hook must return a tensor of the same shape, dtype and device.

    Only the innermost block applies. Values that pass through hooks are not checked for changes in
    place.
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> Self:
        push_hooks(self.pack_hook, self.unpack_hook)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pop_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Inside this block, move saved values to main memory. A backward pass copies each value back
    to its device.

    Note    pin_memory is accepted for PyTorch's signature and changes nothing
    """

    def __init__(self, pin_memory: bool = False) -> None:
        super().__init__(
            lambda tensor: (tensor.device, tensor.detach().cpu()),
            lambda packed: packed[1].to(packed[0]),
        )


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Make hooks on saved tensors raise RuntimeError(error_message) in this block, in this thread.

    Raises  RuntimeError with error_message if this block begins inside of saved_tensors_hooks
    """
    before = disable_hooks(error_message)
    try:
        yield
    finally:
        disable_hooks(before)


__all__ = [
    "GradientEdge",
    "Node",
    "RemovableHandle",
    "current_graph_task_execution_order",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "save_on_cpu",
    "saved_tensors_hooks",
]


explain_missing(__name__)
