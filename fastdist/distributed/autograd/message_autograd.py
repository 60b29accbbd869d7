"""Adds sends to outgoing messages, and receives to incoming messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from ...core.device import Device
from ...core.errors import TransformError, WorkerLostError
from ...graph.modes import modes, tls
from ...graph.node import Edge
from ...graph.transform_inputs import follows_from_inputs
from ...interpreters.tracing import note_answer
from ...tensor.tensor import Tensor
from ..rpc.agent import get_current_agent
from ..rpc.message.layout import AutogradBlock, DevicePairs
from ..rpc.message.message import Message
from ..rpc.message.metadata_fields import numbers
from ..rpc.message.tensors import device_pair, devices_of_pair
from ..rpc.message.types import MessageType
from ..rpc.workers.record import in_words
from ..rpc.workers.worker import Worker
from .container import (
    current_context_id,
    force_current_context_id,
    get_instance,
    released_inside,
)
from .context import DistAutogradContext
from .outbox import NOT_RECORDED, goals_of
from .recv_rpc_backward import RecvRpcBackward
from .send_rpc_backward import SendRpcBackward
from .sparse_parts import carried_parts, rebuild_recorded

# Requests whose result may carry gradients even if no argument does: users' functions, and fetches
# of their results. A built-in operator (SCRIPT_CALL) on tensors that do not require grad returns
# no tensors that require grad, and is sent unwrapped.
_FORCED = frozenset(
    {
        MessageType.PYTHON_CALL,
        MessageType.PYTHON_REMOTE_CALL,
        MessageType.SCRIPT_RREF_FETCH_CALL,
        MessageType.PYTHON_RREF_FETCH_CALL,
    }
)
# The names of wrapped requests in traces: the names of the functions that users call.
_CALLED = {
    MessageType.SCRIPT_CALL: "rpc",
    MessageType.PYTHON_CALL: "rpc",
    MessageType.SCRIPT_REMOTE_CALL: "remote",
    MessageType.PYTHON_REMOTE_CALL: "remote",
    MessageType.SCRIPT_RREF_FETCH_CALL: "to_here",
    MessageType.PYTHON_RREF_FETCH_CALL: "to_here",
}
_WRAPPED = frozenset(_CALLED)

# Names in a message's metadata. `_NOT_RECORDED` says that the tensors were sent without recording,
# although they require grad: no gradient may come back for them.
_NOT_RECORDED = "autograd.not_recorded"
# The workers that a request reached through its callee. The context's owner needs to know them,
# because the callee may be dead when the context is released.
_REACHED = "autograd.reached"
# The incarnation of the context's owner, if that is neither the sender nor the receiver. The id of
# the context contains only a rank, which a later incarnation may have by now.
_OWNER = "autograd.owner"


class AutogradInterceptor:
    """Records tensors that go to another worker: a send on the sender, a receive on the receiver.

    Source  PyTorch, torch/csrc/distributed/autograd/utils.cpp
    """

    def request_out(self, request: Message) -> None:
        """Wrap a request made inside a context.

        Raises  TransformError for a tensor that a function transform differentiates in reverse mode
        """
        if tls.transform_inputs and tls.grad and follows_from_inputs(request.tensors):
            raise TransformError(
                "it would receive a tensor that func.grad, func.vjp, func.jacrev or a function "
                "of autograd.functional differentiates in reverse mode, and their passes do not "
                "continue there: call distributed.autograd.hvp or jvp, or func.jvp or jacfwd, or "
                "backward(context_id, [loss]) in a distributed.autograd.context()"
            )
        kind = request.effective_type
        if kind not in _WRAPPED:
            if kind == MessageType.BACKWARD_AUTOGRAD_REQ:
                request.goals = goals_of(request)
            return
        if modes.tracers:
            note_answer(_CALLED[MessageType(kind)], request.tensors, request.peer.name)
        if current_context_id() < 0:
            return
        wanting = [tensor for tensor in request.tensors if tensor._edge is not None]
        recorded = tls.grad
        if not (wanting and recorded) and kind not in _FORCED:
            return
        context = get_instance().current_context()
        if wanting and not recorded:
            request.metadata[_NOT_RECORDED] = True
            wanting = []
        # A worker that gets the context without tensors must also be notified of the context's end.
        if not context.add_known_worker(request.peer):
            raise released_inside(context.id)
        device_map = _device_map_to(request.peer)
        _wrap(request, context, wanting, MessageType.FORWARD_AUTOGRAD_REQ, device_map)

    def request_in(self, request: Message) -> context_guard | None:
        """Add a receive for a request's tensors; the context is current while the request runs."""
        block = request.autograd
        if block is None:
            return None
        if request.peer.is_dead:
            # The loss of the sender has been handled already, and a new context would never end.
            raise WorkerLostError(f"{in_words(request.peer)}, which sent this request, was lost")
        life = request.metadata.get(_OWNER)
        context = get_instance().get_or_create_context(block.context_id, request.peer, life)
        add_recv_rpc_backward(context, block.message_id, request)
        return context_guard(block.context_id)

    def response_out(self, answer: Message, request: Message) -> None:
        """Wrap a response to a wrapped request, if a gradient may come back for it."""
        block = request.autograd
        if block is None:
            if request.effective_type == MessageType.BACKWARD_AUTOGRAD_REQ:
                answer.goals = goals_of(answer)
            return
        context = get_instance().find_context(block.context_id)
        if context is None:
            return  # released while the function ran: the answer belongs to no pass
        reached = context.known_workers()
        reached.discard(answer.peer)
        if reached:
            living = {worker.id for worker in reached if not worker.is_dead}
            answer.metadata[_REACHED] = [*sorted(living)]
        wanting = [tensor for tensor in answer.tensors if tensor._edge is not None]
        if wanting and context.add_known_worker(answer.peer):
            # Results use the device map of the arguments, inverted.
            device_map = _turned_round(block.device_map)
            _wrap(answer, context, wanting, MessageType.FORWARD_AUTOGRAD_RESP, device_map)

    def response_in(self, answer: Message, request: Message) -> None:
        """Connect a response's tensors with the caller's graph, by a receive."""
        block, asked = answer.autograd, request.autograd
        if asked is None:
            return
        if _REACHED in answer.metadata:
            container, find = get_instance(), get_current_agent().workers.find
            context = container.find_context(asked.context_id)
            reached = map(find, numbers(answer.metadata, _REACHED, answer.peer.id))
            others = {one for one in reached if not (one is None or one.is_self)}
            if context is None or not context.add_known_workers(others):
                # The context ended before this worker knew these workers, so perhaps no other
                # worker notifies them of the end.
                container.tell_end(others, asked.context_id)
        if block is not None:
            # If the context is over here and its owner is lost, `life` prevents a new context.
            life = answer.metadata.get(_OWNER)
            context = get_instance().get_or_create_context(block.context_id, answer.peer, life)
            add_recv_rpc_backward(context, block.message_id, answer)


