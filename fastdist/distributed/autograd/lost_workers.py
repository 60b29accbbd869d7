"""Handles workers that are lost during a pass or before it."""

from __future__ import annotations

from ...core.errors import WorkerLostError
from ...graph.node import Node
from ..rpc.message.ids import id_text
from ..rpc.workers.record import in_words
from ..rpc.workers.worker import Worker
from .backward_pass import BackwardPass
from .container import get_instance
from .context import DistAutogradContext

# Note [Workers that are lost before a pass]
# The loss of a worker ends the passes that are under way. A later pass would wait forever for the
# gradients of tensors that were sent to that worker. In the auto mode these sends run without
# gradients. That is correct: if a root depended on such a send, the pass would have to send a
# gradient to the lost worker, and would fail. In the fast mode every send takes part, so the pass
# fails. A send and a receive store the incarnation of their peer, so a later worker of the same
# rank is not mistaken for the lost worker.


def handle_lost_worker(worker: Worker) -> None:
    """End passes that wait for a lost worker, and release the contexts that the worker owned."""
    container = get_instance()
    for context in container.all_contexts():
        if context.owner is worker or worker in context.known_workers():
            part = context.pass_under_way()
            if part is not None and worker not in part.lost_before:
                part.fail(
                    WorkerLostError(
                        f"{in_words(worker)} was lost during the backward "
                        f"pass of context {id_text(context.id)}"
                    )
                )
    container.worker_lost(worker)


def end_sends_to_the_lost(context: DistAutogradContext, part: BackwardPass) -> list[Node]:
    """Return the sends of a new pass that go to lost workers; they are to run without gradients.

    In the fast mode such a send ends the pass.

    Note    called when the pass is set up; the loss of a worker after that ends the pass
    """
    part.lost_before = lost = context.lost_workers()
    if not lost:
        return []
    ended: list[Node] = []
    for message_id, send in context._send_functions().items():
        if send.to_worker not in lost or not part.expects_gradients(message_id):
            continue
        if not part.terms.is_auto:
            part.fail(
                WorkerLostError(
                    f"{in_words(send.to_worker)} was lost, and tensors were sent there in context "
                    f"{id_text(context.id)}"
                )
            )
            return []
        # Count a notice as if the lost worker had sent it, so that the numbers of sent and received
        # messages remain equal.
        part.note_sent()
        if part.take(message_id):
            send.set_unused(part)
            ended.append(send)
    return ended
