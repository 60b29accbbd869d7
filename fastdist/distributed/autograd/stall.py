"""What the root of a pass does when nothing moves: asks round, and ends what cannot end itself."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.errors import GraphError, RpcError
from ...core.future import Future
from ..pipe.metadata import Value
from ..rpc.agent import RpcAgent, get_current_agent, is_current_agent_set
from ..rpc.handlers import Reply
from ..rpc.interceptors import Envelope
from ..rpc.message_types import MessageType
from ..rpc.words import Words, flag, number, numbers, refuse
from .container import get_instance
from .context import DistAutogradContext
from .outbox import AUTO, MESSAGES, UNUSED

if TYPE_CHECKING:
    from ..rpc.lane_call import LaneCall

# Note [A pass that cannot end]
# In the fast mode every send of a context must get a gradient. A result that nobody used gets none,
# and the pass waits for ever; so would it wait for a message that was lost. Gradient messages have
# no timeout of their own, for a long computation behind one of them is no fault. So when the root
# has waited the rpc timeout it asks every worker that it can reach through known workers what is
# going on. Two rounds that say the same, with no Node running and as many gradient messages
# received as sent, mean that nothing will happen any more.

# Note [Messages that did not arrive]
# A message may have left a send behind and no receive: it waits for a thread at a callee whose
# caller has given up, answers such a caller, or could not be sent. Nobody can say that this send is
# unused but the root of a pass in the auto mode, which asks who should have received it. A receive
# that is not there now, or came after its worker had begun the pass, gets no gradient in it: all
# that a root depends on was sent and received before the pass began. It may be said to be unused
# all the same, if its worker begins later; a send heeds the first word alone.

_ANSWER_WITHIN_S = 10.0
# A pass of the auto mode that takes longer than this may be waiting for a worker that hears
# nothing, as one does each time that an answer needs no gradient (a metric, say). Asking costs a
# message to each worker, and is over when all have begun; who does not answer, or begin, is asked
# again after twice the time, up to so long.
QUIET_S = 0.01
_QUIET_AT_MOST_S = 1.0
# Who waits for one worker's answer looks this often whether another one has failed.
LOOK_S = 0.25

Told = dict[int, set[int]]


def wait_for_pass(
    context: DistAutogradContext,
    wait: Callable[[float | None], bool],
    begun: list[Future[Any]] | None = None,
) -> None:
    """Wait until wait(timeout in seconds) says that it has seen an end, or the pass is at rest.

    In the auto mode workers that have heard nothing for a while are asked to begin, and told of
    sends that nobody received; `begun` takes their answers.

    Raises  GraphError naming the sends that no gradient reached, if the pass has come to rest
    """
    timeout_s = get_current_agent().get_rpc_timeout() if is_current_agent_set() else 0.0
    is_asking, quiet_s, told = context.is_auto and begun is not None, QUIET_S, Told()
    # Who cannot begin must not keep the root from seeing that nothing moves.
    until = time.monotonic() + (timeout_s if timeout_s > 0 else math.inf)
    while is_asking and time.monotonic() < until:
        if wait(quiet_s):
            return
        quiet_s = min(2 * quiet_s, _QUIET_AT_MOST_S)
        found = _ask_round(get_current_agent(), context)
        # Without an answer of each somebody might sleep on, and the pass with it.
        if found is not None and begun is not None:
            lost = _sends_without_receive(get_current_agent(), context, found)
            is_asking = lost is None or not all(answer["begun"] for answer in found.values())
            begun += _let_all_begin(get_current_agent(), context, found, lost or {}, told)
    before: Any = None
    while not wait(timeout_s if timeout_s > 0 else None):
        found = _ask_round(get_current_agent(), context)
        if found is not None and found == before and _at_rest(found):
            raise GraphError(_describe(found, context))
        before = found


def is_over(done: Future[None], timeout_s: float | None) -> bool:
    """Wait for an end of either kind; False after timeout_s without one."""
    try:
        done.wait(timeout_s)
    except Exception:
        # Not this wait's end but the pass's, unless the time was up: whoever asked reads it there.
        return done.done()
    return True


def has_answer(asked: LaneCall, done: Future[None], timeout_s: float | None) -> bool:
    """Wait for an answer or the pass's end; False after timeout_s without either."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left_s = LOOK_S if deadline is None else min(LOOK_S, deadline - time.monotonic())
        if left_s <= 0:
            return False
        if asked.wait(left_s) or done.done():
            return True


# The name, in a question and its answer, of sends whose receive may not be there.
_SENDS = "sends"
# Of a worker that has no such context. It has no part in the pass, as if that were over.
_NOTHING: dict[str, Value] = {"running": 0, "sent": 0, "received": 0, "begun": True}


def handle_progress(envelope: Envelope) -> Reply:
    """Tell the root of a stalled pass how it stands here."""
    words = envelope.metadata
    pass_id = number(words, "pass_id", envelope.peer)
    context_id = number(words, "context_id", envelope.peer)
    sends = numbers(words, _SENDS, envelope.peer) if _SENDS in words else None
    context = get_instance().find_context(context_id)
    if sends is not None:
        lost: list[Value] = [*sends] if context is None else context.lacks(pass_id, sends)
        return Reply([], {_SENDS: lost})
    if context is None:
        return Reply([], {**_NOTHING, "waiting": [], "waits_for": [], "workers": []})
    workers: list[Value] = [*sorted(context._known_worker_ids())]
    return Reply([], {**context.progress(pass_id), "workers": workers})