def _wrap(
    message: Message,
    context: DistAutogradContext,
    wanting: list[Tensor],
    message_type: MessageType,
    device_map: DevicePairs,
) -> None:
    message_id = get_instance().new_autograd_message_id()
    if wanting:
        leads = dict(map(devices_of_pair, device_map)) if device_map else None
        add_send_rpc_backward(context, message_id, wanting, message.peer, leads)
    owner = context.owner
    if owner is not None and owner is not message.peer:
        message.metadata[_OWNER] = owner.record.incarnation
    message.autograd = AutogradBlock(context.id, message_id, device_map)
    message.wrap(message_type)


def _device_map_to(worker: Worker) -> DevicePairs:
    device_map = get_current_agent().device_map_to(worker)
    if not device_map:
        return ()
    return tuple([device_pair(mine, theirs) for mine, theirs in device_map.items()])


def _turned_round(device_map: DevicePairs) -> DevicePairs:
    return tuple([(*pair[2:], *pair[:2]) for pair in device_map])


def add_send_rpc_backward(
    context: DistAutogradContext,
    message_id: int,
    tensors: list[Tensor],
    to_worker: Worker,
    device_map: Mapping[Device, Device] | None = None,
) -> SendRpcBackward:
    """Store a send for tensors that require grad; gradients come back for exactly these."""
    edges = tuple([tensor._edge for tensor in tensors])
    layouts = tuple([tensor._layout for tensor in tensors])
    function = SendRpcBackward(edges, layouts, to_worker, device_map)
    context.add_send_function(function, message_id)
    return function


