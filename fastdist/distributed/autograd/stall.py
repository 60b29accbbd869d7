"""What the root of a pass does when nothing moves: it asks round, and ends a pass that cannot end."""

from __future__ import annotations

from typing import Any

from ...core.errors import GraphError
from ...engine.graph_task import GraphTask
from ..rpc.agent import RpcAgent, get_current_agent
from ..rpc.handlers import Reply
from ..rpc.interceptors import Envelope
from ..rpc.message_types import MessageType
from .container import get_instance
from .context import DistAutogradContext

# Note [A pass that cannot end]
# In the fast mode every send of a context must get a gradient. A result that nobody used gets none, and the pass waits
# for ever; so would it wait for a message that was lost. Gradient messages have no timeout of their own, for a long
# computation behind one of them is no fault. So when the root has waited the rpc timeout it asks every worker that it
# can reach through known workers what is going on. Two rounds that say the same, with no Node running and as many
# gradient messages received as sent, mean that nothing will happen any more.


def wait_for_pass(context: DistAutogradContext, task: GraphTask) -> None:
    """Wait until this worker's part is done or has failed; end it if the whole pass has come to rest.

    Raises  GraphError naming the sends that no gradient reached
    """
    agent = get_current_agent()
    timeout_s = agent.get_rpc_timeout()
    before: Any = None
    while True:
        if _wait(task, timeout_s if timeout_s > 0 else None):
            return
        found = _ask_round(agent, context)
        if found is not None and found == before and _at_rest(found):
            raise GraphError(_describe(found, context))
        before = found


def _wait(task: GraphTask, timeout_s: float | None) -> bool:
    try:
        task.future.wait(timeout_s)
    except TimeoutError:
        return task.future.done()
    except BaseException:
        # The pass has its error; who waits for it raises it, with this worker's name.
        if not task.future.done():
            raise
    return True


def handle_progress(envelope: Envelope) -> Reply:
    """Tell the root of a stalled pass how it stands here."""
    context_id = envelope.metadata["context_id"]
    assert isinstance(context_id, int)
    context = get_instance().get_or_create_context(context_id)
    progress: dict[str, Any] = dict(context.progress())
    progress["workers"] = sorted(context._known_worker_ids())
    return Reply([], progress)


def _ask_round(agent: RpcAgent, context: DistAutogradContext) -> dict[int, dict[str, Any]] | None:
    """Return each reached worker's progress; None if one did not answer (its loss ends the pass by itself)."""
    own = get_instance().worker_id
    found: dict[int, dict[str, Any]] = {own: dict(context.progress())}
    to_ask = context._known_worker_ids() - {own}
    while to_ask:
        futures = {
            worker_id: agent.send(
                worker_id, MessageType.PASS_PROGRESS_REQ, (), {"context_id": context.id}, timeout_s=10.0
            )
            for worker_id in to_ask
        }
        to_ask = set()
        for worker_id, future in futures.items():
            try:
                answer: dict[str, Any] = dict(future.wait().metadata)
            except RuntimeError:
                return None
            to_ask |= set(answer.pop("workers"))
            found[worker_id] = answer
        to_ask -= found.keys()
    return found


def _at_rest(found: dict[int, dict[str, Any]]) -> bool:
    idle = all(answer["running"] == 0 for answer in found.values())
    return idle and sum(a["sent"] for a in found.values()) == sum(a["received"] for a in found.values())


def _describe(found: dict[int, dict[str, Any]], context: DistAutogradContext) -> str:
    agent = get_current_agent()
    waiting = [
        f"{len(answer['waiting'])} of worker {agent.get_worker_info(worker_id).name!r} (message ids "
        f"{', '.join(map(str, answer['waiting'][:4]))})"
        for worker_id, answer in sorted(found.items())
        if answer["waiting"]
    ]
    return (
        f"the backward pass of context {context.id} came to rest without an end: no gradient reached the sends "
        f"{'; '.join(waiting) or '(none)'}. In the fast mode every result of an RPC made inside the context must be "
        "used by the loss; use it, make the call outside of the context, or inside no_grad()"
    )
