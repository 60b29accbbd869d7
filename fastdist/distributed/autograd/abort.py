"""Telling every worker that a pass has failed, so that none waits for gradients in vain."""

from __future__ import annotations

from ...core.errors import GraphError, WorkerLostError
from ..rpc.message.ids import id_text
from ..rpc.message.message import Message
from ..rpc.workers.worker import Worker
from .container import get_instance
from .failure import abort_everywhere
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
        if context.owner is worker or worker in context.known_workers():
            part = context.pass_under_way()
            if part is not None and worker not in part.lost_before:
                part.fail(
                    WorkerLostError(
                        f"worker {worker.name!r} (rank {worker.id}) was lost during the backward "
                        f"pass of context {id_text(context.id)}"
                    )
                )
    container.worker_lost(worker)
