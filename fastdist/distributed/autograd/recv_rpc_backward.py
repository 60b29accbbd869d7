"""The Node at which received tensors join this worker's graph; it sends their gradients back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from weakref import ref

import numpy as np

from ...core.device import CPU, Device
from ...core.errors import ContextReleasedError, GraphError, WorkerLostError
from ...devices.staging import HostCopies
from ...engine.engine import current_graph_task
from ...graph.node import Node, next_sequence_number
from ...graph.tensor_tangents import levels_of, tangent_of
from ...ops.create.creation import zeros
from ...ops.shape.copying import move
from ...ops.sparse.coordinates import sparse_tensor
from ...tensor.layout import Layout
from ...tensor.sparse import Coo
from ...tensor.tensor import Tensor, layout_near, layout_of, wrap
from ..rpc.message.ids import id_text
from ..rpc.message.tensors import arrival_of
from ..rpc.workers.record import in_words
from .backward_pass import BackwardPass, DistGraphTask
from .outbox import NOT_RECORDED, Gradients, Outbox, current_outbox

if TYPE_CHECKING:
    from ..rpc.workers.worker import Worker


class Context(Protocol):
    """The part of a context's interface that a receive uses."""

    id: int


class RecvRpcBackward(Node):
    """Backward of a receive: sends the gradients of the received tensors to the tensors' sender.

    The Node has a weak reference to its context, because the context holds the Node. `device_map`
    maps the devices on which the tensors arrived to the devices of the sender, to which the
    gradients go back.

    Source  PyTorch, torch/csrc/distributed/autograd/functions/recvrpc_backward.cpp
    """

    # The Node also runs if no gradient reached it, because the sender waits for an answer.
    accepts_undefined = True
    takes_sparse: ClassVar[bool] = True
    # A receive may block: on a copy to the CPU, or until the peer accepts more bytes. See
    # Note [GPU to CPU continuations].
    waits: ClassVar[bool] = True
    __slots__ = ("_context", "device_map", "from_worker", "message_id", "num_outputs")

    def __init__(
        self,
        context: Context,
        message_id: int,
        from_worker: Worker,
        layouts: tuple[Layout, ...],
        device_map: Mapping[Device, Device] | None = None,
    ) -> None:
        self.seq = next_sequence_number()
        self.edges = ()
        self.hooks = None
        self.output_layout = layouts
        self.num_outputs = len(layouts)
        self.message_id = message_id
        self.from_worker = from_worker
        self.device_map: Mapping[Device, Device] = device_map or {}
        self._context = ref(context)

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Send the gradients; undefined ones become zeros, because the sender needs one gradient
        per tensor.
        """
        arrays = g if g.__class__ is tuple else (g,)
        grads = tuple(
            [
                None if array is None else wrap(array, layout_near(array, layout))
                for array, layout in zip(arrays, self.output_layout, strict=True)
            ]
        )
        return self.apply_recorded(grads, keep)

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Send the gradients."""
        part = self._pass_here()
        context = self._context()
        if context is None:
            raise ContextReleasedError(
                "Autograd context no longer valid! This usually means the autograd context was "
                "cleaned up by a different thread due to an error before RecvRpcBackward had a "
                "chance to run"
            )
        came = g if g.__class__ is tuple else (g,)
        is_unused = part.terms.is_auto and all(grad is None for grad in came)
        if self.from_worker.is_dead:
            if is_unused:
                return ()
            raise WorkerLostError(
                f"{in_words(self.from_worker)}, which sent tensors that the pass of context "
                f"{id_text(context.id)} goes through, was lost"
            )
        if is_unused:
            self._send(part, Gradients(self.message_id, None))
            return ()
        recorded, record = NOT_RECORDED, part.record
        ways = (self._stays_on_device, record is not None)
        grads, copies = _on_their_way(came, self.output_layout, *ways)
        if record is not None:
            recorded = record(grads, self.from_worker, self.device_map)
        places, follow = self._places(), arrival_of(_with_tangents(grads))
        self._send(part, Gradients(self.message_id, grads, recorded, places, copies, follow))
        return ()

    def _pass_here(self) -> BackwardPass:
        task = current_graph_task()
        if isinstance(task, DistGraphTask):
            return task.part
        raise GraphError(
            f"RecvRpcBackward: this graph continues on worker {self.from_worker.id}, which a "
            "backward pass of this process does not reach; call "
            "fastdist.distributed.autograd.backward(context_id, [loss]) inside the context, and "
            "get_gradients(context_id) for the result"
        )

    def _send(self, part: BackwardPass, sent: Gradients) -> None:
        outbox = current_outbox()
        if outbox is not None:
            outbox.add(self.from_worker, sent)
        else:
            outbox = Outbox(part)
            outbox.add(self.from_worker, sent)
            outbox.flush()

    def _stays_on_device(self, device: Device) -> bool:
        """Return whether gradients on a device of this worker go directly to the sender's
        device.
        """
        lender, there = self.from_worker.lender, self.device_map.get(device)
        if there is None or lender is None or lender.devices is None:
            return False
        return bool(lender.devices.is_open(device, there))

    def _places(self) -> list[str]:
        """Return the name of the sender's device for each gradient; [] without a device map."""
        if not self.device_map:
            return []
        there = [self.device_map.get(layout.device) for layout in self.output_layout]
        return ["" if device is None else str(device) for device in there]

    def name(self) -> str:
        """Return the name that PyTorch uses."""
        return "torch::distributed::autograd::RecvRpcBackward"


