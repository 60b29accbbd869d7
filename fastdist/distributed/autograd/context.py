"""What one worker knows of one distributed forward and backward pass."""

from __future__ import annotations

import logging
import threading
from typing import Any

from ...backends.backend import backend_of
from ...core.errors import ContextError
from ...core.future import Future
from ...engine.graph_task import GraphTask
from ...graph.accumulate_grad import AccumulateGrad
from ...graph.add_gradients import add_gradients
from ...tensor.tensor import Tensor, layout_of, wrap
from .recv_rpc_backward import RecvRpcBackward
from .send_rpc_backward import SendRpcBackward

_logger = logging.getLogger(__name__)


class DistAutogradContext:
    """Sends, receives, gradients and the running pass of one context id on this worker.

    Thread  any; `_lock` guards everything but the id. No callback runs and no message is sent while it is held
    Source  PyTorch, torch/csrc/distributed/autograd/context/context.cpp
    """

    def __init__(self, context_id: int) -> None:
        self.id = context_id
        self._lock = threading.Lock()
        self._workers: set[int] = set()
        self._sends: dict[int, SendRpcBackward] = {}
        self._recvs: dict[int, RecvRpcBackward] = {}
        # Keyed by the leaf's AccumulateGrad, which lives as long as the leaf is in any graph: a Tensor as key would
        # keep the user's handle alive, and a dead handle could not be found again.
        self._grads: dict[AccumulateGrad, Tensor] = {}
        self._graph_task: GraphTask | None = None
        self._outstanding: list[Future[Any]] = []
        self.gradients_sent = 0
        self.gradients_received = 0
        self.arrived_sends: set[int] = set()

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

    def add_known_worker(self, worker_id: int) -> None:
        """Remember a worker that this context reached."""
        with self._lock:
            self._workers.add(worker_id)

    def add_send_function(self, function: SendRpcBackward, message_id: int) -> None:
        """File a send under its autograd message id. A repeated id is our mistake."""
        with self._lock:
            assert message_id not in self._sends, f"autograd message id {message_id} is used twice"
            self._sends[message_id] = function

    def add_recv_function(self, function: RecvRpcBackward, message_id: int) -> None:
        """File a receive under the same id as its send."""
        with self._lock:
            assert message_id not in self._recvs, f"autograd message id {message_id} is used twice"
            self._recvs[message_id] = function

    def retrieve_send_function(self, message_id: int) -> SendRpcBackward:
        """Return the send that a gradient message answers.

        Raises  ContextError if there is none
        """
        with self._lock:
            function = self._sends.get(message_id)
        if function is None:
            raise ContextError(f"Could not find send function for autograd message id: {message_id}")
        return function

    def note_arrival(self, message_id: int) -> None:
        """Count a gradient message."""
        with self._lock:
            self.gradients_received += 1
            self.arrived_sends.add(message_id)

    def set_graph_task(self, task: GraphTask) -> None:
        """Take ownership of the running pass.

        Raises  ContextError if one is running
        """
        with self._lock:
            if self._graph_task is not None:
                raise ContextError(
                    "Cannot set GraphTask multiple times for the same autograd context: a backward pass of context "
                    f"{self.id} is running; wait for it, or use another context"
                )
            self._graph_task = task

    def graph_task(self) -> GraphTask | None:
        """Return the running pass."""
        with self._lock:
            return self._graph_task

    def reset_graph_task(self) -> None:
        """Let go of the pass."""
        with self._lock:
            self._graph_task = None

    def accumulate_grad(self, accumulator: AccumulateGrad, grad: Tensor, mine: bool) -> None:
        """Add a leaf's gradient into this context; one that is mine may be kept, any other is copied."""
        with self._lock:
            have = self._grads.get(accumulator)
            if have is not None:
                self._grads[accumulator] = add_gradients(have, grad, True)
                return
            self._grads[accumulator] = grad if mine and grad.layout.contiguous else _copy(grad)

    def gradients(self) -> dict[Tensor, Tensor]:
        """Return leaf -> gradient."""
        with self._lock:
            return {accumulator.variable: grad for accumulator, grad in self._grads.items()}

    def add_outstanding_rpc(self, future: Future[Any]) -> None:
        """Remember a gradient message whose answer the pass waits for; its error ends the pass."""

        def look(done: Future[Any]) -> None:
            error = done.exception()
            if error is None:
                return
            task = self.graph_task()
            if task is None or task.future.done():
                _logger.debug("ignoring a later error of context %d: %s", self.id, error)
                return
            task.set_exception(error)

        with self._lock:
            self._outstanding.append(future)
            self.gradients_sent += 1
        future.add_done_callback(look)

    def clear_outstanding_rpcs(self) -> None:
        """Forget the messages of an earlier pass."""
        with self._lock:
            self._outstanding = []

    def clear_and_wait_for_outstanding_rpcs_async(self) -> Future[None]:
        """Return a Future that is done when all gradient messages are answered, or with the first error."""
        with self._lock:
            outstanding, self._outstanding = self._outstanding, []
        result: Future[None] = Future()
        if not outstanding:
            result.set_result(None)
            return result
        left = len(outstanding)
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

    def progress(self) -> dict[str, int | list[int]]:
        """Return what the root of a stalled pass asks: tasks queued or running, messages, sends without gradient."""
        with self._lock:
            task = self._graph_task
            waiting = [i for i in self._sends if i not in self.arrived_sends]
            open_sends = len(self._sends) - len(self.arrived_sends)
            running = 0 if task is None else task.outstanding - open_sends
            return {
                "running": max(running, 0),
                "sent": self.gradients_sent,
                "received": self.gradients_received,
                "waiting": waiting,
            }


def _copy(grad: Tensor) -> Tensor:
    layout = grad.layout
    backend = backend_of(layout.device.type)
    array = backend.empty(layout.shape, layout.dtype.numpy, layout.device.index)
    backend.copy_into(array, grad.array)
    return wrap(array, layout_of(array, layout.device))
