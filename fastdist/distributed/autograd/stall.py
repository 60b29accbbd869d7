"""Detects a pass that makes no progress: its root queries all workers, and fails the pass."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...concurrency.future import Future
from ...core.errors import GraphError, RpcError, WorkerLostError
from ..rpc.agent import RpcAgent, get_current_agent, is_current_agent_set
from ..rpc.handlers import Reply
from ..rpc.message.ids import id_text
from ..rpc.message.message import Message
from ..rpc.message.metadata_fields import filled, numbers
from ..rpc.message.types import MessageType
from ..rpc.workers.worker import Worker
from .backward_pass import BackwardPass
from .container import get_instance
from .context import DistAutogradContext
from .outbox import MESSAGES, UNUSED
from .pass_metadata import SENDS, Progress, Sends, Terms

if TYPE_CHECKING:
    from ..rpc.calls.outgoing import LaneCall

# Note [A pass that cannot end]
# In the fast mode every send of a context must get a gradient. A result that is never used gets no
# gradient, so the pass waits forever. It would also wait forever for a message that was lost.
# Gradient messages have no timeout, since they may wait for a long computation. So when the root
# has waited for the RPC timeout, it queries the progress of the workers that it knows, of the
# workers that these know, and so on. The pass is at rest if two successive queries of all workers
# have equal answers, no Node runs, and as many gradient messages were received as sent. If all
# workers have begun the pass and no send waits for gradients, the pass is not at rest: it only
# waits for answers. They arrive, or the worker that should send them is lost.

# Note [Messages that did not arrive]
# A message may have a send but no receive. Such a message is a request that still waits for a
# thread although its caller has given up, an answer to such a caller, or a message that could not
# be sent. Only the root of a pass in the auto mode can decide that this send is unused: it queries
# the worker that should have received the message. A receive that does not exist at the query, or
# was added after its worker had begun the pass, gets no gradient in the pass. This is because
# everything that a root tensor depends on was sent and received before the pass began. If the
# receive is added after the query and its worker begins the pass later, that worker may report the
# send as unused again; the send uses only the first report.

_ANSWER_WITHIN_S = 10.0
# A pass in the auto mode that takes longer than this may wait for a worker that gets no message of
# the pass. That happens whenever the worker's answer, such as a metric, needs no gradient. A query
# costs one message per worker, and queries end when all workers have begun the pass. While a worker
# does not answer or has not begun, the interval between queries doubles, up to _LONGEST_POLL_S.
FIRST_POLL_S = 0.01
_LONGEST_POLL_S = 1.0
# A thread that waits for one worker's answer checks at this interval whether another has failed.
LOOK_S = 0.25

Notified = dict[Worker, set[int]]
Round = dict[Worker, Progress]


def wait_for_pass(
    context: DistAutogradContext,
    part: BackwardPass,
    wait: Callable[[float | None], bool],
    begun: list[Future[Any]] | None = None,
) -> None:
    """Wait until wait(timeout in seconds) returns True, or the pass is at rest.

    In the auto mode, workers that got no message of the pass for a while are sent a request to
    begin the pass. The workers of sends that have no receive are sent a list of these sends. The
    Futures of the answers are appended to `begun`.

    Raises  GraphError with the sends that got no gradient, if the pass is at rest; WorkerLostError
            if these sends wait for a lost worker, and no worker has reported the loss
    """
    is_asking, poll_interval_s = part.terms.is_auto and begun is not None, FIRST_POLL_S
    began = time.monotonic()
    if is_asking and wait(poll_interval_s):
        return  # the usual case
    timeout_s = get_current_agent().get_rpc_timeout() if is_current_agent_set() else 0.0
    notified = Notified()

    def look() -> Round | None:
        """Return the progress of all workers; None if it is unknown, or a request was just sent."""
        nonlocal is_asking
        found = _ask_round(get_current_agent(), context, part)
        if found is None or begun is None or not part.terms.is_auto:
            return found
        # If a worker has not answered (`lost` is None), it may not have begun the pass. The queries
        # continue, because the pass would hang otherwise.
        lost = _sends_without_receive(get_current_agent(), part, found)
        is_asking = lost is None or not all(answer.begun for answer in found.values())
        moved = _let_all_begin(get_current_agent(), part, found, lost or {}, notified)
        begun.extend(moved)
        return None if moved else found

    # The first loop ends at the timeout even if a worker cannot begin, because only the second loop
    # detects that the pass is at rest.
    until = began + (timeout_s if timeout_s > 0 else math.inf)
    while is_asking:
        poll_interval_s = min(2 * poll_interval_s, _LONGEST_POLL_S)
        look()
        if time.monotonic() >= until:
            break
        if is_asking and wait(poll_interval_s):
            return
    before: Round | None = None
    while not wait(timeout_s if timeout_s > 0 else None):
        found = look()
        if found is not None and found == before and _at_rest(found):
            raise _error_at_rest(found, context)
        before = found


def is_over(done: Future[None], timeout_s: float | None) -> bool:
    """Wait until `done` has a result or an error; return False after timeout_s."""
    try:
        done.wait(timeout_s)
    except Exception:
        # A timeout of this wait, or an error of the pass, which the caller reads from `done`.
        return done.done()
    return True


def are_over(begun: Sequence[Future[Any]], timeout_s: float | None) -> bool:
    """Wait until all parts have ended or one has failed; return False after timeout_s.

    A failed part ends the wait: the others may wait for its worker until the root notifies them.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        waits = next((one for one in begun if not one.done()), None)
        if waits is None or first_failed(begun) is not None:
            return True
        left_s = LOOK_S if deadline is None else min(LOOK_S, deadline - time.monotonic())
        if left_s <= 0:
            return False
        is_over(waits, left_s)


