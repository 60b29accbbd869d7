"""Telling every worker that a pass has failed, so that none waits for gradients in vain."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

from ...core.errors import GraphError, MessageError, RpcError, WorkerLostError
from ...core.future import Future
from ..pipe.metadata import Value
from ..rpc.agent import get_current_agent, is_current_agent_set
from ..rpc.handlers import Reply
from ..rpc.interceptors import Envelope
from ..rpc.message_types import MessageType
from ..rpc.words import number, numbers, text
from .container import AUTO_INCREMENT_BITS, DistAutogradContainer, get_instance
from .context import DistAutogradContext
from .dist_graph_task import DistGraphTask

if TYPE_CHECKING:
    from ..rpc.membership import WorkerInfo

_logger = logging.getLogger(__name__)

_ANSWER_WITHIN_S = 10.0
_RETRIES = 5


def abort_everywhere(context: DistAutogradContext, pass_id: int, reason: str) -> None:
    """Ask all workers that the context reached to end a pass.

    Never raises, and waits for nobody; a lost worker needs no telling.
    """
    if not is_current_agent_set():
        return
    agent, own = get_current_agent(), get_instance().worker_id
    words: dict[str, Value] = {
        "context_id": context.id,
        "pass_id": pass_id,
        "reason": reason[:1000],
    }
    for worker_id in context._known_worker_ids():
        if worker_id == own or agent.is_dead(worker_id):
            continue
        try:
            agent.send(
                worker_id,
                MessageType.ABORT_AUTOGRAD_CONTEXT_REQ,
                (),
                words,
                timeout_s=_ANSWER_WITHIN_S,
            )
        except (
            Exception
        ) as error:  # one worker that cannot be told must not keep the others unaware
            _logger.info(
                "worker %d was not told that context %d failed: %s", worker_id, context.id, error
            )


def handle_abort(envelope: Envelope) -> None:
    """End this worker's part of a pass that failed elsewhere, and pass the word on.

    The word stops where it has been before, so it does not go round in circles.
    """
    words = envelope.metadata
    context_id = number(words, "context_id", envelope.peer)
    pass_id = number(words, "pass_id", envelope.peer)
    reason = text(words, "reason", envelope.peer)
    context = get_instance().find_context(context_id)
    if context is None or not context.refuse_pass(pass_id):
        return
    task = context.graph_task()
    if task is not None and context.pass_id == pass_id:
        task.set_exception(GraphError(f"the pass was given up by worker {envelope.peer}: {reason}"))
    abort_everywhere(context, pass_id, reason)


def handle_lost_worker(worker: WorkerInfo) -> None:
    """End passes that wait for a lost worker, and release the contexts that it owned."""
    container = get_instance()
    for context in container.all_contexts():
        is_owner = context.id >> AUTO_INCREMENT_BITS == worker.id
        context.note_lost(worker.id)
        if is_owner or worker.id in context._known_worker_ids():
            task = context.graph_task()
            began_without = isinstance(task, DistGraphTask) and worker.id in task.lost_before
            if task is not None and not began_without and not task.future.done():
                task.set_exception(
                    WorkerLostError(
                        f"worker {worker.name!r} (rank {worker.id}) was lost during the backward "
                        f"pass of context {context.id}"
                    )
                )
        if is_owner:
            container.release_context_if_present(context.id)
    container.forget_released_of(worker.id)
    _ask_owners(container)


def _ask_owners(container: DistAutogradContainer) -> None:
    """Let the owners of what is held here know of it, and hear which of that is over.

    A lost worker may have brought a context here, and told nobody yet.
    """
    if not is_current_agent_set():
        return
    agent, held = get_current_agent(), dict[int, list[Value]]()
    for context in container.all_contexts():
        owner = context.id >> AUTO_INCREMENT_BITS
        if owner != container.worker_id and not agent.is_dead(owner):
            held.setdefault(owner, []).append(context.id)

    def release(owner: int, done: Future[Reply]) -> None:
        if done.exception() is not None:
            return
        try:
            over = numbers(done.value().metadata, "over", owner)
        except MessageError as error:
            _logger.warning("what worker %d says of its contexts is not read: %s", owner, error)
            return
        for context_id in over:
            container.release_context_if_present(context_id)

    for owner, context_ids in held.items():
        words: dict[str, Value] = {"context_ids": [], "held": context_ids}
        kind = MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ
        try:
            told = agent.send(owner, kind, (), words, retries=_RETRIES)
        except RpcError as error:  # the owner is lost as well, or RPC ends
            _logger.info("worker %d was not asked about contexts: %s", owner, error)
            continue
        told.add_done_callback(functools.partial(release, owner))
