"""Where a worker's graph ends in a message: gradients that come back for it enter here."""

from __future__ import annotations

from typing import Any

from ...core.device import CPU
from ...core.errors import MessageError
from ...devices.backend import backend_of
from ...engine.engine import current_graph_task
from ...graph.node import Node, next_sequence_number
from ...ops.sparse import as_taken
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor, layout_of, wrap
from .dist_graph_task import DistGraphTask


class SendRpcBackward(Node):
    """Backward of sending tensors: hands on the gradients that a message brought.

    Takes no inputs; `set_grads` says what it will give in a pass.

    Source  PyTorch, torch/csrc/distributed/autograd/functions/sendrpc_backward.cpp
    """

    __slots__ = ("_came", "_is_fresh", "to_worker_id")

    num_outputs = 0

    def __init__(
        self, edges: tuple[Any, ...], layouts: tuple[Any, ...], to_worker_id: int = -1
    ) -> None:
        self.seq = next_sequence_number()
        self.edges = edges
        self.hooks = None
        self.facts = layouts
        self.to_worker_id = to_worker_id
        self._is_fresh = False
        # By pass, None where nothing follows. What came for one that was given up may never be
        # handed on, and a thread may still be at it when the next one's gradients come.
        self._came: dict[int, tuple[Tensor | None, ...] | None] = {}

    def set_grads(
        self,
        grads: tuple[Tensor | None, ...],
        fresh: bool = False,
        pass_id: int = DistGraphTask.pass_id,
    ) -> None:
        """Take the gradients of one message; if they are fresh, nobody else holds their memory.

        Raises  MessageError if there is not one for every tensor that was sent
        """
        if len(grads) != len(self.edges):
            raise MessageError(
                f"{len(grads)} gradients came from worker {self.to_worker_id} for "
                f"{len(self.edges)} tensors that were sent there; each needs one"
            )
        for grad, layout in zip(grads, self.facts, strict=True):
            # What a sparse one names is written to unseen: a dense one would not fit.
            if grad is not None and grad.facts.is_sparse and grad.facts.shape != layout.shape:
                raise MessageError(
                    f"a gradient of shape {grad.facts.shape} came from worker "
                    f"{self.to_worker_id} for a tensor of shape {layout.shape}"
                )
        # First: they may be handed on from here.
        self._is_fresh = fresh
        self._came[pass_id] = grads

    def set_unused(self, pass_id: int = DistGraphTask.pass_id) -> None:
        """Take the word that nothing follows from what was sent: it has no gradients."""
        self._came[pass_id] = None

    @property
    def fresh(self) -> bool:  # type: ignore[override]
        """Whether the gradients that wait here may be taken over."""
        return self._is_fresh

    def grads(self) -> tuple[Tensor | None, ...]:
        """Return the gradients that wait to be handed on."""
        return self._came.get(_pass_here()) or ()

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients as raw arrays; all must have come."""
        return tuple([None if t is None else t.array for t in self.apply_recorded(g, keep)])

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients; all must have come."""
        grads = self._came.pop(_pass_here(), ())
        if grads is None:
            return (None,) * len(self.edges)
        assert len(grads) == len(self.edges), "a send ran before its gradients came"
        assert all(grad is not None for grad in grads), "a send was given an undefined gradient"
        # Here and not where they came: what is copied must be there on the stream of the pass.
        return tuple(
            [
                as_taken(_on_device_of(layout, g), edge)
                for layout, g, edge in zip(self.facts, grads, self.edges)
            ]
        )

    def name(self) -> str:
        """Return the name that PyTorch shows."""
        return "SendRpcBackward"


def _pass_here() -> int:
    task = current_graph_task()
    return task.pass_id if isinstance(task, DistGraphTask) else DistGraphTask.pass_id


def _on_device_of(layout: Layout, grad: Tensor | None) -> Tensor | None:
    device = layout.device
    if device is CPU or grad is None or grad.facts.device is device:
        return grad
    if grad.facts.is_sparse:
        return grad.to(device)
    array = backend_of(device.type).from_numpy(grad.array, device.index)
    return wrap(array, layout_of(array, device))
