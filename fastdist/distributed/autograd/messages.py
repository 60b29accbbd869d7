"""Handlers of gradients, clean-ups, aborts and queries from other workers."""

from __future__ import annotations

from fastdist.system.foreign_text import printable

from ...concurrency.future import Future
from ...core.errors import ContextError, ContextReleasedError, GraphError
from ...core.folded_frames import private_cause
from ...graph.forward_grad import end_callbacks
from ...graph.lazy_conj_neg import LazyConjNeg, resolved
from ..rpc.handlers import Reply, register_handler
from ..rpc.interceptors import install
from ..rpc.message.body import let_sparse_travel, register_reducer
from ..rpc.message.message import Message
from ..rpc.message.metadata_fields import filled, text
from ..rpc.message.types import MessageType
from ..rpc.references.rref import RRef
from .abort import abort_everywhere
from .container import get_instance
from .engine import dist_engine
from .message_autograd import AutogradInterceptor, reduce_sparse
from .outbox import DIRECT, unpack
from .pass_metadata import REASON, Terms
from .rref_backward import handle_rref_backward, rref_backward
from .sparse_parts import rebuild_recorded
from .stall import handle_progress
from .tangent_store import TangentInterceptor, tangent_store


def handle_gradients(request: Message) -> Reply | Future[None]:
    """Continue a pass from the sends to which the gradients in the request belong."""
    metadata = request.metadata
    terms = filled(Terms, metadata, request.peer.id)
    came = unpack(request.tensors, metadata, request.peer.id)
    try:
        context = get_instance().retrieve_context(terms.context_id)
    except ContextError as error:
        raise ContextReleasedError(str(error)) from private_cause(error)
    done, batch = dist_engine().execute_send_functions_async(
        context,
        came,
        terms,
        # A message from this worker to itself may share memory with tensors that are still used.
        fresh=not request.peer.is_self,
        sender=request.peer,
        direct=DIRECT in metadata,
    )
    if batch is not None:
        done.value()  # the part is over: an error is raised at the sender of the gradients
        return Reply(*batch.content())
    return done


def handle_abort(request: Message) -> None:
    """End this worker's part of a pass that failed elsewhere, and forward the abort.

    A worker forwards only the first abort of a pass, so that aborts do not circulate.
    """
    metadata, sender = request.metadata, request.peer.id
    terms, reason = filled(Terms, metadata, sender), text(metadata, REASON, sender)
    context = get_instance().find_context(terms.context_id)
    error = GraphError(f"the pass was given up by worker {sender}: {printable(reason)}")
    if context is not None and context.give_up_pass(terms, error):
        abort_everywhere(context.known_workers(), terms, reason)


def handle_clean_up(request: Message) -> Reply | None:
    """End the contexts or levels in a notice, or reply to a query with the ids that have ended."""
    is_of_levels = tangent_store().ids in request.metadata
    return (tangent_store() if is_of_levels else get_instance()).handle_end(request)


def install_all() -> None:
    """Register the handlers and interceptors of distributed autograd with RPC."""
    let_sparse_travel(reduce_sparse, rebuild_recorded)
    register_reducer(LazyConjNeg, lambda view: (resolved, (view.resolved(),)), resolved)
    install("tangents", TangentInterceptor())
    install("autograd", AutogradInterceptor())
    register_handler(MessageType.BACKWARD_AUTOGRAD_REQ, handle_gradients)
    register_handler(MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ, handle_clean_up)
    register_handler(MessageType.ABORT_AUTOGRAD_CONTEXT_REQ, handle_abort)
    register_handler(MessageType.PASS_PROGRESS_REQ, handle_progress)
    end_callbacks.append(tangent_store().end)
    register_handler(MessageType.RREF_BACKWARD_REQ, handle_rref_backward)
    # RRef.backward is added here, because rpc does not know about passes.
    RRef.backward = rref_backward  # type: ignore[attr-defined]
