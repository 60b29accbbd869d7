"""Notifies other workers that a pass has failed, so that no worker waits for gradients in vain."""

from __future__ import annotations

from collections.abc import Iterable

from ..rpc.agent import get_current_agent, is_current_agent_set
from ..rpc.debug_log import debug_log
from ..rpc.message.ids import id_text
from ..rpc.message.types import MessageType
from ..rpc.workers.worker import Worker
from .pass_metadata import REASON, Terms

_ANSWER_WITHIN_S = 10.0
_LONGEST_REASON = 1000


def abort_everywhere(reached: Iterable[Worker], terms: Terms, reason: str) -> None:
    """Send a request to end a pass to all workers that the context of the pass has reached.

    Never raises, and waits for no answer; a lost worker needs no notice.
    """
    if not is_current_agent_set():
        return
    agent = get_current_agent()
    if debug_log.of_autograd:
        what = (terms.context_id, terms.pass_id, "is aborted everywhere: %s", reason)
        debug_log.backward(agent.get_worker_info().id, *what)
    metadata = {**terms._asdict(), REASON: reason[:_LONGEST_REASON]}
    for worker in reached:
        if worker.is_self:
            continue
        agent.notice_sender.send(
            worker,
            MessageType.ABORT_AUTOGRAD_CONTEXT_REQ,
            metadata,
            failure=f"could not abort a pass of context {id_text(terms.context_id)}",
            retries=0,
            timeout_s=_ANSWER_WITHIN_S,
        )