def has_answer(asked: LaneCall, begun: Sequence[Future[Any]], timeout_s: float | None) -> bool:
    """Wait until `asked` is answered, the pass is over (`begun[0]` is done), or a part has failed.
    Return False if none of these happens within timeout_s.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = LOOK_S if deadline is None else min(LOOK_S, deadline - time.monotonic())
        if left_s <= 0:
            return False
        if asked.has_come(left_s) or begun[0].done() or first_failed(begun) is not None:
            return True


def first_failed(begun: Sequence[Future[Any]]) -> Future[Any] | None:
    """Return the first of these parts of a pass that has failed, or None."""
    return next((one for one in begun if one.exception() is not None), None)


def handle_progress(request: Message) -> Reply:
    """Answer a query of a pass's root: with the progress here, or with sends without a receive."""
    metadata, sender = request.metadata, request.peer.id
    terms = filled(Terms, metadata, sender)
    context = get_instance().find_context(terms.context_id)
    if SENDS in metadata:
        sends = Sends(numbers(metadata, SENDS, sender), begun=True)
        if context is not None:
            missing = (*context.sends_without_receive(terms.pass_id, sends.sends),)
            sends = Sends(missing, context.find_pass(terms.pass_id) is not None)
        return Reply([], sends._asdict())
    # A worker that does not have the context has no part in the pass, and answers as if its part
    # were over.
    nothing = Progress(0, 0, 0, begun=True)
    return Reply([], (nothing if context is None else context.progress(terms.pass_id))._asdict())


def _let_all_begin(
    agent: RpcAgent,
    part: BackwardPass,
    found: Round,
    lost: dict[Worker, list[int]],
    notified: Notified,
) -> list[Future[Any]]:
    """Send requests to begin the pass, and reports of sends that have no receive; return the
    Futures of the answers.

    `notified` maps each worker that got such a message to the sends that were reported to it.
    """
    answers: list[Future[Any]] = []
    for worker, answer in found.items():
        earlier = notified.get(worker)
        sends = [i for i in lost.get(worker, ()) if earlier is None or i not in earlier]
        if not sends and (answer.begun or earlier is not None):
            continue
        notified.setdefault(worker, set()).update(sends)
        metadata = part.terms._asdict()
        metadata[MESSAGES] = [number for message_id in sends for number in (message_id, UNUSED)]
        part.mark_notified(len(sends))
        begun = agent.send(worker, MessageType.BACKWARD_AUTOGRAD_REQ, (), metadata)
        # This part does not wait for the answer, `wait_for_pass` does; an error ends this part.
        part.add_outstanding_rpc(begun, wait=False)
        answers.append(begun)
    return answers


