"""The Node at which tensors leave this worker's graph in a message; their gradients enter here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...core.device import CPU, Device
from ...core.errors import MessageError
from ...devices.staging import copy_to_devices
from ...engine.engine import current_graph_task
from ...graph.node import Node, next_sequence_number
from ...ops.sparse.coordinates import densify_for_edge
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor, layout_of, wrap
from .backward_pass import BackwardPass, DistGraphTask, PassState

if TYPE_CHECKING:
    from ..rpc.workers.worker import Worker


class SendRpcBackward(Node):
    """Backward of sending tensors: passes on the gradients that a message brought back.

    The Node has no inputs; `set_grads` stores the gradients that the Node returns in a pass.
    `device_map` maps the devices of this worker's tensors to the receiver's devices.

    Source  PyTorch, torch/csrc/distributed/autograd/functions/sendrpc_backward.cpp
    """

    __slots__ = ("_is_fresh", "device_map", "to_worker")

    num_outputs = 0

    def __init__(
        self,
        edges: tuple[Any, ...],
        layouts: tuple[Any, ...],
        to_worker: Worker,
        device_map: Mapping[Device, Device] | None = None,
    ) -> None:
        self.seq = next_sequence_number()
        self.edges = edges
        self.hooks = None
        self.output_layout = layouts
        self.to_worker = to_worker
        self.device_map = device_map
        self._is_fresh = False

    def set_grads(
        self,
        part: BackwardPass,
        grads: tuple[Tensor | None, ...],
        fresh: bool = False,
        devices: Sequence[str] = (),
        follow: Callable[[], None] | None = None,
    ) -> None:
        """Store the gradients of one message for a pass. `fresh` says that no other code holds the
        gradients' memory. `follow` makes a thread's current streams wait for the gradients that are
        on devices.

        Raises  MessageError if the number, shapes or devices do not fit the tensors that were sent
        """
        if len(grads) != len(self.edges):
            raise MessageError(
                f"{len(grads)} gradients arrived from worker {self.to_worker.id} for "
                f"{len(self.edges)} tensors that were sent there; each needs one"
            )
        for grad, layout in zip(grads, self.output_layout, strict=True):
            # Later code uses the coordinates of a sparse gradient without a check, so the gradient
            # must have the shape of its tensor.
            if grad is not None and grad._layout.is_sparse and grad._layout.shape != layout.shape:
                raise MessageError(
                    f"a gradient of shape {grad._layout.shape} arrived from worker "
                    f"{self.to_worker.id} for a tensor of shape {layout.shape}"
                )
            # A gradient arrives on the CPU or, by the inverted device map, on its tensor's device.
            if grad is not None and grad._layout.device not in (CPU, layout.device):
                raise MessageError(
                    f"a gradient on {grad._layout.device} arrived from worker "
                    f"{self.to_worker.id} for a tensor that was sent from {layout.device}"
                )
        for device, layout in zip(devices, self.output_layout, strict=False):
            if device and device != str(layout.device):
                raise MessageError(
                    f"a gradient arrived from worker {self.to_worker.id} by a device map that "
                    f"leads to {device}, for a tensor that was sent from {layout.device}"
                )
        # Set first, because the pass may use the gradients as soon as they are stored.
        self._is_fresh = fresh
        if follow is not None:
            part.follow[self] = follow
        part.received_grads[self] = grads

    def set_unused(self, part: BackwardPass) -> None:
        """Record that the sent tensors get no gradients in a pass."""
        part.received_grads[self] = None

    @property
    def fresh(self) -> bool:  # type: ignore[override]
        """Whether the stored gradients may be taken over without a copy."""
        return self._is_fresh

    def grads(self) -> tuple[Tensor | None, ...]:
        """Return the gradients that are stored for the pass of this thread."""
        part = _pass_here()
        return (None if part is None else part.received_grads.get(self)) or ()

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients as raw arrays; all must have arrived."""
        return tuple([None if t is None else t._array for t in self.apply_recorded(g, keep)])

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradients; all must have arrived."""
        part = _pass_here()
        grads = () if part is None else part.received_grads.pop(self, ())
        if grads is None or (part is not None and part.state is PassState.OVER):
            return (None,) * len(self.edges)
        assert len(grads) == len(self.edges), "a send ran before its gradients arrived"
        assert all(grad is not None for grad in grads), "a send was given an undefined gradient"
        # Called here and not on arrival, so that the streams of the pass wait, and not those of the
        # thread that received the message.
        if part is not None and (follow := part.follow.pop(self, None)) is not None:
            follow()
        placed = _on_devices_of(self.output_layout, grads)
        return tuple([densify_for_edge(g, edge) for g, edge in zip(placed, self.edges)])

    def name(self) -> str:
        """Return the name that PyTorch uses."""
        return "torch::distributed::autograd::SendRpcBackward"


def _pass_here() -> BackwardPass | None:
    task = current_graph_task()
    return task.part if isinstance(task, DistGraphTask) else None


def _on_devices_of(
    layouts: Sequence[Layout], grads: Sequence[Tensor | None]
) -> Sequence[Tensor | None]:
    if all(layout.device is CPU for layout in layouts):
        return grads
    placed, away = list(grads), list[int]()
    for i, (layout, grad) in enumerate(zip(layouts, grads, strict=True)):
        device = layout.device
        if device is CPU or grad is None or grad._layout.device is device:
            continue
        if grad._layout.is_sparse or grad._edge is not None or grad._layout.device is not CPU:
            placed[i] = grad.to(device)
        else:
            away.append(i)
    arrays, _ = copy_to_devices(
        [grad._array for i in away if (grad := grads[i]) is not None],
        [layouts[i].device for i in away],
    )
    for i, array in zip(away, arrays, strict=True):
        placed[i] = wrap(array, layout_of(array, layouts[i].device))
    return placed
