"""Telling every worker that a pass has failed, so that none waits for gradients that will not come."""

from __future__ import annotations

import logging
from typing import Any

from ...core.errors import GraphError, WorkerLostError
from ..rpc.agent import get_current_agent, is_current_agent_set
from ..rpc.interceptors import Envelope
from ..rpc.message_types import MessageType
from .container import AUTO_INCREMENT_BITS, get_instance
from .context import DistAutogradContext

_logger = logging.getLogger(__name__)


def abort_everywhere(context: DistAutogradContext, reason: str) -> None:
    """Ask all workers that the context reached to end its pass. Never raises; a lost worker needs no telling."""
    if not is_current_agent_set():
        return
    agent = get_current_agent()
    for worker_id in context._known_worker_ids():
        if worker_id == get_instance().worker_id or agent.is_dead(worker_id):
            continue
        try:
            agent.send(
                worker_id,
                MessageType.ABORT_AUTOGRAD_CONTEXT_REQ,
                (),
                {"context_id": context.id, "reason": reason},
            )
        except Exception as error:
            _logger.info("worker %d was not told that context %d failed: %s", worker_id, context.id, error)


def handle_abort(envelope: Envelope) -> None:
    """End this worker's part of a pass that failed elsewhere, and pass the word on.

    The word stops where no pass is under way any more, so it cannot go round in circles.
    """
    context_id, reason = envelope.metadata["context_id"], envelope.metadata["reason"]
    assert isinstance(context_id, int)
    context = _context_or_none(context_id)
    if context is None:
        return
    task = context.graph_task()
    if task is None or task.has_error:
        return
    task.set_exception(GraphError(f"the pass was given up by worker {envelope.peer}: {reason}"))
    abort_everywhere(context, str(reason))


def handle_lost_worker(worker: Any) -> None:
    """End passes that wait for a lost worker, and release the contexts that it owned."""
    container = get_instance()
    for context in container.all_contexts():
        if context.id >> AUTO_INCREMENT_BITS == worker.id:
            task = context.graph_task()
            if task is not None:
                task.set_exception(_lost(worker, context))
            container.release_context_if_present(context.id)
        elif worker.id in context._known_worker_ids():
            task = context.graph_task()
            if task is not None and not task.future.done():
                task.set_exception(_lost(worker, context))


def _lost(worker: Any, context: DistAutogradContext) -> WorkerLostError:
    return WorkerLostError(
        f"worker {worker.name!r} (id {worker.id}) was lost during the backward pass of context {context.id}"
    )


def _context_or_none(context_id: int) -> DistAutogradContext | None:
    container = get_instance()
    return next((c for c in container.all_contexts() if c.id == context_id), None)
