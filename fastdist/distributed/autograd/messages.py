"""What this worker does with gradients, clean-ups, aborts and questions that others send."""

from __future__ import annotations

from ...core.errors import ContextError, ContextReleasedError
from ...core.future import Future
from ...graph.forward_grad import end_callbacks
from ..pipe.metadata import Value
from ..rpc.body import let_sparse_travel
from ..rpc.handlers import Reply, register_handler
from ..rpc.interceptors import Envelope, install
from ..rpc.message_types import MessageType
from ..rpc.rref import RRef
from ..rpc.words import flag, number, numbers
from .abort import handle_abort
from .container import get_instance
from .engine import dist_engine
from .message_autograd import AutogradInterceptor, reduce_sparse
from .outbox import AUTO, IN_PERSON, unpack
from .rref_backward import handle_rref_backward, rref_backward
from .sparse_parts import rebuild_recorded
from .stall import handle_progress
from .tangent_store import TangentInterceptor, handle_level_end, tangent_store


def handle_gradients(envelope: Envelope) -> Reply | Future[None]:
    """Go on with a pass from the sends that these gradients answer."""
    words = envelope.metadata
    context_id = number(words, "context_id", envelope.peer)
    pass_id = number(words, "pass_id", envelope.peer)
    came = unpack(envelope.tensors, words, envelope.peer)
    retain_graph, is_auto = (flag(words, name, envelope.peer) for name in ("retain_graph", AUTO))
    try:
        context = get_instance().retrieve_context(context_id)
    except ContextError as error:
        raise ContextReleasedError(str(error)) from error
    done, parcel = dist_engine().execute_send_functions_async(
        context,
        came,
        retain_graph,
        pass_id=pass_id,
        # What a worker sends to itself may share memory with what it still holds.
        fresh=envelope.peer != get_instance().worker_id,
        sender=envelope.peer,
        in_person=IN_PERSON in words,
        is_auto=is_auto,
    )
    if parcel is not None:
        done.value()  # it is over: what failed is raised where the gradients came from
        return Reply(*parcel.content())
    return done


def handle_clean_up(envelope: Envelope) -> Reply | None:
    """Release contexts that another worker released, and tell whom they reached from here.

    A worker that holds contexts of this one, and lost who brought them, hears which are over.
    """
    words = {"held": (), **envelope.metadata}
    context_ids = numbers(words, "context_ids", envelope.peer)
    held = numbers(words, "held", envelope.peer)
    container = get_instance()
    for context_id in context_ids:
        container.release_context_if_present(context_id, envelope.peer)
    over: list[Value] = []
    for context_id in held:
        context = container.find_context(context_id)
        if context is None or not context.add_known_worker(envelope.peer):
            over.append(context_id)
    return Reply([], {"over": over}) if held else None


def install_all() -> None:
    """Put distributed autograd into rpc's path."""
    let_sparse_travel(reduce_sparse, rebuild_recorded)
    install("tangents", TangentInterceptor())
    install("autograd", AutogradInterceptor())
    register_handler(MessageType.BACKWARD_AUTOGRAD_REQ, handle_gradients)
    register_handler(MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ, handle_clean_up)
    register_handler(MessageType.ABORT_AUTOGRAD_CONTEXT_REQ, handle_abort)
    register_handler(MessageType.PASS_PROGRESS_REQ, handle_progress)
    register_handler(MessageType.CLEANUP_LEVEL_REQ, handle_level_end)
    end_callbacks.append(tangent_store().end)
    register_handler(MessageType.RREF_BACKWARD_REQ, handle_rref_backward)
    # rpc knows of no passes: references to tensors learn of them here.
    RRef.backward = rref_backward  # type: ignore[attr-defined]