def _let_all_begin(
    agent: RpcAgent,
    context: DistAutogradContext,
    found: dict[int, dict[str, Any]],
    lost: dict[int, list[int]],
    told: Told,
) -> list[Future[Any]]:
    """Ask those that have not begun to do so, and tell of sends that are lost; return the answers.

    `told` is who needs no second word, and of which sends.
    """
    answers: list[Future[Any]] = []
    for worker_id, answer in found.items():
        heard = told.get(worker_id)
        sends = [i for i in lost.get(worker_id, ()) if heard is None or i not in heard]
        if not sends and (answer["begun"] or heard is not None):
            continue
        told.setdefault(worker_id, set()).update(sends)
        words: dict[str, Value] = {
            "context_id": context.id,
            "pass_id": context.pass_id,
            "retain_graph": context.keeps_graph(),
            AUTO: True,
            MESSAGES: [number for message_id in sends for number in (message_id, UNUSED)],
        }
        for _ in sends:
            context.note_sent(context.pass_id)
        answers.append(agent.send(worker_id, MessageType.BACKWARD_AUTOGRAD_REQ, (), words))
    return answers


def _sends_without_receive(
    agent: RpcAgent, context: DistAutogradContext, found: dict[int, dict[str, Any]]
) -> dict[int, list[int]] | None:
    """Return, by worker, the sends of which nobody will say anything; None without an answer.

    See Note [Messages that did not arrive].
    """
    senders: dict[int, dict[int, int]] = {}
    for worker_id, answer in found.items():
        for message_id, receiver in zip(answer["waiting"], answer["waits_for"], strict=True):
            senders.setdefault(receiver, {})[message_id] = worker_id
    words = {"context_id": context.id, "pass_id": context.pass_id}
    kind = MessageType.PASS_PROGRESS_REQ
    lost: dict[int, list[int]] = {}
    try:
        asked = [
            (
                one,
                of,
                agent.send(one, kind, (), {**words, _SENDS: [*of]}, timeout_s=_ANSWER_WITHIN_S),
            )
            for one, of in senders.items()
            if one in found
        ]
        for one, of, answered in asked:
            for message_id in numbers(answered.wait().metadata, _SENDS, one):
                if message_id in of:
                    lost.setdefault(of[message_id], []).append(message_id)
    except RpcError:
        return None
    return lost


def _ask_round(agent: RpcAgent, context: DistAutogradContext) -> dict[int, dict[str, Any]] | None:
    """Return the progress of each living worker reached; None if one did not answer.

    If it is lost meanwhile, that ends the pass by itself.
    """
    own = get_instance().worker_id
    found: dict[int, dict[str, Any]] = {own: context.progress(context.pass_id)}
    to_ask = _living(agent, context._known_worker_ids() - {own})
    while to_ask:
        try:
            answers = [
                agent.send(
                    worker_id,
                    MessageType.PASS_PROGRESS_REQ,
                    (),
                    {"context_id": context.id, "pass_id": context.pass_id},
                    timeout_s=_ANSWER_WITHIN_S,
                )
                for worker_id in to_ask
            ]
            told = [
                _progress_of(worker_id, answer.wait().metadata)
                for worker_id, answer in zip(to_ask, answers, strict=True)
            ]
        except RpcError:
            return None
        reached: set[int] = set()
        for worker_id, answer in zip(to_ask, told, strict=True):
            reached.update(answer.pop("workers"))
            found[worker_id] = answer
        to_ask = _living(agent, reached - found.keys())
    return found


def _progress_of(worker_id: int, words: Words) -> dict[str, Any]:
    """Return what a worker says of a pass, and which workers it knows.

    Raises  MessageError for anything else
    """
    progress: dict[str, Any] = {
        **{name: number(words, name, worker_id) for name in ("running", "sent", "received")},
        "begun": flag(words, "begun", worker_id),
        **{name: numbers(words, name, worker_id) for name in ("waiting", "waits_for", "workers")},
    }
    if len(progress["waiting"]) != len(progress["waits_for"]):
        refuse(words, "waits_for", worker_id, "as many numbers as in 'waiting'")
    return progress


def _living(agent: RpcAgent, worker_ids: set[int]) -> set[int]:
    return {worker_id for worker_id in worker_ids if not agent.is_dead(worker_id)}


def _at_rest(found: dict[int, dict[str, Any]]) -> bool:
    told = found.values()
    idle = all(answer["running"] == 0 for answer in told)
    return idle and sum(a["sent"] for a in told) == sum(a["received"] for a in told)


def _describe(found: dict[int, dict[str, Any]], context: DistAutogradContext) -> str:
    agent = get_current_agent()
    waiting = [
        f"{len(answer['waiting'])} of worker {agent.get_worker_info(worker_id).name!r} (message "
        f"ids {', '.join(map(str, answer['waiting'][:4]))})"
        for worker_id, answer in sorted(found.items())
        if answer["waiting"]
    ]
    return (
        f"the backward pass of context {context.id} came to rest without an end: no gradient "
        f"reached the sends {'; '.join(waiting) or '(none)'}. In the fast mode every result of an "
        "RPC made inside the context must be used by the loss; use it, make the call outside of "
        "the context, or inside no_grad()"
    )
