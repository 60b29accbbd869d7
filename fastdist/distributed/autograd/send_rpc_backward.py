"""Where a worker's part of the graph ends in a message: gradients that come back for it enter here."""

from __future__ import annotations

from typing import Any

from ...graph.node import Node, next_sequence_number
from ...tensor.tensor import Tensor


class SendRpcBackward(Node):
    """Backward of sending tensors: hands the gradients that a message brought to the Nodes that made them.

    Takes no inputs; `set_grads` says what it will give.

    Source  PyTorch, torch/csrc/distributed/autograd/functions/sendrpc_backward.cpp
    """

    __slots__ = ("_grads",)

    def __init__(self, edges: tuple[Any, ...], layouts: tuple[Any, ...]) -> None:
        self.seq = next_sequence_number()
        self.edges = edges
        self.hooks = None
        # Runs wherever the message's thread is: it computes nothing.
        self.layout = layouts
        self._grads: tuple[Tensor | None, ...] = ()

    num_outputs = 0

    def set_grads(self, grads: tuple[Tensor, ...]) -> None:
        """Take the gradients of one message, one for each tensor that was sent with a gradient wanted."""
        assert len(grads) == len(self.edges), "a gradient message must answer every tensor of its send"
        self._grads = grads

    def grads(self) -> tuple[Tensor | None, ...]:
        """Return the gradients of the last message."""
        return self._grads

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients as raw arrays; all must have come."""
        assert all(grad is not None for grad in self._grads), "BUG!: a send ran before its gradients came"
        grads, self._grads = self._grads, ()
        return tuple([grad.array for grad in grads if grad is not None])

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients."""
        grads, self._grads = self._grads, ()
        return grads

    def name(self) -> str:
        """Return the name that PyTorch shows."""
        return "SendRpcBackward"

