"""Telling every worker that a pass has failed, so that none waits for gradients in vain."""

from __future__ import annotations

import functools

from ...core.errors import GraphError, WorkerLostError
from ..rpc.agent import get_current_agent, is_current_agent_set
from ..rpc.handlers import Reply
from ..rpc.message.ids import id_text
from ..rpc.message.message import Message
from ..rpc.message.metadata import Value
from ..rpc.message.types import MessageType
from ..rpc.workers.worker import Worker
from .container import DistAutogradContainer, get_instance
from .failure import abort_everywhere
from .over import read_over
from .pass_words import read_abort


def handle_abort(request: Message) -> None:
    """End this worker's part of a pass that failed elsewhere, and pass the word on.

    The word stops where it has been before, so it does not go round in circles.
    """
    terms, reason = read_abort(request.metadata, request.peer.id)
    context = get_instance().find_context(terms.context_id)
    error = GraphError(f"the pass was given up by worker {request.peer.id}: {reason}")
    if context is not None and context.give_up_pass(terms, error):
        abort_everywhere(context.known_workers(), terms, reason)


def handle_lost_worker(worker: Worker) -> None:
    """End passes that wait for a lost worker, and release the contexts that it owned."""
    container = get_instance()
    for context in container.all_contexts():
        is_owner = context.owner is worker
        if is_owner or worker in context.known_workers():
            part = context.pass_under_way()
            if part is not None and worker not in part.lost_before:
                part.fail(
                    WorkerLostError(
                        f"worker {worker.name!r} (rank {worker.id}) was lost during the backward "
                        f"pass of context {id_text(context.id)}"
                    )
                )
        if is_owner:
            container.release_context_if_present(context.id)
    _ask_owners(container)


def _ask_owners(container: DistAutogradContainer) -> None:
    """Let the owners of what is held here know of it, and hear which of that is over.

    A lost worker may have brought a context here, and told nobody yet.
    """
    if not is_current_agent_set():
        return
    teller, held = get_current_agent().teller, dict[Worker, list[Value]]()
    for context in container.all_contexts():
        if context.owner is not None:
            held.setdefault(context.owner, []).append(context.id)

    def release(owner: Worker, reply: Reply) -> None:
        for context_id in read_over(reply, owner.id, "contexts"):
            container.release_context_if_present(context_id)

    for owner, context_ids in held.items():
        words: dict[str, Value] = {"context_ids": [], "held": context_ids}
        teller.tell(
            owner,
            MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ,
            words,
            failure="which contexts are over was not asked",
            then=functools.partial(release, owner),
        )