# Note [Gradients between GPUs]
# If tensors travel from GPU to GPU (rpc/gpu_transport/cuda_ipc.py), their gradients do so as well.
# The device map of the receive determines the target devices of the gradients. It may differ from
# the device map of calls to the same worker, so the message names the target devices (`goals`). The
# gradients stay on their device until the message is packed. Then `follow` makes the streams of the
# packing thread wait for the gradients. At the receiver, another `follow` makes the streams of the
# pass wait for them. The tangents of a gradient are sent with it. A receive is added as the history
# of gradients that had a history at the sender; its device map is the inverted one, for the
# gradients of a further pass. The coordinates of sparse gradients are copied to the CPU, because
# the receiver reads them. Sparse gradients with tangents are copied to the CPU completely.


def _on_their_way(
    came: Sequence[Tensor | None],
    layouts: Sequence[Layout],
    stays_on_device: Callable[[Device], bool],
    has_history: bool,
) -> tuple[list[Tensor], HostCopies | None]:
    """Return the gradients to send, and their copies to the CPU, which may be unfinished (None
    without copies). A gradient that need not be copied stays on its device. The sending thread
    waits once for the copies of all gradients of a message. If `has_history`, sparse gradients
    become dense, so that the history continues at the receiver.
    """
    grads: list[Tensor] = []
    away: list[int] = []
    halves: set[int] = set()
    for i, (grad, layout) in enumerate(zip(came, layouts, strict=True)):
        stays = layout.device is not CPU and stays_on_device(layout.device)
        if grad is None:
            grad = zeros(layout.shape, dtype=layout.dtype, device=layout.device if stays else CPU)
        elif grad._layout.is_sparse and has_history:
            grad = grad.to_dense()
        grads.append(grad)
        # A gradient that is not on the device of its tensor goes through the CPU; the send Node of
        # the other worker moves the gradient to the device of the sent tensor.
        stays = stays and grad._layout.device is layout.device
        if grad._layout.device is not CPU and (not stays or grad._layout.is_sparse):
            away.append(i)
            if stays and not levels_of((grad,)):
                halves.add(i)
    if not away:
        return grads, None
    parts = [_arrays_of(grads[i])[: 1 if i in halves else None] for i in away]
    given = [(grads[i]._layout.device, one) for i, arrays in zip(away, parts) for one in arrays]
    copies = HostCopies(given)
    at = 0
    for i, arrays in zip(away, parts, strict=True):
        came_here = copies.arrays[at : at + len(arrays)]
        if i in halves:
            grads[i] = _half_on_host(grads[i], came_here[0])
        else:
            grads[i] = _on_host(grads[i], came_here, has_history)
        at += len(arrays)
    return grads, copies


def _with_tangents(grads: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return gradients, followed by all tangents that travel with them."""
    found = [*grads]
    for grad in found:  # grows during the loop: a tangent may have tangents of outer levels
        for level in levels_of((grad,)):
            tangent = tangent_of(grad, level)
            if tangent is not None:
                found.append(tangent)
    return found


def _arrays_of(grad: Tensor) -> Sequence[Any]:
    """Return the arrays of a gradient: for a sparse gradient, its coordinates and values."""
    if not grad._layout.is_sparse:
        return (grad._array,)
    return grad._array.indices, grad._array.values


def _half_on_host(grad: Tensor, indices: np.ndarray[Any, Any]) -> Tensor:
    """Return a sparse gradient with `indices`, on the CPU, as coordinates and the old values."""
    coo: Coo = grad._array
    return wrap(Coo(indices, coo.values, coo.layout, coo.is_coalesced), coo.layout)


def _on_host(grad: Tensor, arrays: Sequence[np.ndarray[Any, Any]], has_history: bool) -> Tensor:
    """Return a gradient made of `arrays`: CPU copies that must be complete before they are read."""
    if has_history or levels_of((grad,)):
        return move.of_copy(grad, arrays[0], CPU) if len(arrays) == 1 else grad.to(CPU)
    if len(arrays) == 1:
        return wrap(arrays[0], layout_of(arrays[0], CPU))
    indices, values = (wrap(one, layout_of(one, CPU)) for one in arrays)
    made: Tensor = sparse_tensor(indices, values, grad._layout.shape, grad._array.is_coalesced)
    return made
