"""What wraps a message in autograd information: sends on the way out, receives on the way in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...graph.modes import tls
from ...graph.node import Edge
from ...tensor.tensor import Tensor
from ..pipe.message import AutogradBlock
from ..rpc.interceptors import Envelope
from ..rpc.message_types import MessageType
from .container import current_context_id, force_current_context_id, get_instance
from .context import DistAutogradContext
from .recv_rpc_backward import RecvRpcBackward
from .send_rpc_backward import SendRpcBackward

# Requests whose result may carry gradients even if no argument does: users' functions, and fetches of what they left.
# A built-in operator (SCRIPT_CALL) on tensors that require none gives none, and is sent as it is.
_FORCED = frozenset(
    {
        MessageType.PYTHON_CALL,
        MessageType.PYTHON_REMOTE_CALL,
        MessageType.SCRIPT_RREF_FETCH_CALL,
        MessageType.PYTHON_RREF_FETCH_CALL,
    }
)
_WRAPPED = frozenset(
    {*_FORCED, MessageType.SCRIPT_CALL, MessageType.SCRIPT_REMOTE_CALL}
)


class AutogradInterceptor:
    """Gives tensors that cross workers a send here and a receive there.

    Source  PyTorch, torch/csrc/distributed/autograd/utils.cpp
    """

    def request_out(self, envelope: Envelope) -> None:
        """Wrap a request made inside a context."""
        context_id = current_context_id()
        if context_id < 0 or envelope.effective_type not in _WRAPPED:
            return
        wanting = _wanting_grad(envelope)
        if not wanting and envelope.effective_type not in _FORCED:
            return
        context = get_instance().current_context()
        _wrap(envelope, context, wanting, MessageType.FORWARD_AUTOGRAD_REQ)

    def request_in(self, envelope: Envelope) -> Any:
        """Join a request's tensors to this worker's graph; the context is current while its function runs."""
        block = envelope.autograd
        if block is None:
            return None
        context = get_instance().get_or_create_context(block.context_id)
        add_recv_rpc_backward(context, block.message_id, envelope)
        return context_guard(block.context_id)

    def response_out(self, envelope: Envelope, request: Envelope) -> None:
        """Wrap a response to a wrapped request, if a gradient may come back for it."""
        block = request.autograd
        if block is None:
            return
        wanting = [i for i, tensor in enumerate(envelope.tensors) if tensor.edge is not None]
        if not wanting:
            return
        context = get_instance().get_or_create_context(block.context_id)
        _wrap(envelope, context, wanting, MessageType.FORWARD_AUTOGRAD_RESP)

    def response_in(self, envelope: Envelope, request: Envelope) -> None:
        """Join a response's tensors to the caller's graph."""
        block = envelope.autograd
        if block is not None:
            context = get_instance().get_or_create_context(block.context_id)
            add_recv_rpc_backward(context, block.message_id, envelope)


def _wanting_grad(envelope: Envelope) -> list[int]:
    if not tls.grad:
        return []
    return [i for i, tensor in enumerate(envelope.tensors) if tensor.edge is not None]


def _wrap(
    envelope: Envelope, context: DistAutogradContext, wanting: list[int], message_type: MessageType
) -> None:
    message_id = get_instance().new_autograd_message_id()
    if wanting:
        add_send_rpc_backward(context, message_id, [envelope.tensors[i] for i in wanting])
    # A worker that was only told of the context must hear of its end as well.
    context.add_known_worker(envelope.peer)
    envelope.autograd = AutogradBlock(context.id, message_id)
    envelope.wrap(message_type)


def add_send_rpc_backward(
    context: DistAutogradContext, message_id: int, tensors: list[Tensor]
) -> SendRpcBackward:
    """File a send for tensors that require grad: gradients will come back for exactly these."""
    edges = tuple([tensor.edge for tensor in tensors])
    function = SendRpcBackward(edges, tuple([tensor.layout for tensor in tensors]))
    context.add_send_function(function, message_id)
    return function


def add_recv_rpc_backward(
    context: DistAutogradContext, message_id: int, envelope: Envelope
) -> RecvRpcBackward | None:
    """Give tensors that required grad at their sender a receive as history; None if there are none."""
    wanting = [
        tensor
        for tensor, wanted in zip(envelope.tensors, envelope.requires_grad, strict=False)
        if wanted and tensor.layout.dtype.is_floating_point
    ]
    if not wanting:
        return None
    function = RecvRpcBackward(
        context, message_id, envelope.peer, tuple([tensor.layout for tensor in wanting])
    )
    context.add_recv_function(function, message_id)
    if len(wanting) == 1:
        wanting[0].edge = function
    else:
        for i, tensor in enumerate(wanting):
            tensor.edge = Edge(function, i)
    return function


@contextmanager
def context_guard(context_id: int) -> Iterator[None]:
    """Make context_id current for this thread inside the block."""
    before = current_context_id()
    force_current_context_id(context_id)
    try:
        yield
    finally:
        force_current_context_id(before)
