"""Passes and contexts when workers are lost, during a pass or before it."""

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
# gradients of tensors that were sent there. In the auto mode there are none: a loss that depended
# on them must send a gradient to that worker, which fails. In the fast mode every send takes part,
# so the pass fails. A send and a receive know the incarnation of the worker at the other end: a
# later worker of the same rank is unrelated to them.


def handle_lost_worker(worker: Worker) -> None:
    """End passes that wait for a lost worker, and release the contexts that it owned."""
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
    """Return the sends to lost workers of a pass that begins, which are to run without gradients.

    In the fast mode they end the pass.

    Note    called when the pass is set up: who is lost later ends it
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
        # As if the lost worker had said so: who counts messages must find as many of both.
        part.note_sent()
        if part.take(message_id):
            send.set_unused(part)
            ended.append(send)
    return ended
