"""Where a worker's graph ends in a message: gradients that come back for it enter here."""

from __future__ import annotations

from typing import Any

from ...backends.backend import backend_of
from ...core.device import CPU
from ...graph.node import Node, next_sequence_number
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor, layout_of, wrap


class SendRpcBackward(Node):
    """Backward of sending tensors: hands on the gradients that a message brought.

    Takes no inputs; `set_grads` says what it will give.

    Source  PyTorch, torch/csrc/distributed/autograd/functions/sendrpc_backward.cpp
    """

    __slots__ = ("_grads", "_is_fresh", "_is_unused", "to_worker_id")

    num_outputs = 0

    def __init__(
        self, edges: tuple[Any, ...], layouts: tuple[Any, ...], to_worker_id: int = -1
    ) -> None:
        self.seq = next_sequence_number()
        self.edges = edges
        self.hooks = None
        self.layout = layouts
        self.to_worker_id = to_worker_id
        self._is_fresh = False
        self._is_unused = False
        self._grads: tuple[Tensor | None, ...] = ()

    def set_grads(self, grads: tuple[Tensor | None, ...], fresh: bool = False) -> None:
        """Take the gradients of one message; if they are fresh, nobody else holds their memory."""
        assert len(grads) == len(self.edges), "a gradient message must answer every tensor sent"
        self._grads = grads
        self._is_fresh = fresh

    def set_unused(self) -> None:
        """Take the word that nothing follows from what was sent: it has no gradients."""
        self._is_unused = True

    @property
    def fresh(self) -> bool:  # type: ignore[override]
        """Whether the gradients that wait here may be taken over."""
        return self._is_fresh

    def grads(self) -> tuple[Tensor | None, ...]:
        """Return the gradients that wait to be handed on."""
        return self._grads

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients as raw arrays; all must have come."""
        return tuple([None if t is None else t.array for t in self.apply_recorded(g, keep)])

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients; all must have come."""
        if self._is_unused:
            self._is_unused = False
            return (None,) * len(self.edges)
        grads, self._grads = self._grads, ()
        assert len(grads) == len(self.edges), "a send ran before its gradients came"
        assert all(grad is not None for grad in grads), "a send was given an undefined gradient"
        # Here and not where they came: what is copied must be there on the stream of the pass.
        return tuple([_on_device_of(layout, g) for layout, g in zip(self.layout, grads)])

    def name(self) -> str:
        """Return the name that PyTorch shows."""
        return "SendRpcBackward"


def _on_device_of(layout: Layout, grad: Tensor | None) -> Tensor | None:
    device = layout.device
    if device is CPU or grad is None or grad.layout.device is device:
        return grad
    array = backend_of(device.type).from_numpy(grad.array, device.index)
    return wrap(array, layout_of(array, device))
