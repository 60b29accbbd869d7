"""Where tensors that came in a message join this worker's graph: their gradients leave here."""

from __future__ import annotations

from typing import Any, ClassVar
from weakref import ref

import numpy as np

from ...core.device import CPU
from ...core.errors import ContextReleasedError, GraphError, WorkerLostError
from ...devices.backend import backend_of
from ...engine.engine import current_graph_task
from ...graph.modes import tls
from ...graph.node import Node, next_sequence_number
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor, layout_of, wrap
from .dist_graph_task import DistGraphTask
from .outbox import Context, Gradients, Outbox, current_outbox


class RecvRpcBackward(Node):
    """Backward of receiving tensors: sends their gradients to the worker that sent them.

    Holds its context weakly, for the context holds it.

    Source  PyTorch, torch/csrc/distributed/autograd/functions/recvrpc_backward.cpp
    """

    # The sender counts on an answer, also where nothing came.
    accepts_undefined = True
    takes_sparse: ClassVar[bool] = True
    __slots__ = ("_context", "from_worker_id", "message_id", "num_outputs")

    def __init__(
        self,
        context: Context,
        message_id: int,
        from_worker_id: int,
        layouts: tuple[Layout, ...],
    ) -> None:
        self.seq = next_sequence_number()
        self.edges = ()
        self.hooks = None
        self.facts = layouts
        self.num_outputs = len(layouts)
        self.message_id = message_id
        self.from_worker_id = from_worker_id
        self._context = ref(context)

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Send the gradients; undefined ones become zeros: the other side needs one for each."""
        arrays = g if g.__class__ is tuple else (g,)
        grads = tuple(
            [
                None if array is None else wrap(array, layout_of(array, layout.device))
                for array, layout in zip(arrays, self.facts, strict=True)
            ]
        )
        return self.apply_recorded(grads, keep)

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Send the gradients."""
        self._require_distributed_pass()
        context = self._context()
        if context is None:
            raise ContextReleasedError(
                "Autograd context no longer valid! This usually means the autograd context was "
                "cleaned up by a different thread due to an error before RecvRpcBackward had a "
                "chance to run"
            )
        came = g if g.__class__ is tuple else (g,)
        if self.message_id in context.lost_messages:
            return self._end_at_the_lost(context, came)
        if context.is_auto and all(grad is None for grad in came):
            self._send(context, None, keep)
            return ()
        grads = [
            _zeros(layout) if grad is None else _on_host(grad)
            for grad, layout in zip(came, self.facts, strict=True)
        ]
        self._send(context, grads, keep)
        return ()

    def _end_at_the_lost(self, context: Context, came: tuple[Any, ...]) -> tuple[Any, ...]:
        if context.is_auto and all(grad is None for grad in came):
            return ()
        raise WorkerLostError(
            f"worker {self.from_worker_id}, which sent tensors that the pass of context "
            f"{context.id} goes through, was lost"
        )

    def _require_distributed_pass(self) -> None:
        task = current_graph_task()
        if tls.inline_pass is None and (task is None or isinstance(task, DistGraphTask)):
            return
        raise GraphError(
            f"RecvRpcBackward: this graph goes on at worker {self.from_worker_id}, where a "
            "backward pass of this process does not come; call "
            "fastdist.distributed.autograd.backward(context_id, [loss]) inside the context, and "
            "get_gradients(context_id) for what it finds"
        )

    def _send(self, context: Context, grads: list[Tensor] | None, keep: bool) -> None:
        outbox = current_outbox()
        sent = Gradients(self.message_id, grads)
        if outbox is not None:
            outbox.add(self.from_worker_id, sent)
        else:
            task = current_graph_task()
            pass_id = task.pass_id if isinstance(task, DistGraphTask) else context.pass_id
            outbox = Outbox(context, pass_id, keep)
            outbox.add(self.from_worker_id, sent)
            outbox.flush()

    def name(self) -> str:
        """Return the name that PyTorch shows."""
        return "RecvRpcBackward"


def _zeros(layout: Layout) -> Tensor:
    array = np.zeros(layout.shape, layout.dtype.numpy)
    return wrap(array, layout_of(array, CPU))


def _on_host(grad: Tensor) -> Tensor:
    # The send puts it on the device of the tensor that was sent, whatever the device maps say.
    device = grad.facts.device
    if device is CPU:
        return grad
    if grad.facts.is_sparse:
        return grad.to(CPU)
    array = backend_of(device.type).to_numpy(grad.array)
    return wrap(array, layout_of(array, CPU))