def _sends_without_receive(
    agent: RpcAgent, part: BackwardPass, found: Round
) -> dict[Worker, list[int]] | None:
    """Return, by worker, the sends that have no receive, and so will never get a gradient.

    Returns None if a worker has not answered, or if the context reached a worker during the query.

    See Note [Messages that did not arrive].
    """
    # The keys are ranks, because a waiting worker reports only the rank of a gradient's sender.
    senders: dict[int, dict[int, Worker]] = {}
    for worker, answer in found.items():
        for message_id, receiver in zip(answer.waiting, answer.waits_for, strict=True):
            senders.setdefault(receiver, {})[message_id] = worker
    kind, lost = MessageType.PASS_PROGRESS_REQ, dict[Worker, list[int]]()
    try:
        asked = [
            (one, of, agent.send(one, kind, (), metadata, timeout_s=_ANSWER_WITHIN_S))
            for one in found
            if (of := senders.get(one.id))
            for metadata in ({**part.terms._asdict(), SENDS: (*of,)},)
        ]
        for one, of, answered in asked:
            without, begun = filled(Sends, answered.wait().metadata, one.id)
            if found[one].begun and not begun:
                return None  # since `found`, the context has reached this worker, but not the pass
            for message_id in without:
                if message_id in of:
                    lost.setdefault(of[message_id], []).append(message_id)
    except RpcError:
        return None
    return lost


def _ask_round(agent: RpcAgent, context: DistAutogradContext, part: BackwardPass) -> Round | None:
    """Return the progress of all living workers, found through the workers that each one knows.

    Returns None if one of them did not answer. If that worker was lost, the loss ends the pass.
    """
    me, kind = agent.worker(), MessageType.PASS_PROGRESS_REQ
    found: Round = {me: context.progress(part.terms.pass_id)}
    to_ask = _living(agent, found[me].workers) - {me}
    while to_ask:
        try:
            metadata = part.terms._asdict()
            answers = [
                agent.send(worker, kind, (), metadata, timeout_s=_ANSWER_WITHIN_S)
                for worker in to_ask
            ]
            reports = [
                Progress.read(answer.wait().metadata, worker.id)
                for worker, answer in zip(to_ask, answers, strict=True)
            ]
        except RpcError:
            return None
        found.update(zip(to_ask, reports, strict=True))
        to_ask = _living(agent, (rank for one in reports for rank in one.workers)) - found.keys()
    return found


def _living(agent: RpcAgent, ranks: Iterable[int]) -> set[Worker]:
    """Return the living workers with these ranks."""
    known = {agent.workers.find(rank) for rank in ranks}
    return {worker for worker in known if worker is not None and not worker.is_dead}


def _at_rest(found: Round) -> bool:
    reports = found.values()
    waits = any(answer.waiting or not answer.begun for answer in reports)
    idle = waits and all(answer.running == 0 for answer in reports)
    return idle and sum(a.sent for a in reports) == sum(a.received for a in reports)


def _error_at_rest(found: Round, context: DistAutogradContext) -> Exception:
    # All living workers have answered. So if sends wait for gradients of a rank that did not
    # answer, that rank is lost, even if the waiting worker has not noticed the loss yet.
    waited_for = {rank for answer in found.values() for rank in answer.waits_for}
    gone = waited_for.difference(worker.id for worker in found)
    if gone:
        lost = get_current_agent().workers.in_words(min(gone))
        return WorkerLostError(
            f"{lost} was lost, or has left, and the backward pass of context "
            f"{id_text(context.id)} waits for its gradients"
        )
    return GraphError(_describe(found, context))


def _describe(found: Round, context: DistAutogradContext) -> str:
    waiting = [
        f"{len(found[worker].waiting)} of worker {worker.name!r} (message "
        f"ids {', '.join(map(id_text, found[worker].waiting[:4]))})"
        for worker in sorted(found, key=lambda worker: worker.id)
        if found[worker].waiting
    ]
    return (
        f"the backward pass of context {id_text(context.id)} stalled: no gradient reached the "
        f"sends {'; '.join(waiting) or '(none)'}. In the fast mode every result of an RPC made "
        "inside the context must be used by the loss; use it, make the call outside of the "
        "context, or inside no_grad()"
    )
