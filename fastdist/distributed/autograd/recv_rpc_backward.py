"""Where tensors that came in a message join this worker's graph: their gradients leave here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from ...backends.backend import backend_of
from ...core.errors import ContextReleasedError
from ...graph.node import Node, next_sequence_number
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor, layout_of, wrap
from ..rpc.agent import get_current_agent
from ..rpc.message_types import MessageType

if TYPE_CHECKING:
    from .context import DistAutogradContext


class RecvRpcBackward(Node):
    """Backward of receiving tensors: sends their gradients to the worker that sent them.

    Holds its context weakly, for the context holds it.

    Source  PyTorch, torch/csrc/distributed/autograd/functions/recvrpc_backward.cpp
    """

    __slots__ = ("_context", "from_worker_id", "message_id", "num_outputs")

    def __init__(
        self, context: DistAutogradContext, message_id: int, from_worker_id: int, layouts: tuple[Layout, ...]
    ) -> None:
        self.seq = next_sequence_number()
        self.edges = ()
        self.hooks = None
        self.layout = layouts
        self.num_outputs = len(layouts)
        self.message_id = message_id
        self.from_worker_id = from_worker_id
        self._context = ref(context)

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Send the gradients; undefined ones become zeros, for the other side needs one for each tensor."""
        arrays = g if g.__class__ is tuple else (g,)
        self._send([
            None if array is None else wrap(array, layout_of(array, layout.device))
            for array, layout in zip(arrays, self.layout, strict=True)
        ], keep)  # fmt: skip
        return ()

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Send the gradients."""
        self._send(list(g) if g.__class__ is tuple else [g], keep)
        return ()

    def _send(self, grads: list[Tensor | None], keep: bool) -> None:
        context = self._context()
        if context is None:
            raise ContextReleasedError(
                "Autograd context no longer valid! This usually means the autograd context was cleaned up by a "
                "different thread due to an error before RecvRcpBackward had a chance to run"
            )
        tensors = [_zeros(layout) if g is None else g for g, layout in zip(grads, self.layout, strict=True)]
        future = get_current_agent().send(
            self.from_worker_id,
            MessageType.BACKWARD_AUTOGRAD_REQ,
            tensors,
            {"context_id": context.id, "message_id": self.message_id, "retain_graph": keep},
        )
        context.add_outstanding_rpc(future)

    def name(self) -> str:
        """Return the name that PyTorch shows."""
        return "RecvRpcBackward"


def _zeros(layout: Layout) -> Tensor:
    zeros = np.zeros(layout.shape, layout.dtype.numpy)
    array = backend_of(layout.device.type).from_numpy(zeros, layout.device.index)
    return wrap(array, layout_of(array, layout.device))