def add_recv_rpc_backward(
    context: DistAutogradContext, message_id: int, message: Message
) -> RecvRpcBackward | None:
    """Add a receive as history of the tensors that required grad at their sender; return None if
    there are no such tensors.
    """
    if True not in message.requires_grad or _NOT_RECORDED in message.metadata:
        return None
    wanting = [
        tensor
        for tensor, wanted in zip(message.tensors, message.requires_grad, strict=True)
        if wanted
    ]
    block = message.autograd
    pairs = map(devices_of_pair, () if block is None else block.device_map)
    device_map = {mine: theirs for theirs, mine in pairs}
    return _receive(context, message_id, message.peer, wanting, device_map)


def send_recorded(
    context: DistAutogradContext,
    gradients: list[Tensor],
    to_worker: Worker,
    device_map: Mapping[Device, Device] | None = None,
) -> int:
    """Store a send for the gradients that have a history; return its id, or else NOT_RECORDED.

    See Note [Gradients that have gradients].
    """
    wanting = [gradient for gradient in gradients if gradient._edge is not None]
    if not wanting:
        return NOT_RECORDED
    message_id = get_instance().new_autograd_message_id()
    add_send_rpc_backward(context, message_id, wanting, to_worker, device_map)
    return message_id


def receive_recorded(
    context: DistAutogradContext,
    message_id: int,
    from_worker: Worker,
    came: Sequence[Tensor],
    device_map: Mapping[Device, Device] | None = None,
) -> None:
    """Add a receive as history of gradients that had a history at their sender."""
    # Tensors that required grad at the sender are leaves here until now.
    wanting = [gradient for gradient in came if gradient._edge is not None]
    _receive(context, message_id, from_worker, wanting, device_map)


def _receive(
    context: DistAutogradContext,
    message_id: int,
    from_worker: Worker,
    tensors: Sequence[Tensor],
    device_map: Mapping[Device, Device] | None = None,
) -> RecvRpcBackward:
    """Store a receive, and make it the history of tensors."""
    layouts = tuple([tensor._layout for tensor in tensors])
    function = RecvRpcBackward(context, message_id, from_worker, layouts, device_map)
    context.add_recv_function(function, message_id)
    if len(tensors) == 1:
        tensors[0]._edge = function
    else:
        for i, tensor in enumerate(tensors):
            tensor._edge = Edge(function, i)
    return function


def reduce_sparse(tensor: Tensor) -> tuple[Any, tuple[Any, ...]]:
    """Return the serialised form of a sparse tensor, with the history of its values. The history is
    also sent outside of a context, because the packing code cannot detect that the tensor is in the
    answer to a call in a context.
    """
    return rebuild_recorded, carried_parts(
        tensor, has_history=tensor._edge is not None and tls.grad
    )


class context_guard:
    """Makes a context current for this thread in a `with` block; Nodes of passes run in one."""

    __slots__ = ("_before", "_context_id")

    def __init__(self, context_id: int) -> None:
        self._context_id = context_id

    def __enter__(self) -> None:
        self._before = current_context_id()
        force_current_context_id(self._context_id)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        force_current_context_id(self._before)
