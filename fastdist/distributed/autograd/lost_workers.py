"""What a pass does without workers that were lost before it began."""

from __future__ import annotations

from ...core.errors import WorkerLostError
from ...graph.node import Node
from ..rpc.agent import get_current_agent, is_current_agent_set
from .context import DistAutogradContext
from .dist_graph_task import DistGraphTask

# Note [Workers that are lost before a pass]
# The loss of a worker ends the passes that are under way (abort.py). A later pass would wait for
# ever for the gradients of what was sent there. In the auto mode there are none: a loss that
# depended on them had to send a gradient to that worker, which fails by itself. In the fast mode
# every send takes part, so the pass fails. In a dynamic group another worker may have taken the
# rank; so what went to the lost one, or came from it, is remembered by message.


def end_sends_to_the_lost(context: DistAutogradContext, task: DistGraphTask) -> list[Node]:
    """Return the sends to lost workers of a pass that begins, which are to run without gradients.

    In the fast mode they end the pass.

    Note    called when the pass is set up: who is lost later ends it
    """
    if not is_current_agent_set():
        return []
    agent = get_current_agent()
    lost = frozenset(one for one in context._known_worker_ids() if agent.is_dead(one))
    if not lost and not context.lost_messages:
        return []
    task.lost_before = lost
    ended: list[Node] = []
    for message_id, send in context._send_functions().items():
        is_lost = send.to_worker_id in lost or message_id in context.lost_messages
        if not is_lost or send not in task.nodes_in_graph:
            continue
        if not context.is_auto:
            worker = f"worker {send.to_worker_id}"
            task.set_exception(
                WorkerLostError(
                    f"{worker} was lost, and tensors went there in context {context.id}"
                )
            )
            return []
        # As if the lost worker had said so: who counts messages must find as many of both.
        context.note_sent(task.pass_id)
        if context.note_arrival(message_id, task.pass_id):
            send.set_unused(task.pass_id)
            ended.append(send)
    return ended
