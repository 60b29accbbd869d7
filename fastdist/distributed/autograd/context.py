"""What one worker knows of one distributed forward and backward pass."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Sequence
from typing import Any

from ...core.device import Device
from ...core.errors import ContextError, ContextReleasedError, MessageError
from ...core.future import Future
from ...devices.backend import backend_of
from ...engine.graph_task import GraphTask
from ...graph.accumulate_grad import AccumulateGrad
from ...graph.add_gradients import add_gradients, copy_gradient
from ...graph.forward_streams import follow
from ...graph.modes import modes
from ...tensor.tensor import Tensor
from .recv_rpc_backward import RecvRpcBackward
from .send_rpc_backward import SendRpcBackward

_logger = logging.getLogger(__name__)

NO_PASS = -1
NOBODY = -1


class DistAutogradContext:
    """Sends, receives, gradients and the running pass of one context id on this worker.

    Thread  any; `_lock` guards everything but the id. No callback runs and no message is sent while
            it is held
    Source  PyTorch, torch/csrc/distributed/autograd/context/context.cpp
    """

    def __init__(self, context_id: int) -> None:
        self.id = context_id
        self._lock = threading.Lock()
        self._workers: set[int] = set()
        self._is_closed = False
        self._sends: dict[int, SendRpcBackward] = {}
        self._recvs: dict[int, RecvRpcBackward] = {}
        # The ids of both whose other end was lost: another worker may have its rank by now.
        self.lost_messages: frozenset[int] = frozenset()
        # Keyed by the leaf's AccumulateGrad, which lives as long as the leaf is in any graph: a
        # Tensor as key would keep the user's handle alive, and a dead handle could not be found
        # again.
        self._grads: dict[AccumulateGrad, Tensor] = {}
        # By device: the stream on which gradients were added last.
        self._added_on: dict[Device, Any] = {}
        self._graph_task: GraphTask | None = None
        self._outstanding: list[Future[Any]] = []
        # Of the pass under way, or the last one.
        self.pass_id = NO_PASS
        self.requester = NOBODY
        self.is_auto = False
        self._ended_passes: set[int] = set()
        self._keeps_graph = False
        self._num_recvs = 0
        self.num_sent = 0
        self.num_received = 0
        self._arrived: set[int] = set()

    def _context_id(self) -> int:
        return self.id

    def _known_worker_ids(self) -> set[int]:
        with self._lock:
            return set(self._workers)

    def _send_functions(self) -> dict[int, SendRpcBackward]:
        with self._lock:
            return dict(self._sends)

    def _recv_functions(self) -> dict[int, RecvRpcBackward]:
        with self._lock:
            return dict(self._recvs)

    def close(self) -> set[int]:
        """Take in no worker, and no pass, from now on; return who is to hear that it is over."""
        with self._lock:
            self._is_closed = True
            return self._workers

    def add_known_worker(self, worker_id: int) -> bool:
        """Remember a worker that is about to be reached; False if the context is over.

        Then nothing of it may go there: nobody would tell that worker to forget it.
        """
        return self.add_known_workers({worker_id})

    def add_known_workers(self, worker_ids: set[int]) -> bool:
        """Remember workers that were reached from other ones; False if the context is over."""
        with self._lock:
            if not self._is_closed:
                self._workers |= worker_ids
            return not self._is_closed

    def add_send_function(self, function: SendRpcBackward, message_id: int) -> None:
        """File a send under its autograd message id. A repeated id is our mistake."""
        with self._lock:
            assert message_id not in self._sends, f"autograd message id {message_id} is used twice"
            self._sends[message_id] = function

    def add_recv_function(self, function: RecvRpcBackward, message_id: int) -> None:
        """File a receive under the same id as its send.

        Raises  MessageError for an id that has come before
        """
        with self._lock:
            if message_id in self._recvs:
                raise MessageError(
                    f"autograd message id {message_id} of worker {function.from_worker_id} came "
                    f"twice in context {self.id}; each message has one of its own"
                )
            self._recvs[message_id] = function

    def note_lost(self, worker_id: int) -> None:
        """Take note that nothing will come back from, or can go back to, a worker that is lost."""
        with self._lock:
            sends = [i for i, send in self._sends.items() if send.to_worker_id == worker_id]
            recvs = [i for i, recv in self._recvs.items() if recv.from_worker_id == worker_id]
            self.lost_messages = self.lost_messages.union(sends, recvs)

    def retrieve_send_function(self, message_id: int) -> SendRpcBackward:
        """Return the send that a gradient message answers.

        Raises  ContextError if there is none
        """
        with self._lock:
            function = self._sends.get(message_id)
        if function is None:
            raise ContextError(
                f"Could not find send function for autograd message id: {message_id}: the tensors "
                f"of that message were not sent from here inside context {self.id}"
            )
        return function

    def set_graph_task(
        self,
        task: GraphTask,
        pass_id: int = NO_PASS,
        requester: int = NOBODY,
        is_auto: bool = False,
    ) -> None:
        """Take ownership of a pass that begins, here for the worker whose gradients came first.

        Raises  ContextError if another is under way; ContextReleasedError if this one was given up,
                or the context is over
        """
        with self._lock:
            if self._is_closed:
                # Nobody would end the pass: others may have let go of the context already.
                raise ContextReleasedError(
                    f"context {self.id} was released before a backward pass of it began"
                )
            if self._graph_task is not None:
                raise ContextError(
                    "Cannot set GraphTask multiple times for the same autograd context: a backward "
                    f"pass of context {self.id} is under way; wait for it, or use another context"
                )
            if pass_id in self._ended_passes:
                raise ContextReleasedError(
                    f"a backward pass of context {self.id} has ended here already"
                )
            self._graph_task, self.pass_id = task, pass_id
            self.requester, self.is_auto = requester, is_auto
            self._keeps_graph = task.keep_graph
            self._outstanding = []
            self._num_recvs = len(self._recvs)
            self.num_sent = self.num_received = 0
            self._arrived = set()

    def keeps_graph(self) -> bool:
        """Return whether the pass under way, or the last one, keeps the graph for another."""
        return self._keeps_graph

    def graph_task(self) -> GraphTask | None:
        """Return the pass under way."""
        return self._graph_task

    def task_of(self, pass_id: int) -> GraphTask:
        """Return the task of a pass that is under way here.

        Raises  ContextReleasedError if it is over; ContextError if another root's is under way
        """
        with self._lock:
            task, under_way = self._graph_task, self.pass_id
            if task is None or pass_id in self._ended_passes:
                raise ContextReleasedError(f"a backward pass of context {self.id} has ended here")
        if under_way == pass_id:
            return task
        raise ContextError(
            "Cannot set GraphTask multiple times for the same autograd context: the backward pass "
            f"of context {self.id} that worker {under_way >> 48} began is under way here, and one "
            f"that worker {pass_id >> 48} began has come; let one worker after the other call "
            "backward in a context, or give all roots to one, or use a context for each"
        )

    def reset_graph_task(self, task: GraphTask | None = None) -> bool:
        """Let go of the pass (if it is task, where one is given), and say whether it was there."""
        with self._lock:
            if self._graph_task is None or task not in (None, self._graph_task):
                return False
            self._graph_task = None
            self._outstanding = []
            if self.pass_id != NO_PASS:
                self._ended_passes.add(self.pass_id)
            return True

    def refuse_pass(self, pass_id: int) -> bool:
        """Let no message begin a pass that was given up elsewhere; say whether that is news."""
        with self._lock:
            known = pass_id in self._ended_passes
            self._ended_passes.add(pass_id)
            return not known

    def has_ended(self, pass_id: int) -> bool:
        """Return whether this worker's part of a pass is over, or was given up."""
        with self._lock:
            return pass_id in self._ended_passes

    def note_arrival(self, message_id: int, pass_id: int) -> bool:
        """Count a gradient message of a pass; False if its send is not to run for it.

        That is so where the pass is over, has begun without the send, or has heard of it before.
        """
        with self._lock:
            task = self._graph_task
            if pass_id != self.pass_id:
                return False
            self.num_received += 1
            if task is None or not self._awaits(message_id, task):
                return False
            self._arrived.add(message_id)
            return True

    def _awaits(self, message_id: int, task: GraphTask) -> bool:
        return message_id not in self._arrived and self._sends[message_id] in task.nodes_in_graph

    def lacks(self, pass_id: int, message_ids: Sequence[Any]) -> list[Any]:
        """Return for which sends no word comes from here: their receives are not in the pass."""
        with self._lock:
            begun = self.pass_id == pass_id
            # What comes after the beginning is in nobody's graph, and nobody is told so.
            number = self._num_recvs if begun else len(self._recvs)
            here = set(itertools.islice(self._recvs, number))
            return [message_id for message_id in message_ids if message_id not in here]

    def accumulate_grad(self, accumulator: AccumulateGrad, grad: Tensor, mine: bool) -> None:
        """Add a leaf's gradient into this context; one that is mine may be kept, others are copied.

        Source  PyTorch, torch/csrc/distributed/autograd/context/context.cpp, accumulateGrad
        """
        with self._lock:
            device = grad.facts.device
            have = self._grads.get(accumulator)
            if device.index is not None:
                self._added_on[device] = self._follow(device, () if have is None else (have,))
            if have is not None:
                # What was kept for its tangents may be somebody else's as well.
                is_ours = have.extra is None
                self._grads[accumulator] = add_gradients(have, grad, is_ours)
                return
            keep = (mine and grad.facts.contiguous) or (modes.special and grad.extra is not None)
            self._grads[accumulator] = grad if keep else copy_gradient(grad)

    def gradients(self) -> dict[Tensor, Tensor]:
        """Return leaf -> gradient, for use on the calling thread's current streams."""
        with self._lock:
            for device in self._added_on:
                grads = [g for g in self._grads.values() if g.facts.device is device]
                self._follow(device, grads)
            return {accumulator.variable: grad for accumulator, grad in self._grads.items()}

    def _follow(self, device: Device, grads: Sequence[Tensor]) -> Any:
        """Let this thread's current stream of a device, which will use grads of it, wait for what
        was added there; return the stream.

        A pass adds on the streams that were current where it began; the next one may begin on
        others, and an optimiser takes the gradients on a thread of the pool.
        """
        here = backend_of(device.type).current_stream(device.index)
        follow(here, self._added_on.get(device), grads)
        return here

    def add_outstanding_rpc(
        self, future: Future[Any], *, wait: bool = True, pass_id: int = NO_PASS
    ) -> None:
        """Remember a gradient message whose error ends the pass, and whose answer it waits for.

        Nothing happens if the pass is not the one under way, or the last one.
        """
        with self._lock:
            if pass_id not in (NO_PASS, self.pass_id):
                return
            task = self._graph_task
            if wait:
                self._outstanding.append(future)

        def look(done: Future[Any]) -> None:
            error = done.exception()
            if error is None:
                return
            if task is None or task.future.done():
                _logger.debug("ignoring a later error of context %d: %s", self.id, error)
                return
            task.set_exception(error)

        future.add_done_callback(look)

    def note_sent(self, pass_id: int) -> bool:
        """Count a gradient message of a pass; False if that is over and another has begun."""
        with self._lock:
            if pass_id != self.pass_id:
                return False
            self.num_sent += 1
            return True

    def clear_and_wait_for_outstanding_rpcs_async(self) -> Future[None]:
        """Return a Future of the answers to all gradient messages; the first error ends it."""
        with self._lock:
            outstanding, self._outstanding = self._outstanding, []
        result: Future[None] = Future()
        left = len(outstanding)
        if not left:
            result.set_result(None)
            return result
        count_lock = threading.Lock()

        def count(done: Future[Any]) -> None:
            nonlocal left
            error = done.exception()
            if error is not None:
                result.try_complete(error=error)
                return
            with count_lock:
                left -= 1
                last = left == 0
            if last:
                result.try_complete(None)

        for future in outstanding:
            future.add_done_callback(count)
        return result

    def progress(self, pass_id: int) -> dict[str, Any]:
        """Return how a pass stands here: Nodes queued or running, messages, sends left out."""
        with self._lock:
            task, begun = self._graph_task, self.pass_id == pass_id
            waiting: dict[int, int] = {}
            if pass_id not in self._ended_passes:
                for message_id, send in self._sends.items():
                    if not begun or (task is not None and self._awaits(message_id, task)):
                        waiting[message_id] = send.to_worker_id
            # Each send without gradient counts as one outstanding task.
            idle = not begun or task is None or task.future.done()
            return {
                "running": 0 if idle or task is None else max(task.outstanding - len(waiting), 0),
                "sent": self.num_sent if begun else 0,
                "received": self.num_received if begun else 0,
                "begun": begun,
                "waiting": [*waiting],
                "waits_for": [*waiting.values()],
            }
