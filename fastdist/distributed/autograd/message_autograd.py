"""What wraps a message in autograd information: sends on the way out, receives on the way in."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ...core.errors import WorkerLostError
from ...graph.modes import tls
from ...graph.node import Edge
from ...tensor.tensor import Tensor
from ..pipe.message import AutogradBlock
from ..rpc.agent import get_current_agent
from ..rpc.interceptors import Envelope
from ..rpc.message_types import MessageType
from ..rpc.wire import device_pair
from ..rpc.words import numbers
from .container import (
    current_context_id,
    force_current_context_id,
    get_instance,
    released_inside,
)
from .context import DistAutogradContext
from .recv_rpc_backward import RecvRpcBackward
from .send_rpc_backward import SendRpcBackward
from .sparse_parts import carried_parts, rebuild_recorded

# Requests whose result may carry gradients even if no argument does: users' functions, and fetches
# of what they left. A built-in operator (SCRIPT_CALL) on tensors that require none gives none, and
# is sent as it is.
_FORCED = frozenset(
    {
        MessageType.PYTHON_CALL,
        MessageType.PYTHON_REMOTE_CALL,
        MessageType.SCRIPT_RREF_FETCH_CALL,
        MessageType.PYTHON_RREF_FETCH_CALL,
    }
)
_WRAPPED = frozenset({*_FORCED, MessageType.SCRIPT_CALL, MessageType.SCRIPT_REMOTE_CALL})

# Names in a message's metadata. That its tensors were sent without recording, though they require
# grad: no gradient may come back for them.
_NOT_RECORDED = "autograd.not_recorded"
# Which workers a request reached in turn, so that the context's owner knows them, too: a worker in
# between may be dead when the context is released.
_REACHED = "autograd.reached"


class AutogradInterceptor:
    """Gives tensors that cross workers a send here and a receive there.

    Source  PyTorch, torch/csrc/distributed/autograd/utils.cpp
    """

    def request_out(self, envelope: Envelope) -> None:
        """Wrap a request made inside a context."""
        if current_context_id() < 0 or envelope.effective_type not in _WRAPPED:
            return
        wanting = [tensor for tensor in envelope.tensors if tensor.edge is not None]
        recorded = tls.grad
        if not (wanting and recorded) and envelope.effective_type not in _FORCED:
            return
        context = get_instance().current_context()
        if wanting and not recorded:
            envelope.metadata[_NOT_RECORDED] = True
            wanting = []
        # A worker that is only told of the context must hear of its end as well.
        if not context.add_known_worker(envelope.peer):
            raise released_inside(context.id)
        _wrap(envelope, context, wanting, MessageType.FORWARD_AUTOGRAD_REQ)

    def request_in(self, envelope: Envelope) -> context_guard | None:
        """Join a request's tensors to this worker's graph; its context is current meanwhile."""
        block = envelope.autograd
        if block is None:
            return None
        if get_current_agent().is_dead(envelope.peer):
            # What it reached has been settled; it must not bring more.
            raise WorkerLostError(f"worker {envelope.peer}, which sent this request, was lost")
        context = get_instance().get_or_create_context(block.context_id, envelope.peer)
        add_recv_rpc_backward(context, block.message_id, envelope)
        return context_guard(block.context_id)

    def response_out(self, envelope: Envelope, request: Envelope) -> None:
        """Wrap a response to a wrapped request, if a gradient may come back for it."""
        block = request.autograd
        if block is None:
            return
        context = get_instance().find_context(block.context_id)
        if context is None:
            return  # released while the function ran: what comes back now is outside of any pass
        reached = context._known_worker_ids()
        reached.discard(envelope.peer)
        if reached:
            envelope.metadata[_REACHED] = [*sorted(reached)]
        wanting = [tensor for tensor in envelope.tensors if tensor.edge is not None]
        if wanting and context.add_known_worker(envelope.peer):
            _wrap(envelope, context, wanting, MessageType.FORWARD_AUTOGRAD_RESP)

    def response_in(self, envelope: Envelope, request: Envelope) -> None:
        """Join a response's tensors to the caller's graph."""
        block, asked = envelope.autograd, request.autograd
        if asked is None:
            return
        if _REACHED in envelope.metadata:
            reached = numbers(envelope.metadata, _REACHED, envelope.peer)
            container = get_instance()
            context = container.find_context(asked.context_id)
            others = {*reached} - {container.worker_id}
            if context is None or not context.add_known_workers(others):
                # Over before this worker knew of them: who brought them there may not tell them.
                container.send_release_context_rpc(others, asked.context_id)
        if block is not None:
            context = get_instance().get_or_create_context(block.context_id)
            add_recv_rpc_backward(context, block.message_id, envelope)


def _wrap(
    envelope: Envelope,
    context: DistAutogradContext,
    wanting: list[Tensor],
    message_type: MessageType,
) -> None:
    message_id = get_instance().new_autograd_message_id()
    if wanting:
        add_send_rpc_backward(context, message_id, wanting, envelope.peer)
    envelope.autograd = AutogradBlock(context.id, message_id, _device_map_to(envelope.peer))
    envelope.wrap(message_type)


def _device_map_to(worker_id: int) -> tuple[tuple[int, int, int, int], ...]:
    device_map = get_current_agent().device_map_to(worker_id)
    if not device_map:
        return ()
    return tuple([device_pair(mine, theirs) for mine, theirs in device_map.items()])


def add_send_rpc_backward(
    context: DistAutogradContext, message_id: int, tensors: list[Tensor], to_worker_id: int = -1
) -> SendRpcBackward:
    """File a send for tensors that require grad: gradients will come back for exactly these."""
    edges = tuple([tensor.edge for tensor in tensors])
    layouts = tuple([tensor.facts for tensor in tensors])
    function = SendRpcBackward(edges, layouts, to_worker_id)
    context.add_send_function(function, message_id)
    return function


def add_recv_rpc_backward(
    context: DistAutogradContext, message_id: int, envelope: Envelope
) -> RecvRpcBackward | None:
    """Give tensors that required grad at their sender a receive as history; None if none did."""
    if True not in envelope.requires_grad or _NOT_RECORDED in envelope.metadata:
        return None
    wanting = [
        tensor
        for tensor, wanted in zip(envelope.tensors, envelope.requires_grad, strict=True)
        if wanted
    ]
    layouts = tuple([tensor.facts for tensor in wanting])
    function = RecvRpcBackward(context, message_id, envelope.peer, layouts)
    context.add_recv_function(function, message_id)
    if len(wanting) == 1:
        wanting[0].edge = function
    else:
        for i, tensor in enumerate(wanting):
            tensor.edge = Edge(function, i)
    return function


def reduce_sparse(tensor: Tensor) -> tuple[Any, tuple[Any, ...]]:
    """Return what a sparse tensor travels as: its values lead back to it, and it may be in the
    answer to a call in a context, which who packs it does not know.
    """
    return rebuild_recorded, carried_parts(tensor, has_history=tensor.edge is not None and tls.grad)


class context_guard:
    """Makes a context current for this thread inside a block; each Node of a pass runs in one."""

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
